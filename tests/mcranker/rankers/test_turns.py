"""Turns to call a model, and that no place is lost; time is virtual."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.limits_support import assert_at_rest, in_flight, limits_of, request, slot
from tests.support.virtual_time import VirtualLoop, simulate

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


class Turns:
    """What `RateLimiter` is to do, by plain lists."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.inside: list[int] = []
        self.rotation: deque[int] = deque()
        self.queues: dict[int, list[int]] = {}

    def arrive(self, task: int, ranking: int) -> None:
        if ranking not in self.queues:
            self.queues[ranking] = []
            self.rotation.append(ranking)
        self.queues[ranking].append(task)
        self.admit()

    def leave(self, task: int) -> None:
        if task in self.inside:
            self.inside.remove(task)
        for ranking, queue in list(self.queues.items()):
            if task in queue:
                queue.remove(task)
                self._drop_if_empty(ranking)
        self.admit()

    def admit(self) -> None:
        while self.rotation and len(self.inside) < self.concurrency:
            ranking = self.rotation[0]
            self.inside.append(self.queues[ranking].pop(0))
            self.rotation.rotate(-1)
            self._drop_if_empty(ranking)

    def _drop_if_empty(self, ranking: int) -> None:
        if not self.queues[ranking]:
            del self.queues[ranking]
            self.rotation.remove(ranking)


STEPS = st.one_of(
    st.tuples(st.just("arrive"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["leave", "cancel"]), st.integers(0, 99)),
)
"""The ranking that arrives, or the number of a task in flight or of any, modulo how many."""


@given(concurrency=st.integers(1, 4), script=st.lists(STEPS, max_size=60))
def test_places_go_by_turns_and_none_is_lost(
    concurrency: int, script: list[tuple[str, int]]
) -> None:
    async def main() -> None:
        limits = limits_of(concurrency=concurrency)
        turns = Turns(concurrency)
        inside: list[int] = []
        tasks: list[asyncio.Task[None]] = []
        done: list[asyncio.Event] = []

        async def call(number: int, ranking: int) -> None:
            async with slot(limits, request(ranking)):
                inside.append(number)
                try:
                    await done[number].wait()
                finally:
                    inside.remove(number)

        for step, which in script:
            if step == "arrive":
                done.append(asyncio.Event())
                tasks.append(asyncio.create_task(call(len(tasks), which)))
                turns.arrive(len(tasks) - 1, which)
            elif step == "leave" and inside:
                number = inside[which % len(inside)]
                done[number].set()
                turns.leave(number)
            elif step == "cancel" and tasks:
                number = which % len(tasks)
                tasks[number].cancel()
                turns.leave(number)
            await anyio.wait_all_tasks_blocked()
            assert inside == turns.inside
            waiting = sum(map(len, turns.queues.values()))
            assert in_flight(limits) == (len(inside), waiting)
            assert len(inside) <= concurrency

        for event in done:
            event.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert_at_rest(limits)

    simulate(main())
