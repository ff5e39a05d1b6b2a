"""Queries as TREC and PyTerrier write them: topics, and tables of qid and query.

```
<top>                                           <topics>
<num> Number: 301                                 <topic number="1">
<title> International Organized Crime               <query>coronavirus origin</query>
<desc> Description:                                 <question>what is the origin ...</question>
Identify organizations that ...                     <narrative>seeking ...</narrative>
</top>                                            </topic>
                                                </topics>
```

Fields need no end tags. Markup declarations are refused, and so no entity is ever defined.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, get_args

from mcranker.errors import InputError
from personas.io.lines import distinct
from personas.ranking.types import Query

TopicField = Literal["title", "desc", "narr"]
TOPIC_FIELDS: tuple[TopicField, ...] = get_args(TopicField)

_NAMES: dict[str, tuple[str, ...]] = {
    "title": ("title", "query"),
    "desc": ("desc", "description", "question"),
    "narr": ("narr", "narrative"),
}
"""Names of the fields in collections, the usual one first."""
_NUMBERS = ("num", "number", "id", "qid")
_OTHERS = ("dom", "smry", "con", "fac", "def", "head", "nat", "time", "querytime")
_TOPICS = ("top", "topic")
_KNOWN = {*_TOPICS, *_NUMBERS, *_OTHERS, *chain.from_iterable(_NAMES.values())}
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]{0,40})(\s[^<>]*)?>")
_NUMBER = re.compile(r"""\s(?:num|number|id|qid)\s*+=\s*+["']([^"']*)["']""")
_XML = re.compile(r"<\?xml[^<>]*\?>")
_LABELS = {
    "num": re.compile(r"number\s*:", re.IGNORECASE),
    "title": re.compile(r"(?:topic|title)\s*:", re.IGNORECASE),
    "desc": re.compile(r"description\s*:", re.IGNORECASE),
    "narr": re.compile(r"narrative\s*:", re.IGNORECASE),
}
"""Words that begin fields of SGML, as in ``<num> Number: 301``."""
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{1,31});")
_ID_HEADINGS = ("qid", "query_id", "query-id", "_id", "id")
_TEXT_HEADINGS = ("query", "text")

Lines = Iterable[tuple[str, str]]
"""Place of each line, as ``FILE:LINE``, and the line."""


def has_topics(first: str) -> bool:
    """True if a file with this first line, not blank, holds topics."""
    return first.lstrip().startswith("<")


def has_headings(first: str) -> bool:
    """True if a file with this first line is a table with a column that is called query."""
    return _columns(first) is not None and "query" in first.lower()


def read_topics(lines: Lines, name: str, topic_field: TopicField = "title") -> list[Query]:
    """The queries of a file, in its order; white space within a text is one space."""
    remaining = iter(lines)
    first = next(remaining, ("", ""))
    whole = chain([first], remaining)
    found = (
        ((each.where, each.query(topic_field)) for each in _topics(whole))
        if has_topics(first[1])
        else _table(whole if first[1] else (), first[1])
    )
    queries = list(distinct(found, InputError))
    if not queries:
        raise InputError(f"{name}: there is no query in it")
    return queries


@dataclass(slots=True)
class _Topic:
    """One topic: its place, its tag, and the texts of its fields; "" is text in none of them."""

    where: str
    tag: str
    fields: dict[str, list[str]] = field(default_factory=dict)

    def query(self, topic_field: TopicField) -> Query:
        ids = [text for name in _NUMBERS if (text := self._text(name))]
        if not ids or ids[0].split() != [ids[0]]:
            had = f"the id {ids[0]!r}" if ids else "no id"
            raise InputError(
                f"{self.where}: the topic has {had}; give one without white space, as <num> or as "
                'an attribute: <topic number="1">'
            )
        known = [each for each in TOPIC_FIELDS if any(map(self._text, _NAMES[each]))]
        texts = [text for name in _NAMES[topic_field] if (text := self._text(name))]
        if not known and topic_field == "title" and self._text(""):
            texts = [self._text("")]
        if not texts:
            hint = f"choose {' or '.join(known)}" if known else "it has none of the others either"
            raise InputError(
                f"{self.where}: topic {ids[0]!r} has no text for the field {topic_field!r}; {hint}"
            )
        return Query(texts[0], ids[0])

    def _text(self, name: str) -> str:
        """A field's text without the label that begins it, its entities as characters."""
        text = "".join(self.fields.get(name, ())).strip()
        label = _LABELS[name].match(text) if name in _LABELS else None
        text = text[label.end() :] if label else text
        return " ".join(_ENTITY.sub(lambda found: html.unescape(found[0]), text).split())


def _topics(lines: Lines) -> Iterator[_Topic]:
    topic: _Topic | None = None
    inside = ""

    def put(text: str, where: str) -> None:
        if topic is not None:
            topic.fields.setdefault(inside, []).append(text)
        elif _XML.sub("", text).strip():
            raise InputError(
                f"{where}: {text.strip()[:60]!r} is outside of <top> and </top>; see whether a "
                "tag is missing"
            )

    for where, line in lines:
        end = 0
        for tag in _TAG.finditer(line):
            closes, found = bool(tag[1]), tag[2].lower()
            # Others at the beginning of a line are fields; within a line they are text.
            if topic is not None and found not in _KNOWN and line[: tag.start()].strip():
                continue
            put(line[end : tag.start()], where)
            end = tag.end()
            if found in _TOPICS:
                if closes == (topic is None):
                    raise InputError(
                        f"{where}: </{found}> ends no topic"
                        if topic is None
                        else f"{where}: <{found}> in the topic that begins at {topic.where}; end "
                        f"that one by </{topic.tag}>"
                    )
                if topic is not None:
                    yield topic
                topic, inside = None if closes else _Topic(where, found), ""
                if topic is not None and (number := _NUMBER.search(tag[3] or "")):
                    topic.fields["num"] = [number[1]]
            elif topic is None:
                if found in _KNOWN:
                    raise InputError(f"{where}: <{tag[2]}> is outside of <top> and </top>")
            else:
                inside = "" if closes else found
                if inside in _KNOWN and inside in topic.fields:
                    raise InputError(f"{where}: <{tag[2]}> occurs twice in a topic; keep one")
        put(line[end:], where)
    if topic is not None:
        raise InputError(f"{topic.where}: the topic has no end; put </{topic.tag}> behind it")


def _columns(first: str) -> tuple[int, int] | None:
    """The places of id and text in a line of headings; None if it is none."""
    names = [cell.strip().strip('"').lower() for cell in first.split("\t")]
    ids = [names.index(each) for each in _ID_HEADINGS if each in names]
    texts = [names.index(each) for each in _TEXT_HEADINGS if each in names]
    return (ids[0], texts[0]) if ids and texts else None


def _table(lines: Lines, first: str) -> Iterator[tuple[str, Query]]:
    columns = _columns(first)
    id_place, text_place = columns or (0, 1)
    count = first.count("\t") + 1 if columns else 2
    for number, (where, line) in enumerate(lines):
        if columns and number == 0:
            continue
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) != count:
            raise InputError(
                f"{where}: {len(cells)} columns instead of {count}, parted by tabs; give a query "
                "id and its text in each line, or a first line with the headings qid, query"
            )
        query_id, text = cells[id_place].strip(), " ".join(cells[text_place].split())
        if not query_id or query_id.split() != [query_id]:
            raise InputError(f"{where}: the id {query_id!r} is empty or holds white space")
        if not text:
            raise InputError(f"{where}: query {query_id!r} has no text")
        yield where, Query(text, query_id)
