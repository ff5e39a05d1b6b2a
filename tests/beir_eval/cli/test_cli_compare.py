"""``beir-eval compare`` in this process, and the forms of what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.compare import command
from beir_eval.compare.sources import FIRST_STAGE_NAME
from beir_eval.errors import RunFolderError
from tests.support.compare_support import (
    PARENT_5,
    QUERIES,
    SCORES_A,
    SCORES_B,
    TEXTS,
    Scores,
    write_both,
    write_data,
    write_run,
)

HOSTILE = "\x1b[31mred\u202e [bold]|<b>*x*</b> `y` www.evil.example http://evil.example\n# top"

UNREADABLE = dict.fromkeys(TEXTS, "no number")
NOTHING: Scores = {"Virologist": UNREADABLE, "Worried parent": UNREADABLE}


def invoke(*args: str | Path, columns: int = 100) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args], env={"COLUMNS": str(columns)})


def said(*args: str | Path, columns: int = 100) -> str:
    result = invoke(*args, columns=columns)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    return write_both(tmp_path / "tiny")


def hostile_runs(folder: Path) -> tuple[str, str]:
    texts = {**TEXTS, "d1": (HOSTILE, HOSTILE)}
    queries = {**QUERIES, "q1": HOSTILE}
    write_data(folder, queries=queries, texts=texts)
    unread: Scores = {**SCORES_B["q1"], "Worried parent": {**PARENT_5, "d1": HOSTILE}}
    broken = {**SCORES_B, "q1": unread}
    a = write_run(folder / "A", SCORES_A, queries=queries, texts=texts, label="A *b*")
    b = write_run(folder / "B", broken, queries=queries, texts=texts)
    return a, b


def test_the_table_says_what_changed_and_why(runs: tuple[str, str]) -> None:
    page = said(*runs)
    lines = page.splitlines()
    assert lines[0] == "tiny: nDCG@10 of 3 queries, A to B"
    assert (
        "B less A: +0.0224; better on 1, equal on 1, worse on 1; paired t-test: p = 0.941" in page
    )
    assert page.index("Worse in B: 1 of 1 query") < page.index("Better in B: 1 of 1 query")
    assert "-0.433  do masks help?" in lines
    assert "query q1: nDCG@10 0.950 in A, 0.517 in B" in lines
    rows = [line.split() for line in lines]
    assert ["passage", "grade", "BM25", "A", "B", "effect"] in rows
    assert ["#1", "d1", "2", "1", "1", "4", "-0.433"] in rows
    assert ["#3", "d3", "-", "3", "4", "2"] in rows
    assert "     Title of d1. What d1 says." in lines
    assert "     A: raised by Virologist (9; its mean here 4.5)" in lines
    assert "     B: lowered by Virologist (2; its mean here 5.5)" in lines
    assert ["A,", "final", "14", "10", "6"] in rows
    assert ["Virologist", "5.5", "2", "9", "6"] in rows
    assert ["others", "at", "that", "score", "3", "3", "3"] in rows
    assert "    Virologist: Answers the question 75%, Names a source 25%" in lines


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int, tmp_path: Path) -> None:
    page = said(*hostile_runs(tmp_path / "tiny"), columns=columns)
    assert max(map(len, page.splitlines())) <= columns


def test_options_choose_what_is_shown(runs: tuple[str, str]) -> None:
    assert "Worse in B" not in said(*runs, "--gains")
    assert "Better in B" not in said(*runs, "--losses")
    assert "Worse in B" not in said(*runs, "--top", "1")
    assert "#2" not in said(*runs, "--passages", "1")
    by_rr = said(*runs, "--measure", "RR")
    assert "query q1: RR 1.000 in A, 0.333 in B" in by_rr
    assert "Effects of passages are those on nDCG." in by_rr


def test_what_differs_is_said_before_the_queries(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    c = write_run(folder / "C", SCORES_B, label="A", ensemble="reciprocal_rank")
    page = said(a, c, columns=300)
    assert "Settings, A → B: ensemble sum → reciprocal_rank." in page
    assert f"A ({a})" in page  # the labels are the same


def test_the_first_stage_has_no_column_beside_itself(runs: tuple[str, str]) -> None:
    page = said(FIRST_STAGE_NAME, runs[1])
    assert "first stage (BM25)" in page
    assert "A: the first stage has no personas." in page
    assert ["passage", "grade", "A", "B", "effect"] in [line.split() for line in page.splitlines()]


def test_trec_files_by_their_judgements(runs: tuple[str, str], tmp_path: Path) -> None:
    files = [f"{name}/run.trec" for name in runs]
    page = said(*files, "--qrels", tmp_path / "tiny" / "data" / "qrels.tsv")
    assert "A: a TREC run holds no scores by persona." in page
    assert "-0.433  (no text)" in page
    assert "final" not in page
    other = invoke(*files, "--dataset", "mini")
    # None of these queries is in the mini collection, so all count 0.
    assert "No query differs." in other.stdout


def test_missing_scores_are_said_with_their_reasons(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    write_data(folder)
    a = write_run(folder / "A", SCORES_A)
    nothing: Scores = {"Virologist": SCORES_B["q1"]["Virologist"], "Worried parent": UNREADABLE}
    b = write_run(folder / "B", {**SCORES_B, "q1": nothing})
    rankings = Path(b) / "rankings.jsonl"
    rankings.write_bytes(rankings.read_bytes().replace(b"gave an", rb"\u001b[2Jgave an"))
    page = said(a, b, "--losses", columns=300)
    # Nobody else than the Virologist is left in B: d2 9, d3 6, d4 5, d1 2.
    assert ["Worried", "parent", "-", "missing", "missing", "missing"] in [
        line.split() for line in page.splitlines()
    ]
    reason = r"scripted:function \x1b[2Jgave an unusable"
    assert f"  Worried parent of #1 in B is missing: {reason}" in page
    assert "more missing" not in page
    all_of_them = said(a, write_run(folder / "C", {**SCORES_B, "q1": NOTHING}), columns=300)
    # Without any score, C has the first stage's order, in which d4 is last and d3 before it.
    assert "  and 1 more missing" in all_of_them


def test_a_query_that_was_not_ranked_says_why(runs: tuple[str, str], tmp_path: Path) -> None:
    c = write_run(tmp_path / "tiny" / "C", SCORES_A, failed={"q2": "no answer"})
    page = said(runs[0], c)
    assert "query q2: nDCG@10 0.631 in A, 0.000 in B; B did not rank it: no answer" in page
    assert ["#1", "d2", "1", "2", "2", "-", "-0.631"] in [
        line.split() for line in page.splitlines()
    ]


def test_foreign_text_moves_no_cursor(tmp_path: Path) -> None:
    page = said(*hostile_runs(tmp_path / "tiny"), columns=300)
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert r"  \x1b[31mred\u202e [bold]|<b>*x*</b> `y`" in page


def test_markdown_escapes_foreign_text(tmp_path: Path) -> None:
    page = said(*hostile_runs(tmp_path / "tiny"), "--output", "md")
    lines = page.splitlines()
    assert lines[0] == "# tiny: nDCG@10 of 3 queries, A to B"
    heading = next(line for line in lines if line.startswith("### ") and "red" in line)
    assert r"\[bold\]\|\<b\>\*x\*\</b\> \`y\` www\.evil.example http:/\/evil" in heading
    assert not [line for line in lines if line.startswith("# top")]
    assert "\x1b" not in page
    rows = [line for line in lines if line.startswith("| ")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert widths == {5, 6, 9}  # runs, scores and passages: 4, 5 and 8 cells
    assert r"| A | A \*b\* | " in page
    assert r"- \#1 in A: raised by Virologist (9; its mean here 4.5)" in lines
    assert "  - Virologist: Answers the question 75%, Names a source 25%" in lines


def test_json_holds_everything(runs: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "comparison.json"
    assert said(*runs, "--output", "json", "--out", out) == ""
    entry: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert (entry["status"], entry["exit_code"], entry["errors"]) == ("ok", 0, [])
    found = entry["comparison"]
    assert found["comparison"]["wins"] == 1
    (loss,) = found["losses"]
    passage = loss["passages"][0]
    assert (passage["doc_id"], passage["grade"], passage["b"]["rank"]) == ("d1", 2, 4)
    assert passage["b"]["scores"][0] == {
        "persona": "Virologist",
        "score": 2,
        "absent": "",
        "mean": 5.5,
        "criteria": {},
    }
    assert passage["b"]["pull"]["persona"] == "Virologist"
    assert loss["a"]["team"][0]["criteria"] == {"Answers the question": 75, "Names a source": 25}


def test_the_table_goes_to_a_file_too(runs: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "page.txt"
    assert said(*runs, "--out", out) == ""
    assert out.read_text(encoding="utf-8") == said(*runs)


def test_nothing_to_show_is_said(runs: tuple[str, str]) -> None:
    assert "No query differs." in said(runs[0], runs[0])
    assert "No query differs." in said(runs[0], runs[0], "--output", "md")


def test_scores_by_criterion_are_named(runs: tuple[str, str]) -> None:
    path = Path(runs[1]) / "rankings.jsonl"
    entries = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    hit = next(hit for hit in entries[0]["hits"] if hit["doc_id"] == "d1")
    hit["criteria"] = {"Virologist": {"Answers the question": 3.0, "Names a source": 0.0}}
    path.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    assert (
        "B: lowered by Virologist (2; its mean here 5.5): Answers the question 3, Names a source 0"
        in said(*runs)
    )


def test_the_help_names_the_first_stage_as_it_is_given() -> None:
    assert repr(FIRST_STAGE_NAME) in said("--help")


def test_bad_usage(runs: tuple[str, str], tmp_path: Path) -> None:
    assert invoke(runs[0]).exit_code == 2
    assert invoke(*runs, "--top", "0").exit_code == 2
    both = invoke(*runs, "--qrels", "x", "--dataset", "mini")
    assert both.exit_code == 2
    assert "give --qrels or --dataset, not both" in both.output
    nowhere = invoke(runs[0], tmp_path / "nowhere")
    assert isinstance(nowhere.exception, RunFolderError)
    assert nowhere.stdout == ""
