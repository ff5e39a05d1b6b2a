"""How well providers are used that refuse, fail or queue calls; simulated, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcranker import ServerFailed
from mcranker.llm.limits.concurrency import FIRST, MOST_LEARNED, LearnedConcurrency
from tests.support.simulated_provider import (
    AtOnce,
    Chance,
    Minute,
    Rate,
    Reason,
    SimulatedProvider,
    run,
)


@dataclass(frozen=True)
class Scenario:
    """A provider, how it is asked, and what is expected; times in seconds from the beginning."""

    reasons: Callable[[], list[Reason]]
    latency: float = 0.5
    spread: float = 0.3
    asked: dict[str, Any] = field(default_factory=dict)
    answered: tuple[tuple[float, float, float], ...] = ()
    """Since, until, and the least answers a second between."""
    refused: tuple[float, float] = (0.0, 1.0)
    """Since, and the largest share of calls refused from then on."""


# 64 at once make 64 / 0.5 s / 1.05 = 122 calls a second; the mean of exp(0.3 z) is 1.05.
SCENARIOS = {
    "chance from 30 s on": Scenario(
        lambda: [Chance(0.1, begin=30.0)],
        asked={"seconds": 80.0, "concurrency": 64},
        answered=((10.0, 30.0, 110.0), (30.0, 80.0, 90.0)),
        refused=(30.0, 0.12),
    ),
    "a rate, learned": Scenario(
        lambda: [Rate(100, 100)],
        asked={"seconds": 90.0},
        answered=((0.0, 90.0, 80.0), (60.0, 90.0, 80.0)),
        refused=(60.0, 0.05),
    ),
    "a rate that halves": Scenario(
        lambda: [Rate(20, 20, (120.0, 10.0))],
        asked={"seconds": 240.0},
        answered=((60.0, 120.0, 16.0), (120.0, 240.0, 8.0)),
        refused=(150.0, 0.06),
    ),
    "by the minute": Scenario(
        lambda: [Minute(1200)],
        asked={"seconds": 240.0},
        answered=((0.0, 240.0, 16.0),),
        refused=(60.0, 0.05),
    ),
    "a storm of 30 s": Scenario(
        lambda: [Chance(1.0, begin=30.0, end=60.0)],
        spread=0.0,
        asked={"seconds": 240.0, "workers": 64, "concurrency": 16},
        answered=((200.0, 240.0, 0.8 * 16 / 0.5),),
    ),
    "40 at once, learned": Scenario(
        lambda: [AtOnce(40)],
        asked={"seconds": 100.0},
        answered=((50.0, 100.0, 0.55 * 40 / 0.5),),
        refused=(50.0, 0.08),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_provider_is_used_well(name: str) -> None:
    scenario = SCENARIOS[name]
    outcome = run(
        lambda: SimulatedProvider(scenario.reasons(), scenario.latency, scenario.spread),
        **{"workers": 300, **scenario.asked},
    )
    assert outcome.lost == 0
    for since, until, least in scenario.answered:
        assert outcome.answered(since, until) >= least
    since, most = scenario.refused
    assert outcome.refused(since) <= most


@pytest.mark.parametrize("concurrency", [64, None])
@pytest.mark.parametrize(
    ("chance", "times"),
    [
        (Chance(0.01), 1.5),
        (Chance(0.1), 3.0),
        (Chance(0.2), 6.0),
        (Chance(0.01, error=lambda: ServerFailed("503")), 1.5),
        (Chance(0.1, error=lambda: ServerFailed("503")), 2.0),
    ],
    ids=["1%", "10%", "20%", "1% failures", "10% failures"],
)
def test_chance_does_not_starve_a_run(
    chance: Chance, times: float, concurrency: int | None
) -> None:
    outcome = run(
        lambda: SimulatedProvider([chance]), calls=6000, concurrency=concurrency, workers=64
    )
    assert (len(outcome.answers), outcome.lost) == (6000, 0)
    # 6,000 calls of 0.1 s, 64 at once, take 9.4 s.
    assert outcome.seconds <= times * 9.4


def test_calls_are_spread_over_the_minute_of_a_provider_that_counts_by_the_minute() -> None:
    outcome = run(lambda: SimulatedProvider([Minute(60, tells=True)], 0.5), seconds=900.0)
    seconds_used = {int(at) for at in outcome.answers if at > 180.0}
    assert len(seconds_used) >= 0.5 * (900.0 - 180.0)


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_a_first_query_starts_fast(spread: float) -> None:
    learned, given = (
        run(lambda: SimulatedProvider((), 0.3, spread), calls=300, workers=300, concurrency=each)
        for each in (None, 256)
    )
    # 16, 64 and 220 at once take three answers' time, 256 and 44 take two.
    assert learned.seconds <= (1.6 if spread == 0.0 else 2.2) * given.seconds
    assert learned.limit > FIRST


def test_a_provider_without_bounds_is_soon_used_fully() -> None:
    # A window takes little more than one latency; there are eight up to 256.
    assert run(lambda: SimulatedProvider((), 0.5), seconds=6.0, workers=300).limit == MOST_LEARNED


@pytest.mark.parametrize(("slots", "seconds"), [(1, 150.0), (4, 150.0), (40, 60.0)])
def test_a_server_gets_about_as_many_calls_at_once_as_it_has_slots(
    slots: int, seconds: float
) -> None:
    outcome = run(lambda: SimulatedProvider((), 0.5, slots=slots), seconds=seconds, workers=300)
    assert outcome.limit <= 1.5 * slots + 1
    assert outcome.answered(10.0, seconds) >= 0.9 * slots / 0.5
    # Nor does the fast start flood it.
    start = run(lambda: SimulatedProvider((), 0.5, slots=slots), seconds=10.0, workers=300)
    assert start.limit <= max(48, 4 * slots)


def test_an_overloaded_server_gets_fewer_calls_at_once() -> None:
    reason = AtOnce(6, error=lambda: ServerFailed("503"))
    outcome = run(lambda: SimulatedProvider([reason], 0.5), seconds=120.0, workers=32)
    assert outcome.limit <= 9
    assert outcome.answered(60.0, 120.0) >= 0.5 * 6 / 0.5


def test_the_limit_does_not_grow_while_it_is_not_used() -> None:
    provider = SimulatedProvider((), 0.5)
    assert run(lambda: provider, seconds=60.0, workers=FIRST - 2).limit == FIRST


@pytest.mark.parametrize("share", [0.4, 0.75, 1.0])
def test_calls_are_as_many_as_before_soon_after_a_storm_of_failures(share: float) -> None:
    storm = Chance(share, begin=60.0, end=90.0, error=lambda: ServerFailed("500"))
    outcome = run(lambda: SimulatedProvider([storm], 1.0), seconds=180.0, workers=256)
    assert outcome.answered(120.0, 180.0) >= 0.95 * outcome.answered(30.0, 60.0)


def test_failures_of_many_calls_lower_the_limit_and_of_few_do_not() -> None:
    learned = LearnedConcurrency()
    for number in range(24):
        learned.finished(1.0, 0.0, FIRST, failed=number % 12 == 0)
    assert learned.limit > FIRST

    learned = LearnedConcurrency()
    for number in range(24):
        learned.finished(1.0, 0.0, FIRST, failed=number % 4 == 0)
    assert learned.limit >= FIRST  # 6 of 24 may be by chance where 10% fail

    learned = LearnedConcurrency()
    for number in range(24):
        learned.finished(1.0, 0.0, FIRST, failed=number % 2 == 0)
    assert learned.limit == int(0.7 * FIRST)  # 12 > 0.2 * 24 + 3 * sqrt(0.2 * 0.8 * 24) = 10.7
    # Those in flight meanwhile say nothing new.
    for _ in range(100):
        learned.finished(1.5, 0.9, FIRST, failed=True)
    assert learned.limit == int(0.7 * FIRST)
