"""Queries that are searched with in place of a question, or besides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from mcranker.errors import ConfigError, ModelError, ReplyError
from mcranker.llm.chat import ChatReply
from mcranker.rag.asking import Asking, text_of
from mcranker.rag.config import QueryStage
from mcranker.rag.record import SentQuery
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.replies.loose_json import Unreadable
from personas.ranking.types import Query
from personas.sanitize import plain

LONGEST_SENT = 2_000
"""Characters of a query that a model wrote; the rest is cut off."""

# Of a reply without its thoughts.
_TEXT_TOKENS = 256
_CLASS_TOKENS = 16
_TOKENS_A_QUERY = 64
# Behind a number, bullet or quotation mark, with or without a number of its own and emphasis.
_QUERY = re.compile(
    r"^(?:[^\w\n]|_){0,10}(?:\d{1,3}[^\w\n]{1,10})?query(?:[ #]{0,2}\d{1,3})?[*_\"'` ]{0,4}:(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_AROUND = " \t\"'`*_\u2018\u2019\u201c\u201d"
_CLASS = re.compile(r"\b(SIMPLE|COMPOSITE)\b", re.IGNORECASE)

Origin = Literal["question", "hypothetical answer", "variant", "rephrased", "sub-query"]


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries for a question."""

    queries: tuple[SentQuery, ...]
    rephrased: str = ""
    notes: tuple[str, ...] = ()


async def queries_for(question: str | Query, stage: QueryStage, asking: Asking | None) -> Queries:
    """Return the queries to search with for a question."""
    query = question if isinstance(question, Query) else Query(question)
    found = _Found(query.conversation, query.all_texts, stage)
    if stage.transform == "none":
        return found.queries()
    if asking is None:
        raise ConfigError(
            f"transform={stage.transform!r} asks a model for queries; name one with query_model="
        )
    transform = {"hyde": _hyde, "variants": _variants, "decomposition": _decompose}
    try:
        await transform[stage.transform](found, asking)
    except FATAL_ERRORS:
        raise
    except ModelError as error:
        found.notes.append(f"The query transform broke off: {plain(str(error), 400)}")
    return found.queries()


@dataclass(slots=True)
class _Found:
    """Results so far."""

    question: str
    searched: str
    stage: QueryStage
    written: list[tuple[str, Origin]] = field(default_factory=list)
    rephrased: str = ""
    notes: list[str] = field(default_factory=list)

    def queries(self) -> Queries:
        """Return them, each once: case, space and closing marks make no other query."""
        sent: dict[str, SentQuery] = {}
        if self.stage.keep_question or not self.written:
            sent[_key(self.searched)] = SentQuery(text=self.searched, origin="question")
        for text, origin in self.written:
            sent.setdefault(_key(text), SentQuery(text=text, origin=origin))
        return Queries(tuple(sent.values()), self.rephrased, tuple(self.notes))


async def _hyde(found: _Found, asking: Asking) -> None:
    text = await asking.text(
        "rag_hyde", {"question": found.question}, max_tokens=_most(asking, _TEXT_TOKENS)
    )
    found.written.append((_shortened(text), "hypothetical answer"))


async def _variants(found: _Found, asking: Asking) -> None:
    most = found.stage.variants
    values = {"question": found.question, "count": str(most)}
    written = await asking.read(
        f"rag_variants_{found.stage.wording}",
        values,
        _read_queries,
        max_tokens=_most(asking, _TOKENS_A_QUERY * (most + 1)),
    )
    found.written += [(text, "variant") for text in written[:most]]
    if len(written) != most:
        found.notes.append(f"Queries asked for: {most}; written by the model: {len(written)}.")


async def _decompose(found: _Found, asking: Asking) -> None:
    values = {"question": found.question}
    length = _most(asking, _TEXT_TOKENS)
    components = await asking.text("rag_components", values, max_tokens=length)
    values_of_both = {**values, "components": components}
    rephrased = await asking.text("rag_rephrase", values_of_both, max_tokens=length)
    found.rephrased = _shortened(rephrased)
    try:
        composite = await asking.read(
            "rag_complexity", values, _read_class, max_tokens=_most(asking, _CLASS_TOKENS)
        )
    except ReplyError as error:
        composite = False
        found.notes.append(f"The question was taken as a simple one: {plain(str(error), 400)}")
    if not composite:
        await _variants(found, asking)
        return
    # The authors' code goes on with what was to be taken apart where no query can be read.
    found.written.append((found.rephrased, "rephrased"))
    most = found.stage.variants
    written = await asking.read(
        "rag_subqueries",
        {"question": found.rephrased},
        _read_queries,
        max_tokens=_most(asking, _TOKENS_A_QUERY * (most + 1)),
    )
    found.written[:] = [(text, "sub-query") for text in written[:most]]
    if len(written) > most:
        found.notes.append(f"Of {len(written)} sub-queries the first {most} were sent.")


def _read_queries(reply: ChatReply) -> list[str]:
    text = text_of(reply)
    if reply.finish_reason == "length" and "\n" in text:
        text = text[: text.rindex("\n")]  # The last line may be half a query.
    if not (queries := list(_lines(text))):
        raise Unreadable('no line in it begins with "query:".')
    return queries


def _lines(text: str) -> Iterator[str]:
    seen = set[str]()
    for line in _QUERY.finditer(text):
        query = _shortened(line.group(1).strip(_AROUND))
        if query and _key(query) not in seen:
            seen.add(_key(query))
            yield query


def _read_class(reply: ChatReply) -> bool:
    named = {word.upper() for word in _CLASS.findall(text_of(reply))}
    if len(named) != 1:
        raise Unreadable("it is neither SIMPLE nor COMPOSITE.")
    return named == {"COMPOSITE"}


def _most(asking: Asking, tokens: int) -> int:
    return max(tokens, asking.config.max_score_tokens)


def _shortened(text: str) -> str:
    """The text in one line, cut at a word if it is too long."""
    line = plain(text)
    if len(line) <= LONGEST_SENT:
        return line
    return line[: LONGEST_SENT + 1].rpartition(" ")[0] or line[:LONGEST_SENT]


def _key(query: str) -> str:
    return " ".join(query.casefold().split()).rstrip("?.! ")
