"""Experiments in which queries, scores or the money are missing."""

from __future__ import annotations

from pathlib import Path

import anyio
import numpy as np
import pytest

from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RANKINGS, DataFolder, RunFolder, read_rankings
from beir_eval.measures.ties import Tied
from mcranker import ChatReply, ChatRequest, ScriptedChat, ServerFailed
from tests.support.beir_folder import QUERIES, judging, knowing, write_folder
from tests.support.experiment_support import MEASURE, plan, suite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


def test_the_budget_is_of_the_whole_experiment(folder: Path, tmp_path: Path) -> None:
    labels = ("DIRECT", "scientist")
    free = run_suite(suite(folder, *labels), plan(tmp_path / "free", knowing()))
    most = free[0].calls + 10
    limited = plan(tmp_path / "out", knowing(), options={"max_calls": most})
    first, second = run_suite(suite(folder, *labels), limited)
    assert first.stopped is None
    assert second.metrics is None
    assert "max_calls" in str(second.stopped)
    # The scientist writes a rubric for each query and scores as many passages as DIRECT.
    assert second.calls <= 10
    assert not RunFolder.open(second.path).manifest.finished


def test_a_model_out_of_reach_is_given_up(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def down(request: ChatRequest) -> str:
        if request.tag.query_id not in asked:
            asked.append(request.tag.query_id)
        raise ServerFailed("no answer")

    monkeypatch.setattr("beir_eval.experiment.cell.GIVE_UP", 3)
    one = plan(tmp_path / "out", judging(down), options={"query_concurrency": 1})
    results = run_suite(suite(folder, "DIRECT", "scientist"), one)
    assert [(result.label, str(result.stopped)) for result in results] == [("DIRECT", "no answer")]
    assert results[0].metrics is None
    assert asked == ["q1", "q2", "q3"]


def test_a_run_of_failures_alone_is_not_finished(folder: Path, tmp_path: Path) -> None:
    def down(request: ChatRequest) -> str:
        raise ServerFailed("no answer")

    (result,) = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(down)))
    assert (result.metrics, str(result.stopped)) == (None, "no answer")
    # Nothing was ranked, so that other choices do no harm.
    other = plan(tmp_path / "out", knowing(), limit=3)
    (again,) = run_suite(suite(folder, "DIRECT"), other)
    assert again.metrics is not None
    assert not again.metrics.failed
    assert len(again.metrics.per_query[MEASURE]) == 3


def test_missing_scores_are_counted(folder: Path, tmp_path: Path) -> None:
    def lost(request: ChatRequest) -> str:
        return "?" if request.tag.doc_id == "d8" else '{"Score": 3}'

    (result,) = run_suite(suite(folder, "DIRECT"), plan(tmp_path / "out", judging(lost)))
    assert result.metrics is not None
    scores = result.metrics.scores
    assert scores is not None
    found = DataFolder.open(tmp_path / "out" / "tiny" / "data").first_stage()
    times = sum(doc_id == "d8" for ranked in found.values() for doc_id, _ in ranked)
    assert times > 0
    assert scores.missing == times
    assert sum(scores.reasons.values()) == times
    # Each is asked for once more, and neither reply can be read.
    assert scores.unreadable == 2 * times
    # All others have the same score, so by lot they change places, and d8 stays last.
    folder_of_run = RunFolder.open(result.path)
    for ranking in folder_of_run.rankings():
        lost_here = [hit for hit in ranking.hits if hit.doc_id == "d8"]
        assert [hit.score for hit in lost_here] == [None] * len(lost_here)
        doc_ids = [doc_id for doc_id, _ in folder_of_run.run()[ranking.query.id]]
        assert doc_ids == [hit.doc_id for hit in ranking.hits]
        drawn = Tied.of_ranking(ranking).orders(np.random.default_rng(1).random((20, len(doc_ids))))
        last = {doc_ids[place] for place in drawn[:, -1].tolist()}
        assert (last == {"d8"}) == bool(lost_here)


def test_scores_that_a_deadline_cut_are_counted(folder: Path, tmp_path: Path) -> None:
    async def stuck(request: ChatRequest) -> ChatReply:
        if request.tag.doc_id == "d2":
            await anyio.sleep_forever()
        return ChatReply('{"Score": 1}')

    (result,) = run_suite(
        suite(folder, "DIRECT"),
        plan(tmp_path / "out", ScriptedChat(stuck), options={"deadline": 0.5}),
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

    tolerant = plan(tmp_path / "out", ScriptedChat(failing), options={"on_failure": "keep_order"})
    (result,) = run_suite(suite(folder, "DIRECT"), tolerant)
    assert result.metrics is not None
    assert dict(result.metrics.failed) == {"q2": "out of order"}
    # Nothing is kept of it, so that the next run asks again.
    assert len(list(read_rankings(result.path / RANKINGS))) == len(QUERIES) - 1
    same = ScriptedChat(lambda request: '{"Score": 1}')
    (result,) = run_suite(
        suite(folder, "DIRECT"), plan(tmp_path / "out", same, options={"on_failure": "keep_order"})
    )
    assert result.metrics is not None
    assert not result.metrics.failed
