"""Runs that are interrupted or stopped: no answer is paid for twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcranker import BudgetExceeded, MCRanker
from tests.support.chaos import chaos
from tests.support.ranking_process import CONCURRENCY, TEAM, calls_of, queries, result, undisturbed

LATENCY = (0.005, 0.02)


def test_a_budget_stops_a_run_that_can_go_on(tmp_path: Path) -> None:
    count, passages = 2, 12
    calls = calls_of(count, passages=passages)
    with chaos({}, seed=6, latency=LATENCY) as server:

        def ranked(max_calls: int) -> list[Any]:
            with MCRanker(
                team_size=TEAM,
                model="openai:test",
                base_url=server.url,
                ledger=tmp_path / "ledger",
                concurrency=CONCURRENCY,
                max_calls=max_calls,
            ) as ranker:
                done = ranker.rank_many(queries(count, passages=passages))
                return sorted(done, key=lambda each: each.place)

        stopped = ranked(calls // 2)
        assert any(isinstance(each.error, BudgetExceeded) for each in stopped)
        assert all(isinstance(each.error, BudgetExceeded | None) for each in stopped)
        assert len(server.receptions) <= calls // 2
        done = ranked(calls)
        assert server.answered == calls
    assert [result(each.result()) for each in done] == undisturbed(count, passages=passages)


def test_answers_of_another_server_are_not_taken(tmp_path: Path) -> None:
    ((query, docs),) = queries(1, passages=5)
    for _ in range(2):
        with (
            chaos({}) as server,
            MCRanker(
                team_size=TEAM, model="openai:test", base_url=server.url, ledger=tmp_path / "ledger"
            ) as ranker,
        ):
            assert ranker.rank(query, docs).reused.calls == 0
            assert len(server.receptions) == calls_of(1, passages=5)
