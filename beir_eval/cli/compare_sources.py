"""The two sides of ``mcranker compare``: saved rankings, one or many, paired by their queries.

Rankings are read one by one, and twice: first what each query's order is, then the whole of those
that are explained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beir_eval.cli.inspect_sources import Grades, grades_of, unknown_query
from mcranker.errors import InputError
from mcranker.paths import is_folder
from personas.errors import SchemaError
from personas.format import counted, signed
from personas.io.lines import STDIN
from personas.io.rankings import read_rankings
from personas.ranking.comparison import (
    ComparedRuns,
    QueryRow,
    RankingComparison,
    compare_rankings,
)
from personas.ranking.effectiveness import ndcg
from personas.ranking.record import RankingRecord

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_LONGEST = 300  # characters of a query kept for a list
_DEPTH = 10


@dataclass(frozen=True, slots=True)
class _Order:
    """A ranking's query and order."""

    query_id: str
    text: str
    doc_ids: tuple[str, ...]

    @property
    def key(self) -> str:
        """Key of the query: its id, or its text where it has none."""
        return f"id {self.query_id}" if self.query_id else f"text {self.text}"


@dataclass(frozen=True, slots=True)
class _Judged:
    grades: Grades
    source: str

    def of(self, query_id: str) -> Mapping[str, int]:
        """The judgements of a query, by its id; of the only one, for a query without an id."""
        if not query_id and len(self.grades) == 1:
            return next(iter(self.grades.values()))
        return grades_of(self.grades, query_id, self.source)


def compare_files(
    before: str,
    after: str,
    *,
    query: str | None = None,
    queries: int = 5,
    grades: Grades | None = None,
    source: str = "",
) -> RankingComparison | ComparedRuns:
    """Compare saved rankings: of one query, or of several.

    Args:
        before: a file of rankings, or a folder of such files.
        after: the same.
        query: id of the query to explain, or its number in the list; None for those that changed
            most.
        queries: how many queries to explain, at most.
        grades: judgements of all queries; None if there are none.
        source: where the judgements are from, for messages.

    Returns:
        The comparison of a query where each side has one, which may be different queries, and of
        the `query` that was asked for.

    Raises:
        InputError: a file cannot be read, has no ranking in it, or has a query twice; no query is
            in both; there is no such query.
        DatasetError: the query has no judgements.
    """
    for name in (before, after):
        if name == STDIN:
            raise InputError("standard input cannot be compared, as it is read twice; give a file")
    judged = None if grades is None else _Judged(grades, source)
    one, two = _orders(before), _orders(after)
    if len(one) == len(two) == 1 and query is None:
        return _compared(before, after, [(next(iter(one)), next(iter(two)))], judged)[0]
    common = [key for key in one if key in two]
    if not common:
        raise InputError(
            f"{before} and {after} have no query in common: {_named(one)} and {_named(two)}; "
            "compare rankings of the same queries"
        )
    ranked = sorted(
        ((_row(one[key], two[key], grades), key) for key in common),
        key=lambda pair: _size(pair[0], one[pair[1]], two[pair[1]]),
        reverse=True,
    )
    keys = [key for _, key in ranked]
    chosen = keys[:queries] if query is None else [_picked(query, [one[key] for key in keys])]
    comparisons = _compared(before, after, [(key, key) for key in chosen], judged)
    if query is not None:
        return comparisons[0]
    return _runs(one, two, [row for row, _ in ranked], (before, after), comparisons)


def _orders(source: str) -> dict[str, _Order]:
    """Key -> the order of each ranking."""
    found: dict[str, _Order] = {}
    for where, data in _rankings(source):
        ranking = _read(data, where)
        doc_ids = tuple(hit.doc_id for hit in ranking.hits)
        order = _Order(ranking.query.id, ranking.query.text, doc_ids)
        if order.key in found:
            name = ranking.query.id or ranking.query.text
            raise InputError(
                f"{where}: a second ranking of query {name[:80]!r}; "
                "compare one ranking a query, each side in a file or folder of its own"
            )
        found[order.key] = order
    return found


def _rankings(source: str) -> Iterator[tuple[str, object]]:
    if not is_folder(source):
        yield from read_rankings(source, InputError)
        return
    files = sorted(
        each
        for each in Path(source).iterdir()
        if each.suffix.lower() in _SUFFIXES and not each.name.startswith(".") and each.is_file()
    )
    if not files:
        raise InputError(
            f"{source}: has no .json or .jsonl file; give a folder with what 'mcranker rank "
            "--save' wrote, or a run folder of 'beir-eval run'"
        )
    for file in files:
        yield from read_rankings(file, InputError)


def _read(data: object, where: str) -> RankingRecord:
    try:
        return RankingRecord.from_dict(data)
    except SchemaError as error:
        raise InputError(f"{where}: {error}") from error


