"""Replicas of the service over one ledger in PostgreSQL, and how they end."""

from __future__ import annotations

import json
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcranker.serve import app as readiness
from tests.mcranker.cli.test_cli_process import SECONDS, reply
from tests.mcranker.serve.test_command import ASKED, asking, model_at, running
from tests.support.loopback import Body, serve_in_thread
from tests.support.postgres import Relay, database_of
from tests.support.serving import client, settings, until, until_so

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_of(tmp_path)


def as_texts(bodies: list[Body]) -> list[str]:
    return [json.dumps(body, sort_keys=True) for body in bodies]


def results(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


@needs_signals
def test_a_question_at_two_replicas_is_paid_for_once_and_survives_the_end_of_one(url: str) -> None:
    released = threading.Event()

    async def slow(body: Body) -> Body:
        await until_so(released.is_set)
        return reply(body)

    with (
        serve_in_thread(slow) as server,
        running(*model_at(server), MCRANKER_LEDGER=url) as (first, one),
        running(*model_at(server), MCRANKER_LEDGER=url) as (second, other),
    ):
        for address in (one, other):
            assert httpx.get(f"{address}/readyz", timeout=SECONDS).status_code == 200
        with ExitStack() as asked:
            mine = asked.enter_context(asking(one))
            until(lambda: bool(server.requests))
            theirs = asked.enter_context(asking(other))
            first.send_signal(signal.SIGTERM)
            until(lambda: httpx.get(f"{one}/readyz").status_code == 503)
            assert httpx.get(f"{one}/healthz").status_code == 200
            refused = httpx.post(f"{one}/v2/rerank", json=ASKED)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            released.set()
        _, err = first.communicate(timeout=SECONDS)
        again = httpx.post(f"{other}/v2/rerank", json=ASKED, timeout=SECONDS)
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=SECONDS)
    assert (first.returncode, second.returncode) == (0, 0)
    assert err.endswith("stopped; what was under way is finished\n")
    assert results(mine[0]) == results(theirs[0]) == results(again)
    # Two of three personas are recruited, by one call; each has a rubric and scores two passages.
    calls = as_texts(server.bodies)
    assert len(calls) == len({*calls}) == 1 + 3 + 3 * 2


@pytest.mark.anyio
async def test_it_is_not_ready_while_the_database_is_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_LEDGER_SECONDS", 0.2)
    async with Relay(url) as relay, client(settings(options={"ledger": relay.url})) as http:

        async def status(path: str) -> int:
            return (await http.get(path)).status_code

        async def ready() -> bool:
            return await status("/readyz") == 200

        await until_so(ready)
        relay.cut()
        found = await http.get("/readyz")
        assert (found.status_code, found.json()) == (503, {"status": "no ledger"})
        assert await status("/v1/health/ready") == 503
        assert await status("/healthz") == 200
        relay.mend()
        await until_so(ready)
        assert (await http.post("/v2/rerank", json=ASKED)).status_code == 200
