"""The embedded encoder: texts to vectors of length 1, by onnxruntime in this process.

This is the only file that imports onnxruntime and tokenizers, and it does so at the first text
that no cache has.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcranker.errors import ConfigError, ModelFileError
from mcranker.logs import safe_logger
from mcranker.retrieval.vectors import Vector, VectorCache, default_vectors_path
from mcranker.runtime.forks import abandon, renew_in_child

DIMENSIONS = 384
MAX_TOKENS = 256
"""Tokens the model reads of a text; the rest does not count."""

MAX_CHARACTERS = 20_000  # beyond which no text has less than MAX_TOKENS; bounds the tokenizer
MAX_THREADS = 8  # more than the physical cores of a usual machine only get in each other's way
MOST_REMEMBERED = 20_000  # vectors in memory, some 16 MB
TOGETHER = 16  # new vectors that are written to the disk at once, unless no text is waiting

_log = safe_logger("mcranker.retrieval.encoder")


class Encoded(NamedTuple):
    """Texts as vectors.

    Attributes:
        vectors: of shape (texts, `DIMENSIONS`), each of length 1.
        tokens: read of each text.
        known: of each text, whether its vector was there already.
        seconds: processor time of the vectors that were made for this call.
    """

    vectors: NDArray[np.float32]
    tokens: tuple[int, ...]
    known: tuple[bool, ...]
    seconds: float


class Encoder:
    """Texts to vectors: mean of the last layer over the tokens, scaled to length 1.

    Texts that several callers, in any thread or event loop, want at the same time are encoded
    together, the longest first, each once. Batches hold texts of about the same length and no
    more tokens than one long text has: larger ones leave the processor's caches. Each core
    works on a batch of its own, which is faster than all of them on one. A text's vector does not
    depend on what it is encoded with, and is rounded to half precision before its first use, so
    that a ranking does not depend on what a cache had.

    Args:
        model: the ONNX file.
        tokenizer: its ``tokenizer.json``.
        name: as users name the model, for messages.
        mark: tells the model from others.

    Attributes:
        mark: tells vectors of this model, made in this way, from others.
        users: number of objects that share it.
    """

    def __init__(self, model: Path, tokenizer: Path, name: str, mark: str) -> None:
        self.mark = f"{mark} {MAX_TOKENS}"
        self.users = 0
        self._files = (model, tokenizer)
        self._name = name
        path = default_vectors_path()
        self._cache = VectorCache(path, encoder=self.mark, dimensions=DIMENSIONS) if path else None
        self._remembered: OrderedDict[str, Vector] = OrderedDict()
        self._begin()
        renew_in_child(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Call]] = {}
        self._new: list[str] = []
        self._unwritten: list[tuple[str, Vector]] = []
        self._engine: _Engine | None = None
        self._reader = ThreadPoolExecutor(1, "mcranker-encoder")
        self._workers = ThreadPoolExecutor(usable_threads(), "mcranker-encoder")

    def after_fork(self) -> None:
        abandon(self._reader, self._workers, self._engine, self._waiting)
        self._begin()

    async def encode(self, texts: Sequence[str]) -> Encoded:
        """The vectors of texts. The event loop goes on meanwhile.

        Raises:
            ConfigError: onnxruntime or tokenizers is missing or does not load.
            ModelFileError: the model's files cannot be loaded or run.
        """
        loop = asyncio.get_running_loop()
        call = _Call(loop, loop.create_future())
        with self._lock:
            for text in dict.fromkeys(texts):
                if text in self._remembered:
                    self._remembered.move_to_end(text)
                    call.found[text] = self._remembered[text], True
                    continue
                call.missing += 1
                if text not in self._waiting:
                    self._waiting[text] = []
                    self._new.append(text)
                self._waiting[text].append(call)
            new = bool(self._new)
        if new:
            self._reader.submit(self._read_new)
        if call.missing:
            await call.done
        found = [call.found[text] for text in texts]
        return Encoded(
            np.array([vector.values for vector, _ in found], dtype=np.float32).reshape(
                len(texts), DIMENSIONS
            ),
            tuple(vector.tokens for vector, _ in found),
            tuple(known for _, known in found),
            call.seconds,
        )

    def release(self, *, wait: bool = False) -> None:
        """One user less; after the last one the threads end, and what is new is written.

        Args:
            wait: until that is done.
        """
        with _encoders.lock:
            self.users -= 1
            if self.users > 0:
                return
            _encoders.open.pop(self._files[0], None)
        self._workers.shutdown(wait=wait, cancel_futures=True)
        finish = partial(self._write, close=True)
        try:
            self._reader.submit(finish)
        except RuntimeError:  # the interpreter ends: its threads are gone, and none begins
            finish()
        self._reader.shutdown(wait=wait)

    def _read_new(self) -> None:
        """Take what is waiting: from the cache, or else to the workers."""
        with self._lock:
            texts, self._new = self._new, []
        if not texts:
            return
        try:
            known = self._cache.find(texts) if self._cache is not None else {}
            self._settle(known, known=True)
            unknown = [text for text in texts if text not in known]
            if not unknown:
                return
            if self._engine is None:
                self._engine = _Engine(*self._files, self._name)
            for batch in self._engine.batches(unknown):
                self._workers.submit(self._encode, self._engine, batch)
        except Exception as error:  # noqa: BLE001 - those who wait get it
            self._fail(texts, error)

    def _encode(self, engine: _Engine, batch: Sequence[_Tokens]) -> None:
        texts = [each.text for each in batch]
        started = time.thread_time()
        try:
            encoded = dict(zip(texts, engine.vectors(batch), strict=True))
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(
                texts,
                ModelFileError(f"{self._name} cannot encode a text: {error}", model=self._name),
            )
            return
        self._settle(encoded, known=False, seconds=(time.thread_time() - started) / len(batch))
        with self._lock:
            self._unwritten += encoded.items()
            write = len(self._unwritten) >= TOGETHER or not self._waiting
        if write and self._cache is not None:
            self._reader.submit(self._write)

    def _write(self, *, close: bool = False) -> None:
        with self._lock:
            vectors, self._unwritten = self._unwritten, []
        if vectors and self._cache is not None:
            self._cache.keep(vectors)
        if close and self._cache is not None:
            self._cache.close()

    def _settle(self, vectors: dict[str, Vector], *, known: bool, seconds: float = 0.0) -> None:
        """Hand vectors out; the first that waits for one is charged its `seconds`."""
        with self._lock:
            for text, vector in vectors.items():
                self._remembered[text] = vector
                for place, call in enumerate(self._waiting.pop(text, ())):
                    call.take(text, vector, known=known, seconds=0.0 if place else seconds)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)

    def _fail(self, texts: Sequence[str], error: Exception) -> None:
        with self._lock:
            for text in texts:
                for call in self._waiting.pop(text, ()):
                    call.wake(error)


def encoder_of(model: Path, tokenizer: Path, name: str, mark: str) -> Encoder:
    """The encoder of a model file, for one more user of those in this process who share it."""
    with _encoders.lock:
        found = _encoders.open.get(model)
        if found is None:
            found = _encoders.open[model] = Encoder(model, tokenizer, name, mark)
        found.users += 1
        return found


@dataclass(eq=False, slots=True)
class _Call:
    """A waiter for the vectors of texts."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    found: dict[str, tuple[Vector, bool]] = field(default_factory=dict)
    missing: int = 0
    seconds: float = 0.0

    def take(self, text: str, vector: Vector, *, known: bool, seconds: float) -> None:
        self.found[text] = vector, known
        self.seconds += seconds
        self.missing -= 1
        if not self.missing:
            self.wake(None)

    def wake(self, error: Exception | None) -> None:
        def settle() -> None:
            if self.done.done():
                return
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(settle)


