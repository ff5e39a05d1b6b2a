"""Comparison of saved rankings, one or many on each side, paired by their queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from personas.errors import SchemaError
from personas.format import counted, signed
from personas.io.lines import STDIN
from personas.io.rankings import SUFFIXES, checked, read_rankings
from personas.io.select import Grades, grades_of, place_of_query
from personas.ranking.comparison import ComparedRuns, QueryRow, RankingComparison
from personas.ranking.record import RankingRecord


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
    alone = len(one) == len(two) == 1 and query is None
    pairs = [*zip(one.values(), two.values(), strict=True)] if alone else []
    pairs = pairs or [(one[key], two[key]) for key in one if key in two]
    if not pairs:
        names = " and ".join(_name(next(iter(side.values()))) for side in (one, two))
        raise SchemaError(
            f"{before} and {after} have no query in common: {names}; "
            "compare rankings of the same queries"
        )
    compared = [
        RankingComparison.of(was, now, grades=(grades or {}).get(now.query.id))
        for was, now in pairs
    ]
    compared.sort(key=_size, reverse=True)
    if alone or query is not None:
        ids = [each.before.query.id for each in compared]
        found = compared[0 if query is None else place_of_query(query, ids)]
        if grades is None:
            return found
        judged = grades_of(grades, found.after.query.id, source, found.after.ids)
        return RankingComparison.of(found.before, found.after, grades=judged)
    lost = len(one) - len(pairs), len(two) - len(pairs)
    left_out = (
        f"{counted(lost[0], 'query', 'queries')} only in {before} and {lost[1]:,} only in "
        f"{after}; they are left out."
    )
    return _summary(compared, queries, [left_out] if any(lost) else [])


def _by_query(source: str) -> dict[str, RankingRecord]:
    """Key of a query, which is its id, or its text where it has none -> its ranking."""
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
    found: dict[str, RankingRecord] = {}
    for where, data in (each for file in files for each in read_rankings(file, SchemaError)):
        ranking = checked(RankingRecord.from_dict, data, where, SchemaError)
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


def _size(found: RankingComparison) -> tuple[float, float]:
    """The change of nDCG where known, then the moves by their ranks' discounts."""
    before, after = found.ndcg_before, found.ndcg_after
    change = 0.0 if before is None or after is None else abs(after - before)
    return round(change, 9), math.fsum(each.weight for each in found.passages)


def _summary(
    compared: Sequence[RankingComparison], explained: int, notes: Sequence[str]
) -> ComparedRuns:
    rows = [QueryRow.of(each, each.ndcg_before, each.ndcg_after) for each in compared]
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
            f"a mean over {of}. Not tested for significance; 'mcranker compare' of two runs does."
        )
    queries = counted(len(rows), "query", "queries")
    shared = math.fsum(row.shared for row in rows) / len(rows)
    verdict.append(
        f"Passages moved in {sum(row.moved > 0 for row in rows):,} of {queries}; on average "
        f"{shared:.1f} passages are in the first 10 of both."
    )
    return ComparedRuns(
        title=queries,
        notes=notes,
        verdict=verdict,
        measure="nDCG@10" if judged else "",
        rows=rows,
        comparisons=compared[:explained],
    )
