"""Tests of what teams have over other orders: by lot, by the same model, corrected for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beir_eval.experiment.run_folder import FIRST_STAGE, Metrics, RunManifest
from beir_eval.persona_report.build import write_persona_report
from beir_eval.persona_report.sources import differences, find_sources
from beir_eval.report.load import Loader
from personas.survey import Difference
from tests.support.report_runs import change
from tests.support.run_folders import folder_of, make_run_folders, set_values

DIRECT, TEAM, OTHER = "DIRECT(0,10)", "MC: 2 recruits", "MC: 1 recruit"
MEASURE = "nDCG@10"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A team that is better than both others by 0.1, 0.3 and 0.2 as ranked."""
    make_run_folders(tmp_path / "runs", labels=[DIRECT, TEAM], queries=6)
    for label in (FIRST_STAGE, DIRECT):
        set_values(tmp_path / "runs", "scifact", label, [0.4] * 6)
    set_values(tmp_path / "runs", "scifact", TEAM, [0.5, 0.7, 0.6] * 2)
    return tmp_path / "runs"


def metrics(runs: Path, label: str, **fields: Any) -> None:
    change(folder_of(runs, "scifact", label) / "metrics.json", Metrics, **fields)


def compared(runs: Path, against: str | None = None) -> dict[str, Difference]:
    found, _ = differences(
        find_sources([runs], against)[0], Loader(MEASURE)
    )  # the team's, and DIRECT's
    return {each.against: each for each in found}


def test_gains_are_tested_query_by_query(runs: Path) -> None:
    found = compared(runs)
    assert list(found) == ["BM25", DIRECT]
    first = found["BM25"]
    # Gains 0.1, 0.3, 0.2, twice: mean 0.2, sd sqrt(0.04 / 5); t(5) of 97.5% is 2.570582.
    assert first.queries == 6
    assert first.ours == pytest.approx(0.6)
    assert first.mean == pytest.approx(0.2)
    assert first.low == pytest.approx(0.2 - 0.0938644)
    assert first.high == pytest.approx(0.2 + 0.0938644)
    assert first.sign == 1
    # t = 0.2 / (sd / sqrt(6)) = sqrt(30) on 5 degrees of freedom: p = 0.00276496.
    # Two comparisons: Holm doubles the smaller.
    assert first.p_value == pytest.approx(2 * 0.00276496, abs=1e-6)


def test_all_runs_of_a_report_are_one_family(tmp_path: Path) -> None:
    make_run_folders(tmp_path, labels=[DIRECT, TEAM, OTHER], queries=6)
    for label in (FIRST_STAGE, DIRECT):
        set_values(tmp_path, "scifact", label, [0.4] * 6)
    for label in (TEAM, OTHER):
        set_values(tmp_path, "scifact", label, [0.5, 0.7, 0.6] * 2)
    found = differences(find_sources([tmp_path])[0], Loader(MEASURE))
    assert [len(each) for each in found] == [2, 2, 1]
    p_values = [each.p_value for of in found[:2] for each in of]
    assert p_values == pytest.approx([4 * 0.00276496] * 4, abs=1e-6)
    # DIRECT has an interval, and no part in the teams' correction.
    (direct,) = found[2]
    assert (direct.p_value, direct.why_not) == (None, "this report tests its teams alone")
    assert (direct.mean, direct.low, direct.high) == (0.0, 0.0, 0.0)


def test_a_lead_by_ties_is_none(runs: Path) -> None:
    """As ranked the team is better by 0.2 everywhere; with ties drawn by lot it is not."""
    set_values(runs, "scifact", TEAM, [0.6, 0.61, 0.6] * 2)
    assert compared(runs)[DIRECT].sign == 1
    ids = [f"scifact-q{number}" for number in range(1, 7)]
    metrics(runs, TEAM, by_lot={MEASURE: dict(zip(ids, (0.4, 0.41, 0.39) * 2, strict=True))})
    lot = compared(runs)[DIRECT]
    assert lot.sign == 0
    assert lot.mean == pytest.approx(0.0)


def test_another_model_makes_no_verdict(runs: Path) -> None:
    """DIRECT of another model is not taken, and only shown where it is named."""
    set_values(runs, "scifact", TEAM, [0.6, 0.61, 0.6] * 2)
    path = folder_of(runs, "scifact", DIRECT) / "manifest.json"
    change(path, RunManifest, models={"scoring": "openai:other"})
    assert list(compared(runs)) == ["BM25"]
    named = compared(runs, DIRECT)[DIRECT]
    assert (named.p_value, named.sign) == (None, 0)
    assert named.why_not == "its judge is openai:other, and here it is scripted:by-chance"
    out = runs.parent / "pages"
    write_persona_report([folder_of(runs, "scifact", TEAM)], out, against=DIRECT)
    page = (out / "index.html").read_text()
    assert "Not tested against" in page
    assert "better than <bdi>DIRECT" not in page
    assert json.loads((out / "figures.json").read_text())["differences"][1]["p_value"] is None


@pytest.mark.parametrize("label", [TEAM, DIRECT])
def test_failed_queries_that_could_change_it_make_no_verdict(runs: Path, label: str) -> None:
    metrics(runs, label, failed={"scifact-q1": "no reply"})
    found = compared(runs)
    assert found[DIRECT].why_not.startswith(f"what {label} lacks")
    assert (found["BM25"].p_value is None) is (label == TEAM)
