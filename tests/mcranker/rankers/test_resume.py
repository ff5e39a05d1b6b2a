"""Runs that are interrupted or stopped: no answer is paid for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mcranker import BudgetExceeded, MCRanker
from tests.support.chaos import Chaos, chaos
from tests.support.loopback import clean_environment
from tests.support.ranking_process import CONCURRENCY, queries, result

ROOT = Path(__file__).parents[3]
LATENCY = (0.005, 0.02)
TEAM = 3
# An answer that is not in the ledger yet has left its place, and another call is in it.
UNDER_WAY = CONCURRENCY * 9 // 8
STUCK = 60  # seconds after which a process counts as stuck


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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_in_the_middle_of_many_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch)
    count, passages = 4, 30
    calls = calls_of(count, passages=passages)
    files = {name: tmp_path / name for name in ("queries.jsonl", "run.trec", "corpus.jsonl")}
    write_collection(files, count, passages)
    with chaos({}, seed=2, latency=LATENCY) as server:
        command = [sys.executable, "-m", "mcranker", "rank-run", "--model", "openai:test"]
        command += ["run.trec", "--queries", "queries.jsonl", "--corpus", "corpus.jsonl"]
        command += ["--output", "trec", "--out", "team.trec", "--base-url", server.url]
        command += ["-o", f"concurrency={CONCURRENCY}"]

        def started() -> subprocess.Popen[str]:
            return subprocess.Popen(
                command,
                cwd=tmp_path,
                env=os.environ | {"MCRANKER_LEDGER": str(tmp_path / "ledger")},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )

        middle = server.alarm(calls // 2)
        with started() as process:
            assert middle.wait(STUCK)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=STUCK)
        assert process.returncode == 130
        assert "interrupted" in stderr
        answered, before = server.answered, len(server.receptions)
        assert calls // 2 - CONCURRENCY <= answered < calls

        with started() as process:
            _, stderr = process.communicate(timeout=STUCK)
        assert (process.returncode, stderr) == (0, "")
        # Answers that had gone but were still on their way are asked for again.
        left = calls - answered
        assert left <= len(server.receptions) - before <= left + UNDER_WAY
    assert len((tmp_path / "team.trec").read_text().splitlines()) == count * passages


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
    count, passages = 4, 30
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
