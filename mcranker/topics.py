"""Queries as TREC and PyTerrier write them: topics in SGML or XML, and tables of qid and query.

```
<top>                                           <topics>
<num> Number: 301                                 <topic number="1">
<title> International Organized Crime               <query>coronavirus origin</query>
<desc> Description:                                 <question>what is the origin ...</question>
Identify organizations that ...                     <narrative>seeking ...</narrative>
</top>                                            </topic>
                                                </topics>
```

In SGML, fields need no end tags. In XML, a document type declaration is refused: entities that
it defines could take all memory, or name files of this machine. Encodings that an XML declaration
names are not looked at, because all files are read as UTF-8.
"""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, get_args
from xml.parsers import expat

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
_KNOWN = {"top", *_NUMBERS, *_OTHERS, *chain.from_iterable(_NAMES.values())}
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9_-]{0,40})(?:\s[^<>]*)?>")
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
_DELIMITERS = ("\t", ",")

Lines = Iterable[tuple[str, str]]
"""Place of each line, as ``FILE:LINE``, and the line."""


def has_topics(first: str) -> bool:
    """True if a file with this first line, not blank, holds topics in SGML or XML."""
    return first.lstrip().startswith("<")


def has_headings(first: str) -> bool:
    """True if a file with this first line is a table with a column that is called query."""
    columns = _columns(first)
    return columns is not None and "query" in first.lower()


def read_topics(lines: Lines, name: str, topic_field: TopicField = "title") -> list[Query]:
    """The queries of a file, in its order; white space within a text is one space.

    A file that begins with ``<`` holds topics. Else it is a table: two columns parted by a tab,
    the id and the text; or more columns, parted by tabs or commas, under a line of headings that
    has one of ``qid``, ``query_id``, ``id`` and one of ``query``, ``text``.

    Args:
        lines: of the file, decoded.
        name: of the file, for messages.
        topic_field: of a topic: ``"title"`` (also called query; a topic of XML with none of these
            fields is its own text), ``"desc"`` (description, question) or ``"narr"`` (narrative).
            Tables have one text.

    Raises:
        InputError: text outside of a topic, a topic that does not end, or XML that is none; a
            document type declaration; a topic without an id, or without text in that field; a
            line of a table with another number of columns; an id that occurs twice; no query.
    """
    remaining = iter(lines)
    first = next(remaining, None)
    if first is None:
        raise InputError(f"{name}: there is no query in it")
    whole = chain([first], remaining)
    if not has_topics(first[1]):
        found = _table(whole, first[1])
    else:
        topics = _sgml(whole, name) if _is_sgml(first[1]) else _xml(whole, name)
        found = ((each.where, each.query(topic_field)) for each in topics)
    queries = list(distinct(found, InputError))
    if not queries:
        raise InputError(f"{name}: there is no query in it")
    return queries


@dataclass(slots=True)
class _Topic:
    """One topic: its place and the texts of its fields; "" is text outside known ones."""

    where: str
    fields: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        self.fields.setdefault(name, []).append(text)

    def query(self, topic_field: TopicField) -> Query:
        ids = [text for name in _NUMBERS if (text := self.text(name))]
        if not ids or ids[0].split() != [ids[0]]:
            had = f"the id {ids[0]!r}" if ids else "no id"
            raise InputError(
                f"{self.where}: the topic has {had}; give one without white space, as <num> or as "
                'an attribute: <topic number="1">'
            )
        texts = [text for name in _NAMES[topic_field] if (text := self.text(name))]
        known = [each for each in TOPIC_FIELDS if any(map(self.text, _NAMES[each]))]
        if not known and topic_field == "title" and self.text(""):
            texts = [self.text("")]
        if not texts:
            hint = f"choose {' or '.join(known)}" if known else "it has none of the others either"
            raise InputError(
                f"{self.where}: topic {ids[0]!r} has no text for the field {topic_field!r}; {hint}"
            )
        return Query(texts[0], ids[0])

    def text(self, name: str) -> str:
        return " ".join("".join(self.fields.get(name, ())).split())


def _is_sgml(first: str) -> bool:
    return re.match(r"<top\s*+>", first.lstrip(), re.IGNORECASE) is not None


def _sgml(lines: Lines, name: str) -> Iterator[_Topic]:
    topic: _Topic | None = None
    inside = ""
    for where, line in lines:
        end = 0
        for tag in _field_tags(line):
            _put(topic, inside, line[end : tag.start()], where)
            end = tag.end()
            closes, found = bool(tag[1]), tag[2].lower()
            if found == "top":
                if closes == (topic is None):
                    raise InputError(
                        f"{where}: </top> ends no topic"
                        if closes
                        else f"{where}: <top> in the topic that begins at "
                        f"{topic.where if topic else name}; end that one by </top>"
                    )
                if topic is not None:
                    yield _unlabelled(topic)
                topic, inside = None if closes else _Topic(where), ""
            elif topic is None:
                raise InputError(f"{where}: <{tag[2]}> is outside of <top> and </top>")
            else:
                inside = "" if closes else found
                if inside in _KNOWN and inside in topic.fields:
                    raise InputError(f"{where}: <{tag[2]}> occurs twice in a topic; keep one")
        _put(topic, inside, line[end:], where)
    if topic is not None:
        raise InputError(f"{topic.where}: the topic has no end; put </top> behind it")


