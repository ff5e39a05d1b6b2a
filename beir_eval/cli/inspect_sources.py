"""What ``mcranker inspect`` shows: one ranking out of a file or of a run folder.

Rankings are read one by one; of those that are not chosen, only a line of a list is kept.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import orjson

from beir_eval.errors import DatasetError
from mcranker.bounded_lines import LONGEST_RANKING
from mcranker.cli.reading import joined, named_source, read_lines
from mcranker.errors import InputError
from personas.errors import SchemaError
from personas.ranking.effectiveness import ndcg
from personas.ranking.record import OtherRanking, RankingRecord
from personas.ranking.stored import StoredHead

Grades = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> judgement."""

_FORM = "give what 'mcranker rank --save FILE' or '--output json' wrote, or a run folder"
_OPEN = ("{", "[", ",")  # a line that ends so is the first of a JSON value on many lines
_Read = TypeVar("_Read")
_LONGEST = 300  # characters of a query kept for a list
_CLOSE = 0.75  # how alike ids must be to be suggested, 0 to 1
_LONGEST_ID = 200  # characters of an id that others are compared with


@dataclass(frozen=True, slots=True)
class Listed:
    """One query of several.

    Attributes:
        number: its place, from 1.
        query_id: its id; may be empty.
        text: the query, cut.
        passages: how many were ranked.
        ndcg: nDCG@10, None without judgements.
    """

    number: int
    query_id: str
    text: str
    passages: int
    ndcg: float | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """One ranking, with what else is known about its query.

    Attributes:
        where: where it stands, for messages.
        ranking: the ranking, with its texts.
        grades: document id -> judgement; None if none are known.
        other: what the ranker that it is compared with made of the query.
    """

    where: str
    ranking: RankingRecord
    grades: Mapping[str, int] | None = None
    other: OtherRanking | None = None

    def inspection(self) -> RankingRecord:
        """What can be worked out of it.

        Raises:
            InputError: it is not a complete ranking; says where.
        """
        try:
            return self.ranking.beside(grades=self.grades, other=self.other)
        except SchemaError as error:
            raise InputError(f"{self.where}: {error}") from error


def choose(
    rankings: Iterable[tuple[str, object]], query: str | None, grades: Grades | None
) -> tuple[str, RankingRecord] | list[Listed]:
    """The ranking that `query` names; or a list of all, if it is None and there are several.

    Args:
        rankings: where each stands, and the ranking as `RankingRecord.read` takes it; taken one
            by one.
        query: an id, or the number of a ranking if none has such an id. The only ranking, if it
            has no id, may be named by that of its judgements.
        grades: the judgements, where they are known; for the list.

    Raises:
        InputError: no ranking is of that query; one of them is no ranking; there is none.
    """
    wanted = int(query) if query and query.isascii() and query.isdigit() else 0
    ids: list[str] = []
    rows: list[Listed] = []
    kept: tuple[str, RankingRecord] | None = None
    nameless: tuple[str, RankingRecord] | None = None
    for number, (where, data) in enumerate(rankings, start=1):
        if query is None:
            ranking = _read(RankingRecord.from_dict, data, where)
            kept = kept or (where, ranking)
            rows.append(_listed(number, ranking, grades))
            continue
        query_id = _read(StoredHead.read, data, where).query.id
        if query_id == query:
            return where, _read(RankingRecord.from_dict, data, where)
        if number == wanted:
            kept = where, _read(RankingRecord.from_dict, data, where)
        if number == 1 and not query_id and query in (grades or {}):
            nameless = where, _read(RankingRecord.from_dict, data, where)
        ids.append(query_id)
    if kept is None and len(ids) == 1:
        kept = nameless
    if kept is None or len(rows) > 1:
        if query is not None:
            raise InputError(unknown_query(query, ids))
        return rows
    return kept


def unknown_query(query: str, ids: Sequence[str]) -> str:
    """What to say about a query that is not there."""
    known = [query_id[:_LONGEST_ID] for query_id in ids if query_id]
    close = difflib.get_close_matches(query[:_LONGEST_ID], known, n=3, cutoff=_CLOSE)
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    there = f"there are {len(ids):,}; give an id or a number" if len(ids) > 1 else "there is one"
    return f"no query {query[:_LONGEST_ID]!r}{meant or f'; {there}, or leave --query out'}"


