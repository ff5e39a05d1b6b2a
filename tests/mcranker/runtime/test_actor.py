"""Actors: mailbox, workers, order, failure and cancellation."""

from __future__ import annotations

import anyio
import pytest

from mcranker.runtime.actor import Actor
from mcranker.runtime.bridge import task_group

pytestmark = pytest.mark.anyio


async def test_an_error_ends_the_group_with_that_error_alone() -> None:
    stopped = anyio.Event()

    async def fail(message: str) -> None:
        raise ValueError(message)

    async def wait_for_ever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    actor = Actor("failing", fail)

    async def supervise() -> None:
        async with task_group() as group:
            group.start_soon(actor.run)
            group.start_soon(wait_for_ever)
            await actor.tell("boom")

    with pytest.raises(ValueError, match="boom"):
        await supervise()
    assert stopped.is_set()
    with pytest.raises(anyio.ClosedResourceError):
        await actor.tell("too late")


async def test_workers_bound_what_is_in_flight_and_the_mailbox_what_waits() -> None:
    gate, started = anyio.Event(), anyio.Semaphore(0)
    handled: list[int] = []
    sent: list[int] = []

    async def hold(message: int) -> None:
        started.release()
        await gate.wait()
        handled.append(message)

    actor = Actor("holder", hold, workers=3, mailbox=2)

    async def feed() -> None:
        for message in range(10):
            await actor.tell(message)
            sent.append(message)
        actor.close()

    async with anyio.create_task_group() as group:
        group.start_soon(actor.run)
        group.start_soon(feed)
        for _ in range(3):
            await started.acquire()
        await anyio.wait_all_tasks_blocked()
        # 3 are handled, 2 wait in the mailbox, and 1 in the hand of the sender.
        assert started.value == 0
        assert len(sent) == 5
        gate.set()
    assert sorted(handled) == list(range(10))
