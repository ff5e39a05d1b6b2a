"""Encoders by name: of the catalogue, of a folder, of the hub, or of an ``/embeddings`` service.

onnxruntime and tokenizers are imported at the first text that no cache has; this is the only file
that does so.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcranker.encoders.encoder import (
    MAX_CHARACTERS,
    MAX_TOKENS,
    Encoder,
    Engine,
    Tokens,
    Vector,
    rounded,
    shared,
)
from mcranker.errors import ConfigError, DownloadError, ModelFileError
from mcranker.llm.chat import ChatModel
from mcranker.llm.local.catalogue import check_installed, find, not_found
from mcranker.llm.local.model_files import file_mark, resolve_encoder, shown_failure
from mcranker.logs import safe_logger
from mcranker.paths import is_file, is_folder
from personas.io.lines import read_text
from personas.ranking.usage import Usage

FORMS = "local:NAME, local:FOLDER, openai:NAME, or embed:NAME with base_url="

_TASK = "Given a web search query, retrieve relevant passages that answer the query"
PREFIXES = {
    r"e5-(\w+-)*instruct": (f"Instruct: {_TASK}\nQuery: ", ""),
    r"\be5-": ("query: ", "passage: "),
    "": ("", ""),
}
"""Names of models -> what they want before a query and before a passage; the first that fits."""

SIMILARITIES = {
    r"\b(local:|all-)minilm": (0.0, 0.8),
    r"\bbge-(small|base|large)-(en|zh)": (0.5, 0.4),
    r"\be5-(small|base|large)": (0.7, 0.3),
    "": (0.0, 1.0),
}
"""Names of models -> the similarity that counts 0, and from there to the one that counts 1."""

BATCH_TOKENS = 256  # of a batch, unless one text has more
LONGEST = 8192  # tokens read of a text, whatever a model may do
_LONGEST_CONFIG = 10_000_000  # bytes
_HUB_FILES = ["*.json", "1_Pooling/*.json", "model.onnx*", "onnx/model.onnx*"]
_MODE = re.compile(r"\Apooling_mode_|_tokens?\Z")
_VECTORS = ("sentence_embedding", "last_hidden_state", "token_embeddings")  # the first there is
_HUB_NAME = re.compile(r"\A[\w.-]+/[\w.-]+", re.ASCII)


_log = safe_logger("mcranker.encoders")


def is_encoder(name: str) -> bool:
    """True if ``local:NAME`` is an encoder: of the catalogue, a folder, or a name of the hub."""
    if (entry := find(name)) is not None:
        return entry.tokenizer is not None
    path = Path(name).expanduser()
    return is_folder(path) or _is_hub_name(name)


def open_encoder(
    spec: str,
    *,
    prefixes: tuple[str, str] | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = 120.0,
    concurrency: int = 64,
    around: Callable[[ChatModel], ChatModel] = lambda chat: chat,
) -> Encoder:
    """The encoder of a name, for one more user. Loads and sends nothing yet."""
    kind, _, name = spec.strip().partition(":")
    prefixes = by_name(PREFIXES, spec) if prefixes is None else prefixes
    if kind in ("embed", "openai") and name:
        from mcranker.encoders.embeddings import service_encoder

        options = {"api_key": api_key, "timeout": timeout, "concurrency": concurrency}
        return service_encoder(kind, name, prefixes, around, base_url=base_url, **options)
    if kind != "local" or not name:
        raise ConfigError(f"{spec!r} names no embedder; use {FORMS}")
    if base_url is not None or api_key:
        raise ConfigError(f"{spec!r} runs in this process and takes no base_url= or api_key=")
    check_installed(spec, {"onnxruntime": "onnxruntime", "tokenizers": "tokenizers"})
    entry = find(name)
    if entry is not None and entry.tokenizer is not None:
        model, tokenizer = resolve_encoder(entry)
        return onnx_encoder(
            model,
            tokenizer,
            name=f"local:{entry.name}",
            mark=entry.sha256,
            max_tokens=entry.context,
            dimensions=entry.dimensions,
            prefixes=prefixes,
        )
    if not is_encoder(name):
        if entry is not None:
            raise ConfigError(f"{spec!r} is a chat model and gives no vectors; use {FORMS}")
        raise not_found(name, encoders=True)
    folder = Path(name).expanduser()
    if not is_folder(folder):
        folder = _from_hub(name)
    return _of_folder(folder, f"local:{name}", prefixes)


def by_name(table: Mapping[str, Any], spec: str) -> Any:
    """Return what `PREFIXES` or `SIMILARITIES` has for a model."""
    stem = spec.strip().lower().rstrip("/").rpartition("/")[2]
    return next(both for fits, both in table.items() if re.search(fits, stem))


def _is_hub_name(name: str) -> bool:
    may_be = _HUB_NAME.fullmatch(name) and not name.startswith(".") and not name.endswith(".gguf")
    return bool(may_be) and not is_file(name)


def _of_folder(folder: Path, name: str, prefixes: tuple[str, str]) -> Encoder:
    """The encoder of a folder with ``model.onnx`` (or ``onnx/model.onnx``) and its tokenizer."""
    models = (folder / "model.onnx", folder / "onnx" / "model.onnx")
    model = next((path for path in models if path.is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if model is None or not tokenizer.is_file():
        raise ModelFileError(
            f"{name}: {str(folder)!r} has no {'tokenizer.json' if model else 'model.onnx'}; export "
            "the model to ONNX, serve it for 'embed:NAME', or name a cross-encoder by "
            "'crossencoder:FOLDER'",
            model=name,
        )
    config, pooling = _read(folder / "config.json"), _pooling(folder)
    if not pooling and "ForSequenceClass" in (kinds := str(config.get("architectures"))):
        raise ModelFileError(
            f"{name} is a cross-encoder or classifier by its config.json ({kinds}); an encoder is "
            "taken here. PyTorch's files of one rank as 'crossencoder:FOLDER', ranker='rerank'",
            model=name,
        )
    reads = _count(_read(folder / "sentence_bert_config.json").get("max_seq_length"))
    if not reads and (positions := _count(config.get("max_position_embeddings"))):
        # The positions of models after RoBERTa begin at 2.
        reads = positions - 2 * (config.get("model_type") in ("roberta", "xlm-roberta", "mpnet"))
    return onnx_encoder(
        model.resolve(),
        tokenizer.resolve(),
        name=name,
        mark=f"{file_mark(model)} {file_mark(tokenizer)} {pooling}",
        max_tokens=min(reads, LONGEST) or MAX_TOKENS,
        dimensions=_count(config.get("hidden_size")) if pooling else 0,
        pooling=pooling,
        prefixes=prefixes,
    )


def _pooling(folder: Path) -> str:
    """The key of `POOLINGS` that a folder states; empty where it states none."""
    listed = [each for each in _read(folder / "modules.json", list) if isinstance(each, dict)]
    modules = {str(each.get("type")).rpartition(".")[2]: str(each.get("path")) for each in listed}
    path = folder / modules.get("Pooling", "1_Pooling") / "config.json"
    others = modules.keys() - {"Transformer", "Pooling", "Normalize"}
    if not others and ((modules and "Pooling" not in modules) or not path.is_file()):
        return ""
    config = _read(path)
    former = (key for key, on in config.items() if on is True and key.startswith("pooling_"))
    stated = config.get("pooling_mode", [_MODE.sub("", key) for key in former])
    modes = [*sorted(others), *map(str, stated if isinstance(stated, list) else [stated])]
    if len(modes) == 1 and modes[0] in POOLINGS and config.get("include_prompt") is not False:
        return modes[0]
    raise ModelFileError(
        f"{folder} asks for the modules or pooling {modes}; done here is one of "
        f"{', '.join(POOLINGS)}, of all tokens. Serve it for 'embed:NAME', or use another model"
    )


def _count(value: Any) -> int:
    """A number of tokens or dimensions; 0 where it is none."""
    return value if type(value) is int and 8 <= value <= 1_000_000 else 0


def _read(path: Path, kind: type[Any] = dict) -> Any:
    if not path.is_file():
        return kind()
    try:
        found = json.loads(read_text(path, ModelFileError, _LONGEST_CONFIG))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{path} is no JSON ({error}); take it from its source again"
        ) from error
    return found if isinstance(found, kind) else kind()


def _from_hub(name: str) -> Path:
    check_installed(f"local:{name}", {"huggingface_hub": "huggingface-hub"}, extra="hub")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:
        raise DownloadError(
            f"local:{name} is no folder and could not be fetched from the hub: "
            f"{shown_failure(error)}. Check the name and the network, and HF_TOKEN if the "
            "repository wants one."
        ) from error


def onnx_encoder(
    model: Path,
    tokenizer: Path,
    *,
    name: str,
    mark: str,
    max_tokens: int = MAX_TOKENS,
    dimensions: int = 0,
    pooling: str = "mean",
    prefixes: tuple[str, str] = ("", ""),
) -> Encoder:
    """The encoder of a model file and its ``tokenizer.json``, for one more user."""

    def load() -> Engine:
        loaded = _load(model, tokenizer, name, max_tokens)
        return _OnnxEngine(*loaded, max_tokens, pooling)

    return shared(
        (model, mark, prefixes),
        lambda: Encoder(
            load,
            name=name,
            mark=mark,
            max_tokens=max_tokens,
            dimensions=dimensions,
            prefixes=prefixes,
            tokenizer=tokenizer,
        ),
    )


POOLINGS: Mapping[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "mean": lambda x, mask: (x * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True),
    "cls": lambda x, mask: x[:, 0],
    "max": lambda x, mask: np.where(mask[:, :, None] > 0, x, -np.inf).max(axis=1),
    "lasttoken": lambda x, mask: x[np.arange(len(x)), mask.sum(axis=1) - 1],
}
"""Tokens' vectors, of shape (texts, tokens, dimensions), and their mask to one vector a text."""


