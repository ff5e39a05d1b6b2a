"""Run folders for tests: made by a scripted model in a moment, or with values by chance only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from beir_eval.experiment.run_folder import (
    DATA_FOLDER,
    FIRST_STAGE,
    FigureNote,
    Metrics,
    SuiteNote,
    TieBounds,
)
from beir_eval.files import write_form
from tests.support.run_folder_files import MEASURE, Plan, write_data, write_run

SuiteOf = Callable[[int, str], SuiteNote | None]
"""The note of the ranker in that place, with that label."""


def no_suite(place: int, label: str) -> None:
    """For runs that were started by flags."""


def table1(place: int, label: str) -> SuiteNote:
    """A suite with the paper's table 1 beside it, and DIRECT(0,10) as the baseline."""
    return SuiteNote(
        name="table1",
        title="Team compositions and DIRECT",
        paper_table="table_5_and_1",
        baseline="DIRECT(0,10)",
        place=place,
        paper_row=label,
    )


def fig2(place: int, label: str) -> SuiteNote:
    """A suite with a line figure over 1, 2, 3, ..."""
    figure = FigureNote(kind="line", title="Number of recruits", x_label="recruits", paper="fig_2")
    return SuiteNote(
        name="fig2", title="How many recruits", figure=figure, place=place, x=float(place + 1)
    )


def fig4(place: int, label: str) -> SuiteNote:
    """A suite with bars, one a ranker."""
    figure = FigureNote(kind="bars", title="Models by role", paper="fig_4")
    return SuiteNote(name="fig4", title="Which model where", figure=figure, place=place, x=label)


def make_run_folders(
    out: Path,
    *,
    datasets: Sequence[str] = ("scifact",),
    labels: Sequence[str] = ("DIRECT(0,10)", "MC: 2 recruits"),
    suite: SuiteOf = table1,
    queries: int = 4,
    passages: int = 5,
    seed: int = 0,
    rankings: bool = True,
    faults: bool = False,
    weak: bool = False,
    model: str = "scripted:by-chance",
    unfinished: Collection[tuple[str, str]] = (),
) -> Path:
    """Write folders as `beir_eval.experiment.run_folder` describes them; always the same bytes.

    Labels that start with ``DIRECT`` are ranked by `DirectRanker`, others by `MCRanker` with two
    recruits, and a model that scores a little better than chance. Without `rankings` values are
    made up. With `faults` the last query finds nothing, the first is not ranked, some scores are
    missing. Runs that are `unfinished` have nothing but their manifest.
    """
    for dataset in datasets:
        plan = Plan(dataset, queries, passages, seed, rankings, faults, weak, model)
        folder = out / dataset
        data = write_data(folder / DATA_FOLDER, plan)
        for place, label in enumerate(labels):
            note = suite(place, label)
            finished = (dataset, label) not in unfinished
            write_run(folder_of(out, dataset, label), label, note, plan, data, finished=finished)
    return out


def folder_of(out: Path, dataset: str, label: str) -> Path:
    """Where `make_run_folders` puts a run; for ``"first stage"``, the data."""
    name = DATA_FOLDER if label == FIRST_STAGE else label.replace(" ", "_").replace(":", "")
    return out / dataset / name


def set_values(
    out: Path,
    dataset: str,
    label: str,
    values: Sequence[float],
    *,
    by_lot: Sequence[float] | None = None,
) -> None:
    """Give a run, or the first stage, these values of nDCG@10, in the order of the queries.

    `by_lot`: those with ties drawn by lot, if they are others.
    """
    path = folder_of(out, dataset, label) / "metrics.json"
    metrics = Metrics.model_validate_json(path.read_bytes())
    ids = list(metrics.per_query[MEASURE])
    mean = sum(values) / len(values)
    lots = values if by_lot is None else by_lot
    by_lots = sum(lots) / len(lots)
    ends = (mean, by_lots)
    write_form(
        path,
        metrics.model_copy(
            update={
                "means": {MEASURE: mean},
                "per_query": {MEASURE: dict(zip(ids, values, strict=True))},
                "ties": {MEASURE: TieBounds(worst=min(ends), best=max(ends), by_lot=by_lots)},
                "by_lot": {MEASURE: dict(zip(ids, lots, strict=True))},
            }
        ),
    )
