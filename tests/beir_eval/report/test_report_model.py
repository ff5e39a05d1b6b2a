"""Contents of a report: sections, rows, columns, ranks, comparisons, notes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from beir_eval.errors import MeasureError, RunFolderError, SettingError
from beir_eval.experiment.run_folder import (
    FIRST_STAGE,
    DataManifest,
    Metrics,
    RunManifest,
    SuiteNote,
    find_runs,
)
from beir_eval.report.build import build_report
from tests.support.report_runs import (
    DIRECT,
    ONE,
    TWO,
    cell_of,
    change,
    made,
    only,
    report_on,
    row_of,
)
from tests.support.run_folders import (
    fig2,
    folder_of,
    make_run_folders,
    no_suite,
    set_values,
    table1,
)

BM25 = "BM25"  # what tables call the first stage, where it has one name


def test_sections_columns_and_rows_have_an_order_that_does_not_depend_on_the_folders(
    tmp_path: Path,
) -> None:
    def table10(place: int, label: str) -> SuiteNote:
        return table1(place, label).model_copy(update={"name": "table10", "title": "Ten"})

    made(tmp_path / "z", datasets=["mini", "nfcorpus", "touche"], labels=[TWO, DIRECT])
    made(tmp_path / "y", suite=table10)
    made(tmp_path / "x", suite=no_suite, labels=["b", "a10", "a9"])
    runs = find_runs([tmp_path])
    report = build_report(runs)
    assert [section.name for section in report.sections] == ["table1", "table10", "runs"]
    assert [column.name for column in report.sections[0].columns] == ["touche", "nfcorpus", "mini"]
    # By place in the suite; without one, by label.
    assert [row.label for row in report.sections[0].rows] == [BM25, TWO, DIRECT]
    assert [row.label for row in report.sections[2].rows] == [BM25, "a9", "a10", "b"]
    assert [section.title for section in report.sections] == [
        "Team compositions and DIRECT",
        "Ten",
        "Runs",
    ]
    random.Random(1).shuffle(runs)
    assert build_report(runs) == report


def test_values_averages_and_ranks(tmp_path: Path) -> None:
    made(tmp_path, datasets=["touche", "scifact"], labels=[DIRECT, TWO, ONE])
    means = {
        FIRST_STAGE: (0.5, 0.2),  # average 0.35
        DIRECT: (0.5, 0.4),  # 0.45, second
        TWO: (0.7, 0.1),  # 0.40
        ONE: (0.4, 0.6),  # 0.50, best
    }
    for label, (touche, scifact) in means.items():
        set_values(tmp_path, "touche", label, [touche] * 4)
        set_values(tmp_path, "scifact", label, [scifact] * 4)
    section = only(report_on(tmp_path))
    assert [column.name for column in section.columns] == ["touche", "scifact"]
    ranks = {row.label: [cell.rank for cell in row.cells if cell] for row in section.rows}
    assert ranks == {BM25: [2, 0], DIRECT: [2, 2], TWO: [1, 0], ONE: [0, 1]}
    for row in section.rows:
        assert row.average == pytest.approx(
            sum(means[FIRST_STAGE if row.label == BM25 else row.label]) / 2, abs=1e-15
        )


def test_papers_numbers_stand_beside_and_its_average_is_over_the_same_sets(tmp_path: Path) -> None:
    made(tmp_path, datasets=["touche", "scifact", "nfcorpus"], labels=[DIRECT, TWO, "Ours"])
    section = only(report_on(tmp_path))
    # Table 5, touche, scifact, nfcorpus.
    papers = {
        BM25: [0.4422, 0.6789, 0.3075],
        DIRECT: [0.2522, 0.7008, 0.3752],
        TWO: [0.3142, 0.7186, 0.3836],
        "Ours": [None, None, None],
    }
    assert {row.label: [cell.paper for cell in row.cells if cell] for row in section.rows} == papers
    # (31.42 + 71.86 + 38.36) / 3 = 141.64 / 3 = 47.2133...
    assert row_of(section, TWO).paper_average == pytest.approx(1.4164 / 3, abs=1e-12)
    assert row_of(section, "Ours").paper_average is None
    assert [column.paper_queries for column in section.columns] == [49, 300, 323]
    assert "GPT-4-1106-Preview" in section.paper_source


def test_comparisons_with_the_suites_baseline_are_one_family(tmp_path: Path) -> None:
    made(tmp_path, labels=[DIRECT, TWO], queries=6)
    set_values(tmp_path, "scifact", DIRECT, [0.2, 0.2, 0.4, 0.6, 0.2, 0.2])
    set_values(tmp_path, "scifact", TWO, [0.3, 0.4, 0.7, 0.6, 0.3, 0.4])
    set_values(tmp_path, "scifact", FIRST_STAGE, [0.4, 0.0, 0.6, 0.4, 0.4, 0.0])
    report = report_on(tmp_path)
    section = only(report)
    assert section.baseline == DIRECT
    assert [row.is_baseline for row in section.rows] == [False, True, False]
    assert cell_of(section, DIRECT).comparison is None
    two, first = (cell_of(section, each).comparison for each in (TWO, BM25))
    assert two is not None
    assert first is not None
    # d = 0.1, 0.2, 0.3, 0, 0.1, 0.2: mean 0.15, sd sqrt(0.055 / 5), t = 3.5032 on 5 degrees of
    # freedom, two-sided p 0.01722.
    assert two.difference == pytest.approx(0.15, abs=1e-12)
    assert two.p_value == pytest.approx(0.01722, abs=1e-5)
    assert (two.wins, two.ties, two.losses, two.decision) == (5, 1, 0, "better")
    # Holm, two comparisons: the smaller p twice. The other: d = 0.2, -0.2, ...: mean 0, p 1.
    assert two.p_adjusted == pytest.approx(2 * 0.01722, abs=2e-5)
    assert first.p_value == pytest.approx(1.0, abs=1e-12)
    # DIRECT: mean 0.3, sd sqrt(0.14 / 5), t(5, 0.975) = 2.570582: 0.3 +- 0.175604.
    ends = cell_of(section, DIRECT).values.interval
    assert (ends.low, ends.high) == pytest.approx((0.124396, 0.475604), abs=1e-6)


def test_baseline_is_the_one_asked_for_where_a_section_has_it(tmp_path: Path) -> None:
    made(tmp_path / "a", labels=[DIRECT, TWO])
    made(tmp_path / "b", labels=["x", "y"], suite=fig2)
    assert [each.baseline for each in report_on(tmp_path).sections] == [BM25, DIRECT]
    report = report_on(tmp_path, baseline=TWO)
    assert [each.baseline for each in report.sections] == [BM25, TWO]
    report = report_on(tmp_path, baseline=FIRST_STAGE)
    assert [each.baseline for each in report.sections] == [BM25, BM25]
    with pytest.raises(SettingError, match=r"'z' is no label .* 'DIRECT\(0,10\)', 'MC: 2 recruits"):
        report_on(tmp_path, baseline="z")


def test_unfinished_runs_are_listed_and_not_counted(tmp_path: Path) -> None:
    unfinished = [("touche", TWO), ("nfcorpus", DIRECT), ("nfcorpus", TWO)]
    made(tmp_path, datasets=["touche", "nfcorpus", "scifact"], unfinished=unfinished)
    section = only(report_on(tmp_path))
    # Nothing is finished on nfcorpus.
    assert [column.name for column in section.columns] == ["touche", "scifact"]
    assert sorted(section.unfinished) == sorted(unfinished)
    assert row_of(section, TWO).cells[0] is None
    assert row_of(section, TWO).average is None
    assert row_of(section, DIRECT).average is not None


def test_a_report_on_nothing_finished_says_so(tmp_path: Path) -> None:
    made(tmp_path, unfinished=[("scifact", DIRECT), ("scifact", TWO)])
    report = report_on(tmp_path)
    assert report.measure == "nDCG@10"
    assert only(report).rows == ()
    assert only(report).columns == ()
    assert len(only(report).unfinished) == 2
    with pytest.raises(SettingError, match="there is no finished run at all"):
        report_on(tmp_path, baseline=TWO)


def test_one_label_in_two_folders_makes_two_rows(tmp_path: Path) -> None:
    made(tmp_path / "old" / "runs", datasets=["scifact", "touche"])
    made(tmp_path / "new" / "runs", labels=[DIRECT])
    set_values(tmp_path / "new" / "runs", "scifact", DIRECT, [1.0] * 4)
    section = only(report_on(tmp_path))
    new, old = (f"{DIRECT} ({each}/runs)" for each in ("new", "old"))
    assert [row.label for row in section.rows] == [BM25, new, old, TWO]
    assert cell_of(section, new, 1).value == 1.0
    assert [cell is None for cell in row_of(section, new).cells] == [True, False]
    # In one folder, by the folders of the runs.
    out = made(tmp_path / "once", labels=[DIRECT, TWO])
    change(folder_of(out, "scifact", TWO) / "manifest.json", RunManifest, label=DIRECT)
    labels = [row.label for row in only(report_on(out)).rows]
    assert labels == [BM25, f"{DIRECT} (DIRECT(0,10))", f"{DIRECT} (MC_2_recruits)"]


def test_another_measure_is_computed_from_the_runs(tmp_path: Path) -> None:
    make_run_folders(tmp_path, queries=3)
    run = find_runs([tmp_path])[0]
    report = report_on(tmp_path, measure="P@1")
    section = only(report)
    assert report.measure == "P@1"
    qrels = run.data().qrels()
    for label, ranked in ((DIRECT, run.run()), (BM25, run.data().first_stage())):
        hits = [qrels[query][documents[0][0]] > 0 for query, documents in ranked.items()]
        assert cell_of(section, label).value == pytest.approx(sum(hits) / 3, abs=1e-12)
    # The paper's numbers are of nDCG@10.
    assert all(cell.paper is None for row in section.rows for cell in row.cells if cell)
    assert cell_of(section, DIRECT).judged is not None


def test_measures_that_do_not_exist_or_do_not_fit_are_errors(tmp_path: Path) -> None:
    make_run_folders(tmp_path, labels=[DIRECT])
    with pytest.raises(MeasureError, match="measure 'nDGC@10'"):
        report_on(tmp_path, measure="nDGC@10")
    with pytest.raises(MeasureError, match="'NumRet' has values outside 0 to 1"):
        report_on(tmp_path, measure="NumRet")


def test_metrics_of_other_queries_than_the_first_stages_are_an_error(tmp_path: Path) -> None:
    made(tmp_path, labels=[DIRECT])
    path = folder_of(tmp_path, "scifact", DIRECT) / "metrics.json"
    change(path, Metrics, per_query={"nDCG@10": {"stranger": 1.0}})
    with pytest.raises(RunFolderError, match=r"DIRECT\(0,10\): its metrics .* 'scifact-q1'"):
        report_on(tmp_path)


def test_the_first_stage_has_its_name_where_that_tells_rows_apart(tmp_path: Path) -> None:
    made(tmp_path / "a", datasets=["scifact", "touche"])
    path = folder_of(tmp_path / "a", "scifact", FIRST_STAGE) / "manifest.json"
    data = DataManifest.model_validate_json(path.read_bytes())
    assert only(report_on(tmp_path)).rows[0].label == BM25
    assert only(report_on(tmp_path, baseline=BM25)).baseline == BM25
    change(path, DataManifest, first_stage=data.first_stage.model_copy(update={"name": "dense"}))
    section = only(report_on(tmp_path, baseline=FIRST_STAGE))
    assert (section.rows[0].label, section.baseline) == (FIRST_STAGE, FIRST_STAGE)
    with pytest.raises(SettingError, match="'BM25' is no label"):
        report_on(tmp_path, baseline=BM25)
    made(tmp_path / "b", labels=[BM25, DIRECT])
    section = only(report_on(tmp_path / "b"))
    assert [row.label for row in section.rows] == [FIRST_STAGE, BM25, DIRECT]
