"""Cross-encoders in this process, by sentence-transformers: each passage is read with the query.

This is the only file that imports the package, and it does so at the first call.
"""

from __future__ import annotations

import importlib.util
import os
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
    ConfigError,
    ModelFileError,
    ModelNotFound,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.local.model_files import file_mark
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.rerank import FORMS, rerank_body, rerank_reply
from mcranker.llm.typed_answers import check_limits
from mcranker.runtime.forks import renew_in_child

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "sentence-transformers"
AT_ONCE = 32  # pairs evaluated together
_FORM = FORMS["rerank-logits"]


class CrossEncoderChat:
    """Answers with the relevance of passages by a cross-encoder. Make one with `open`.

    | the model's head | relevance, 0 to 1 |
    |---|---|
    | one score, or "yes" against "no" of a causal model | the logistic function of it |
    | two classes, of which the second is "relevant" | the second one's probability |

    The model is loaded at the first call, on a GPU if PyTorch finds one, and freed when this object
    is closed. What is too long for it is cut. May be used from several event loops and threads;
    one call is evaluated at a time.
    """

    def __init__(self, source: str, name: str, *, mark: str) -> None:
        self._source = source
        self._name = name
        self._endpoint = f"{PACKAGE} {metadata.version(PACKAGE)} {mark}".rstrip()
        self._capabilities = Capabilities(prompts=False, max_questions=_FORM.most)
        self._service = Service(
            model=name,
            where=PACKAGE,
            key_advice="open the model again",
            model_advice="open the model again",
            connection_advice="open the model again",
            timeout=0.0,
        )
        self._lock = threading.Lock()
        self._model: Any = None
        renew_in_child(self)

    def after_fork(self) -> None:
        self._lock, self._model = threading.Lock(), None  # its threads are the parent's

    @classmethod
    def open(cls, name: str) -> CrossEncoderChat:
        """The cross-encoder of a folder or of the Hugging Face hub. Loads nothing yet.

        Args:
            name: what stands after ``crossencoder:``.

        Raises:
            ConfigError: sentence-transformers is not installed.
            ModelNotFound: the name is a path, and no folder is there.
        """
        full_name = f"crossencoder:{name}"
        if importlib.util.find_spec("sentence_transformers") is None:
            raise ConfigError(f"{full_name} needs {PACKAGE}: pip install 'mcranker[crossencoder]'.")
        folder = Path(name).expanduser()
        if folder.is_dir():
            return cls(str(folder), full_name, mark=_mark(folder))
        if name.startswith((".", "~", os.sep)) or name.count("/") > 1:
            raise ModelNotFound(
                f"{full_name}: there is no folder {name!r}; give that of a cross-encoder, or a "
                "name of the hub such as 'crossencoder:cross-encoder/ms-marco-MiniLM-L6-v2'",
                model=full_name,
            )
        return cls(name, full_name, mark="")

    @property
    def name(self) -> str:
        return self._name

    @property
    def endpoint(self) -> str:
        """What answers: the version of the package, and the files of a folder."""
        return self._endpoint

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer with the relevance of each passage.

        Raises:
            UnsupportedCapability: the request is no question of relevance, or the model has not
                the head of a cross-encoder.
            ModelNotFound, ModelFileError: the model cannot be had, or not be loaded.
            RequestRejected: it fails on these passages.
        """
        body = rerank_body(request, self._source, _FORM, self._name)
        check_limits(request, self._capabilities, self._name)
        pairs = [(body["query"], text) for text in body["documents"]]
        logits, tokens, seconds = await anyio.to_thread.run_sync(self._evaluate, pairs)
        data = {
            "model": self._name,
            "results": [
                {"index": place, "relevance_score": logit} for place, logit in enumerate(logits)
            ],
            "usage": {"prompt_tokens": tokens},
        }
        reply = rerank_reply(data, request, logits=_FORM.logits, service=self._service)
        return replace(reply, usage=replace(reply.usage, seconds=seconds))

    async def aclose(self) -> None:
        """Free the model."""
        with self._lock:
            self._model = None

    def _evaluate(self, pairs: list[tuple[str, str]]) -> tuple[list[float], int, float]:
        """A logit for each pair, the tokens of all, and the seconds without the wait for a turn."""
        with self._lock:
            if self._model is None:
                self._model = self._load()
            started = time.perf_counter()
            try:
                scores = self._model.predict(
                    pairs, batch_size=AT_ONCE, activation_fn=_as_it_is, show_progress_bar=False
                )
                seen = self._model.preprocess(pairs)["attention_mask"]
                seconds = time.perf_counter() - started
            except (RuntimeError, ValueError, IndexError) as error:
                raise RequestRejected(
                    f"{self._name} fails on {len(pairs)} passages: {error}; leave out what is odd, "
                    "or lower passages_per_call",
                    model=self._name,
                ) from error
        if scores.ndim == 2:
            scores = scores[:, 1] - scores[:, 0]
        return [float(score) for score in scores], int(seen.sum()), seconds

    def _load(self) -> Any:
        from sentence_transformers import CrossEncoder

        try:
            with _without_bars():
                model = CrossEncoder(self._source)
        except OSError as error:
            raise ModelNotFound(
                f"{self._name}: neither a folder nor a model that can be fetched from the hub: "
                f"{_first_line(error)}",
                model=self._name,
            ) from error
        except (ValueError, RuntimeError, KeyError, ImportError) as error:
            raise ModelFileError(
                f"{self._name} cannot be loaded as a cross-encoder: {_first_line(error)}; take "
                "another model",
                model=self._name,
            ) from error
        kinds = model.config.architectures or []
        loaded = type(model.transformers_model).__name__
        if loaded not in kinds:
            # It would be given a head of random numbers.
            raise UnsupportedCapability(
                f"{self._name} is of the kind {', '.join(kinds) or 'unknown'}, without the head "
                f"that {loaded} has, so it scores nothing; take a cross-encoder, such as "
                "'crossencoder:cross-encoder/ms-marco-MiniLM-L6-v2'",
                model=self._name,
            )
        if model.num_labels > 2:
            raise UnsupportedCapability(
                f"{self._name} tells {model.num_labels} classes apart, and relevance is one score "
                "or two classes; take a cross-encoder for reranking",
                model=self._name,
            )
        return model


def _as_it_is(logits: Any) -> Any:
    return logits


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep transformers from drawing over the terminal while it loads."""
    from transformers.utils import logging

    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()


def _mark(folder: Path) -> str:
    """Tells a folder's files from others."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    marks = [f"{path.relative_to(folder).as_posix()} {file_mark(path)}" for path in files]
    return sha256("\n".join(marks).encode()).hexdigest()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
