"""Hits that are left out, deadlines and models that are down, in suites and run folders."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from beir_eval.experiment.run import Plan, run_suite
from beir_eval.experiment.run_folder import RANKINGS, read_rankings
from mcranker import ChatReply, ChatRequest, ScriptedChat, ServerFailed
from mcranker.inputs.trec import read_trec
from tests.support.beir_folder import QUERIES, knowing, write_folder
from tests.support.experiment_support import plan, suite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tiny")


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