def _compared(
    before: str, after: str, keys: Sequence[tuple[str, str]], judged: _Judged | None
) -> list[RankingComparison]:
    """The comparison of each pair of queries."""
    one = _whole(before, [old for old, _ in keys])
    two = _whole(after, [new for _, new in keys])
    try:
        return [
            compare_rankings(
                one[old], two[new], grades=judged.of(two[new].query.id) if judged else None
            )
            for old, new in keys
        ]
    except SchemaError as error:
        raise InputError(f"{before} and {after}: {error}") from error


def _whole(source: str, keys: Sequence[str]) -> dict[str, RankingRecord]:
    wanted, found = set(keys), {}
    for where, data in _rankings(source):
        ranking = _read(data, where)
        key = _Order(ranking.query.id, ranking.query.text, ()).key
        if key in wanted:
            found[key] = ranking
            if len(found) == len(wanted):
                break
    return found


def _row(one: _Order, two: _Order, grades: Grades | None) -> QueryRow:
    old = {doc_id: rank for rank, doc_id in enumerate(one.doc_ids, start=1)}
    new = {doc_id: rank for rank, doc_id in enumerate(two.doc_ids, start=1)}
    of_query = None if grades is None else grades.get(two.query_id)
    values = [
        ndcg([of_query.get(doc_id) for doc_id in side.doc_ids], of_query.values())
        if of_query
        else None
        for side in (one, two)
    ]
    return QueryRow(
        query_id=two.query_id,
        text=two.text[:_LONGEST],
        moved=sum(old.get(doc_id) != new.get(doc_id) for doc_id in {*old, *new}),
        passages=len({*old, *new}),
        shared=len({*one.doc_ids[:_DEPTH]} & {*two.doc_ids[:_DEPTH]}),
        before=values[0],
        after=values[1],
    )


def _size(row: QueryRow, one: _Order, two: _Order) -> tuple[float, float]:
    """Return the size of a query's change: by nDCG where known, then by its ranks' discounts."""
    change = 0.0 if row.before is None or row.after is None else abs(row.after - row.before)
    return round(change, 9), _discounts(one, two)


def _discounts(one: _Order, two: _Order) -> float:
    found: dict[str, float] = {}
    for sign, side in ((-1, one), (1, two)):
        for rank, doc_id in enumerate(side.doc_ids, start=1):
            found[doc_id] = found.get(doc_id, 0.0) + sign / math.log2(1 + rank)
    return math.fsum(map(abs, found.values()))


def _picked(query: str, orders: Sequence[_Order]) -> str:
    for order in orders:
        if order.query_id == query:
            return order.key
    number = int(query) if query.isascii() and query.isdigit() else 0
    if 1 <= number <= len(orders):
        return orders[number - 1].key
    raise InputError(unknown_query(query, [order.query_id for order in orders]))


def _runs(
    one: Mapping[str, _Order],
    two: Mapping[str, _Order],
    rows: Sequence[QueryRow],
    names: tuple[str, str],
    comparisons: Sequence[RankingComparison],
) -> ComparedRuns:
    notes = []
    lost = [len(each.keys() - other.keys()) for each, other in ((one, two), (two, one))]
    if any(lost):
        notes.append(
            f"{counted(lost[0], 'query', 'queries')} only in {names[0]} and {lost[1]:,} only in "
            f"{names[1]}; they are left out."
        )
    judged = [row for row in rows if row.before is not None and row.after is not None]
    verdict = []
    if judged:
        means = [
            math.fsum(getattr(row, side) for row in judged) / len(judged)
            for side in ("before", "after")
        ]
        verb = "rises" if means[1] > means[0] else "falls" if means[1] < means[0] else "stays"
        of = counted(len(judged), "judged query", "judged queries")
        verdict.append(
            f"nDCG@10 {verb}: {means[0]:.3f} before, {means[1]:.3f} after "
            f"({signed(means[1] - means[0])}), a mean over {of}. It is not tested whether that is "
            "more than chance; 'beir-eval compare' tests it."
        )
    changed = sum(row.moved > 0 for row in rows)
    shared = math.fsum(row.shared for row in rows) / len(rows)
    verdict.append(
        f"In {changed:,} of {counted(len(rows), 'query', 'queries')} passages moved; on average "
        f"{shared:.1f} of the first {_DEPTH} are still there."
    )
    return ComparedRuns(
        title=counted(len(rows), "query", "queries"),
        notes=notes,
        verdict=verdict,
        measure="nDCG@10" if judged else "",
        rows=rows,
        comparisons=comparisons,
    )


def _named(orders: Mapping[str, _Order]) -> str:
    first = next(iter(orders.values()))
    return repr((first.query_id or first.text)[:80])
