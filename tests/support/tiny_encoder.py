"""An encoder without a model: a token is a word, with a vector that is drawn from it by chance."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mcranker.encoders import open_encoder
from mcranker.encoders.encoder import MAX_TOKENS, Encoder
from mcranker.llm.local.encoder_judge import EncoderJudge

DIMENSIONS = 384
NAMES = ("input_ids", "attention_mask", "token_type_ids")


class _Ids(NamedTuple):
    ids: list[int]


class _Named(NamedTuple):
    name: str


class TinyTokenizer:
    def encode(self, text: str) -> _Ids:
        words = ["[start]", *text.lower().split()][:MAX_TOKENS]
        return _Ids([zlib.crc32(word.encode()) for word in words])


class TinySession:
    """A substitute for onnxruntime; `shapes` are those of the batches that it was given.

    `given` are its outputs, made of the tokens' ids; each is a vector of each token unless set.
    """

    def __init__(self) -> None:
        self.given: dict[str, Callable[[Any], Any]] = {"last_hidden_state": _of_tokens}
        self.shapes: list[tuple[int, int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def get_inputs(self) -> list[_Named]:
        return [_Named(name) for name in NAMES]

    def get_outputs(self) -> list[_Named]:
        return [_Named(name) for name in self.given]

    def run(self, wanted: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
        assert self.gate.wait(10)
        ids = given["input_ids"]
        self.shapes.append(ids.shape)
        if self.error is not None:
            raise self.error
        return [self.given[name](ids) for name in wanted]


class TinyEngine:
    """What `use` puts in place of the model.

    Attributes:
        session: of the engine that was loaded last.
        loads: how often one was.
    """

    def __init__(self) -> None:
        self.session = TinySession()
        self.loads = 0

    def load(
        self, model: Path, tokenizer: Path, name: str, max_tokens: int
    ) -> tuple[TinySession, TinyTokenizer]:
        self.loads += 1
        return self.session, TinyTokenizer()


def use(monkeypatch: pytest.MonkeyPatch) -> TinyEngine:
    """Let encoders of this test load no model."""
    engine = TinyEngine()
    monkeypatch.setattr(open_encoder, "_load", engine.load)
    return engine


def judge(name: str = "tiny") -> EncoderJudge:
    """A judge by such an encoder."""
    return EncoderJudge(tiny_encoder(name), (0.0, 0.8))


def tiny_encoder(name: str = "tiny", *, mark: str = "", **options: Any) -> Encoder:
    """Such an encoder, for one more user."""
    path = Path(f"/no/such/{name}.onnx")
    return open_encoder.onnx_encoder(path, path, name=f"local:{name}", mark=mark or name, **options)


def similarity(one: str, other: str) -> float:
    """What the encoder finds between two texts, in full precision."""
    a, b = _mean(one), _mean(other)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def _of_tokens(ids: Any) -> Any:
    """Also of those where the mask is 0, which must not count."""
    return np.array([[_drawn(number) for number in row] for row in ids])


def _mean(text: str) -> Any:
    ids: Sequence[int] = TinyTokenizer().encode(text).ids
    return np.mean([_drawn(number) for number in ids], axis=0)


def _drawn(number: int) -> Any:
    return np.random.default_rng(int(number)).standard_normal(DIMENSIONS).astype(np.float32)
