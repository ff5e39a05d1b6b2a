"""Comparison of saved rankings, one or many on each side, paired by their queries.

Rankings are read one by one, and twice: first the order of each query, then the whole of those
that are explained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from personas.errors import SchemaError
from personas.format import counted, signed
from personas.io.chosen import Grades, grades_of, place_of_query
from personas.io.lines import STDIN
from personas.io.rankings import SUFFIXES, checked, read_rankings
from personas.ranking.comparison import ComparedRuns, QueryRow, RankingComparison, compare_rankings
from personas.ranking.effectiveness import ndcg
from personas.ranking.record import RankingRecord

_LONGEST = 300  # characters of a query kept for a list
_DEPTH = 10


@dataclass(frozen=True, slots=True)
class _Order:
    """A ranking's query, and the rank of each document."""

    query_id: str
    text: str
    ranks: Mapping[str, int]

    @classmethod
    def of(cls, ranking: RankingRecord) -> _Order:
        query, places = ranking.query, enumerate(ranking.ids, start=1)
        return cls(query.id, query.text, {doc_id: rank for rank, doc_id in places})

    @property
    def name(self) -> str:
        """The query in messages."""
        return repr((self.query_id or self.text)[:80])

    @property
    def key(self) -> str:
        """Key of the query: its id, or its text where it has none."""
        return f"id {self.query_id}" if self.query_id else f"text {self.text}"

    def discount(self, doc_id: str) -> float:
        """The discount of a document's rank in DCG; 0 if it is not ranked."""
        return 1 / math.log2(1 + self.ranks[doc_id]) if doc_id in self.ranks else 0.0


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
        SchemaError: a file cannot be read, has no ranking in it, or has a query twice; no query is
            in both; there is no such query, or it has no judgements.
    """
    if STDIN in (before, after):
        raise SchemaError("standard input cannot be compared, as it is read twice; give a file")
    one, two = _orders(before), _orders(after)

    def compared(pairs: Sequence[tuple[str, str]]) -> list[RankingComparison]:
        old = _whole(before, {key for key, _ in pairs})
        new = _whole(after, {key for _, key in pairs})
        found = []
        for was, now in pairs:
            ranking, judged = new[now], None
            if grades is not None:
                judged = grades_of(grades, ranking.query.id, source, ranking.ids)
            found.append(compare_rankings(old[was], ranking, grades=judged))
        return found

    if len(one) == len(two) == 1 and query is None:
        return compared([(next(iter(one)), next(iter(two)))])[0]
    common = [key for key in one if key in two]
    if not common:
        names = " and ".join(next(iter(side.values())).name for side in (one, two))
        raise SchemaError(
            f"{before} and {after} have no query in common: {names}; "
            "compare rankings of the same queries"
        )
    rows = {key: _row(one[key], two[key], grades) for key in common}
    ranked = sorted(common, key=lambda key: _size(rows[key], one[key], two[key]), reverse=True)
    if query is not None:
        key = ranked[place_of_query(query, [one[key].query_id for key in ranked])]
        return compared([(key, key)])[0]
    comparisons = compared([(key, key) for key in ranked[:queries]])
    lost = len(one) - len(common), len(two) - len(common)
    left_out = (
        f"{counted(lost[0], 'query', 'queries')} only in {before} and {lost[1]:,} only in "
        f"{after}; they are left out."
    )
    return _summary([rows[key] for key in ranked], [left_out] if any(lost) else [], comparisons)


def _orders(source: str) -> dict[str, _Order]:
    """Key -> the order of each ranking."""
    found: dict[str, _Order] = {}
    for where, ranking in _rankings(source):
        order = _Order.of(ranking)
        if order.key in found:
            raise SchemaError(
                f"{where}: a second ranking of query {order.name}; "
                "compare one ranking a query, each side in a file or folder of its own"
            )
        found[order.key] = order
    return found


def _rankings(source: str) -> Iterator[tuple[str, RankingRecord]]:
    files = [Path(source)]
    if Path(source).is_dir():
        files = sorted(
            each
            for each in Path(source).iterdir()
            if each.suffix.lower() in SUFFIXES and each.name[0] != "." and each.is_file()
        )
    if not files:
        raise SchemaError(
            f"{source}: has no .json or .jsonl file; give a folder with what 'mcranker rank "
            "--save' wrote, or a run folder of 'beir-eval run'"
        )
    for file in files:
        for where, data in read_rankings(file, SchemaError):
            yield where, checked(RankingRecord.from_dict, data, where, SchemaError)


def _whole(source: str, wanted: set[str]) -> dict[str, RankingRecord]:
    """Key -> ranking, of the wanted ones."""
    found: dict[str, RankingRecord] = {}
    for _, ranking in _rankings(source):
        if (key := _Order.of(ranking).key) in wanted:
            found[key] = ranking
            if len(found) == len(wanted):
                break
    return found


def _row(one: _Order, two: _Order, grades: Grades | None) -> QueryRow:
    of_query = (grades or {}).get(two.query_id, {})
    before, after = (
        ndcg([of_query.get(doc_id) for doc_id in side.ranks], of_query.values())
        if of_query
        else None
        for side in (one, two)
    )
    docs = {*one.ranks, *two.ranks}
    return QueryRow(
        query_id=two.query_id,
        text=two.text[:_LONGEST],
        moved=sum(one.ranks.get(doc_id) != two.ranks.get(doc_id) for doc_id in docs),
        passages=len(docs),
        shared=len({*list(one.ranks)[:_DEPTH]} & {*list(two.ranks)[:_DEPTH]}),
        before=before,
        after=after,
    )


def _size(row: QueryRow, one: _Order, two: _Order) -> tuple[float, float]:
    """Return the size of a query's change: by nDCG where known, then by its ranks' discounts."""
    change = 0.0 if row.before is None or row.after is None else abs(row.after - row.before)
    docs = {*one.ranks, *two.ranks}
    moves = math.fsum(abs(two.discount(doc_id) - one.discount(doc_id)) for doc_id in docs)
    return round(change, 9), moves


def _summary(
    rows: Sequence[QueryRow], notes: Sequence[str], comparisons: Sequence[RankingComparison]
) -> ComparedRuns:
    verdict = []
    judged = [
        (row.before, row.after) for row in rows if row.before is not None and row.after is not None
    ]
    if judged:
        before, after = (math.fsum(side) / len(judged) for side in zip(*judged, strict=True))
        verb = "rises" if after > before else "falls" if after < before else "stays"
        of = counted(len(judged), "judged query", "judged queries")
        verdict.append(
            f"nDCG@10 {verb}: {before:.3f} before, {after:.3f} after ({signed(after - before)}), "
            f"a mean over {of}. It is not tested whether that is more than chance; "
            "'beir-eval compare' of two runs tests it."
        )
    queries = counted(len(rows), "query", "queries")
    shared = math.fsum(row.shared for row in rows) / len(rows)
    verdict.append(
        f"In {sum(row.moved > 0 for row in rows):,} of {queries} passages moved; on average "
        f"{shared:.1f} of the first {_DEPTH} are still there."
    )
    return ComparedRuns(
        title=queries,
        notes=notes,
        verdict=verdict,
        measure="nDCG@10" if judged else "",
        rows=rows,
        comparisons=comparisons,
    )
