"""Reports on rankers that owe what they have to the first stage's order of tied scores."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from beir_eval.compare import compare_run_folders
from beir_eval.experiment.cell import CellResult, Plan
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import FIRST_STAGE, Metrics, ScoreCounts
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite
from beir_eval.measures.ties import Tied, tie_figures
from beir_eval.report.forms import render_markdown
from mcranker import ChatRequest, RankGPTRanker, ScriptedChat
from personas.ensembles import ENSEMBLES
from tests.support.beir_folder import write_folder
from tests.support.comparing import shown_in
from tests.support.experiment_support import MEASURE, constant, plan
from tests.support.plugins import installed
from tests.support.report_runs import cell_of, change, made, only, report_on
from tests.support.run_folders import set_values

BM25 = "BM25"
TEAM = {"team": ("Ann", "Ben", "Cid"), "criteria": "none", "scale": 2}
BY_RANK = {"ensemble": "ordinal"}
ORDINAL = """
import numpy as np
from personas import Ensemble
def ordinal(scores):
    ranks = np.argsort(np.argsort(-scores, axis=0, kind="stable"), axis=0)
    return (1 / (1 + ranks)).sum(axis=1)
ORDINAL = Ensemble("ordinal", ordinal, "Reciprocal ranks; first-stage order parts equal scores.")
"""


@pytest.fixture(autouse=True)
def _ordinal(tmp_path: Path) -> Iterator[None]:
    folder = tmp_path / "packages"
    folder.mkdir()
    with installed(folder, ENSEMBLES, ORDINAL, ordinal="ORDINAL"):
        yield


def suite_of(folder: Path, **rankers: Mapping[str, object]) -> Suite:
    specs = tuple(
        RankerSpec(label, "mcranker", {**TEAM, **options}, note=None, own=frozenset(options))
        for label, options in rankers.items()
    )
    return Suite("ties", "Ties", "", (DatasetSpec(str(folder), about="Notes."),), specs, depth=20)


def run_with_ordinal_ranks(folder: Path, plan: Plan) -> list[CellResult]:
    """Run a ranker ``ranks``, whose equal scores have ranks by first stage."""
    return run_suite(suite_of(folder, ranks=BY_RANK), plan)


def by_chance() -> ScriptedChat:
    def answer(request: ChatRequest) -> str:
        tag = request.tag
        drawn = random.Random(f"{tag.query_id} {tag.doc_id} {tag.persona}")
        return json.dumps({"Score": drawn.randint(0, 2)})

    return ScriptedChat(answer, name="scripted:by-chance")


def test_the_same_score_for_everything_is_worth_the_same_to_every_ensemble(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    run_suite(suite_of(folder, sum={}), plan(tmp_path / "out", constant(2)))
    run_with_ordinal_ranks(folder, plan(tmp_path / "out", constant(2)))
    section = only(report_on(tmp_path / "out", baseline="sum"))
    first, total, ranks = (cell_of(section, label) for label in (BM25, "sum", "ranks"))
    # As ranked, all three are the first stage.
    assert first.value == total.value == ranks.value
    # Nothing of it is theirs: without the first stage's order they are equal, and lower.
    assert ranks.honest == total.honest < first.value
    assert ranks.rank == total.rank != first.rank
    assert ranks.comparison is not None
    assert ranks.comparison.p_value is None
    assert ranks.comparison.ties == 4
    assert ranks.metrics is not None
    assert ranks.metrics.ties[MEASURE].worst < ranks.honest < ranks.metrics.ties[MEASURE].best
    said = render_markdown(report_on(tmp_path / "out", baseline="sum"))
    assert "| tiny (n = 4) | tiny, ties by lot |" in said


def test_bold_goes_by_lot(tmp_path: Path) -> None:
    made(tmp_path, labels=["A", "B"])
    set_values(tmp_path, "scifact", "A", [0.9, 0.8, 0.9, 0.8], by_lot=[0.2, 0.3, 0.2, 0.3])
    set_values(tmp_path, "scifact", "B", [0.5, 0.6, 0.5, 0.6])
    set_values(tmp_path, "scifact", FIRST_STAGE, [0.1] * 4)
    report = report_on(tmp_path)
    section = only(report)
    assert [cell_of(section, each).rank for each in ("A", "B", BM25)] == [2, 1, 0]
    lines = render_markdown(report).splitlines()
    assert "| A | 0.850 | <u>0.250</u>§" in next(each for each in lines if each.startswith("| A |"))
    assert "| B | 0.550 | **0.550**" in next(each for each in lines if each.startswith("| B |"))


def test_a_measure_that_the_folder_lacks_gets_its_ties_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    run_with_ordinal_ranks(folder, plan(tmp_path / "out", by_chance()))
    other = cell_of(only(report_on(tmp_path / "out", measure="P@3")), "ranks")
    assert other.metrics is not None
    assert other.metrics.ties["P@3"].worst <= other.honest <= other.metrics.ties["P@3"].best
    assert other.metrics.ties["P@3"].worst < other.metrics.ties["P@3"].best


def test_passages_that_no_reply_has_decided_are_drawn_by_lot() -> None:
    """The first window, a b c, fails, the other, c d e, gives d e c: a b d may be in any order.

    Its nDCG, if only b is relevant, is 1, 1 / log2(3) or 1 / 2.
    """

    def answer(request: ChatRequest) -> str:
        return "I cannot tell." if "text a" in shown_in(request).values() else "[2] > [3] > [1]"

    docs = {name: f"text {name}" for name in "abcde"}
    with RankGPTRanker(
        model=ScriptedChat(answer), ledger=None, repair_attempts=0, window=3, step=2
    ) as ranker:
        ranking = ranker.rank("masks", docs)
    assert ranking.ids == list("abdec")
    assert ranking.undecided == ((1, 3),)
    found = tie_figures({f"q{n}": Tied.of_ranking(ranking) for n in range(50)}, {"q1": {"b": 1}})
    bounds = found.bounds[MEASURE]
    assert (bounds.worst, bounds.best) == (0.5, 1.0)
    # 100 draws with a standard deviation of 0.2116: 4 standard errors are 0.085.
    expected = (1 + 1 / math.log2(3) + 0.5) / 3
    assert bounds.by_lot == pytest.approx(expected, abs=0.085)


def test_two_runs_side_by_side_tell_what_they_owe_to_ties_and_missing_scores(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path / "tiny")
    (a,) = run_suite(suite_of(folder, sum={}), plan(tmp_path / "out", constant(2)))
    (b,) = run_with_ordinal_ranks(folder, plan(tmp_path / "out", constant(2)))
    lost = ScoreCounts(asked=1200, missing=30)
    change(b.path / "metrics.json", Metrics, scores=lost)
    compared = compare_run_folders(str(a.path), str(b.path))
    assert a.metrics is not None
    value, ties = a.metrics.means[MEASURE], a.metrics.ties[MEASURE].by_lot
    owed = (
        f"with ties drawn by lot, its mean is {ties:.4f} and not {value:.4f}; the test goes by "
        "that, queries are shown as ranked"
    )
    notes = [each.partition("; the mean lies")[0] for each in compared.notes]
    assert notes[:4] == [
        f"A: {owed}.",
        "B: files were changed after the run: metrics.json.",
        f"B: {owed}.",
        "B: 30 of 1,200 scores are missing (2.5%).",
    ]
    # Both are the first stage's order, by lot as well: nothing differs.
    assert compared.figures["test"]["p_value"] is None
