"""Encoders in this process, by sentence-transformers.

This file imports the package, and what it brings along, at the first text that no cache has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from mcranker.encoders.encoder import Encoder, Tokens, rounded, shared
from mcranker.encoders.vectors import Vector
from mcranker.llm.local.catalogue import check_installed
from mcranker.llm.local.cross_encoder import PACKAGE, check_modules, loading, source_of
from personas.ranking.usage import Usage

AT_ONCE = 32  # texts encoded together
MAX_TOKENS = 512  # where the model names no limit
LONGEST_TEXT = 100_000  # characters read of a text


def sentence_encoder(name: str, *, prefixes: tuple[str, str]) -> Encoder:
    """The encoder of a folder or of the Hugging Face hub, for one more user. Loads nothing yet."""
    full = f"st:{name}"
    check_installed(full, {"sentence_transformers": PACKAGE}, extra="crossencoder")
    source, mark = source_of(name, full, "st:sentence-transformers/all-MiniLM-L6-v2")
    mark = f"{PACKAGE} {metadata.version(PACKAGE)} {source if not mark else ''} {mark}"
    return shared(
        (full, mark, prefixes),
        lambda: Encoder(
            lambda: _Engine(source, full),
            name=full,
            mark=mark,
            max_tokens=MAX_TOKENS,
            prefixes=prefixes,
            threads=1,
        ),
    )


class _Engine:
    def __init__(self, source: str, name: str) -> None:
        with loading(name, "an encoder"):
            from sentence_transformers import SentenceTransformer

            self._model: Any = SentenceTransformer(source)
            check_modules(self._model, source, name)
            # Prompts of the model's would be put before the prefixes.
            self._model.default_prompt_name = None
        self._model.max_seq_length = min(self._model.max_seq_length or MAX_TOKENS, MAX_TOKENS)

    def batches(self, texts: Sequence[str]) -> Iterator[list[Tokens]]:
        ordered = sorted(texts, key=lambda text: -len(text))
        for start in range(0, len(ordered), AT_ONCE):
            yield [Tokens(text) for text in ordered[start : start + AT_ONCE]]

    def vectors(self, batch: Sequence[Tokens]) -> tuple[list[Vector], Usage]:
        texts = [text[:LONGEST_TEXT].encode("utf-8", "replace").decode() for text, _ in batch]
        started = time.perf_counter()
        found = self._model.encode(
            texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True
        )
        read = self._model.preprocess(texts)["attention_mask"].sum(axis=1)
        usage = Usage(seconds=time.perf_counter() - started)
        units = rounded(found)
        return [Vector(unit, int(n)) for unit, n in zip(units, read, strict=True)], usage
