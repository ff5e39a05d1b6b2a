"""Comparison of two saved rankings, each in a file or folder of one or many."""

from __future__ import annotations

from pathlib import Path

from personas.errors import SchemaError
from personas.io.lines import STDIN
from personas.io.rankings import SUFFIXES, checked, read_rankings
from personas.io.select import Grades, grades_of, place_of_query
from personas.ranking.comparison import RankingComparison
from personas.ranking.record import RankingRecord


def compare_files(
    before: str, after: str, *, query: str | None = None, grades: Grades | None = None, source: str
) -> RankingComparison:
    """Compare saved rankings of a query; `query` names it where there are several."""
    if STDIN in (before, after):
        raise SchemaError("standard input cannot be compared; give files")
    one, two = _by_query(before), _by_query(after)
    if query is None and len(one) == len(two) == 1:
        (was,), (now,) = one.values(), two.values()
    else:
        ids = [two[key].query.id for key in one if key in two]
        if not ids:
            names = " and ".join(_name(next(iter(side.values()))) for side in (one, two))
            raise SchemaError(
                f"{before} and {after} have no query in common: {names}; "
                "compare rankings of the same queries"
            )
        if query is None and len(ids) > 1:
            raise SchemaError(
                f"{before} and {after} have {len(ids):,} queries in common; name one with "
                "--query ID, or compare runs of 'beir-eval run'"
            )
        key = [key for key in one if key in two][0 if query is None else place_of_query(query, ids)]
        was, now = one[key], two[key]
    judged = None if grades is None else grades_of(grades, now.query.id, source, now.ids)
    return RankingComparison.of(was, now, grades=judged)


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
