"""Queries and passages in all the forms that users have."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from mcranker.errors import InputError
from mcranker.inputs.documents import (
    HaystackDocument,
    LangChainDocument,
    LlamaIndexNode,
    entries,
    of_object,
    of_record,
)
from mcranker.inputs.trec import decimal
from mcranker.logs import safe_logger
from personas.ensembles import HIGHEST_SCORE
from personas.errors import shown
from personas.ranking.hit import Hit
from personas.ranking.types import Passage, Query
from personas.untrusted import encodable

Doc: TypeAlias = (
    str | Mapping[str, Any] | Passage | Hit | LangChainDocument | LlamaIndexNode | HaystackDocument
)
Docs: TypeAlias = Iterable[Doc] | Mapping[str, str]
"""Passages in first-stage order: texts, records, `Passage` objects, documents of LangChain,
LlamaIndex and Haystack, a mapping id -> text, or a ranking or hits of one."""

LARGEST_ID = 2**64 - 1
_FIELDS = ("id", "text", "title", "score", "metadata")

ROLES = ("user", "assistant", "system")  # of a conversation's messages

logger = safe_logger("mcranker")


def as_query(query: str | Query, what: str = "query") -> Query:
    """The query, checked; halves of surrogate pairs in its text replaced by U+FFFD."""
    if isinstance(query, str):
        query = Query(query)
    if not isinstance(query, Query):
        raise InputError(f"the {what} is a {type(query).__name__}; give a string or a Query")
    if not isinstance(query.text, str) or not query.text.strip():
        raise InputError(f"the {what} is empty; give some text")
    if not isinstance(query.id, str):
        raise InputError(f"the {what}'s id is a {type(query.id).__name__}; give a string")
    _check_unicode(query.id, f"the {what}'s id")
    if not (isinstance(query.turns, tuple) and all(map(_is_turn, query.turns))):
        raise InputError(
            f"the {what}'s turns are {shown(query.turns)}; give a tuple of pairs, a role of "
            f"{', '.join(ROLES)} and a text each"
        )
    text = encodable(query.text)
    turns = tuple((role, encodable(said)) for role, said in query.turns)
    if (text, turns) == (query.text, query.turns):
        return query
    _note_replaced(f"the {what}")
    return replace(query, text=text, turns=turns)


def in_conversation(messages: object, question: Query | None = None) -> Query:
    """Return the question that ends a conversation, with the earlier messages as its turns."""
    given = messages if isinstance(messages, list) else [messages]
    found = [(x.get("role"), x.get("content")) for x in given if isinstance(x, Mapping)]
    turns = [(str(role), str(text)) for role, text in found if _is_turn((role, text))]
    if len(turns) < len(given):
        raise InputError(
            f'"messages" holds {shown(messages)}; give a list of {{"role": …, "content": …}}, with '
            f"a role of {', '.join(ROLES)} and a text each"
        )
    if turns and turns[-1][0] == "user" and (question is None or turns[-1][1] == question.text):
        question = question or Query(turns[-1][1])
        turns.pop()
    elif question is None or (turns and turns[-1][0] == "user"):
        raise InputError('the last of "messages" must be the question, or the reply before it')
    return replace(question, turns=tuple(turns))


def _is_turn(turn: object) -> bool:
    match turn:
        case (str(role), str(text)):
            return role in ROLES and bool(text.strip())
    return False


def as_passages(docs: Docs, *, first: int = 0) -> tuple[Passage, ...]:
    """The passages in the order given, checked; halves of surrogate pairs replaced by U+FFFD."""
    advice = ""
    if hasattr(docs, "columns"):
        advice = '; give its rows as records, as with docs.to_dict("records")'
    elif isinstance(docs, set | frozenset):
        advice = ", which has no order; give a list"
    elif isinstance(docs, str | bytes) or not isinstance(docs, Iterable):
        advice = "; give a list of texts, records or Passages, or a mapping of id to text"
    if advice:
        raise InputError(f"docs is a {type(docs).__name__}{advice}")
    passages: dict[str, Passage] = {}
    mended: list[str] = []
    for place, each in enumerate(entries(docs), first):
        passage = _of_entry(place, each)
        if passage.id in passages:
            raise InputError(f"two passages have the id {passage.id!r}; make ids unique")
        _check_unicode(passage.id, "a passage's id")
        title, text = encodable(passage.title), encodable(passage.text)
        if (title, text) != (passage.title, passage.text):
            passage = replace(passage, title=title, text=text)
            mended.append(passage.id)
        passages[passage.id] = passage
    if mended:
        more = f" and {len(mended) - 1} more" if len(mended) > 1 else ""
        _note_replaced(f"passage {mended[0]!r}{more}")
    return tuple(passages.values())


def _of_entry(place: int, entry: object) -> Passage:
    where = f"docs[{place}]"
    if isinstance(entry, str):
        return Passage(str(place), entry)
    if isinstance(entry, Hit):
        entry = replace(entry.passage, score=entry.score)
    if isinstance(entry, Passage):
        return _of_parts({name: getattr(entry, name) for name in _FIELDS}, where)
    parts = of_record(entry, where) if isinstance(entry, Mapping) else of_object(entry, where)
    return _of_parts({**parts, "id": place if parts["id"] is None else parts["id"]}, where)


def _of_parts(parts: Mapping[str, Any], where: str) -> Passage:
    for name in ("text", "title"):
        if not isinstance(parts[name], str):
            kind = type(parts[name]).__name__
            raise InputError(f"{where} has a {name} that is a {kind}; give a string")
    identifier = _identifier(parts["id"], f"the id of {where}")
    return Passage(**{**parts, "id": identifier, "score": _score(parts["score"], where)})


def _identifier(name: object, where: str) -> str:
    if not isinstance(name, str):
        if isinstance(name, int | numbers.Integral) and not isinstance(name, bool):
            if abs(int(name)) > LARGEST_ID:
                raise InputError(f"{where} is a number of over 64 bits; give a string")
            return str(int(name))
        raise InputError(f"{where} is a {type(name).__name__}; give a string")
    if not name.strip():
        raise InputError(f"{where} is empty; give every passage an id")
    return name


def _score(score: object, where: str) -> float | None:
    if score is None:
        return None
    if isinstance(score, str):
        with suppress(ValueError):
            score = decimal(score)
    if isinstance(score, float | numbers.Real) and not isinstance(score, bool):
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if abs(number) <= HIGHEST_SCORE:
            return number
    raise InputError(
        f"{where} has the score {shown(score)}; give a finite number, up to {HIGHEST_SCORE:.3g}"
    )


def _check_unicode(text: str, what: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} holds a lone surrogate at character {error.start}; "
            "decode its source as UTF-8 first"
        ) from error


def _note_replaced(what: str) -> None:
    logger.warning(
        "%s: holds halves of surrogate pairs, now replaced by U+FFFD; decode the source as UTF-8",
        what,
    )
