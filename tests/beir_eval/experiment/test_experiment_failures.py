"""Experiments in which queries, scores or the money are missing."""

from __future__ import annotations

from pathlib import Path

import anyio
import numpy as np
import pytest

from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import RANKINGS, DataFolder, RunFolder, read_rankings
from beir_eval.measures.ties import Tied
from mcranker import AuthenticationFailed, ChatReply, ChatRequest, ScriptedChat, ServerFailed, Usage
from mcranker.inputs.trec import read_trec
from mcranker.llm.prices import cost
from tests.support.beir_folder import QUERIES, judging, knowing, write_folder
from tests.support.experiment_support import MEASURE, plan, suite
from tests.support.scripted import RUBRIC


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


def test_calls_of_queries_that_failed_are_paid_from_the_budget(
    folder: Path, tmp_path: Path
) -> None:
    """q4 fails at its sixth passage: the five answers before it are spent all the same."""
    answered: list[str] = []

    def failing(request: ChatRequest) -> str:
        if request.tag.query_id == "q4" and answered.count("q4") == 5:
            raise ServerFailed("out of order")
        answered.append(request.tag.query_id)
        return '{"Score": 1}'

    options = {"query_concurrency": 1, "concurrency": 1}
    one = plan(tmp_path / "free", judging(failing), options=options)
    (free,) = run_suite(suite(folder, "DIRECT"), one)
    assert free.metrics is not None
    assert set(free.metrics.failed) == {"q4"}
    assert len(answered) == free.calls + 5

    most = len(answered) + 10
    answered.clear()
    one = plan(tmp_path / "out", judging(failing), options={**options, "max_calls": most})
    first, second = run_suite(suite(folder, "DIRECT", "scientist"), one)
    assert first.stopped is None
    assert "max_calls" in str(second.stopped)
    # Ten calls are left to the second: one writes a rubric, nine score passages of q1.
    assert len(answered) == first.calls + 5 + 9


def test_dollars_are_taken_off_as_well(folder: Path, tmp_path: Path) -> None:
    used = Usage(calls=1, input_tokens=1_000_000)

    def answer(request: ChatRequest) -> ChatReply:
        return ChatReply(RUBRIC if request.tag.stage == "criteria" else '{"Score": 1}', used)

    model = ScriptedChat(answer, name="openai:gpt-5-mini")
    price = cost(model.name, used)
    assert price is not None
    one = plan(tmp_path / "out", model, limit=1)
    (free,) = run_suite(suite(folder, "DIRECT"), one)
    assert free.cost == pytest.approx(free.calls * price)
    # Three calls more than the first cell takes: the second one stops.
    most = (free.calls + 3) * price
    one = plan(tmp_path / "other", model, limit=1, options={"max_cost": most, "concurrency": 1})
    first, second = run_suite(suite(folder, "DIRECT", "scientist"), one)
    assert first.stopped is None
    assert "max_cost" in str(second.stopped)


def test_what_fails_every_query_stops_the_run(folder: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def refused(request: ChatRequest) -> str:
        asked.append(request.tag.query_id)
        raise AuthenticationFailed("wrong key")

    one = plan(tmp_path / "out", judging(refused), options={"query_concurrency": 1})
    results = run_suite(suite(folder, "DIRECT", "scientist"), one)
    assert [result.label for result in results] == ["DIRECT"]
    assert isinstance(results[0].stopped, AuthenticationFailed)
    assert set(asked) == {"q1"}


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


def test_what_is_measured_is_what_is_returned(folder: Path, tmp_path: Path) -> None:
    few = plan(tmp_path / "out", knowing(), options={"top_n": 3, "min_relevance": 0.1})
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
