"""`mcranker compare` of saved rankings and of runs, and every way that can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from click.testing import CliRunner, Result

from beir_eval.cli.group import COMPARE
from mcranker.cli.group import VERBS, Verbs
from tests.personas.ranking.test_comparison import CHANGED
from tests.personas.ranking.test_inspection import FOUR, stored
from tests.support.compare_support import (
    write_both,
)
from tests.support.inspection_report import Page

MCRANKER = Verbs("mcranker", {**VERBS, "compare": COMPARE})


def compare(*args: str | Path, columns: int = 110) -> Result:
    env = {"COLUMNS": str(columns)}
    return CliRunner().invoke(MCRANKER, ["compare", *map(str, args)], env=env)


def shown(*args: str | Path, columns: int = 110) -> str:
    result = compare(*args, columns=columns)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def refused(*args: str | Path, code: int = 1) -> str:
    result = compare(*args)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("mcranker: error: ")


def as_json(*args: str | Path) -> dict[str, Any]:
    said = json.loads(shown(*args, "--output", "json"))
    assert said["status"] == "ok"
    found: dict[str, Any] = said["comparison"]
    return found


def before(query_id: str = "q1", **more: Any) -> dict[str, Any]:
    return stored(FOUR, query={"text": f"masks {query_id}", "id": query_id}, **more)


def after(query_id: str = "q1", **more: Any) -> dict[str, Any]:
    return stored(CHANGED, query={"text": f"masks {query_id}", "id": query_id}, **more)


def written(path: Path, *values: object) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path / "m1.json", before()), written(tmp_path / "m2.json", after())


@pytest.fixture
def many(tmp_path: Path) -> tuple[Path, Path]:
    """Two files of three queries, one of which changed and one of which only one side has."""
    one = written(tmp_path / "m1.jsonl", before("q1"), before("q2"), before("lost"))
    # The order of the files does not matter.
    two = written(tmp_path / "m2.jsonl", after("q2"), before("q1"), after("new"))
    return one, two


def test_two_rankings(pair: tuple[Path, Path]) -> None:
    page = shown(*pair)
    assert "2 of 4 passages moved; same top 4." in page
    assert "d1 (3 → 1): Virologist 5 → 9 (+0.133)" in page
    rows = [line.split()[:4] for line in page.splitlines()]
    assert ["3", "1", "▲2", "d1"] in rows
    assert ["1", "3", "▼2", "d2"] in rows
    assert "1 more passage moved and not listed" in shown(*pair, "--passages", "1")


def test_a_page(pair: tuple[Path, Path], tmp_path: Path) -> None:
    html = tmp_path / "moved.html"
    result = compare(*pair, "--html", html)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"mcranker: the page is {html}\n"
    page = Page(html.read_text(encoding="utf-8"))
    words = " ".join(page.text.split())
    assert "Before and after: m1.json →to m2.json" in words
    assert "mcranker, 3 personas" in words


def test_judgements(pair: tuple[Path, Path], tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("q1\td2\t1\nq9\td1\t1\n", encoding="utf-8")
    # Rank 1 before and 3 now: 1, and 1 / log2(4).
    assert "nDCG@10 falls from 1.000 to 0.500" in shown(*pair, "--qrels", qrels)
    nameless = written(tmp_path / "nameless.json", before(""))
    assert "query has no id, and its passages are judged for 2 queries" in refused(
        nameless, nameless, "--qrels", qrels
    )
    # Where there are judgements of one query only, there is nothing to be mistaken about.
    qrels.write_text("q1\td2\t1\n", encoding="utf-8")
    assert "nDCG@10 stays at 1.000" in shown(nameless, nameless, "--qrels", qrels)


def test_one_of_many_queries(many: tuple[Path, Path]) -> None:
    assert "has 3 rankings; name one with --query ID" in refused(*many)
    assert as_json(*many, "--query", "q1")["moved"] == 0
    # By number in the order of the first file.
    assert as_json(*many, "--query", "2")["query"]["id"] == "q2"
    assert as_json(*many, "--query", "q2")["moved"] == 2
    assert "no query 'q7'" in refused(*many, "--query", "q7")


def test_run_folders(tmp_path: Path) -> None:
    one, two = write_both(tmp_path / "tiny")
    found = as_json(one, two)
    assert {row["query_id"] for row in found["queries"]} == {"q1", "q3"}
    (alone,) = as_json(one, two, "--query", "q2")["comparisons"]
    assert alone["moved"] == 0
    assert "no query 'q9' is in both runs" in refused(one, two, "--query", "q9")
    qrels = tmp_path / "tiny" / "data" / "qrels.tsv"
    assert "bring their own judgements" in refused(one, two, "--qrels", qrels, code=2)
    saved = written(tmp_path / "m1.json", before())
    assert f"{one!r} is a run and '{saved}' is none" in refused(one, saved, code=2)
    assert f"{two!r} is a run and '{saved}' is none" in refused(saved, two, code=2)


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    one = written(tmp_path / "1.jsonl", before("a"), before("b"))
    two = written(tmp_path / "2.jsonl", before("c"), before("d"))
    assert "no query 'a'" in refused(one, two, "--query", "a")
    twice = written(tmp_path / "3.jsonl", before("a"), before("a"))
    assert f"{twice}:2: a second ranking of query 'a'" in refused(twice, one, "--query", "a")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no .json or .jsonl file" in refused(empty, one)
    assert "no such file" in refused(tmp_path / "gone.json", one).lower()
    assert "standard input cannot be compared" in refused("-", one)


def test_flags_that_do_not_go_together(pair: tuple[Path, Path]) -> None:
    both = compare(*pair, "--html", "x", "--output", "json")
    assert both.exit_code == 2
    assert "leave --output out" in both.stderr
    assert "its folder does not exist" in refused(*pair, "--html", "gone/x.html")
    for option in (["--measure", "RR"], ["--queries", "2"]):
        assert f"{option[0]} goes with runs; leave it out" in refused(*pair, *option, code=2)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    return write_both(tmp_path / "tiny")


def test_json_holds_everything(runs: tuple[str, str]) -> None:
    found = as_json(*runs)
    assert found["test"]["wins"] == 1
    assert [row["query_id"] for row in found["queries"]] == ["q3", "q1"]
    loss = found["comparisons"][1]
    assert loss["ndcg@10"] == {"before": pytest.approx(0.9502, abs=1e-4), "after": ANY}
    hit = loss["hits"][0]
    assert (hit["doc_id"], hit["grade"], hit["after"]["rank"]) == ("d1", 2, 4)
    assert hit["after"]["scores"] == {"Virologist": 2, "Worried parent": 4}
    assert hit["causes"][0]["persona"] == "Virologist"
    assert loss["before"]["models"]["scoring"] == "scripted:function"
