"""Two runs, query by query: which can be compared, how they differ, and who moved a passage."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from beir_eval.compare import compare_run_folders
from beir_eval.errors import MeasureError, RunFolderError
from personas.ranking.comparison import ComparedRuns, RankingComparison, SettingChange
from tests.support.compare_support import (
    QRELS,
    QUERIES,
    SCORES_A,
    SCORES_B,
    TEXTS,
    write_both,
    write_data,
    write_run,
)

THIRD = 1 / math.log2(3)  # discount of rank 2


def near(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=1e-12)


def compared(folder: Path, **options: Any) -> ComparedRuns:
    return compare_run_folders(*write_both(folder), **options)


def explained(found: ComparedRuns) -> dict[str, RankingComparison]:
    return {each.after.query.id: each for each in found.comparisons}


def test_judgements_of_a_model_are_said(tmp_path: Path) -> None:
    pair = write_both(tmp_path / "tiny")
    manifest = tmp_path / "tiny" / "data" / "manifest.json"
    form = json.loads(manifest.read_text())
    assert not any("by a model" in note for note in compare_run_folders(*pair).notes)
    for judge, also in (
        ("openai:judge", ""),
        ("scripted:function", ", which is also the system's"),
    ):
        manifest.write_text(json.dumps({**form, "judge": judge}))
        notes = compare_run_folders(*pair).notes
        said = f"judged by a model, {judge}{also}, and not by people."
        assert {f"A: {said}", f"B: {said}"} <= {*notes}


def test_the_head_says_how_much_the_runs_differ(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny")
    # q1: ideal 2 + 1/log2(3); A has d1 at 1 and d4 at 3, B has d4 at 3 and d1 at 4.
    ideal = 2 + THIRD
    a1, b1 = (2 + 1 / 2) / ideal, (1 / 2 + 2 / math.log2(5)) / ideal
    # q2: d2 at rank 2 in both. q3: d3 at rank 3 in A and 1 in B.
    figures = found.figures
    a, b = figures["runs"]
    assert a["mean"] == near((a1 + THIRD + 1 / 2) / 3)
    assert b["mean"] == near((b1 + THIRD + 1) / 3)
    assert figures["test"]["difference"] == near(b["by_lot"] - a["by_lot"])
    assert [figures["test"][each] for each in ("wins", "ties", "losses")] == [1, 1, 1]
    assert (figures["dataset"], figures["first_stage"]) == ("tiny", "BM25")
    assert (figures["queries_compared"], figures["left_out"], found.settings) == (3, 0, ())
    assert (a["label"], b["label"], a["models"], a["note"]) == ("A", "B", "scripted:function", "")
    # The greatest change comes first: 0.5 against 0.43.
    assert [(row["query_id"], row["text"]) for row in found.rows] == [
        ("q3", QUERIES["q3"]),
        ("q1", QUERIES["q1"]),
    ]
    assert (found.rows[0]["before"], found.rows[0]["after"]) == near((0.5, 1.0))
    assert (found.rows[1]["before"], found.rows[1]["after"]) == near((a1, b1))


def test_which_queries_are_explained(tmp_path: Path) -> None:
    pair = write_both(tmp_path / "tiny")
    chosen = {
        "first": compare_run_folders(*pair, top=1),
        "one": compare_run_folders(*pair, query="q2"),
    }
    assert {name: list(explained(each)) for name, each in chosen.items()} == {
        "first": ["q3"],
        "one": ["q2"],
    }
    with pytest.raises(RunFolderError, match="no query 'q9' is in both runs"):
        compare_run_folders(*pair, query="q9")


def test_gains_add_up_to_the_difference_and_come_first(tmp_path: Path) -> None:
    found = compared(tmp_path / "tiny")
    for row, each in zip(found.rows, found.comparisons, strict=True):
        assert math.fsum(one.gain for one in each.passages) == near(row["after"] - row["before"])
    loss = explained(found)["q1"]
    # d1, grade 2, from rank 1 to rank 4; d4 is relevant and stayed; of the others, d2 took
    # 1 - 0.631 and d3 0.631 - 0.431.
    assert loss.passages[0].gain == near((2 / math.log2(5) - 2) / (2 + THIRD))
    assert [each.doc_id for each in loss.passages] == ["d1", "d2", "d3", "d4"]
    assert [each.gain for each in loss.passages[1:]] == [0, 0, 0]
    assert [each.grade for each in loss.passages] == [2, 0, None, 1]
    assert (loss.passages[0].title, loss.passages[0].text) == TEXTS["d1"]
    # d3 is relevant in q3; of the others d1 left 1 - 0.631 and d2 0.631 - 0.5.
    assert [each.doc_id for each in explained(found)["q3"].movers] == ["d3", "d1", "d2"]


def test_whose_scores_moved_a_passage(tmp_path: Path) -> None:
    passage = explained(compared(tmp_path / "tiny"))["q1"].passages[0]
    assert passage.before is not None
    assert passage.after is not None
    assert (passage.before.rank, passage.before.score) == (1, 14)
    assert (passage.after.rank, passage.after.score) == (4, 6)
    assert [(each.persona, each.before, each.after) for each in passage.causes] == [
        ("Virologist", 9, 2),
        ("Worried parent", 5, 4),
    ]
    assert [each.part for each in passage.causes] == near((-7 / 20, -1 / 20))


def test_a_query_that_was_not_ranked_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    b = write_run(folder / "failed", SCORES_A, failed={"q2": "the model is gone"})
    found = compare_run_folders(a, b)
    assert (found.rows[0]["before"], found.rows[0]["after"]) == near((THIRD, 0))
    lost = explained(found)["q2"]
    assert lost.notes == ("There is no ranking after: the model is gone",)
    first = lost.passages[0]
    assert (first.doc_id, first.gain, first.after) == ("d2", near(-THIRD), None)


def test_another_measure_is_computed_from_the_runs(tmp_path: Path) -> None:
    pair = write_both(tmp_path / "tiny")
    found = compare_run_folders(*pair, measure="RR")
    # First relevant passage of q1: d1 at 1 in A, d4 at 3 in B.
    (row,) = [row for row in found.rows if row["query_id"] == "q1"]
    assert (row["before"], row["after"]) == near((1, 1 / 3))
    assert explained(found)["q1"].measure == "nDCG"
    # With a cutoff of 2, d1 falls from 1 to nothing: all of its gain of 2.
    cut = explained(compare_run_folders(*pair, measure="nDCG@2"))["q1"]
    assert cut.measure == "nDCG@2"
    assert cut.passages[0].gain == near(-2 / (2 + THIRD))
    assert cut.ndcg_after == near(0)
    # The last rank that counts counts: d3 of q3 is at 3 in A, where its gain is halved.
    third = explained(compare_run_folders(*pair, measure="nDCG@3"))["q3"].passages[0]
    assert (third.doc_id, third.gain) == ("d3", near(1 - 1 / 2))
    # The ideal order is cut as well: of the first rank alone, d1 is all there is.
    one = explained(compare_run_folders(*pair, measure="nDCG@1"))["q1"]
    assert one.passages[0].gain == near(-1)


def test_impossible_options_are_refused(tmp_path: Path) -> None:
    pair = write_both(tmp_path / "tiny")
    with pytest.raises(MeasureError, match="no-such"):
        compare_run_folders(*pair, measure="no-such")


def test_settings_that_differ_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    a, _ = write_both(folder)
    b = write_run(folder / "C", SCORES_B, ensemble="reciprocal_rank", depth=3)
    found = compare_run_folders(a, b)
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
    found = compare_run_folders(a, fewer)
    assert (found.figures["queries_compared"], found.figures["left_out"]) == (1, 2)
    (row,) = found.rows
    assert row["query_id"] == "q1"
    assert found.figures["runs"][0]["mean"] == near(row["before"])
    queries = {"q1": "other words", "q3": QUERIES["q3"]}
    qrels = {**QRELS, "q1": {"d1": 1}}
    found = compare_run_folders(a, other_run(tmp_path / "3" / "tiny", queries, qrels=qrels))
    assert (found.figures["queries_compared"], found.figures["left_out"]) == (1, 2)
    assert [row["query_id"] for row in found.rows] == ["q3"]


def test_runs_of_other_data_or_other_queries_are_refused(tmp_path: Path) -> None:
    a, _ = write_both(tmp_path / "tiny")
    one, two = ({each: QUERIES[each]} for each in ("q1", "q2"))
    with pytest.raises(RunFolderError, match=r"ranks tiny \(test\) and .* small \(test\)"):
        compare_run_folders(a, other_run(tmp_path / "small", one, name="small"))
    names = [other_run(tmp_path / f"{n}" / "tiny", each) for n, each in enumerate((one, two))]
    with pytest.raises(RunFolderError, match=r"no query of tiny .* in common"):
        compare_run_folders(*names)


def test_what_cannot_be_opened_is_refused_in_a_line(tmp_path: Path) -> None:
    a, b = write_both(tmp_path / "tiny")
    unfinished = write_run(tmp_path / "tiny" / "C", SCORES_A, finished=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunFolderError, match=r"give a folder .*/data/first_stage\.trec"):
        compare_run_folders("first-stage", b)
    with pytest.raises(RunFolderError, match="nowhere' is not there; give"):
        compare_run_folders(a, str(tmp_path / "nowhere"))
    with pytest.raises(RunFolderError, match=r"empty' has no manifest\.json; give"):
        compare_run_folders(str(tmp_path / "empty"), b)
    with pytest.raises(RunFolderError, match="is not finished"):
        compare_run_folders(a, unfinished)
    with pytest.raises(RunFolderError, match="'beir-eval evaluate --compare' measures TREC files"):
        compare_run_folders(a, f"{b}/run.trec")
