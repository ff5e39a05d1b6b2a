"""Comparison of saved rankings, one or many on each side, paired by their queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from personas.errors import SchemaError
from personas.format import counted, signed
from personas.io.lines import STDIN
from personas.io.rankings import SUFFIXES, checked, read_rankings
from personas.io.select import Grades, grades_of, place_of_query
from personas.ranking.agreement import ndcg
from personas.ranking.comparison import ComparedRuns, QueryRow, RankingComparison, compare_rankings
from personas.ranking.record import RankingRecord

_LONGEST = 300  # characters of a query in a list
_DEPTH = 10


def compare_files(
    before: str,
    after: str,
    *,
    query: str | None = None,
    queries: int = 5,
    grades: Grades | None = None,
    source: str = "",
) -> RankingComparison | ComparedRuns:
    """Compare saved rankings: of one query, or of several."""
    if STDIN in (before, after):
        raise SchemaError("standard input cannot be compared; give files")
    one, two = _by_query(before), _by_query(after)

    def compared(was: RankingRecord, now: RankingRecord) -> RankingComparison:
        judged = None
        if grades is not None:
            judged = grades_of(grades, now.query.id, source, now.ids)
        return compare_rankings(was, now, grades=judged)

    if len(one) == len(two) == 1 and query is None:
        return compared(*one.values(), *two.values())
    pairs = {key: (one[key], two[key]) for key in one if key in two}
    if not pairs:
        names = " and ".join(_name(next(iter(side.values()))) for side in (one, two))
        raise SchemaError(
            f"{before} and {after} have no query in common: {names}; "
            "compare rankings of the same queries"
        )
    rows = {key: _row(*pair, grades) for key, pair in pairs.items()}
    ranked = sorted(pairs, key=lambda key: _size(rows[key], *pairs[key]), reverse=True)
    if query is not None:
        place = place_of_query(query, [pairs[key][0].query.id for key in ranked])
        return compared(*pairs[ranked[place]])
    lost = len(one) - len(pairs), len(two) - len(pairs)
    left_out = (
        f"{counted(lost[0], 'query', 'queries')} only in {before} and {lost[1]:,} only in "
        f"{after}; they are left out."
    )
    explained = [compared(*pairs[key]) for key in ranked[:queries]]
    return _summary([rows[key] for key in ranked], [left_out] if any(lost) else [], explained)


def _by_query(source: str) -> dict[str, RankingRecord]:
    """Key of a query, which is its id, or its text where it has none -> its ranking."""
    found: dict[str, RankingRecord] = {}
    for where, ranking in _rankings(source):
        key = f"id {ranking.query.id}" if ranking.query.id else f"text {ranking.query.text}"
        if key in found:
            raise SchemaError(
                f"{where}: a second ranking of query {_name(ranking)}; "
                "compare one ranking a query, each side in a file or folder of its own"
            )
        found[key] = ranking
    return found


def _name(ranking: RankingRecord) -> str:
    return repr((ranking.query.id or ranking.query.text)[:80])


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


def _ranks(ranking: RankingRecord) -> Mapping[str, int]:
    return {doc_id: rank for rank, doc_id in enumerate(ranking.ids, start=1)}


def _row(one: RankingRecord, two: RankingRecord, grades: Grades | None) -> QueryRow:
    of_query = (grades or {}).get(two.query.id, {})
    before, after = (
        ndcg([of_query.get(doc_id) for doc_id in side.ids], of_query.values()) if of_query else None
        for side in (one, two)
    )
    was, now = _ranks(one), _ranks(two)
    docs = {*was, *now}
    return QueryRow(
        query_id=two.query.id,
        text=two.query.text[:_LONGEST],
        moved=sum(was.get(doc_id) != now.get(doc_id) for doc_id in docs),
        passages=len(docs),
        shared=len({*one.ids[:_DEPTH]} & {*two.ids[:_DEPTH]}),
        before=before,
        after=after,
    )


def _size(row: QueryRow, one: RankingRecord, two: RankingRecord) -> tuple[float, float]:
    """Return the size of a query's change: by nDCG where known, then by its ranks' discounts."""
    change = 0.0 if row.before is None or row.after is None else abs(row.after - row.before)
    sides = [
        {doc_id: 1 / math.log2(1 + rank) for doc_id, rank in _ranks(side).items()}
        for side in (one, two)
    ]
    moves = (
        abs(sides[0].get(doc, 0.0) - sides[1].get(doc, 0.0)) for doc in {**sides[0], **sides[1]}
    )
    return round(change, 9), math.fsum(moves)


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
