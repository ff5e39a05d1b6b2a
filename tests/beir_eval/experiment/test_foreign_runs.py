"""TREC runs of other programs as rows of suites and reports."""

from __future__ import annotations

import hashlib
from math import log2
from pathlib import Path

import pytest

from beir_eval import build_report, find_runs, load_suite, render_html, render_markdown, run_suite
from beir_eval.errors import RunFolderError, SuiteError
from beir_eval.experiment.cell import CellResult
from beir_eval.experiment.suite import Suite
from beir_eval.report.forms import render_latex
from beir_eval.report.tables import NOTHING
from mcranker.errors import RunError
from tests.support.beir_folder import knowing, write_folder
from tests.support.experiment_support import MEASURE, plan

SUITE = """
title = "Beside others"
datasets = ["./notes"]
depth = 20
[[rankers]]
label = "DIRECT"
ranker = "direct"
[[rankers]]
label = "theirs"
run = "theirs-{dataset}.trec"
"""


def lines(*entries: tuple[str, str, float]) -> str:
    return "".join(
        f"{query_id} Q0 {doc_id} {rank} {score} theirs\n"
        for rank, (query_id, doc_id, score) in enumerate(entries, start=1)
    )


THEIRS = lines(("q1", "d0", 3.0), ("q1", "d3", 2.0), ("q3", "d5", 1.0), ("q3", "d22", 1.0))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_folder(tmp_path / "notes")
    (tmp_path / "mine.toml").write_text(SUITE, encoding="utf-8")
    (tmp_path / "theirs-notes.trec").write_text(THEIRS, encoding="utf-8")
    return tmp_path


def ran(home: Path, **options: object) -> list[CellResult]:
    suite = load_suite(home / "mine.toml")
    return run_suite(suite, plan(home / "runs", knowing(), **options))


def test_a_row_of_a_suite_is_measured_without_calls(home: Path) -> None:
    direct, theirs = ran(home)
    assert direct.calls > 0
    assert (theirs.calls, theirs.reused, theirs.cost, theirs.label) == (0, 0, None, "theirs")
    assert theirs.metrics is not None
    # q1: grade 2 at rank 2; ideal 2, 1, 1. q3: grades 2, 1 in this order, which is ideal. The
    # others have no line.
    q1 = (2 / log2(3)) / (2 + 1 / log2(3) + 1 / log2(4))
    values = theirs.metrics.per_query[MEASURE]
    assert values == pytest.approx({"q1": q1, "q2": 0, "q3": 1, "q4": 0})
    assert theirs.metrics.missing_queries == ("q2", "q4")
    assert theirs.metrics.taken is None
    assert theirs.metrics.scores is None
    # Both passages of q3 tie: by lot the value lies between the two orders.
    other_way = (1 + 2 / log2(3)) / (2 + 1 / log2(3))
    assert other_way < theirs.metrics.by_lot[MEASURE]["q3"] < 1
    assert theirs.metrics.ties[MEASURE].worst == pytest.approx((q1 + other_way) / 4)


def test_what_does_not_fit_is_counted_and_told(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = lines(*(("q2", f"d{n}", 9.0 - n) for n in range(5)), ("q9", "d1", 1.0))
    text = THEIRS + more + lines(("q1", "nowhere", 9.0))
    (home / "theirs-notes.trec").write_text(text, encoding="utf-8")
    _, theirs = ran(home, depth=3)
    folder = next(each for each in find_runs([home / "runs"]) if each.path == theirs.path)
    note = folder.manifest.foreign
    assert note is not None
    assert (note.without, note.other_queries, note.below_depth, note.unknown_documents) == (
        1,
        1,
        2,
        1,
    )
    assert [doc_id for doc_id, _ in folder.run()["q1"]] == ["nowhere", "d0", "d3"]
    (said,) = [each for each in caplog.messages if "theirs-notes.trec on notes" in each]
    assert said.endswith(
        "1 query without a line, counted as empty; 1 other query, not ranked here; "
        "2 documents below the depth, left out; 1 document not in the corpus"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"q1 Q0 d1 1 2.0\n", ":1: 5 columns; a line of a run has six"),
        (b"other Q0 d1 1 2.0 t\n", ": none of the 4 queries of notes is in this run, which begin"),
    ],
)
def test_a_file_that_is_no_run_stops_before_a_model_is_asked(
    home: Path, content: bytes, message: str
) -> None:
    (home / "theirs-notes.trec").write_bytes(content)
    with pytest.raises(RunError) as failure:
        ran(home)
    assert str(failure.value).startswith(f"{home / 'theirs-notes.trec'}{message}")
    assert not list((home / "runs").rglob("rankings.jsonl"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('ranker = "direct"', "'ranker' has no meaning beside it"),
        ("team_size = 2", "'team_size' has no meaning beside it"),
        ('run = "{name}.trec"', "the only placeholder is {dataset}"),
        ('run = " "', "name a TREC run"),
    ],
)
def test_a_suite_refuses_what_a_file_cannot_have(tmp_path: Path, line: str, message: str) -> None:
    run = "" if line.startswith("run") else 'run = "x.trec"'
    path = tmp_path / "mine.toml"
    path.write_text(
        f'title = "T"\ndatasets = ["mini"]\n[[rankers]]\nlabel = "a"\n{run}\n{line}\n',
        encoding="utf-8",
    )
    with pytest.raises(SuiteError, match=r"mine\.toml: ranker 'a'") as failure:
        load_suite(path)
    assert message in str(failure.value)


