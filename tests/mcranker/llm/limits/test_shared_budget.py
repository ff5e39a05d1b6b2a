"""A budget of several processes: never exceeded, and used up; in virtual time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio
import pytest

from mcranker import BudgetExceeded
from mcranker.llm.limits.budget import Booked, Booking, Budget, Sums
from tests.support.virtual_time import simulate


class Payers:
    """Book as `PostgresStore.book`, for one run."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Sums, Sums]] = {}
        self.ended: set[str] = set()  # killed

    async def __call__(self, booking: Booking) -> Booked:
        await anyio.sleep(0.001)
        others = [(n, spent, open_) for n, (spent, open_) in self.rows.items()]
        others = [each for each in others if each[0] != booking.payer]
        taken = Sums(
            sum(s.calls + o.calls for _, s, o in others), sum(s.cost + o.cost for _, s, o in others)
        )
        granted = booking.room(taken)
        mine = booking.open.plus(*booking.claims[:granted])
        self.rows[booking.payer] = booking.spent, mine
        alive = sum(o.calls for n, _, o in others if n not in self.ended)
        await anyio.sleep(0.001)
        return Booked(granted, taken, alive)

    @property
    def total(self) -> Sums:
        rows = [each for pair in self.rows.values() for each in pair]
        return Sums(sum(each.calls for each in rows), sum(each.cost for each in rows))


def budgets(payers: Payers, count: int, **limits: float) -> list[Budget]:
    made = [Budget(**limits) for _ in range(count)]  # type: ignore[arg-type]  # as given
    for each in made:
        each.share(payers)
    return made


async def spend(
    each: Budget, calls: int, cost: Callable[[], float | None], answered: list[float]
) -> int:
    """Make calls that may cost up to 1 dollar, five at a time; return how many were refused."""
    refused = 0
    limiter = anyio.CapacityLimiter(5)

    async def call() -> None:
        nonlocal refused
        async with limiter:
            try:
                await each.claim(1.0)
            except BudgetExceeded:
                refused += 1
                return
            await anyio.sleep(0.2)
            paid = cost()
            each.settle(1.0, paid)
            if paid is not None:
                answered.append(paid)

    async with anyio.create_task_group() as group:
        for _ in range(calls):
            group.start_soon(call)
    await each.aclose()
    return refused


async def all_of(jobs: list[Awaitable[int]]) -> int:
    total = 0

    async def one(job: Awaitable[int]) -> None:
        nonlocal total
        found = await job
        total += found

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(one, job)
    return total


def test_calls_of_all_processes_are_counted() -> None:
    async def main() -> None:
        payers, answered = Payers(), list[float]()
        first = budgets(payers, 4, max_calls=50)
        refused = await all_of([spend(each, 30, lambda: 0.0, answered) for each in first])
        assert (len(answered), refused, payers.total) == (50, 70, Sums(50, 0.0))
        # Started again: nothing is left. With a higher limit it goes on.
        (again,) = budgets(payers, 1, max_calls=50)
        with pytest.raises(BudgetExceeded, match=r"max_calls=50 of all workers .* used up \(50 c"):
            await again.claim(1.0)
        (more,) = budgets(payers, 1, max_calls=60)
        assert await spend(more, 20, lambda: 0.0, answered) == 10
        assert len(answered) == 60

    simulate(main())


def test_a_cost_is_used_up_and_never_exceeded() -> None:
    async def main() -> None:
        payers, answered, luck = Payers(), list[float](), random.Random(1)

        def cost() -> float | None:  # most calls cost much less than is set aside, some fail
            return luck.choice([0.1, 0.2, None, 1.0])

        made = budgets(payers, 5, max_cost=20.0)
        refused = await all_of([spend(each, 60, cost, answered) for each in made])
        assert refused > 0
        assert 19.0 < sum(answered) <= 20.0
        assert payers.total == pytest.approx((len(answered), sum(answered)))

    simulate(main())


def test_a_call_that_finds_no_room_waits_for_those_of_others() -> None:
    async def main() -> None:
        first, second = budgets(Payers(), 2, max_calls=1)
        await first.claim(1.0)
        outcomes = list[str]()

        async def other() -> None:
            await second.claim(1.0)
            outcomes.append("granted")

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            await anyio.sleep(5)
            assert outcomes == []
            first.settle(1.0, None)  # it failed, so it does not count
        assert outcomes == ["granted"]

    simulate(main())


def test_what_a_killed_process_had_set_aside_counts_as_spent() -> None:
    async def main() -> None:
        payers = Payers()
        first, second = budgets(payers, 2, max_calls=2)
        await first.claim(1.0)
        await second.claim(1.0)
        payers.ended.add(first._payer)
        second.settle(1.0, 0.5)
        with pytest.raises(BudgetExceeded, match="used up"):
            await second.claim(1.0)

    simulate(main())
