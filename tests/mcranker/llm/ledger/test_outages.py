"""Outages in the middle of a run: a database that restarts, and a cut network."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import anyio
import pytest

from tests.mcranker.cli.test_cli_process import reply
from tests.mcranker.serve.test_command import asking, model_at, running
from tests.support.chaos import chaos
from tests.support.loopback import Body, serve_in_thread
from tests.support.postgres import Relay, database_of, restart
from tests.support.ranking_process import calls_of, go, start, told, undisturbed
from tests.support.serving import until, until_so

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

STUCK = 120  # seconds after which something counts as stuck
# The command with a tenth of its times.
WORKER = """
import sys
from mcranker.llm.ledger import postgres_schema, postgres_store
from mcranker.runtime import processes as runtime
for name in ("_BEGIN", "LOCK_TIMEOUT"):
    text = getattr(postgres_schema, name)
    for seconds in (4, 10):
        text = text.replace(f"'{seconds}s'", f"'{seconds / 10}s'")
    setattr(postgres_schema, name, text)
postgres_schema.connect.__kwdefaults__["seconds"] /= 10
postgres_schema._CONNECT_TIMEOUT /= 10
postgres_store.PATIENCE /= 10
runtime.LAST_WAITS /= 10
from mcranker.cli.group import cli
cli()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_of(tmp_path)


def test_a_database_that_restarts_loses_and_repeats_nothing(url: str) -> None:
    count, passages = 3, 12
    expected = undisturbed(count, passages=passages)
    with chaos({}, latency=(0.05, 0.15)) as server:
        # Both rank all queries, from either end, and meet in the middle.
        processes = [start(server, url, count, passages, *order) for order in ((), ("backwards",))]
        middle = server.alarm(calls_of(count, passages=passages) // 3)
        go(*processes)
        assert middle.wait(STUCK)
        restart("immediate")
        outcomes = [each.communicate(timeout=STUCK)[0] for each in processes]
        assert [each.returncode for each in processes] == [0, 0]
    first, second = (told(each.splitlines())[1] for each in outcomes)
    assert first == second[::-1] == expected
    assert server.distinct == calls_of(count, passages=passages)
    assert server.duplicates == 0


@pytest.mark.anyio
async def test_a_service_without_its_database_ends_soon_after_a_signal(url: str) -> None:
    released = threading.Event()

    async def slow(body: Body) -> Body:
        await until_so(released.is_set)
        return reply(body)

    command = sys.executable, "-c", WORKER
    with serve_in_thread(slow) as server:
        async with Relay(url) as relay:

            def serve() -> tuple[float, str, int | None]:
                given = model_at(server)
                with running(*given, command=command, MCRANKER_LEDGER=relay.url) as (service, at):
                    with asking(at):
                        until(lambda: bool(server.requests), STUCK)
                        relay.silence()
                        released.set()
                        time.sleep(0.5)
                        began = time.monotonic()
                        service.send_signal(signal.SIGTERM)
                        _, err = service.communicate(timeout=STUCK)
                    return time.monotonic() - began, err, service.returncode

            took, err, code = await anyio.to_thread.run_sync(serve)
    assert code == 0
    assert err.count("is waited for") == 1
    assert took < 10
