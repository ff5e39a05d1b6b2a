"""Passages that the writer of an answer sees: whole ones in their order, up to a limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcranker.rag.config import ContextStage
from mcranker.rag.record import SourcePassage

_WORD = re.compile(r"\S+")
_BYTES_OF_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Context:
    """Passages for the writer, and those that are left out."""

    passages: tuple[SourcePassage, ...] = ()
    dropped: tuple[SourcePassage, ...] = ()
    note: str = ""


def context_of(
    passages: Sequence[SourcePassage],
    stage: ContextStage,
    count_tokens: Callable[[str], int] | None = None,
) -> Context:
    """Return passages in their order until the next would pass the limit."""
    count = _words if stage.unit == "words" else count_tokens or _tokens
    limit, size = stage.limit, 0
    kept: list[SourcePassage] = []
    dropped: list[SourcePassage] = []
    full = note = ""
    for passage in passages:
        length = 0 if full else count(passage.text)
        if not passage.text.strip():
            reason = "it is empty"
        elif not full and length > limit and not kept:
            text = _cut(passage.text, limit, count)
            note = f"Passage 1 has {length:,} {stage.unit}; it is cut to the limit of {limit:,}."
            kept.append(_with_text(passage, text))
            size = limit
            continue
        elif not full and size + length <= limit:
            kept.append(passage.model_copy(update={"number": len(kept) + 1}))
            size += length
            continue
        else:
            reason = full or (
                f"with its {length:,} {stage.unit} the context would have {size + length:,}, "
                f"and {limit:,} is the limit"
            )
            full = f"the limit of {limit:,} {stage.unit} was reached before it"
        dropped.append(passage.model_copy(update={"dropped": f"context: {reason}"}))
    return Context(tuple(kept), tuple(dropped), note)


def _words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="surrogatepass")) // _BYTES_OF_A_TOKEN)


def _cut(text: str, limit: int, count: Callable[[str], int]) -> str:
    """The beginning of a text within the limit, to the end of a word unless one alone passes it."""
    ends: Sequence[int] = [found.end() for found in _WORD.finditer(text)]
    if count(text[: ends[0]]) > limit:
        ends = range(1, ends[0] + 1)
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[: ends[middle]]) <= limit else (low, middle - 1)
    return text[: ends[low]]


def _with_text(passage: SourcePassage, text: str) -> SourcePassage:
    end = min(passage.end, passage.start + len(text))
    return passage.model_copy(update={"number": 1, "text": text, "end": end})
