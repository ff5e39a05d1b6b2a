"""Actors: mailbox, workers, statistics, failure and cancellation."""

from __future__ import annotations

import anyio
import pytest

from mcranker.runtime.actor import Actor, ActorStatistics
from mcranker.runtime.bridge import task_group

pytestmark = pytest.mark.anyio


async def test_ask_returns_the_answer_and_counts_it() -> None:
    async def double(message: int) -> int:
        return 2 * message

    actor = Actor("doubler", double)
    async with anyio.create_task_group() as group:
        group.start_soon(actor.run)
        assert await actor.ask(21) == 42
        actor.close()
    assert actor.statistics() == ActorStatistics(queued=0, in_flight=0, done=1, failed=0)


async def test_an_error_goes_to_whoever_asked_and_the_actor_goes_on() -> None:
    async def invert(message: int) -> float:
        return 1 / message

    actor = Actor("inverter", invert)
    async with anyio.create_task_group() as group:
        group.start_soon(actor.run)
        with pytest.raises(ZeroDivisionError):
            await actor.ask(0)
        assert await actor.ask(4) == 0.25
        actor.close()
    assert actor.statistics().failed == 1


async def test_an_error_after_tell_ends_the_group_with_that_error_alone() -> None:
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


async def test_workers_bound_what_is_in_flight_and_the_mailbox_what_waits() -> None:
    gate, started = anyio.Event(), anyio.Semaphore(0)

    async def hold(message: int) -> None:
        started.release()
        await gate.wait()

    actor = Actor("holder", hold, workers=3, mailbox=2)
    sent: list[int] = []

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
        # 3 handled, 2 in the mailbox, 1 in the hand of the sender
        assert actor.statistics() == ActorStatistics(queued=3, in_flight=3, done=0, failed=0)
        assert len(sent) == 5
        gate.set()
    assert actor.statistics() == ActorStatistics(queued=0, in_flight=0, done=10, failed=0)


async def test_messages_are_handled_in_order_by_one_worker() -> None:
    seen: list[int] = []

    async def note(message: int) -> None:
        seen.append(message)

    actor = Actor("noter", note)
    async with anyio.create_task_group() as group:
        group.start_soon(actor.run)
        for message in range(20):
            await actor.tell(message)
        actor.close()
    assert seen == list(range(20))


async def test_cancelling_leaves_nothing_in_flight() -> None:
    async def hang(message: int) -> None:
        await anyio.sleep_forever()

    actor = Actor("hanging", hang, workers=2)
    async with anyio.create_task_group() as group:
        group.start_soon(actor.run)
        await actor.tell(1)
        await actor.tell(2)
        await anyio.wait_all_tasks_blocked()
        assert actor.statistics().in_flight == 2
        group.cancel_scope.cancel()
    assert actor.statistics().in_flight == 0
