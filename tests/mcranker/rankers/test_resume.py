"""Runs that are interrupted or stopped: no answer is paid for twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcranker import BudgetExceeded, MCRanker
from tests.support.chaos import Chaos, chaos
from tests.support.ranking_process import CONCURRENCY, queries, result

ROOT = Path(__file__).parents[3]
LATENCY = (0.005, 0.02)
TEAM = 3


def calls_of(count: int, *, passages: int) -> int:
    """Calls that an undisturbed run makes: a recruiter, the rubrics, and the scores."""
    return count * (1 + TEAM + TEAM * passages)


def start(server: Chaos, ledger: Path | str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.ranking_process", server.url, ledger, *args]
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(*processes: subprocess.Popen[str]) -> None:
    """Let processes begin at the same time."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == '"ready"\n'
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


def undisturbed(count: int, *, passages: int) -> list[dict[str, Any]]:
    with (
        chaos({}) as server,
        MCRanker(
            team_size=TEAM, model="openai:test", base_url=server.url, concurrency=32
        ) as ranker,
    ):
        return [
            result(ranker.rank(query, docs)) for query, docs in queries(count, passages=passages)
        ]


def told(lines: Iterable[str]) -> tuple[set[tuple[str, str]], list[dict[str, Any]]]:
    """The scores and the results that a process printed."""
    said = [json.loads(line) for line in lines]
    return (
        {(each[0], each[1]) for each in said if isinstance(each, list)},
        [each for each in said if isinstance(each, dict)],
    )


def write_collection(files: dict[str, Path], count: int, passages: int) -> None:
    work = queries(count, passages=passages)
    files["queries.jsonl"].write_text(
        "".join(json.dumps({"id": query.id, "text": query.text}) + "\n" for query, _ in work)
    )
    files["corpus.jsonl"].write_text(
        "".join(
            json.dumps({"id": doc_id, "text": text}) + "\n"
            for _, docs in work
            for doc_id, text in docs.items()
        )
    )
    files["run.trec"].write_text(
        "".join(
            f"{query.id} Q0 {doc_id} {rank} {1 / rank} bm25\n"
            for query, docs in work
            for rank, doc_id in enumerate(docs, start=1)
        )
    )


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