def _field_tags(line: str) -> Iterator[re.Match[str]]:
    """Yield tags of fields: known ones, and others at the beginning of a line; the rest is text."""
    for tag in _TAG.finditer(line):
        if tag[2].lower() in _KNOWN or not line[: tag.start()].strip():
            yield tag


def _put(topic: _Topic | None, inside: str, text: str, where: str) -> None:
    if topic is not None and inside:
        topic.add(inside, text)
    elif text.strip():
        place = "in no field of the topic" if topic is not None else "outside of <top> and </top>"
        raise InputError(f"{where}: {text.strip()[:60]!r} is {place}; see whether a tag is missing")


def _unlabelled(topic: _Topic) -> _Topic:
    """Return the topic without labels that begin its fields, and with entities as characters."""
    fields = {}
    for name, parts in topic.fields.items():
        text = "".join(parts).strip()
        label = _LABELS[name].match(text) if name in _LABELS else None
        text = text[label.end() :] if label else text
        fields[name] = [_ENTITY.sub(lambda found: html.unescape(found[0]), text)]
    return _Topic(topic.where, fields)


def _xml(lines: Lines, name: str) -> Iterator[_Topic]:
    reader = _XmlReader(name)
    for where, line in lines:
        yield from reader.feed(where, line)
    yield from reader.end()


class _XmlReader:
    """Topics of an XML document, one after the other, whatever its root is called."""

    def __init__(self, name: str) -> None:
        self._where = name
        self._open: list[str] = []  # elements in the topic, the field first
        self._topic: _Topic | None = None
        self._done: list[_Topic] = []
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._refuse

    def feed(self, where: str, line: str) -> list[_Topic]:
        self._where = where
        return self._parsed(lambda: self._parser.Parse(line, False))

    def end(self) -> list[_Topic]:
        return self._parsed(lambda: self._parser.Parse("", True))

    def _parsed(self, parse: Callable[[], object]) -> list[_Topic]:
        try:
            parse()
        except expat.ExpatError as failure:
            why = expat.ErrorString(failure.code)
            raise InputError(f"{self._where}: not XML: {why}") from failure
        done, self._done = self._done, []
        return done

    def _refuse(self, *_: object) -> None:
        raise InputError(
            f"{self._where}: a document type declaration, which can define entities that take all "
            "memory; delete it"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2].lower()
        if self._topic is None:
            if tag in ("topic", "top"):
                self._topic = _Topic(self._where)
                for key in _NUMBERS:
                    if key in attributes:
                        self._topic.add(key, attributes[key])
            return
        self._open.append(tag)
        if len(self._open) == 1 and tag in _KNOWN and tag in self._topic.fields:
            raise InputError(f"{self._where}: <{name}> occurs twice in a topic; keep one")

    def _end(self, name: str) -> None:
        if self._open:
            self._open.pop()
        elif self._topic is not None:
            self._done.append(self._topic)
            self._topic = None

    def _text(self, text: str) -> None:
        if self._topic is not None:
            # What is in a field belongs to it, however deep.
            inside = self._open[0] if self._open else ""
            self._topic.add(inside if inside in _KNOWN else "", text)


def _columns(first: str) -> tuple[str, int, int] | None:
    """The delimiter of a line of headings, and the places of id and text; None if it is none."""
    for delimiter in _DELIMITERS:
        names = [cell.strip().strip('"').lower() for cell in first.split(delimiter)]
        ids = [names.index(each) for each in _ID_HEADINGS if each in names]
        texts = [names.index(each) for each in _TEXT_HEADINGS if each in names]
        if ids and texts:
            return delimiter, ids[0], texts[0]
    return None


def _table(lines: Lines, first: str) -> Iterator[tuple[str, Query]]:
    columns = _columns(first)
    delimiter, id_place, text_place = columns or ("\t", 0, 1)
    count = len(first.split(delimiter)) if columns else 2
    for number, (where, line) in enumerate(lines):
        if columns and number == 0:
            continue
        cells = _cells(line.rstrip("\r\n"), delimiter, where)
        if len(cells) != count:
            parted = "tabs" if delimiter == "\t" else "commas"
            raise InputError(
                f"{where}: {len(cells)} columns instead of {count}, parted by {parted}; give a "
                "query id and its text in each line, or a first line with the headings qid, query"
            )
        query_id, text = cells[id_place].strip(), " ".join(cells[text_place].split())
        if not query_id or query_id.split() != [query_id]:
            raise InputError(f"{where}: the id {query_id!r} is empty or holds white space")
        if not text:
            raise InputError(f"{where}: query {query_id!r} has no text")
        yield where, Query(text, query_id)


def _cells(line: str, delimiter: str, where: str) -> list[str]:
    if delimiter == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as failure:
        raise InputError(
            f"{where}: not a line of CSV: {failure}; a query may not go over several lines"
        ) from failure
