"""``beir-eval compare`` in this process, and the forms of what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.compare import command
from beir_eval.compare.sources import FIRST_STAGE_NAME
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

MINUS = "−"  # noqa: RUF001
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
    assert "A, before: A: nDCG@10 0.6937, scripted:function" in lines
    words = " ".join(page.split())
    assert (
        "B less A: +0.0224; better on 1, equal on 1, worse on 1; paired t-test: not tested" in words
    )
    rows = [line.split() for line in lines]
    assert ["3/4", "0.950", "0.517", MINUS + "0.433", "q1", "do", "masks", "help?"] in rows
    assert ["given", "before", "after", "moved", "judged", "nDCG@10", "passage"] in rows
    assert ["1", "1", "4", "▼3", "2", MINUS + "0.433", "d1", "Title", "of", "d1"] in rows
    assert ["3", "4", "2", "▲2", "-", "d3", "Title", "of", "d3"] in rows
    assert (
        "d1 (1 → 4): Virologist fell from 9 to 2; with its scores of before the passage would be "
        "at rank 1." in words
    )


def test_what_differs_is_said_before_the_queries(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    c = write_run(folder / "C", SCORES_B, label="A", ensemble="reciprocal_rank")
    page = said(a, c, columns=300)
    assert page.count("~ ensemble: sum → reciprocal_rank\n") == 1
    assert f"A ({a})" in page  # the labels are the same


def test_runs_without_scores_are_compared_by_their_ranks(
    runs: tuple[str, str], tmp_path: Path
) -> None:
    page = said(FIRST_STAGE_NAME, runs[1])
    assert "first stage (BM25)" in page
    assert "A: the first stage has no personas." in page
    files = [f"{name}/run.trec" for name in runs]
    page = said(*files, "--qrels", tmp_path / "tiny" / "data" / "qrels.tsv")
    assert "A: a TREC run holds no scores by persona." in page
    assert ["-", "1", "4", "▼3", "2", MINUS + "0.433", "d1", "d1"] in [
        line.split() for line in page.splitlines()
    ]
    # None of these queries is in the mini collection, so all count 0.
    assert "No query differs." in said(*files, "--dataset", "mini")


def test_missing_scores_are_said_with_their_reasons(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    write_data(folder)
    a = write_run(folder / "A", SCORES_A)
    nothing: Scores = {"Virologist": UNREADABLE, "Worried parent": SCORES_B["q1"]["Virologist"]}
    b = write_run(folder / "B", {**SCORES_B, "q1": nothing})
    rankings = Path(b) / "rankings.jsonl"
    rankings.write_bytes(rankings.read_bytes().replace(b"gave an", rb"\u001b[2Jgave an"))
    page = said(a, b, "--losses", columns=300)
    assert r"now its score is missing: scripted:function \x1b[2Jgave an unusable" in " ".join(
        page.split()
    )
    assert "scores missing after" in page


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_foreign_text_moves_no_cursor_and_widens_no_line(columns: int, tmp_path: Path) -> None:
    page = said(*hostile_runs(tmp_path / "tiny"), columns=columns)
    assert max(map(len, page.splitlines())) <= columns
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert columns < 300 or r"q1 \x1b[31mred\u202e [bold]|<b>*x*</b> `y`" in page


def test_markdown_escapes_foreign_text(tmp_path: Path) -> None:
    page = said(*hostile_runs(tmp_path / "tiny"), "--output", "md")
    lines = page.splitlines()
    assert lines[0] == "# tiny: nDCG@10 of 3 queries, A to B"
    heading = next(line for line in lines if line.startswith("## ") and "red" in line)
    assert r"\[bold\]\|\<b\>\*x\*\</b\> \`y\` www\.evil.example http:/\/evil" in heading
    assert not [line for line in lines if line.startswith("# top")]
    assert "\x1b" not in page
    rows = [line for line in lines if line.startswith("| ")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert widths == {6, 8}  # queries and passages: 5 and 7 cells
    assert r"A, before: A \*b\*: nDCG@10 " in page


def test_json_holds_everything(runs: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "comparison.json"
    assert said(*runs, "--output", "json", "--out", out) == ""
    entry: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert (entry["status"], entry["exit_code"], entry["errors"]) == ("ok", 0, [])
    found = entry["comparison"]
    assert found["test"]["wins"] == 1
    assert [row["query_id"] for row in found["queries"]] == ["q3", "q1"]
    loss = found["comparisons"][1]
    assert loss["ndcg@10"] == {"before": pytest.approx(0.9502, abs=1e-4), "after": ANY}
    hit = loss["hits"][0]
    assert (hit["doc_id"], hit["grade"], hit["after"]["rank"]) == ("d1", 2, 4)
    assert hit["after"]["scores"] == {"Virologist": 2, "Worried parent": 4}
    assert hit["causes"][0]["persona"] == "Virologist"
    assert loss["before"]["models"]["scoring"] == "scripted:function"
