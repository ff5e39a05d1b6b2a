"""Hits that are left out, deadlines and models that are down, in suites and run folders."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from beir_eval.errors import RunFolderError, SuiteError
from beir_eval.experiment.rankings import RANKINGS, read_rankings
from beir_eval.experiment.run import Plan, run_suite
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.experiment.suite import load_suite
from mcranker import ChatReply, ChatRequest, ScriptedChat, ServerFailed
from mcranker.trec import read_trec
from tests.support.beir_folder import QUERIES, knowing, write_folder
from tests.support.experiment_support import constant, plan, suite

SUITE = """
title = "T"
datasets = ["mini"]
[settings]
deadline = 30
on_failure = "keep_order"
[[rankers]]
label = "A"
top_n = 5
min_relevance = 0.25
[[rankers]]
label = "B"
ranker = "direct"
max_passage_tokens = 300
deadline = "none"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def test_a_suite_takes_the_options(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SUITE)
    one, other = (spec.options for spec in load_suite(file).rankers)
    assert one == {"deadline": 30, "on_failure": "keep_order", "top_n": 5, "min_relevance": 0.25}
    assert other == {"deadline": None, "on_failure": "keep_order", "max_passage_tokens": 300}
    for wrong, said in (
        ("top_n = 0", "top_n=0: Input should be greater than or equal to 1"),
        ("min_relevance = 2", "min_relevance=2"),
        ('deadline = "soon"', "deadline='soon'"),
        ('on_failure = "shrug"', "on_failure='shrug'"),
    ):
        name = wrong.split(" ")[0]
        lines = [line for line in SUITE.splitlines() if not line.startswith(name)]
        place = lines.index('label = "A"')
        file.write_text("\n".join([*lines[: place + 1], wrong, *lines[place + 1 :]]))
        with pytest.raises(SuiteError) as caught:
            load_suite(file)
        assert said in str(caught.value)


def limited(out: Path, model: object, **options: object) -> Plan:
    return plan(out, model, options=options)


def test_what_is_measured_is_what_is_returned(folder: Path, tmp_path: Path) -> None:
    few = limited(tmp_path / "out", knowing(), top_n=3, min_relevance=0.1)
    (result,) = run_suite(suite(folder, "DIRECT"), few)
    run = read_trec(result.path / "run.trec")
    kept = {each.query.id: each for each in read_rankings(result.path / RANKINGS)}
    for query_id, listed in run.items():
        # The judgement 2 of 10 is a relevance of 0.2, and 1 one of 0.1.
        assert 0 < len(listed) <= 3
        assert [doc_id for doc_id, _ in listed] == [
            hit.doc_id for hit in kept[query_id].hits if hit.score
        ][:3]
        assert len(kept[query_id].hits) > 3


def test_scores_that_a_deadline_cut_are_counted(folder: Path, tmp_path: Path) -> None:
    async def stuck(request: ChatRequest) -> ChatReply:
        if request.tag.doc_id == "d2":
            await anyio.sleep_forever()
        return ChatReply('{"Score": 1}')

    (result,) = run_suite(
        suite(folder, "DIRECT"), limited(tmp_path / "out", ScriptedChat(stuck), deadline=0.5)
    )
    assert result.metrics is not None
    assert result.metrics.scores is not None
    found = [each for each in read_rankings(result.path / RANKINGS) if each.partial]
    assert found
    assert result.metrics.scores.reasons == {"deadline": len(found)}


def test_a_first_stage_order_is_not_measured_as_the_rankers(folder: Path, tmp_path: Path) -> None:
    def failing(request: ChatRequest) -> str:
        if request.tag.query_id == "q2":
            raise ServerFailed("out of order")
        return '{"Score": 1}'

    tolerant = limited(tmp_path / "out", ScriptedChat(failing), on_failure="keep_order")
    (result,) = run_suite(suite(folder, "DIRECT"), tolerant)
    assert result.metrics is not None
    assert dict(result.metrics.failed) == {"q2": "out of order"}
    # Nothing is kept of it, so that the next run asks again.
    assert len(list(read_rankings(result.path / RANKINGS))) == len(QUERIES) - 1
    same = ScriptedChat(lambda request: '{"Score": 1}')
    (result,) = run_suite(
        suite(folder, "DIRECT"), limited(tmp_path / "out", same, on_failure="keep_order")
    )
    assert result.metrics is not None
    assert not result.metrics.failed


def test_a_folder_that_is_older_than_an_option_goes_on(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (result,) = run_suite(suite(folder, "DIRECT"), plan(out, constant(1)))
    manifest = json.loads((result.path / "manifest.json").read_text())
    for name in ("top_n", "min_relevance", "deadline", "on_failure", "max_passage_tokens"):
        del manifest["config"][name]
    manifest["finished"] = False
    (result.path / "manifest.json").write_text(json.dumps(manifest))
    lines = (result.path / RANKINGS).read_text().splitlines(keepends=True)
    (result.path / RANKINGS).write_text("".join(lines[:2]))
    with pytest.raises(RunFolderError, match="on_failure was 'error' and is 'keep_order'"):
        run_suite(suite(folder, "DIRECT"), limited(out, constant(1), on_failure="keep_order"))
    (result,) = run_suite(suite(folder, "DIRECT"), plan(out, constant(1)))
    assert RunFolder.open(result.path).manifest.finished
