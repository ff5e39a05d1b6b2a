"""Documents of requests as passages, named by their place, and cut where a client wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcranker.inputs import as_passages
from mcranker.serve.problems import Problem
from mcranker.serve.shapes import Asked
from mcranker.types import Passage
from personas.words import counted

BYTES_A_TOKEN = 4
"""Of UTF-8, where no tokenizer is known: about what English has, and more than other scripts."""


def passages_of(asked: Asked) -> tuple[Passage, ...]:
    """The passages, each with its place for an id.

    Raises:
        Problem: a document lacks the fields that are asked for.
        InputError: a document cannot be shown as text.
    """
    return tuple(
        _passage(place, document, asked.fields) for place, document in enumerate(asked.documents)
    )


def cut(passages: Sequence[Passage], tokens: int) -> tuple[tuple[Passage, ...], tuple[str, ...]]:
    """The passages cut to so many tokens, for models whose tokenizer is not known.

    Returns:
        The passages, and a note for the client if one was cut.
    """
    most = tokens * BYTES_A_TOKEN
    short = tuple(replace(each, text=_cut(each.text, most)) for each in passages)
    count = sum(len(a.text) != len(b.text) for a, b in zip(short, passages, strict=True))
    if not count:
        return short, ()
    return short, (
        f"{counted(count, 'document')} cut to {most} bytes: {BYTES_A_TOKEN} a token, since the "
        "model's tokenizer is not known here",
    )


def _passage(place: int, document: str | dict[str, Any], fields: Sequence[str]) -> Passage:
    """A text, a record's text, or its fields; clients of these shapes know it by its place."""
    if isinstance(document, str):
        return Passage(str(place), document)
    text = document.get("text")
    if isinstance(text, str) and not fields:
        return Passage(str(place), text)
    shown = {name: document[name] for name in fields or document if name in document}
    if not shown:
        wanted = f"none of the rank_fields {', '.join(fields)[:200]}" if fields else "no field"
        raise Problem("invalid", f"invalid request: documents[{place}] has {wanted}")
    (passage,) = as_passages([{"id": str(place), "text": shown}])
    return passage


def _cut(text: str, most: int) -> str:
    if len(text) * 4 <= most:
        return text
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")
