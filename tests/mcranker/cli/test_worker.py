"""``--worker``: processes share queries over one ledger."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcranker.cli.group import cli
from tests.support.loopback import completion, serve_in_thread
from tests.support.postgres import database_of

pytestmark = pytest.mark.anyio
QUERIES = 8


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    texts = [f"Cat number {n} purrs." for n in range(4)]
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": f"d{n}", "text": text}) + "\n" for n, text in enumerate(texts))
    )
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{n}", "text": f"cat {n}?"}) + "\n" for n in range(QUERIES))
    )
    (tmp_path / "run.trec").write_text(
        "".join(f"q{q} Q0 d{d} {d + 1} {9 - d} bm25\n" for q in range(QUERIES) for d in range(4))
    )
    run, queries, corpus = (
        str(tmp_path / name) for name in ("run.trec", "queries.jsonl", "corpus.jsonl")
    )
    return ["rank-run", run, "--queries", queries, "--corpus", corpus]


def worker(url: str, ledger: Path | str, files: list[str], *more: str) -> list[str]:
    given = [*files, "--ranker", "direct", "--model", "openai:m", "--base-url", url]
    return [*given, "--ledger", str(ledger), "-q", *more]


def test_workers_divide_the_queries_and_a_last_run_pays_nothing(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    calls: list[Any] = []

    async def answer(body: Any) -> Any:
        calls.append(body)
        await asyncio.sleep(0.05)
        return completion('{"Score": 7}')

    ledger = tmp_path / "l.sqlite"
    with serve_in_thread(answer) as server:
        url = server.url
        args = worker(url, ledger, files, "--worker")
        running = [
            subprocess.Popen([sys.executable, "-m", "mcranker", *args], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        said = [each.communicate(timeout=60)[0].decode() for each in running]
        done = [int(each.split()[0]) for each in said]
        assert sum(done) >= QUERIES
        assert len(calls) == QUERIES * 4
        found = CliRunner().invoke(cli, worker(url, ledger, files, "--output", "trec"))
    assert found.exit_code == 0, found.output
    assert len(found.stdout.splitlines()) == QUERIES * 4
    assert len(calls) == QUERIES * 4


def test_workers_over_a_database_share_a_budget(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    calls: list[Any] = []

    async def answer(body: Any) -> Any:
        calls.append(body)
        await asyncio.sleep(0.05)
        return completion('{"Score": 7}')

    url = database_of(tmp_path)
    with serve_in_thread(answer) as server:
        args = [*worker(server.url, url, files, "--worker"), "-o"]
        command = [sys.executable, "-m", "mcranker", *args, "max_calls=10"]
        running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
        said = [each.communicate(timeout=60)[1] for each in running]
        assert len(calls) == 10
        assert any(b"max_calls=10 of all workers of this run" in text for text in said)
        again = CliRunner().invoke(cli, [*args, "max_calls=10"])
        assert (len(calls), again.exit_code != 0) == (10, True)
        assert CliRunner().invoke(cli, [*args, "max_calls=1000"]).exit_code == 0
    assert len(calls) == QUERIES * 4


def test_a_worker_needs_a_ledger(files: list[str]) -> None:
    args = [*files, "--worker", "--ledger", "none", "-q"]
    assert "workers share a ledger" in CliRunner().invoke(cli, args).stderr
