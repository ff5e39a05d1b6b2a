"""Encoders by name: of the catalogue, of a folder, of the hub, or of an ``/embeddings`` service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcranker.encoders.encoder import MAX_TOKENS, POOLINGS, Encoder, onnx_encoder
from mcranker.errors import ConfigError, DownloadError, ModelFileError
from mcranker.llm.chat import ChatModel
from mcranker.llm.local.catalogue import check_installed, find, not_found
from mcranker.llm.local.model_files import (
    MESSAGE_LIMIT,
    file_mark,
    resolve_encoder,
)
from mcranker.llm.masking import masked
from mcranker.paths import is_file, is_folder
from personas.io.lines import read_text

FORMS = "local:NAME, local:FOLDER, st:NAME, openai:NAME, or embed:NAME with base_url="

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

LONGEST = 8192  # tokens read of a text, whatever a model may do
_LONGEST_CONFIG = 10_000_000  # bytes
_HUB_FILES = ["*.json", "1_Pooling/*.json", "model.onnx*", "onnx/model.onnx*"]
_MODE = re.compile(r"\Apooling_mode_|_tokens?\Z")
_HUB_NAME = re.compile(r"\A[\w.-]+/[\w.-]+", re.ASCII)


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
    if prefixes is None:
        prefixes = by_name(PREFIXES, spec)
    if kind in ("embed", "openai") and name:
        from mcranker.encoders.embeddings import service_encoder

        options = {"api_key": api_key, "timeout": timeout, "concurrency": concurrency}
        return service_encoder(kind, name, prefixes, around, base_url=base_url, **options)
    if kind not in ("local", "st") or not name:
        raise ConfigError(f"{spec!r} names no embedder; use {FORMS}")
    if base_url is not None or api_key:
        raise ConfigError(f"{spec!r} runs in this process and takes no base_url= or api_key=")
    if kind == "st":
        from mcranker.encoders.sentence_encoder import sentence_encoder

        return sentence_encoder(name, prefixes=prefixes)
    check_installed(spec, {"onnxruntime": "onnxruntime", "tokenizers": "tokenizers"})
    entry = find(name)
    if entry is not None and entry.tokenizer is not None:
        taken, model, tokenizer = resolve_encoder(entry)
        return onnx_encoder(
            model,
            tokenizer,
            name=f"local:{entry.name}",
            mark=taken.sha256,
            max_tokens=taken.context,
            dimensions=taken.dimensions,
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
            f"{name}: {str(folder)!r} has no {'tokenizer.json' if model else 'model.onnx'}; a "
            "folder of sentence-transformers without ONNX files is 'st:FOLDER', of a cross-encoder "
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
        f"{', '.join(POOLINGS)}, of all tokens. Use 'st:FOLDER' or another model"
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
        said = masked(" ".join(str(error).split())[:MESSAGE_LIMIT])
        raise DownloadError(
            f"local:{name} is no folder and could not be fetched from the hub: {said}. Check the "
            "name and the network, and HF_TOKEN if the repository wants one."
        ) from error
