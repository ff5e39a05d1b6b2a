"""Cross-encoders in this process, by sentence-transformers: each passage is read with the query.

This is the only file that imports the package and what it brings along, and it does so at the
first call.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from mcranker.errors import (
    ModelFileError,
    ModelNotFound,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.local.catalogue import check_installed
from mcranker.llm.local.model_files import file_mark
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.rerank import FORMS, rerank_body, rerank_reply
from mcranker.llm.typed_answers import check_limits
from mcranker.runtime.processes import renew_in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Pairs = Sequence[tuple[str, str]]
    Scored = tuple[Any, int]

PACKAGE = "sentence-transformers"
AT_ONCE = 32  # pairs evaluated together
MOST_TOKENS = 512  # of a T5, where its tokenizer names no limit
_EXAMPLE = "crossencoder:cross-encoder/ms-marco-MiniLM-L6-v2"
_FORM = FORMS["rerank-logits"]
_RELEVANT = re.compile(r"(?i)(label_1|1|relevant|relevance|yes|true)\Z")
_TOKEN_IDS = re.compile(r"\A(?P<name>.+)#(?P<ids>\d{1,9}(?:,\d{1,9})?)")


class CrossEncoderChat:
    """The cross-encoder of a folder or of the Hugging Face hub, loaded at the first call."""

    def __init__(self, name: str) -> None:
        self.name = f"crossencoder:{name}"
        check_installed(self.name, {"sentence_transformers": PACKAGE}, extra="crossencoder")
        self._token_ids: list[int] = []
        if found := _TOKEN_IDS.fullmatch(name):
            name, self._token_ids = found["name"], list(map(int, found["ids"].split(",")))
        self._source, mark = _source_of(name, self.name)
        self.endpoint = f"{PACKAGE} {metadata.version(PACKAGE)} {mark}".rstrip()
        self.capabilities = Capabilities(prompts=False, max_questions=_FORM.most)
        self._lock = threading.Lock()
        self._model: Callable[[Pairs], Scored] | None = None
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock, self._model = threading.Lock(), None  # its threads are the parent's

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer with the relevance of each passage."""
        body = rerank_body(request, self._source, _FORM, self.name)
        check_limits(request, self.capabilities, self.name)
        pairs = [(body["query"], text) for text in body["documents"]]
        logits, tokens, seconds = await anyio.to_thread.run_sync(self._evaluate, pairs)
        data = {
            "model": self.name,
            "results": [
                {"index": place, "relevance_score": logit} for place, logit in enumerate(logits)
            ],
            "usage": {"prompt_tokens": tokens},
        }
        advice = "open the model again"
        service = Service(self.name, PACKAGE, advice, advice, advice, 0.0)
        reply = rerank_reply(data, request, logits=_FORM.logits, service=service)
        return replace(reply, usage=replace(reply.usage, seconds=seconds))

    async def aclose(self) -> None:
        """Free the model."""
        with self._lock:
            self._model = None

    def _evaluate(self, pairs: list[tuple[str, str]]) -> tuple[list[float], int, float]:
        """A logit for each pair, the tokens of all, and the seconds without the wait for a turn."""
        with self._lock:
            if self._model is None:
                with _loading(self.name):
                    load = self._load_seq2seq if self._token_ids else self._load_cross_encoder
                    self._model = load()
            started = time.perf_counter()
            try:
                scores, tokens = self._model(pairs)
                seconds = time.perf_counter() - started
            except (RuntimeError, ValueError, IndexError) as error:
                raise RequestRejected(
                    f"{self.name} fails on {len(pairs)} passages: {error}; leave out what is odd, "
                    "or lower passages_per_call",
                    model=self.name,
                ) from error
        if scores.ndim == 2:
            scores = scores[:, 1] - scores[:, 0]
        return list(map(float, scores)), tokens, seconds

    def _load_cross_encoder(self) -> Callable[[Pairs], Scored]:
        """Return a function to the scores, or two classes', and the number of tokens."""
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(self._source)
        self._check_kind(model.config, type(model.transformers_model).__name__)
        _check_modules(model, self._source, self.name)
        labels = [str(label) for _, label in sorted((model.config.id2label or {}).items())]
        if model.num_labels > 2 or (model.num_labels == 2 and not _RELEVANT.match(labels[1])):
            raise UnsupportedCapability(
                f"{self.name} tells {model.num_labels} classes apart ({', '.join(labels[:9])}); "
                "relevance is one score, or the second of two; take a cross-encoder for reranking",
                model=self.name,
            )

        def score(pairs: Pairs) -> Scored:
            scores = model.predict(
                pairs, batch_size=AT_ONCE, activation_fn=lambda each: each, show_progress_bar=False
            )
            return scores, int(model.preprocess(pairs)["attention_mask"].sum())

        return score

    def _load_seq2seq(self) -> Callable[[Pairs], Scored]:
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._source)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = AutoModelForSeq2SeqLM.from_pretrained(self._source).to(device).eval()
        config = model.config
        self._check_kind(config, type(model).__name__)
        if max(self._token_ids) >= config.vocab_size:
            raise UnsupportedCapability(
                f"{self.name}: there is no token {max(self._token_ids)}, as the model has "
                f"{config.vocab_size}; give the ids of its answers",
                model=self.name,
            )
        wanted = self._token_ids[::-1]  # the second of two classes is the relevant one
        end = [tokenizer.eos_token_id]
        if len(wanted) == 2:
            end = [*tokenizer("Relevant:", add_special_tokens=False)["input_ids"], *end]
        most = min(tokenizer.model_max_length, MOST_TOKENS) - len(end)

        def score(pairs: Pairs) -> Scored:
            texts = [f"Query: {query} Document: {text}" for query, text in pairs]
            read = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=most)
            ids, found = [[*each, *end] for each in read["input_ids"]], []
            for first in range(0, len(ids), AT_ONCE):
                part = {"input_ids": ids[first : first + AT_ONCE]}
                batch = tokenizer.pad(part, return_tensors="pt").to(device)
                start = torch.full_like(batch["input_ids"][:, :1], config.decoder_start_token_id)
                with torch.inference_mode():
                    logits = model(**batch, decoder_input_ids=start).logits
                found.append(logits[:, 0, wanted].float().cpu())
            scores = torch.cat(found).numpy()
            return scores if len(wanted) == 2 else scores[:, 0], sum(map(len, ids))

        return score

    def _check_kind(self, config: Any, loaded: str) -> None:
        """Refuse a model without a scoring layer: it would be given random numbers."""
        kinds = config.architectures or []
        if loaded in kinds:
            return
        advice = f"take a cross-encoder, such as {_EXAMPLE!r}"
        if any(kind.endswith("ForConditionalGeneration") for kind in kinds):
            advice = (
                "name the tokens that do after the model: '#1176,6136' for monoT5, '#32089' for "
                "RankT5"
            )
        raise UnsupportedCapability(
            f"{self.name} is of the kind {', '.join(kinds) or 'unknown'}, without the head that "
            f"{loaded} has, so it scores nothing; {advice}",
            model=self.name,
        )


