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
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, zip_longest
from typing import Literal, get_args

from mcranker.errors import InputError
from personas.io.lines import distinct
from personas.ranking.types import Query

TopicField = Literal["title", "desc", "narr"]
TOPIC_FIELDS: tuple[TopicField, ...] = get_args(TopicField)

# Names of the fields in collections, the usual one first.
_NAMES = {
    "title": ("title", "query"),
    "desc": ("desc", "description", "question"),
    "narr": ("narr", "narrative"),
}
_NUMBERS = ("num", "number", "id", "qid")
_OTHERS = ("dom", "smry", "con", "fac", "def", "head", "nat", "time", "querytime")
_KNOWN = {*_NUMBERS, *_OTHERS, *chain.from_iterable(_NAMES.values())}
# Words that begin fields of SGML, as in ``<num> Number: 301``.
_LABELS = {"num": "number", "title": "topic|title", "desc": "description", "narr": "narrative"}

_ANY, _END = r"[A-Za-z][A-Za-z0-9_-]{0,40}", r"(?:[^\S\n][^<>\n]*)?>"
_TOPIC = re.compile(r"(?i)<(/?)(topic|top)(\s[^<>]*)?>")
# Other names at the beginning of a line are fields; within a line they are text.
_FIELD = re.compile(rf"(?im)<(/?)({'|'.join(_KNOWN)}){_END}|^[ \t]*<(/?)({_ANY}){_END}")
_AROUND = re.compile(
    rf"(?i)<\?xml[^<>]*\?>|</?(?!(?:topic|top|{'|'.join(_KNOWN)})[\s>]){_ANY}{_END}"
)
_NUMBER = re.compile(r"""\s(?:num|number|id|qid)\s*+=\s*+["']([^"']*)["']""")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{1,31});")
_ID_HEADINGS = ("qid", "query_id", "query-id", "_id", "id")
_TEXT_HEADINGS = ("query", "text")


def has_topics(first: str) -> bool:
    """True if a file with this first line, not blank, holds topics."""
    return first.lstrip().startswith("<")


def has_headings(first: str) -> bool:
    """True if a file with this first line is a table with a column that is called query."""
    return _columns(first) is not None and "query" in first.lower()


def read_topics(
    lines: Iterable[tuple[str, str]], name: str, topic_field: TopicField = "title"
) -> list[Query]:
    """The queries of lines with their places, in order; white space within a text is one space."""
    places, texts = zip(*lines, strict=True) if (lines := list(lines)) else ((), ())
    found = (
        _topics(places, texts, topic_field)
        if texts and has_topics(texts[0])
        else _table(places, texts)
    )
    queries = list(distinct(found, InputError))
    if not queries:
        raise InputError(f"{name}: there is no query in it")
    return queries


def _topics(
    places: Sequence[str], lines: Sequence[str], topic_field: TopicField
) -> Iterator[tuple[str, Query]]:
    text = "".join(lines)
    starts = list(accumulate(map(len, lines), initial=0))[:-1]

    def where(at: int) -> str:
        return places[bisect_right(starts, at) - 1]

    def check_outside(start: int, end: int) -> None:
        rest = _AROUND.sub(lambda tag: " " * len(tag[0]), text[start:end]).rstrip()
        if said := rest.lstrip():
            place = where(start + len(rest) - len(said))
            raise InputError(
                f"{place}: {said[:60]!r} is outside of <top> and </top>; see whether a tag is "
                "missing"
            )

    end = 0
    tags = list(_TOPIC.finditer(text))
    for first, last in zip_longest(tags[::2], tags[1::2]):
        place = where(first.start())
        check_outside(end, first.start())
        if first[1]:
            raise InputError(f"{place}: {first[0]} ends no topic")
        if last is None or not last[1]:
            raise InputError(f"{place}: the topic has no end; put </{first[2]}> behind it")
        number = _NUMBER.search(first[3] or "")
        fields = {"num": number[1]} if number else {}
        inside, begin = "", first.end()
        for tag in _FIELD.finditer(text, first.end(), last.start()):
            fields[inside] = fields.get(inside, "") + text[begin : tag.start()]
            begin, name = tag.end(), (tag[2] or tag[4]).lower()
            inside = "" if tag[1] or tag[3] else name
            if inside in _KNOWN and inside in fields:
                raise InputError(
                    f"{where(tag.start())}: <{name}> occurs twice in a topic; keep one"
                )
        fields[inside] = fields.get(inside, "") + text[begin : last.start()]
        yield place, _query(place, {key: _plain(key, fields[key]) for key in fields}, topic_field)
        end = last.end()
    check_outside(end, len(text))


def _query(place: str, fields: Mapping[str, str], topic_field: TopicField) -> Query:
    ids = [fields[name] for name in _NUMBERS if fields.get(name)]
    if not ids or ids[0].split() != [ids[0]]:
        had = f"the id {ids[0]!r}" if ids else "no id"
        raise InputError(
            f"{place}: the topic has {had}; give one without white space, as <num> or as an "
            'attribute: <topic number="1">'
        )
    found = {each: [fields[n] for n in _NAMES[each] if fields.get(n)] for each in TOPIC_FIELDS}
    known = [each for each in TOPIC_FIELDS if found[each]]
    if not known and fields.get(""):
        found["title"] = [fields[""]]
    if not found[topic_field]:
        hint = f"choose {' or '.join(known)}" if known else "it has none of the others either"
        raise InputError(
            f"{place}: topic {ids[0]!r} has no text for the field {topic_field!r}; {hint}"
        )
    return Query(found[topic_field][0], ids[0])


def _plain(name: str, text: str) -> str:
    """A field's text without the label that begins it, its entities as characters."""
    if name in _LABELS:
        text = re.sub(rf"(?i)\A\s*(?:{_LABELS[name]})\s*:", "", text)
    return " ".join(_ENTITY.sub(lambda found: html.unescape(found[0]), text).split())


def _columns(first: str) -> tuple[int, int] | None:
    """The places of id and text in a line of headings; None if it is none."""
    names = [cell.strip().strip('"').lower() for cell in first.split("\t")]
    ids = [names.index(each) for each in _ID_HEADINGS if each in names]
    texts = [names.index(each) for each in _TEXT_HEADINGS if each in names]
    return (ids[0], texts[0]) if ids and texts else None


def _table(places: Sequence[str], lines: Sequence[str]) -> Iterator[tuple[str, Query]]:
    columns = _columns(lines[0]) if lines else None
    count = lines[0].count("\t") + 1 if columns else 2
    first, (id_place, text_place) = (1, columns) if columns else (0, (0, 1))
    for where, line in zip(places[first:], lines[first:], strict=True):
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
