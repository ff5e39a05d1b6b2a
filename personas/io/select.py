"""One ranking out of a file of several.

Rankings are read one by one; of those that are not chosen, only a line of a list is kept.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from personas.errors import SchemaError
from personas.io.rankings import checked
from personas.ranking.agreement import ndcg
from personas.ranking.record import RankingRecord, read_query

Grades = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> judgement."""

_LONGEST = 300  # characters of a query kept for a list
_CLOSE = 0.75  # how alike ids must be to be suggested, 0 to 1
_LONGEST_ID = 200  # characters of an id that others are compared with


@dataclass(frozen=True, slots=True)
class Listed:
    """One query of several."""

    number: int
    query_id: str
    text: str
    passages: int
    ndcg: float | None


def choose(
    rankings: Iterable[tuple[str, object]], query: str | None, grades: Grades | None
) -> RankingRecord | list[Listed]:
    """The ranking that `query` names; or a list of all, if it is None and there are several."""
    wanted = _number(query or "")
    ids: list[str] = []
    rows: list[Listed] = []
    kept: tuple[str, object] | None = None
    for number, (where, data) in enumerate(rankings, start=1):
        if query is None:
            ranking = checked(RankingRecord.from_dict, data, where, SchemaError)
            kept = kept or (where, ranking)
            rows.append(_listed(number, ranking, grades))
            continue
        query_id = checked(read_query, data, where, SchemaError).id
        if query_id == query:
            return _to_show(where, data)
        if number == wanted or (number == 1 and not query_id and query in (grades or {})):
            kept = where, data
        ids.append(query_id)
    if len(rows) > 1:
        return rows
    if kept is None or (len(ids) > 1 and not 1 <= wanted <= len(ids)):
        raise SchemaError(_unknown(query or "", ids))
    return _to_show(*kept)


def _number(query: str) -> int:
    """The number that is written there; 0 for a text that is none."""
    return int(query) if query.isascii() and query.isdigit() else 0


def _unknown(query: str, ids: Sequence[str]) -> str:
    """Return the message about an unknown query."""
    known = [query_id[:_LONGEST_ID] for query_id in ids if query_id]
    close = difflib.get_close_matches(query[:_LONGEST_ID], known, n=3, cutoff=_CLOSE)
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    there = f"there are {len(ids):,}; give an id or a number" if len(ids) > 1 else "there is one"
    return f"no query {query[:_LONGEST_ID]!r}{meant or f'; {there}, or leave --query out'}"


def grades_of(
    grades: Grades, query_id: str, source: str, passages: Iterable[str] = ()
) -> Mapping[str, int]:
    """The judgements of one query."""
    if query_id in grades:
        return grades[query_id]
    if not query_id:
        ranked = set(passages)
        about = [each for each, of_query in grades.items() if not ranked.isdisjoint(of_query)]
        if len(about) == 1:
            return grades[about[0]]
        found = f"are judged for {len(about):,} queries" if about else "are not judged"
        raise SchemaError(
            f"{source}: the ranking's query has no id, and its passages {found}; name the query "
            "with --query ID"
        )
    close = difflib.get_close_matches(query_id[:_LONGEST_ID], grades, n=1, cutoff=_CLOSE)
    meant = f"; the closest id is {close[0]!r}" if close else ""
    raise SchemaError(f"{source}: no judgement of query {query_id[:_LONGEST_ID]!r}{meant}")


def _listed(number: int, ranking: RankingRecord, grades: Grades | None) -> Listed:
    query, of_query = ranking.query, (grades or {}).get(ranking.query.id)
    found = None
    if of_query is not None:
        found = ndcg([of_query.get(hit.doc_id) for hit in ranking.hits], of_query.values())
    return Listed(number, query.id, query.text[:_LONGEST], len(ranking.hits), found)


def _to_show(where: str, data: object) -> RankingRecord:
    return checked(lambda each: RankingRecord.of(each).beside(), data, where, SchemaError)
