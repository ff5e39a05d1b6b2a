"""Experiments: what they measure, what they ask for, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beir_eval import evaluate, load
from beir_eval.errors import SettingError
from beir_eval.experiment.cell import CellResult
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import DataFolder
from beir_eval.experiment.suite import DatasetSpec, Suite
from tests.support.beir_folder import GRADES, knowing, write_folder
from tests.support.experiment_support import MEASURE, RANKERS, constant, plan, suite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def by_label(results: list[CellResult]) -> Iterator[tuple[str, float, float]]:
    for result in results:
        assert result.metrics is not None
        assert result.first_stage is not None
        yield result.label, result.metrics.means[MEASURE], result.first_stage.means[MEASURE]


def test_true_judgements_give_the_ideal_order(folder: Path, tmp_path: Path) -> None:
    dataset = load(folder)
    data = run_suite(suite(folder), plan(tmp_path / "out", knowing()))
    found = DataFolder.open(tmp_path / "out" / "tiny" / "data").first_stage()
    ideal = {
        query_id: sorted(ranked, key=lambda hit: -GRADES[query_id].get(hit[0], 0))
        for query_id, ranked in found.items()
    }
    best = evaluate(ideal, dataset.qrels).means[MEASURE]
    values = {label: (value, first) for label, value, first in by_label(data)}
    assert set(values) == set(RANKERS)
    for label, (value, first) in values.items():
        assert value == pytest.approx(best, abs=1e-12), label
        assert first < best


def test_constant_scores_leave_the_first_stage(folder: Path, tmp_path: Path) -> None:
    results = run_suite(suite(folder), plan(tmp_path / "out", constant(5)))
    for label, value, first in by_label(results):
        assert value == first, label
    ties = {result.label: result.metrics.ties[MEASURE] for result in results if result.metrics}
    assert len(ties) == len(RANKERS)
    for label, value, _ in by_label(results):
        assert ties[label].worst < value < ties[label].best, label
        # Without the first stage's order there is nothing that tells them apart.
        assert ties[label] == ties["DIRECT"], label


def test_ensembles_of_the_same_scores_cost_one(folder: Path, tmp_path: Path) -> None:
    labels = ("sum", "reciprocal rank", "assessor")
    options = {"ledger": tmp_path / "ledger.sqlite"}
    results = run_suite(suite(folder, *labels), plan(tmp_path / "out", knowing(), options=options))
    calls = {result.label: result.calls for result in results}
    taken = {
        result.label: result.metrics.taken.calls
        for result in results
        if result.metrics is not None and result.metrics.taken is not None
    }
    assert calls["reciprocal rank"] == 0
    assert taken["reciprocal rank"] == taken["sum"] == calls["sum"]
    # The assessor is asked once a distinct passage; a team of three scores each thrice.
    assert calls["assessor"] == taken["assessor"] - taken["sum"] > 0


def test_criteria_of_the_data_set_need_words(folder: Path, tmp_path: Path) -> None:
    bare = suite(folder, "data set's criteria")
    speechless = Suite("made", "", "", (DatasetSpec(str(folder)),), bare.rankers)
    with pytest.raises(SettingError, match="--about"):
        run_suite(speechless, plan(tmp_path / "out", knowing()))
