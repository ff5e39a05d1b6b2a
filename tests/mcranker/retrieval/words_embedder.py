"""An embedder that needs no model: texts that share words are close."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from personas.ranking.usage import UsageTable


class WordsEmbedder:
    """Counts words, each in one of 64 places. After `fails_after` texts it raises `error`."""

    dimensions = 64
    max_tokens = 64

    def __init__(
        self,
        name: str = "words",
        *,
        fails_after: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        self.name = name
        self.mark = f"{name} 1"
        self.texts: list[str] = []
        self._fails_after, self._error = fails_after, error or RuntimeError("enough")

    async def embed_queries(
        self, texts: Sequence[str], usage: UsageTable | None = None
    ) -> NDArray[np.float32]:
        return _vectors(texts)

    async def embed_passages(
        self, texts: Sequence[str], usage: UsageTable | None = None
    ) -> NDArray[np.float32]:
        if self._fails_after is not None and len(self.texts) + len(texts) > self._fails_after:
            raise self._error
        self.texts += texts
        return _vectors(texts)

    async def aclose(self) -> None:
        pass


def _vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    rows = np.zeros((len(texts), 64), np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row[zlib.crc32(word.encode()) % 64] += 1
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return np.asarray(rows / lengths, np.float32)