class _OnnxEngine:
    """A session of onnxruntime and its tokenizer."""

    def __init__(self, session: Any, tokenizer: Any, max_tokens: int, pooling: str) -> None:
        self._session, self._tokenizer, self._pooling = session, tokenizer, pooling
        self._inputs = {each.name for each in session.get_inputs()}
        outputs = [each.name for each in session.get_outputs()]
        self._output = min(outputs, key=lambda each: (*_VECTORS, each).index(each))
        self._characters = MAX_CHARACTERS * max(1, max_tokens // MAX_TOKENS)

    def batches(self, texts: Sequence[str]) -> Iterator[list[Tokens]]:
        """The texts, longest first, in batches of at most `BATCH_TOKENS` tokens with padding."""
        # Without lone surrogates, which the tokenizer refuses, and one by one: many at once would
        # start threads, which a fork does not survive.
        readable = (text[: self._characters].encode("utf-8", "replace").decode() for text in texts)
        read = [
            Tokens(text, self._tokenizer.encode(each).ids)
            for text, each in zip(texts, readable, strict=True)
        ]
        batch: list[Tokens] = []
        for each in sorted(read, key=lambda each: -len(each.ids)):
            if batch and len(batch[0].ids) * (len(batch) + 1) > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(each)
        if batch:
            yield batch

    def vectors(self, batch: Sequence[Tokens]) -> tuple[list[Vector], Usage]:
        """The vectors of texts of one batch."""
        started = time.thread_time()
        shape = len(batch), max(len(each.ids) for each in batch)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, each in enumerate(batch):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {name: value for name, value in given.items() if name in self._inputs}
        rows = rounded(self._pooled(self._session.run([self._output], wanted)[0], mask))
        vectors = [Vector(unit, len(each.ids)) for unit, each in zip(rows, batch, strict=True)]
        return vectors, Usage(seconds=time.thread_time() - started)

    def _pooled(self, states: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
        """One vector for each text, or an error that says what the file gives instead."""
        name, shape = self._output, states.shape
        found = "no vectors; an encoder is taken here, and rerankers are 'crossencoder:NAME'"
        if "logits" not in name and states.dtype.kind == "f":
            least = 2 if "embed" in name else 8  # fewer are scores of labels
            if len(shape) == 2 and len(states) == len(mask) and shape[1] >= least:
                return states
            if len(shape) == 3 and shape[2] > 1:
                if self._pooling:
                    return POOLINGS[self._pooling](states, mask)
                found = "vectors of tokens, and no 1_Pooling/config.json says how they become one; "
                found += f"get the model's, or write one with 'pooling_mode': {list(POOLINGS)}"
        raise ValueError(f"output {name!r} of the ONNX file, of the shape {shape}, is {found}")


def _load(model: Path, tokenizer: Path, name: str, max_tokens: int) -> tuple[Any, Any]:
    """Return onnxruntime's session and the tokenizer, which cuts at `max_tokens`."""
    try:
        import onnxruntime
        import tokenizers
    except ImportError as error:
        raise ConfigError(
            f"{name}: the local encoder does not load ({error}); "
            "pip install --force-reinstall onnxruntime tokenizers"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    _log.info("loading %s", model)
    try:
        session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        words = tokenizers.Tokenizer.from_file(str(tokenizer))
    except Exception as error:
        raise ModelFileError(
            f"{str(model)!r} and its tokenizer cannot be loaded ({error}): a file is broken. "
            "Take it from its source again; for one of the catalogue delete both and run: "
            f"mcranker models --download {name.removeprefix('local:')}",
            model=name,
        ) from error
    words.no_padding()
    words.enable_truncation(max_tokens)
    return session, words