def _check_modules(model: Any, source: str, name: str) -> None:
    """Refuse a guess of sentence-transformers: "yes" as the score of any causal model."""
    from sentence_transformers.util import load_file_path

    path = load_file_path(source, "modules.json")
    listed = json.loads(Path(path).read_text(encoding="utf-8")) if path else []
    stated = {str(each["type"]).rpartition(".")[2] for each in listed}
    if {type(each).__name__ for each in model} & {"LogitScore"} - stated:
        raise UnsupportedCapability(
            f"{name} has no modules.json that lists LogitScore: nothing says how a causal model "
            "makes a score; take one that is made for sentence-transformers",
            model=name,
        )


def _source_of(name: str, full_name: str) -> tuple[str, str]:
    """The folder or the hub's name of a model, and what tells the files of a folder from others."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        marks = [f"{path.relative_to(folder).as_posix()} {file_mark(path)}" for path in files]
        return str(folder), sha256("\n".join(marks).encode()).hexdigest()
    if name.startswith((".", "~", os.sep)) or name.count("/") > 1:
        raise ModelNotFound(
            f"{full_name}: there is no folder {name!r}; give that of the model, or a name of the "
            f"hub such as {_EXAMPLE!r}",
            model=full_name,
        )
    return name, ""


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Load a model in the block, without bars over the terminal."""
    from transformers.utils import logging

    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        if isinstance(error, OSError):
            said = f"neither a folder nor a model that can be fetched from the hub: {said}"
            raise ModelNotFound(f"{name}: {said}", model=name) from error
        said = f"{name} cannot be loaded as a cross-encoder: {said}; take another model"
        raise ModelFileError(said, model=name) from error
    finally:
        if drawn:
            logging.enable_progress_bar()
