"""Which runs can be compared, and by what they are measured."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from beir_eval.compare.runs import compare_pair
from beir_eval.compare.sources import FIRST_STAGE_NAME, ComparisonData, open_pair
from beir_eval.errors import RunFolderError
from mcranker.errors import RunError
from mcranker.trec import write_trec
from personas.ranking.comparison import ComparedRuns, SettingChange
from tests.support.compare_support import (
    QRELS,
    QUERIES,
    SCORES_A,
    SCORES_B,
    write_both,
    write_data,
    write_run,
)

THIRD = 1 / math.log2(3)  # discount of rank 2


def near(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=1e-12)


def test_the_first_stage_is_a_run_too(tmp_path: Path) -> None:
    _, b = write_both(tmp_path / "tiny")
    found = compare_pair(open_pair(FIRST_STAGE_NAME, b), direction="losses")
    first = found.figures["runs"][0]
    assert (first["label"], first["note"]) == (
        "first stage (BM25)",
        "the first stage has no personas",
    )
    # q1: BM25 has d1 at 1 and d4 at 4, B d4 at 3 and d1 at 4.
    before, after = 2 + 1 / math.log2(5), 2 / math.log2(5) + 1 / 2
    assert change(found) == near((after - before) / (2 + THIRD))
    passage = found.comparisons[0].passages[0]
    assert passage.before is not None
    assert (passage.before.score, dict(passage.before.scores)) == (4.0, {})
    other_way = compare_pair(open_pair(b, FIRST_STAGE_NAME), direction="gains")
    assert change(other_way) == near(-change(found))


def test_trec_files_borrow_the_judgements_of_a_folder(tmp_path: Path) -> None:
    a, b = write_both(tmp_path / "tiny")
    with_folder = compare_pair(open_pair(a, f"{b}/run.trec"))
    run = with_folder.figures["runs"][1]
    assert (run["label"], run["note"]) == ("run", "a TREC run holds no scores by persona")
    assert with_folder.figures["test"] == compare_pair(open_pair(a, b)).figures["test"]
    assert with_folder.comparisons[0].passages[0].title == "Title of d3"


def test_trec_files_by_qrels_or_a_data_set(tmp_path: Path) -> None:
    a, b = write_both(tmp_path / "tiny")
    qrels = tmp_path / "tiny" / "data" / "qrels.tsv"
    found = compare_pair(
        open_pair(f"{a}/run.trec", f"{b}/run.trec", data=ComparisonData.of_qrels(str(qrels)))
    )
    figures = found.figures
    assert (figures["dataset"], figures["first_stage"]) == ("qrels.tsv", "")
    assert figures["queries_compared"] == 3
    first = found.comparisons[0].passages[0]
    assert (found.rows[0].text, first.title, first.first_stage_rank) == ("", "", None)
    mini = ComparisonData.of_dataset("mini")
    query_id, grades = next(iter(mini.qrels.items()))
    good = max(grades, key=lambda doc_id: grades[doc_id])
    write_trec({query_id: [(good, 1.0)]}, tmp_path / "good.trec", "x")
    write_trec({query_id: [("nowhere", 1.0)]}, tmp_path / "bad.trec", "x")
    pair = open_pair(str(tmp_path / "bad.trec"), str(tmp_path / "good.trec"), data=mini)
    (gain,) = compare_pair(pair).comparisons
    assert gain.after.query.text == mini.queries[query_id]
    assert [each.doc_id for each in gain.passages] == [good, "nowhere"]
    assert gain.passages[0].title
    assert gain.passages[1].text == ""


def change(found: ComparedRuns) -> float:
    """Of the only query that is explained."""
    (row,) = found.rows
    assert row.before is not None
    assert row.after is not None
    return row.after - row.before


def test_settings_that_differ_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    b = write_run(folder / "C", SCORES_B, ensemble="reciprocal_rank", depth=3)
    found = compare_pair(open_pair(a, b))
    assert set(found.settings) == {
        SettingChange("ensemble", "sum", "reciprocal_rank"),
        SettingChange("depth", "none", "3"),
    }


def other_run(folder: Path, queries: dict[str, str], **data: Any) -> str:
    """A run over other queries, or over others' judgements."""
    write_data(folder, queries=queries, **data)
    qrels = {"qrels": data["qrels"]} if "qrels" in data else {}
    return write_run(folder / "B", SCORES_B, queries=queries, **qrels)


def test_queries_of_one_run_and_those_judged_otherwise_are_left_out(tmp_path: Path) -> None:
    a, _ = write_both(tmp_path / "one" / "tiny")
    fewer = other_run(tmp_path / "two" / "tiny", {"q1": QUERIES["q1"]})
    found = compare_pair(open_pair(a, fewer))
    assert (found.figures["queries_compared"], found.figures["left_out"]) == (1, 2)
    (row,) = found.rows
    assert row.query_id == "q1"
    assert found.figures["runs"][0]["mean"] == near(row.before)
    queries = {"q1": "other words", "q3": QUERIES["q3"]}
    qrels = {**QRELS, "q1": {"d1": 1}}
    found = compare_pair(open_pair(a, other_run(tmp_path / "3" / "tiny", queries, qrels=qrels)))
    assert (found.figures["queries_compared"], found.figures["left_out"]) == (1, 2)
    assert [row.query_id for row in found.rows] == ["q3"]


def test_runs_of_other_data_or_other_queries_are_refused(tmp_path: Path) -> None:
    a, _ = write_both(tmp_path / "tiny")
    one, two = ({each: QUERIES[each]} for each in ("q1", "q2"))
    with pytest.raises(RunFolderError, match=r"ranks tiny \(test\) and .* small \(test\)"):
        open_pair(a, other_run(tmp_path / "small", one, name="small"))
    names = [other_run(tmp_path / f"{n}" / "tiny", each) for n, each in enumerate((one, two))]
    with pytest.raises(RunFolderError, match=r"no query of tiny .* in common"):
        open_pair(*names)


def test_what_cannot_be_opened_is_refused_in_a_line(tmp_path: Path) -> None:
    a, b = write_both(tmp_path / "tiny")
    unfinished = write_run(tmp_path / "tiny" / "C", SCORES_A, finished=False)
    basis = ComparisonData.of_qrels(str(tmp_path / "tiny" / "data" / "qrels.tsv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match="nowhere' is not there; give"):
        open_pair(a, str(tmp_path / "nowhere"))
    with pytest.raises(RunFolderError, match=r"empty' has no manifest\.json; give"):
        open_pair(str(tmp_path / "empty"), b)
    with pytest.raises(RunFolderError, match="is not finished"):
        open_pair(a, unfinished)
    with pytest.raises(RunFolderError, match="so there are no judgements"):
        open_pair(f"{a}/run.trec", f"{b}/run.trec")
    with pytest.raises(RunFolderError, match="so there are no judgements"):
        open_pair(FIRST_STAGE_NAME, FIRST_STAGE_NAME)
    with pytest.raises(RunFolderError, match="'first-stage' is the first stage of the other"):
        open_pair(FIRST_STAGE_NAME, f"{b}/run.trec", data=basis)
    with pytest.raises(RunFolderError, match="brings its own judgements"):
        open_pair(a, b, data=basis)
    with pytest.raises(RunError, match="columns; a line of a run has six"):
        open_pair(a, str(tmp_path / "tiny" / "data" / "qrels.tsv"))