def grades_of(
    grades: Grades, query_id: str, source: str, passages: Iterable[str] = ()
) -> Mapping[str, int]:
    """The judgements of one query.

    Args:
        grades: of all queries.
        query_id: the query's; empty if it has none.
        source: the file of the judgements, for messages.
        passages: document ids of the ranking. Of a query without an id they tell which it is,
            where one query alone has judgements of them.

    Raises:
        DatasetError: there is none of this query, or it is not known which query it is.
    """
    if query_id in grades:
        return grades[query_id]
    if not query_id:
        ranked = set(passages)
        about = [each for each, of_query in grades.items() if not ranked.isdisjoint(of_query)]
        if len(about) == 1:
            return grades[about[0]]
        found = f"are judged for {len(about):,} queries" if about else "are not judged"
        raise DatasetError(
            f"{source}: the ranking's query has no id, and its passages {found}; name the query "
            "with --query ID"
        )
    close = difflib.get_close_matches(query_id[:_LONGEST_ID], grades, n=1, cutoff=_CLOSE)
    meant = f"; the closest id is {close[0]!r}" if close else ""
    raise DatasetError(f"{source}: no judgement of query {query_id[:_LONGEST_ID]!r}{meant}")


def read_rankings(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every ranking of a file, or of standard input for ``-``, with where it stands.

    The file holds a ranking, a ranking a line, or the envelope of ``--output json``.

    Raises:
        InputError: the file cannot be read, holds something else, or nothing.
    """
    lines = read_lines(source, longest=LONGEST_RANKING)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{named_source(source)}: there is nothing in it; {_FORM}")
    found = False
    for where, value in _values(first, lines):
        for data in _unpacked(value, where):
            found = True
            yield where, data
    if not found:
        raise InputError(f"{named_source(source)}: there is no ranking in it; {_FORM}")


def _values(first: tuple[str, str], rest: Iterator[tuple[str, str]]) -> Iterator[tuple[str, Any]]:
    """The JSON values: a line each, or one that takes all lines."""
    where, line = first
    if line.rstrip().endswith(_OPEN):
        text, places = joined(chain([first], rest), where.rpartition(":")[0])
        yield where, _parsed(text, places)
        return
    yield where, _parsed(line, [where])
    for where, line in rest:
        yield where, _parsed(line, [where])


def _parsed(text: str, places: Sequence[str]) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        where = places[min(error.lineno, len(places)) - 1]
        raise InputError(
            f"{where}: not JSON: {error.msg} (column {error.colno}); {_FORM}"
        ) from error


def _unpacked(value: Any, where: str) -> Iterator[dict[str, Any]]:
    """The rankings in a value: one, or those of an envelope."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: no ranking but {_kind(value)}; {_FORM}")
    if "hits" in value:
        yield value
        return
    if {"status", "errors"} <= value.keys():
        inside = value.get("rankings", [value["ranking"]] if "ranking" in value else [])
        for data in inside if isinstance(inside, list) else [inside]:
            if not isinstance(data, dict) or "hits" not in data:
                raise InputError(f"{where}: the envelope holds something else than rankings")
            yield data
        return
    if {"doc_id", "rank"} <= value.keys():
        raise InputError(
            f"{where}: a passage of 'mcranker rank --output jsonl', which does not say why; "
            "keep whole rankings with --save FILE"
        )
    raise InputError(f"{where}: an object, but no ranking; {_FORM}")


def _read(reader: Callable[[object], _Read], data: object, where: str) -> _Read:
    try:
        return reader(data)
    except SchemaError as error:
        raise InputError(f"{where}: {error}") from error


def _listed(number: int, ranking: RankingRecord, grades: Grades | None) -> Listed:
    query, of_query = ranking.query, (grades or {}).get(ranking.query.id)
    found = None
    if of_query is not None:
        found = ndcg([of_query.get(hit.doc_id) for hit in ranking.hits], of_query.values())
    return Listed(number, query.id, query.text[:_LONGEST], len(ranking.hits), found)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")
