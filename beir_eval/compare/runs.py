"""Two runs of a data set: how much they differ, and the queries on which they differ most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from beir_eval.errors import MeasureError, RunFolderError, SettingError
from beir_eval.measures.metrics import cutoff_of
from beir_eval.measures.values import EQUAL, compare_runs
from personas.format import counted, p_text, signed
from personas.ranking.comparison import (
    ComparedRuns,
    QueryRow,
    RankingComparison,
    compare_rankings,
    setting_changes,
)
from personas.sanitize import plain

if TYPE_CHECKING:
    from beir_eval.compare.sources import Pair

Direction = Literal["both", "gains", "losses"]


def compare_pair(
    pair: Pair,
    *,
    measure: str = "nDCG@10",
    top: int = 5,
    direction: Direction = "both",
    query: str | None = None,
) -> ComparedRuns:
    """Compare two runs, and explain the queries that changed most."""
    if top < 1:
        raise SettingError(f"top={top!r} is below 1; give 1 or more")
    if query is not None and query not in pair.common:
        raise RunFolderError(
            f"no query {query[:80]!r} is in both runs with the same judgements; "
            f"the first is {pair.common[0]!r}"
        )
    sides, data = (pair.a, pair.b), pair.a.data
    values = [run.values(measure) for run in sides]
    ids = [each for each in pair.common if all(each in of_run for of_run in values)]
    if not ids:
        raise MeasureError(f"no query has a value of {measure!r} in both runs")
    values = [{each: of_run[each] for each in ids} for of_run in values]
    means = [math.fsum(of_run.values()) / len(ids) for of_run in values]
    tested = {
        name: {each: run.lots(measure).get(each, value) for each, value in of_run.items()}
        for name, run, of_run in zip("ab", sides, values, strict=True)
    }
    test = compare_runs({"": tested}, "a")[""]["b"]
    changes = {each: values[1][each] - values[0][each] for each in ids}
    chosen = _most_changed(changes, top, direction) if query is None else [query]
    comparisons = _compared(pair, chosen, cutoff_of(measure))
    warnings = [run.warnings(measure, of_run) for run, of_run in zip(sides, values, strict=True)]
    notes = [
        f"{letter}: {said}."
        for letter, run, warned in zip("AB", sides, warnings, strict=True)
        for said in (*warned, *filter(None, [run.note]))
    ]
    if pair.left_out:
        left_out = counted(pair.left_out, "judged query", "judged queries")
        notes.append(
            f"{left_out} left out, which only one of the runs has or which were judged otherwise."
        )
    p_value = "not tested: a test takes 6 queries, and differences that vary"
    if test.p_value is not None:
        p_value = p_text(test.p_value)
        p_value = f"p {p_value}" if p_value[0] == "<" else f"p = {p_value}"
    same = pair.a.label == pair.b.label
    facts = []
    for side, run, mean in zip(("A, before", "B, after"), sides, means, strict=True):
        label = f"{run.label} ({run.name})" if same else run.label
        models = f", {plain(run.models)}" if run.models else ""
        facts.append((side, f"{plain(label)}: {measure} {mean:.4f}{models}"))
    settings = (pair.a.settings, pair.b.settings)
    return ComparedRuns(
        title=f"{data.dataset}: {measure} of {counted(len(ids), 'query', 'queries')}, A to B",
        notes=notes,
        verdict=[
            f"B less A: {signed(test.difference, 4)}; better on {test.wins}, equal on {test.ties}, "
            f"worse on {test.losses}; paired t-test: {p_value}.",
            *([] if any(changes.values()) else ["No query differs."]),
        ],
        rows=[
            QueryRow(
                query_id=each.after.query.id,
                text=each.after.query.text,
                moved=len(each.movers),
                passages=len(each.passages),
                shared=each.shared_top(),
                before=values[0][each.after.query.id],
                after=values[1][each.after.query.id],
            )
            for each in comparisons
        ],
        comparisons=comparisons,
        measure=measure,
        facts=facts,
        settings=setting_changes(*settings) if all(settings) else (),
        figures={
            "dataset": data.dataset,
            "first_stage": data.first_stage_name,
            "queries_compared": len(ids),
            "left_out": pair.left_out,
            "runs": [
                {name: getattr(run, name) for name in ("name", "label", "models")}
                | {"mean": mean, "note": run.note, "warnings": list(warned)}
                for run, mean, warned in zip(sides, means, warnings, strict=True)
            ],
            "test": asdict(test),
        },
    )


def _most_changed(changes: Mapping[str, float], top: int, direction: Direction) -> list[str]:
    """Ids by falling size of the change; equal ones stay in the data set's order."""
    wanted = [
        query_id
        for query_id, change in changes.items()
        if abs(change) > EQUAL and (direction == "both" or (change > 0) == (direction == "gains"))
    ]
    # Rounded, so that equal changes stay equal whatever they are made of.
    return sorted(wanted, key=lambda query_id: -round(abs(changes[query_id]), 9))[:top]


def _compared(pair: Pair, ids: list[str], cutoff: int | None) -> list[RankingComparison]:
    sides = [run.rankings(ids) for run in (pair.a, pair.b)]
    wanted = {each.id for side in sides for ranking in side.values() for each in ranking.passages}
    # All texts at once: they are read from one large file.
    texts = {**dict.fromkeys(wanted, ("", "")), **pair.texts(wanted)}
    first_stage = pair.a.data.first_stage
    return [
        compare_rankings(
            *(side[each].with_texts(texts) for side in sides),
            grades=pair.a.data.qrels.get(each, {}),
            depth=cutoff,
            first_stage={
                doc_id: rank for rank, (doc_id, _) in enumerate(first_stage.get(each, ()), 1)
            },
        )
        for each in ids
    ]