def test_a_ranker_and_a_file_do_not_share_a_folder(home: Path) -> None:
    ran(home)
    swapped = SUITE.replace('label = "theirs"', 'label = "DIRECT"', 1)
    text = swapped.replace('label = "DIRECT"\nranker = "direct"', 'label = "x"\nranker = "direct"')
    (home / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match="ranked when it was no foreign run"):
        ran(home)


# In reports


def rows_of(report: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in report.splitlines() if line.startswith("| ")]


def test_a_report_marks_it_in_every_form(home: Path) -> None:
    ran(home)
    report = build_report(find_runs([home / "runs"]))
    text = render_markdown(report)
    (section,) = report.sections
    row = next(each for each in section.rows if each.label == "theirs")
    assert row.foreign
    (cell,) = row.cells
    assert cell is not None
    assert cell.comparison is not None, "it is tested like any other row"
    assert [each[0] for each in rows_of(text) if "foreign run" in each[0]] == [
        "theirs (foreign run)"
    ]
    digest = hashlib.sha256(THEIRS.encode()).hexdigest()
    assert f"theirs on notes (theirs-notes.trec, SHA-256 {digest[:12]}; 2 queries wi" in text
    # It has no line among costs and times, and nothing asked or failed.
    assert not any(each[0] == "theirs" for each in rows_of(text[text.index("### Cost") :]))
    complete = rows_of(text[text.index("### Completeness") : text.index("### Cost")])
    (line,) = (each for each in complete if each[0] == "theirs")
    assert dict(zip(complete[0], line, strict=True))["not ranked"] == NOTHING
    assert '<span class="tag"><bdi>foreign run</bdi></span>' in render_html(report)
    assert "theirs (foreign run)" in render_latex(report)


# What a model cannot serve, and rows of the paper

PAPER = """
title = "With the paper"
datasets = ["./notes"]
depth = 20
paper_table = "table_5_and_1"
paper_rows = ["monoT5 (fine-tuned T5 XL)", "QG (FLAN PaLM2 S)"]
[[rankers]]
label = "RG-YN"
ranker = "rg_yn"
paper_row = "RG-YN (FLAN PaLM2 S)"
[[rankers]]
label = "RankGPT"
ranker = "rankgpt"
[[rankers]]
label = "DIRECT(0,10)"
ranker = "direct"
paper_row = "DIRECT(0,10)"
"""


def with_paper(home: Path) -> tuple[Suite, list[CellResult]]:
    (home / "paper.toml").write_text(PAPER, encoding="utf-8")
    suite = load_suite(home / "paper.toml")
    return suite, run_suite(suite, plan(home / "runs", knowing()))


def test_the_other_rows_go_on(home: Path) -> None:
    """A scripted model gives no log-probabilities, and answers RankGPT with a score."""
    _, (likelihood, listwise, direct) = with_paper(home)
    assert likelihood.unsupported
    assert "gives no log-probabilities" in str(likelihood.stopped)
    assert not (likelihood.path / "manifest.json").exists()
    assert not listwise.unsupported
    assert "has no list of numbers" in str(listwise.stopped)
    assert direct.metrics is not None
