"""`beir-eval run` that is killed and started again, and the reports before and after."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from beir_eval.experiment.run_folder import find_runs
from tests.support.chaos import Chaos, chaos
from tests.support.commands import call

ROOT = Path(__file__).parents[3]
STUCK = 120  # seconds after which a process counts as stuck
CONCURRENCY, QUERIES_AT_ONCE = 8, 2
LATENCY = (0.03, 0.06)
QUERIES, DOCUMENTS, DEPTH = 6, 30, 15
# A recruiter, two rubrics and a few more scores than there are places for.
UNDER_WAY = QUERIES_AT_ONCE * (3 + CONCURRENCY + CONCURRENCY // 8)

SUITE = """\
title = "Two ensembles of one team"
datasets = ["data"]
baseline = "sum"

[settings]
team_size = 2

[[rankers]]
label = "sum"

[[rankers]]
label = "reciprocal rank"
ensemble = "reciprocal_rank"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of two rankers over one data set, whose passages tell the server who they are."""
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    texts = (f"[passage d{n}] Masks of kind {n % 7} in trial {n}." for n in range(DOCUMENTS))
    corpus = [json.dumps({"_id": f"d{n}", "text": text}) for n, text in enumerate(texts)]
    queries = [
        json.dumps({"_id": f"q{n}", "text": f"Are masks of kind {n} good in trials?"})
        for n in range(QUERIES)
    ]
    qrels = [f"q{n}\td{(7 * n + 3) % DOCUMENTS}\t1" for n in range(QUERIES)]
    (folder / "corpus.jsonl").write_text("\n".join(corpus), encoding="utf-8")
    (folder / "queries.jsonl").write_text("\n".join(queries), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("\n".join(qrels), encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(SUITE, encoding="utf-8")
    return path


def arguments(server: Chaos, suite: Path, tmp_path: Path, out: str) -> tuple[object, ...]:
    return (
        "run",
        suite,
        *("--out", tmp_path / out),
        *("--depth", DEPTH),
        *("--model", "openai:test", "--base-url", server.url),
        *("--ledger", tmp_path / "ledger.sqlite"),
        *("-o", f"concurrency={CONCURRENCY}", "-o", f"query_concurrency={QUERIES_AT_ONCE}"),
    )


def wait_for(alarm: threading.Event, process: subprocess.Popen[bytes]) -> None:
    """Until the server has been asked so often; fails as soon as the process has ended."""
    deadline = time.monotonic() + STUCK
    while not alarm.wait(0.1):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline


def report(tmp_path: Path, runs: str, to: str) -> dict[str, bytes]:
    """Every file of a report in all formats."""
    done = call("beir-eval", "report", tmp_path / runs, "--out", tmp_path / to)
    assert done.exit_code == 0, done.stderr
    files = sorted((tmp_path / to).rglob("*"))
    # The last line of a page has the command, and so the names of both folders.
    said = re.compile(rb"beir-eval report [^<]*")
    return {
        str(each.relative_to(tmp_path / to)): said.sub(b"", each.read_bytes()) for each in files
    }


def test_killed_half_way_and_started_again(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("COLUMNS", "120")
    # For each query a recruiter, two rubrics, and two scores a passage.
    calls = QUERIES * (1 + 2 + 2 * DEPTH)
    with chaos({}, seed=3, latency=LATENCY) as server:
        alarm = server.alarm(calls // 2)
        given = arguments(server, suite, tmp_path, "out")
        command = [sys.executable, "-m", "beir_eval", *map(str, given)]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            wait_for(alarm, process)
            process.kill()
            process.communicate()
        killed = [len(server.receptions)]
        done = call("beir-eval", *given)
        assert done.exit_code == 0, done.stderr
        assert server.asked_again(killed) <= UNDER_WAY
        assert server.distinct == calls
        assert f"beir-eval report {tmp_path / 'out'}" in done.stdout
        runs = find_runs([tmp_path / "out"])
        assert [run.manifest.finished for run in runs] == [True, True]

        # Another folder, with nothing but the ledger to go by.
        before = len(server.receptions)
        done = call("beir-eval", *arguments(server, suite, tmp_path, "undisturbed"))
        assert done.exit_code == 0, done.stderr
        assert len(server.receptions) == before
    resumed, undisturbed = (report(tmp_path, each, f"of {each}") for each in ("out", "undisturbed"))
    # Only the first has queries that took a time of their own.
    texts = [
        re.sub(rb"(?s)### Time.*?(?=\n- )", b"", each["report.md"])
        for each in (resumed, undisturbed)
    ]
    assert b"### Cost" in texts[0]
    assert texts[0] == texts[1]
