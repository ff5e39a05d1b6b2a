"""Rankers that compare as rows of a suite: measured, taken up again, and in the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from beir_eval.cli.report import command
from beir_eval.errors import RunFolderError, SuiteError
from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.experiment.suite import load_suite
from mcranker import ChatRequest
from tests.support.beir_folder import write_folder
from tests.support.comparing import comparing, shown_in
from tests.support.experiment_support import plan

SUITE = """
title = "Comparisons"
datasets = ["{folder}"]
depth = 12
[[rankers]]
label = "list"
ranker = "rankgpt"
window = 6
step = 3
[[rankers]]
label = "sets"
ranker = "setwise"
ranks = 3
[[rankers]]
label = "pairs"
ranker = "setwise"
children = 1
ranks = 2
"""


def longest_first(request: ChatRequest) -> str:
    """By the length of the texts: an order, or a letter."""
    lengths = {name: len(text) for name, text in shown_in(request).items()}
    order = sorted(lengths, key=lambda name: -lengths[name])
    return " > ".join(f"[{name}]" for name in order) if "1" in lengths else order[0]


def test_rows_of_a_suite(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    file = tmp_path / "mine.toml"
    file.write_text(SUITE.format(folder=folder), encoding="utf-8")
    model, seen = comparing(longest_first)
    one = plan(tmp_path / "out", model)
    results = run_suite(load_suite(file), one)
    assert [result.label for result in results] == ["list", "sets", "pairs"]
    assert sum(result.calls for result in results) == len(seen) > 0
    for result in results:
        assert result.metrics is not None
        assert result.metrics.scores is not None
        assert result.metrics.scores.asked == result.metrics.scores.comparisons > 0
        for ranking in RunFolder.open(result.path).rankings():
            assert ranking.comparisons is not None
            assert ranking.comparisons.asked == ranking.usage.calls
            first, *rest = ranking.hits
            assert sorted(hit.first_stage_rank for hit in (first, *rest)) == list(
                range(1, len(rest) + 2)
            )
    page = tmp_path / "page.html"
    made = CliRunner().invoke(command, [str(tmp_path / "out"), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert all(label in page.read_text(encoding="utf-8") for label in ("list", "sets", "pairs"))
    again = run_suite(load_suite(file), one)
    assert sum(result.calls for result in again) == 0


@pytest.mark.parametrize(("limit", "returned"), [("", 12), ("top_n = 5", 5)])
def test_rebel_is_measured_by_all_passages_unless_told_otherwise(
    tmp_path: Path, limit: str, returned: int
) -> None:
    folder = write_folder(tmp_path / "tiny")
    file = tmp_path / "mine.toml"
    row = f'[[rankers]]\nlabel = "rebel"\nranker = "rebel"\nwindow = 5\n{limit}\n'
    file.write_text(SUITE.format(folder=folder).partition("[[")[0] + row, encoding="utf-8")
    model, _ = comparing(all_alike)
    (result,) = run_suite(load_suite(file), plan(tmp_path / "out", model))
    assert result.metrics is not None
    for ranking in RunFolder.open(result.path).rankings():
        assert ranking.windows is not None
        assert ranking.windows.asked == ranking.usage.calls == -(-len(ranking.hits) // 5)
        assert len(ranking) == min(returned, len(ranking.hits))


def all_alike(request: ChatRequest) -> str:
    """All passages are equally good."""
    scores = {"Relevance": 7, **{f"P{number}": 1 for number in range(1, 6)}}
    return json.dumps({"Passages": dict.fromkeys(shown_in(request), scores)})


FUSED = """
title = "Fusion"
datasets = ["{folder}"]
depth = 12
[[rankers]]
label = "list"
ranker = "rankgpt"
window = 6
step = 3
[[rankers]]
label = "both"
ranker = "fused"
members = ["list", {{ranker = "setwise", ranks = 2}}, "bm25", {{run = "mine.trec", label = "mine"}}]
method = "interpolate"
weights = [2, 1, 1, 0.5]
"""


def test_a_fusion_of_rows_first_stage_and_a_run(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "tiny")
    (tmp_path / "mine.trec").write_text("q1 Q0 d3 1 2.0 tag\nq1 Q0 d8 2 1.0 tag\n")
    file = tmp_path / "mine.toml"
    file.write_text(FUSED.format(folder=folder), encoding="utf-8")
    model, seen = comparing(longest_first)
    options = {"ledger": tmp_path / "ledger.db"}
    one = plan(tmp_path / "out", model, options=options)
    listed, both = run_suite(load_suite(file), one)
    assert listed.calls + both.calls == len(seen) > 0
    assert both.reused == listed.calls  # of the member that is the first row
    rankings = list(RunFolder.open(both.path).rankings())
    assert {ranking.query.id for ranking in rankings} == {"q1", "q2", "q3", "q4"}
    for ranking in rankings:
        assert ranking.personas == ("list", "setwise", "bm25", "mine")
        assert [each.weight for each in ranking.members] == [2, 1, 1, 0.5]
        assert all(ranks is not None for each in ranking.members[:3] for ranks in each.ranks)
        missing = {why for hit in ranking.hits for why in hit.missing.values()}
        if ranking.query.id == "q1":
            assert missing == {"it is not in the run"}
        else:
            assert missing == {f"the run has no query '{ranking.query.id}'"}
    page = tmp_path / "page.html"
    made = CliRunner().invoke(command, [str(tmp_path / "out"), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert sum(result.calls for result in run_suite(load_suite(file), one)) == 0
    file.write_text(FUSED.format(folder=folder).replace("[2, 1", "[3, 1"), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"weights was \[2.*\] and is \[3"):
        run_suite(load_suite(file), one)


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ('["both", "bm25"]', "'both' is a fusion itself"),
        ('["lists", "bm25"]', "'lists' is neither the first stage"),
        ('["list", {ranker = "direct", window = 2}]', "'direct' takes no option 'window'"),
        ('"list"', "write a list of labels"),
    ],
)
def test_members_that_cannot_be_are_refused(tmp_path: Path, members: str, complaint: str) -> None:
    file = tmp_path / "mine.toml"
    text = FUSED.format(folder="mini")
    start, end = text.index("members = "), text.index("\nmethod")
    text = text[:start] + f"members = {members}" + text[end:].replace("[2, 1, 1, 0.5]", "[1, 1]")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError, match=complaint):
        load_suite(file)