class _Tokens(NamedTuple):
    text: str
    ids: Sequence[int]


class _Engine:
    """The loaded model and its tokenizer."""

    def __init__(self, model: Path, tokenizer: Path, name: str) -> None:
        self._session, self._tokenizer = _load(model, tokenizer, name)
        self._inputs = {each.name for each in self._session.get_inputs()}

    def batches(self, texts: Sequence[str]) -> Iterator[list[_Tokens]]:
        """The texts, longest first, in batches of at most `MAX_TOKENS` tokens with padding."""
        # Without lone surrogates, which the tokenizer refuses, and one by one: many at once would
        # start threads, which a fork does not survive.
        readable = (text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() for text in texts)
        read = [
            _Tokens(text, self._tokenizer.encode(each).ids)
            for text, each in zip(texts, readable, strict=True)
        ]
        batch: list[_Tokens] = []
        for each in sorted(read, key=lambda each: -len(each.ids)):
            if batch and len(batch[0].ids) * (len(batch) + 1) > MAX_TOKENS:
                yield batch
                batch = []
            batch.append(each)
        if batch:
            yield batch

    def vectors(self, batch: Sequence[_Tokens]) -> list[Vector]:
        """The vectors of texts of one batch."""
        shape = len(batch), max(len(each.ids) for each in batch)
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, each in enumerate(batch):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {name: value for name, value in given.items() if name in self._inputs}
        states = self._session.run(None, wanted)[0]
        means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        units = means / np.linalg.norm(means, axis=1, keepdims=True)
        if not np.isfinite(units).all():
            raise ArithmeticError("a vector is not finite")
        return [
            Vector(unit.astype(np.float16), len(each.ids))
            for unit, each in zip(units, batch, strict=True)
        ]


def _load(model: Path, tokenizer: Path, name: str) -> tuple[Any, Any]:
    """Return onnxruntime's session and the tokenizer, which cuts at `MAX_TOKENS`."""
    try:
        import onnxruntime
        import tokenizers
    except ImportError as error:
        raise ConfigError(
            f"{name}: the local encoder does not load ({error}); "
            "pip install --force-reinstall 'mcranker[local]'."
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
            f"Delete both and run: mcranker models download {name.removeprefix('local:')}",
            model=name,
        ) from error
    words.no_padding()
    words.enable_truncation(MAX_TOKENS)
    return session, words


class _Encoders:
    """The encoders of this process, by the path of their model."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[Path, Encoder] = {}
        renew_in_child(self)

    def after_fork(self) -> None:
        self.lock = threading.Lock()


_encoders = _Encoders()


def usable_threads() -> int:
    """Return the cores that this process may use, `MAX_THREADS` at most."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(usable or 1, MAX_THREADS))
