"""Figures of a report, and the sentences below its tables."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import (
    FIRST_STAGE,
    DataManifest,
    FigureNote,
    Metrics,
    RunManifest,
    SuiteNote,
)
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite
from beir_eval.report import tables as numbers
from beir_eval.report.forms import render_html, render_json, render_latex, render_markdown
from beir_eval.report.tables import MISSING_SIGN, TIES_SIGN
from beir_eval.report.warnings import warnings
from mcranker import ChatRequest, ScriptedChat
from tests.support.beir_folder import GRADES, write_folder
from tests.support.experiment_support import plan
from tests.support.report_runs import DIRECT, TWO, cell_of, change, made, only, report_on, row_of
from tests.support.run_folders import fig2, fig4, folder_of, no_suite, set_values, table1

QG = "QG (FLAN PaLM2 S)"


def figure_of(out: Path) -> list[tuple[str, list[float | str]]]:
    figure = only(report_on(out)).figure
    return [(name, [x for x, _ in points]) for name, points in figure.lines] if figure else []


def test_figures_are_of_the_suite(tmp_path: Path) -> None:
    """Lines go from left to right, one a data set or series; bars are in the order of the rows."""

    def backwards(place: int, label: str) -> SuiteNote:
        return fig2(place, label).model_copy(update={"x": 3.0 - place})

    def series(place: int, label: str) -> SuiteNote:
        update = {"series": "small" if place < 2 else "large", "x": float(place % 2)}
        return fig2(place, label).model_copy(update=update)

    def off_axis(place: int, label: str) -> SuiteNote:
        note = FigureNote(kind="line", title="t")
        return SuiteNote(name="f", title="t", figure=note, place=place, x=None)

    two: dict[str, Any] = {"datasets": ["scifact", "touche"]}
    lines = made(tmp_path / "lines", labels=["c", "b", "a"], suite=backwards, **two)
    assert figure_of(lines) == [("touche", [1.0, 2.0, 3.0]), ("scifact", [1.0, 2.0, 3.0])]
    set_values(lines, "touche", "c", [0.5] * 4)
    section = only(report_on(lines))
    assert section.figure is not None
    assert section.figure.lines[0][1][2][1] is cell_of(section, "c").values
    assert "best at 2" in section.figure.paper
    made(tmp_path / "one", labels=["a", "b", "c", "d"], suite=series)
    assert figure_of(tmp_path / "one") == [("small", [0.0, 1.0]), ("large", [0.0, 1.0])]
    made(tmp_path / "two", labels=["a", "c"], suite=series, **two)
    assert [name for name, _ in figure_of(tmp_path / "two")] == ["small, touche", "small, scifact"]
    bars = made(tmp_path / "bars", labels=["weak", "strong"], suite=fig4, **two)
    assert figure_of(bars) == [("touche", ["weak", "strong"]), ("scifact", ["weak", "strong"])]
    for name, suite in {"table": table1, "flags": no_suite, "off": off_axis}.items():
        assert figure_of(made(tmp_path / name, suite=suite)) == []


def test_notes_name_the_models_and_that_a_program_answers(tmp_path: Path) -> None:
    section = only(report_on(made(tmp_path / "program")))
    assert section.notes[0] == "Model: scripted:by-chance."
    assert section.notes[1].startswith("scripted:by-chance answers by a program: ")
    assert row_of(section, TWO).models == "scripted:by-chance"
    assert row_of(section, "BM25").models == ""
    out = made(tmp_path / "real", datasets=["scifact", "touche"], model="a:b")
    roles = {"recruiter": "a:strong", "criteria": "a:strong", "scoring": "a:b"}
    change(folder_of(out, "scifact", TWO) / "manifest.json", RunManifest, models=roles)
    section = only(report_on(out))
    by_role = "recruiter a:strong, criteria a:strong, scoring a:b"
    assert row_of(section, TWO).models == f"touche: a:b; scifact: {by_role}"
    assert section.notes[0] == f"Models: a:b ({DIRECT}); touche: a:b; scifact: {by_role} ({TWO})."
    assert not any("by a program" in note for note in section.notes)


def test_notes_warn_where_less_was_ranked_than_in_the_paper(tmp_path: Path) -> None:
    made(tmp_path, datasets=["touche", "mini"], queries=49, passages=1)
    section = only(report_on(tmp_path))
    (warning,) = (note for note in section.notes if note.startswith("Fewer queries or passages"))
    assert "touche." in warning
    assert "mini" not in warning
    change(folder_of(tmp_path, "touche", FIRST_STAGE) / "manifest.json", DataManifest, depth=100)
    section = only(report_on(tmp_path))
    assert not any(note.startswith("Fewer queries") for note in section.notes)


@pytest.mark.parametrize(
    ("by_lot", "of_baseline", "warned"),
    [
        (0.49, 0.4, True),  # 9 of 20 points are left
        (0.51, 0.4, False),  # 11 of them
        (0.6, 0.55, True),  # the baseline's ties, which the first stage had made worse
    ],
)
def test_notes_tell_who_leads_by_ties(
    tmp_path: Path, by_lot: float, of_baseline: float, *, warned: bool
) -> None:
    made(tmp_path, labels=[DIRECT, TWO])
    set_values(tmp_path, "scifact", DIRECT, [0.4] * 4, by_lot=[of_baseline] * 4)
    set_values(tmp_path, "scifact", TWO, [0.6] * 4, by_lot=[by_lot] * 4)
    report = report_on(tmp_path)
    section = only(report)
    found = [each.sentence for each in warnings(report)]
    said = [each for each in found if each.startswith("Tied passages")]
    assert bool(said) is warned
    assert (TIES_SIGN in cell_of(section, TWO).signs) is warned
    left = by_lot - of_baseline
    assert all(
        f"{TWO} on scifact (0.600 as ranked, {by_lot:.3f} with ties in random order: +{left:.3f})."
        in note
        for note in said
    )


def test_failed_queries_count_by_what_they_could_change(tmp_path: Path) -> None:
    """DIRECT 0.3 and TWO 0.6, but for the queries of TWO that failed."""
    wave = [0.01, -0.01] * 10
    for failing, sure in ((2, True), (13, False)):
        out = made(tmp_path / str(failing), labels=[DIRECT, TWO], queries=20)
        ids = [f"scifact-q{n}" for n in range(1, failing + 1)]
        set_values(out, "scifact", DIRECT, [0.3] * 20)
        lost = [0.0] * failing
        set_values(out, "scifact", TWO, lost + [0.6 + each for each in wave[failing:]])
        set_values(out, "scifact", FIRST_STAGE, [0.1] * 20)
        path = folder_of(out, "scifact", TWO) / "metrics.json"
        change(path, Metrics, failed=dict.fromkeys(ids, "no reply"), missing_queries=tuple(ids))
        report = report_on(out)
        cell = cell_of(only(report), TWO)
        assert cell.comparison is not None
        assert cell.comparison.decision == ("better" if sure else "")
        assert ("\N{DOUBLE DAGGER}" in cell.signs) is sure
        assert MISSING_SIGN in cell.signs
        low, high = cell.values.ends
        assert (low, high) == pytest.approx((cell.value, (cell.value or 0) + failing / 20))
        assert cell.rank == (1 if sure else 0)
        found = [each.sentence for each in warnings(report)]
        assert any("; the mean lies between" in each for each in found)
        ends = f"{numbers.interval(low, high)} by what is missing"
        for text in (render_markdown(report), render_latex(report), render_html(report)):
            assert ends in text
        # Against a baseline that lacks queries, another is better only in all cases too.
        against = cell_of(only(report_on(out, baseline=TWO)), DIRECT).comparison
        assert against is not None
        assert against.decision == ("worse" if sure else "")


@pytest.mark.parametrize("relevant", [True, False])
def test_missing_scores_count_by_where_they_are(tmp_path: Path, *, relevant: bool) -> None:
    """All that a model says of relevant passages is unreadable, or as much of others."""

    def answer(request: ChatRequest) -> str:
        grade = GRADES[request.tag.query_id].get(request.tag.doc_id, 0)
        lost = grade > 0 if relevant else request.tag.doc_id == "d23"
        return "no score" if lost else json.dumps({"Score": 1 + grade})

    spec = RankerSpec("D", "direct", {"scale": 10}, note=None, own=frozenset())
    folder = write_folder(tmp_path / "tiny")
    suite = Suite("s", "S", "", (DatasetSpec(str(folder)),), (spec,), depth=24)
    run_suite(suite, plan(tmp_path / "out", ScriptedChat(answer)))
    cell = cell_of(only(report_on(tmp_path / "out")), "D")
    assert cell.values.missing > 0
    low, high = cell.values.ends
    assert low is not None
    assert high is not None
    # Relevant passages may be first or last; the other may only push them down by one.
    assert (low < 0.02) is relevant
    assert relevant or low > 0.6
    assert high > 0.85


def test_judgements_of_a_model_are_said_in_every_form(tmp_path: Path) -> None:
    out = made(tmp_path, datasets=["scifact", "touche"], labels=[DIRECT, TWO], model="openai:j")
    change(folder_of(out, "scifact", FIRST_STAGE) / "manifest.json", DataManifest, judge="openai:j")
    path = folder_of(out, "scifact", TWO) / "manifest.json"
    change(path, RunManifest, models={"scoring": "openai:other"})
    report = report_on(out)
    section = only(report)
    judged = f"BM25 on scifact, {TWO} on scifact: judged by a model, openai:j, and not by people."
    own = f"{DIRECT} on scifact: judged by a model, openai:j, which is also the system's, and not"
    found = {each.sentence: each.kind for each in warnings(report)}
    assert (found[judged], found[f"{own} by people."]) == ("warn", "bad")
    assert [cell_of(section, each, 1).values.own for each in (DIRECT, TWO)] == [True, False]
    # People's grades and a model's are in no average.
    assert not section.averaged
    for text in (render_markdown(report), render_latex(report), render_html(report)):
        assert html.unescape(text).count("judged by a model, openai:j") >= 2
        assert "Judged by a model, openai:j, not by people." in text
    flaws = json.loads(render_json(report))["sections"][0]["rows"][1]["cells"][1]["values"]["flaws"]
    assert any(each["kind"] == "own model" for each in flaws)


def test_one_data_set_at_two_depths_has_no_average(tmp_path: Path) -> None:
    for name, passages in (("a", 5), ("b", 12)):
        made(tmp_path / name, labels=[DIRECT], passages=passages)
    section = only(report_on(tmp_path))
    assert len(section.columns) == 2
    assert not section.averaged
    assert any(note.endswith("queries or settings: scifact.") for note in section.notes)
    assert "| average" not in render_markdown(report_on(tmp_path))
    assert not any("No averages" in note for note in only(report_on(tmp_path / "a")).notes)
    assert section.measured == "nDCG@10 (fewer passages ranked: 5)"
    assert only(report_on(tmp_path / "b")).measured == "nDCG@10"


def test_rankers_of_a_suite_that_were_never_run_are_there(tmp_path: Path) -> None:
    def suite(place: int, label: str) -> SuiteNote:
        return table1(place, label).model_copy(
            update={"rankers": (DIRECT, TWO, "Never"), "not_run": (QG,)}
        )

    section = only(report_on(made(tmp_path, labels=[DIRECT, TWO], suite=suite)))
    assert [row.label for row in section.rows][-2:] == ["Never", QG]
    alone = "Not run here, with the paper's numbers alone, and in no comparison"
    assert f"{alone}: {QG}." in section.notes
    assert row_of(section, "Never").cells == (None,)
    assert "Rankers of the suite that were not run: Never." in section.notes
    for text in (render_markdown(report_on(tmp_path)), render_html(report_on(tmp_path))):
        assert "Never" in text


@pytest.mark.parametrize(
    ("fields", "host"),
    [
        ({"options": {"base_url": "https://user:key@judge.example:8000/v1?key=secret"}}, True),
        ({"server": "https://judge.example/v1"}, True),
        ({"server": "https://api.openai.com/v1/"}, False),
        ({"options": {"base_url": "https://eu.api.openai.com/v1"}}, False),
    ],
)
def test_reports_name_the_server_and_do_not_price_a_stand_in(
    tmp_path: Path, fields: dict[str, Any], *, host: bool
) -> None:
    made(tmp_path, labels=[DIRECT], model="openai:gpt-5-mini")
    path = folder_of(tmp_path, "scifact", DIRECT)
    change(path / "manifest.json", RunManifest, **fields)
    report = report_on(tmp_path)
    section = only(report)
    models = row_of(section, DIRECT).models
    assert models == "openai:gpt-5-mini" + (" at judge.example" if host else "")
    metrics = cell_of(section, DIRECT).metrics
    assert metrics is not None
    assert metrics.taken is not None
    assert (metrics.taken.cost is None) is host
    assert any(note.endswith("and not priced: judge.example.") for note in section.notes) is host
    assert "secret" not in render_markdown(report)
