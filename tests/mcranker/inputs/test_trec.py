"""TREC runs: what is written can be read, in the same order, by everybody."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from beir_eval import Run, RunError, read_trec, write_trec
from mcranker.inputs.trec import trec_run, with_ties

if TYPE_CHECKING:
    from pathlib import Path

TIED = {"q1": [("a", 2.0), ("b", 2.0), ("c", 2.0), ("d", 0.5)], "q2": [("z", 0.0), ("y", 0.0)]}


def order(run: Run) -> dict[str, list[str]]:
    return {query_id: [doc_id for doc_id, _ in documents] for query_id, documents in run.items()}


def test_the_file_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    write_trec({"q1": [("d2", 12.25), ("d1", 0.1)], "q2": [("d1", -3.0)]}, path, "mine")
    assert path.read_bytes() == (
        b"q1 Q0 d2 1 12.25 mine\nq1 Q0 d1 2 0.1 mine\nq2 Q0 d1 1 -3.0 mine\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_ties_are_lowered_step_by_step(tmp_path: Path) -> None:
    # Single-precision numbers in [1, 2) lie 2**-23 apart, those in [2, 4) 2**-22; the step
    # from 2.0 downwards is that of the numbers from 2. At 0 the step is 1e-9.
    write_trec(TIED, tmp_path / "run.txt", "t")
    run = read_trec(tmp_path / "run.txt")
    assert run["q1"] == [("a", 2.0), ("b", 2 - 2**-22), ("c", 2 - 2**-22 - 2**-23), ("d", 0.5)]
    assert order(run)["q2"] == ["z", "y"]
    assert [score for _, score in run["q2"]] == pytest.approx([0.0, -1e-9], rel=1e-6, abs=0)


def test_the_order_of_the_list_goes_before_its_scores(tmp_path: Path) -> None:
    write_trec({"q": [("low", 1.0), ("high", 5.0), ("last", 0.0)]}, tmp_path / "run.txt", "t")
    assert order(read_trec(tmp_path / "run.txt")) == {"q": ["low", "high", "last"]}


def test_lines_in_any_order_are_sorted_by_score_then_rank(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(
        "q2\tQ0\tx\t1\t7\tt\r\n\n"
        "q1 Q0 c 3 1e-1 t\nq1 Q0 b 2 0.5 t\nq1 Q0 a 1 0.5 t\nq1 Q0 d 9 8 t\n",
        encoding="utf-8",
    )
    run = read_trec(path)
    assert list(run) == ["q2", "q1"]
    assert run["q1"] == [("d", 8.0), ("a", 0.5), ("b", 0.5), ("c", 0.1)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"q1 Q0 d1 1 0.5", r"run\.txt:2: 5 columns; .* query-id Q0 document-id"),
        (b"q1 Q0 d1 1 0.5 my tag", r"run\.txt:2: 7 columns"),
        (b"q1 Q0 d1 first 0.5 t", r"run\.txt:2: rank 'first' is no number"),
        (b"q1 Q0 d1 1 high t", r"run\.txt:2: score 'high' is no number"),
        (b"q1 Q0 d1 1 nan t", r"run\.txt:2: score 'nan' is not finite"),
        (b"q1 Q0 d1 1 -inf t", r"run\.txt:2: score '-inf' is not finite"),
        (b"q1 Q0 d1 1 1e39 t", r"run\.txt:2: score"),
        (b"q1 Q0 d1 1 1_0 t", r"run\.txt:2: score"),
        ("q1 Q0 d1 1 \u0663 t".encode(), r"run\.txt:2: score"),
        (b"q0 Q0 d0 2 0.5 t", r"run\.txt:2: document 'd0' appears twice under query 'q0'"),
        (b"q1 Q0 d\xe9 1 0.5 t", r"run\.txt:2: not UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, complaint: str) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(b"q0 Q0 d0 1 1.5 t\n" + line + b"\n")
    with pytest.raises(RunError, match=complaint):
        read_trec(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"nowhere\.txt: cannot be read"):
        read_trec(tmp_path / "nowhere.txt")
    with pytest.raises(RunError, match="cannot write the run"):
        write_trec(TIED, tmp_path / "no folder" / "run.txt", "t")


@pytest.mark.parametrize(
    ("run", "tag", "complaint"),
    [
        ({"q": [("a", float("nan"))]}, "t", "score nan is not a finite"),
        ({"q": [("a", float("inf"))]}, "t", "score inf is not a finite"),
        ({"q": [("a", 1e39)]}, "t", r"score 1e\+39 is not a finite single-precision"),
        ({"q": [("a", 1.0), ("a", 0.5)]}, "t", "document 'a' appears twice"),
        ({"q": [("a b", 1.0)]}, "t", "document id of query 'q' 'a b'"),
        ({"": [("a", 1.0)]}, "t", "query id ''"),
        ({"q": [("a\ud800", 1.0)]}, "t", "no character of UTF-8"),
        ({"q": [("a", 1.0)]}, "my tag", "the tag 'my tag'"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(
    tmp_path: Path, run: Run, tag: str, complaint: str
) -> None:
    path = tmp_path / "run.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(RunError, match=complaint):
        write_trec(run, path, tag)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_ties_of_a_ranking_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text(trec_run("q", ["a", "b", "c"], [0.0, 0.0, math.nan], "t"), encoding="utf-8")
    found = read_trec(path)["q"]
    # 1e-9 below 0 is the least step; what has no score is 1 below the lowest score, 0.
    assert found == [("a", 0.0), ("b", -1e-9), ("c", -1.0)]
    assert with_ties(found) == [("a", 0.0), ("b", 0.0), ("c", -1.0)]
