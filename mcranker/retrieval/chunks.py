"""Documents in chunks, each with its place in the document's text.

Words of a document that are in no chunk do not exist; only white space may be between two chunks.
Tokens are those of a tokenizer's file, and about four characters each without one. A long
document is divided piece by piece, so that no more than a piece is tokenized at a time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcranker.errors import ConfigError
from mcranker.inputs.tokens import UNSPACED
from personas.ranking.types import Passage

ChunkKind: TypeAlias = Literal["sentences", "tokens", "words", "whole"]

SENTENCE_TOKENS = 512  # tokens of a chunk of sentences, at most
WINDOW_TOKENS, OVERLAP_TOKENS = 2_000, 200
"""Tokens of a window, and those that it shares with the one before it."""

WORDS = 150
"""Words of a chunk of words; 30 characters are one at most, and 2 of a script without spaces."""

CHARACTERS = 4  # characters of a token, where there is no tokenizer
_PIECE = 20_000  # characters that are tokenized at a time, so that an interrupt is heard

# A word without an end, or of a script without spaces, is as many as it is long.
_WORD = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\s{UNSPACED}]{{1,30}}")
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]{{1,{CHARACTERS + 2}}}|[^\w\s]")

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of a document."""

    id: str
    document: str
    title: str
    text: str
    start: int
    end: int


def chunks_of(
    document: Passage,
    kind: ChunkKind,
    *,
    tokenizer: Path | None = None,
    max_tokens: int = SENTENCE_TOKENS,
) -> Iterator[Chunk]:
    """The chunks of a document in their order; none if there is only white space."""
    spans_of = _SPANS.get(kind)
    if spans_of is None:
        raise ConfigError(f"chunks={kind!r} is unknown; give one of {', '.join(_SPANS)}")
    text = document.text
    spans = spans_of(text, str(tokenizer or ""), min(max_tokens, SENTENCE_TOKENS))
    for number, (start, end) in enumerate(spans, 1):
        name = f"{document.id}#{number}"
        yield Chunk(name, document.id, document.title, text[start:end], start, end)


def _sentences(text: str, tokenizer: str, most: int) -> Iterator[Span]:
    splitter = _splitter(tokenizer, most)
    for start, end in _pieces(text):
        for offset, chunk in splitter.chunk_indices(text[start:end]):
            yield start + offset, start + offset + len(chunk)


def _windows(text: str, tokenizer: str, _: int) -> Iterator[Span]:
    tokens, window = _tokens(text, tokenizer), deque[Span](maxlen=WINDOW_TOKENS)
    window.extend(islice(tokens, WINDOW_TOKENS))
    while window:
        yield window[0][0], window[-1][1]
        new = list(islice(tokens, WINDOW_TOKENS - OVERLAP_TOKENS))
        shared = islice(window, max(0, len(window) - OVERLAP_TOKENS), None)
        window = deque([*shared, *new] if new else [])


def _words(text: str, _: str, __: int) -> Iterator[Span]:
    words = _WORD.finditer(text)
    while group := list(islice(words, WORDS)):
        yield group[0].start(), group[-1].end()


def _whole(text: str, _: str, __: int) -> Iterator[Span]:
    if stripped := text.strip():
        start = len(text) - len(text.lstrip())
        yield start, start + len(stripped)


_SPANS = {"sentences": _sentences, "tokens": _windows, "words": _words, "whole": _whole}


def _pieces(text: str) -> Iterator[Span]:
    """Divide a long text where a paragraph or at least a word ends."""
    start = 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        if end < len(text):
            half = start + _PIECE // 2
            breaks = (text.rfind(mark, half, end) for mark in ("\n\n", "\n", ". ", " "))
            end = next((place + 1 for place in breaks if place >= 0), end)
        yield start, end
        start = end


def _tokens(text: str, tokenizer: str) -> Iterator[Span]:
    if not tokenizer:
        yield from (match.span() for match in _TOKEN.finditer(text))
        return
    read = _tokenizer(tokenizer)
    for start, end in _pieces(text):
        piece = text[start:end].encode("utf-8", "replace").decode()
        for first, last in read.encode(piece, add_special_tokens=False).offsets:
            if last > first:
                yield start + first, start + last


@lru_cache(maxsize=8)
def _splitter(tokenizer: str, most: int) -> Any:
    try:
        from semantic_text_splitter import TextSplitter
    except ImportError as missing:
        raise ConfigError(
            "chunks of sentences need semantic-text-splitter; run: pip install 'mcranker[rag]', "
            'or choose chunks="words"'
        ) from missing
    if tokenizer:
        return TextSplitter.from_huggingface_tokenizer(_tokenizer(tokenizer), most)
    return TextSplitter(most * CHARACTERS)


@lru_cache(maxsize=8)
def _tokenizer(path: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as missing:
        raise ConfigError(
            "chunks by tokens need tokenizers; run: pip install 'mcranker[rag]'"
        ) from missing
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        raise ConfigError(f"the tokenizer {path!r} cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
