"""Refusals by chance are told from limits; providers are simulated, and time is virtual."""

from __future__ import annotations

from functools import cache

import pytest

from mcranker import ServerFailed
from mcranker.llm.limits.concurrency import FIRST
from tests.attack.scale import scaled
from tests.support.simulated_provider import (
    AtOnce,
    Bursts,
    Chance,
    Minute,
    Rate,
    SimulatedProvider,
    run,
)

SEEDS = range(scaled(1))


@cache
def seconds_without_refusals(concurrency: int | None) -> float:
    return run(SimulatedProvider, calls=6000, concurrency=concurrency).seconds


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("concurrency", [64, None])
@pytest.mark.parametrize(("share", "times"), [(0.01, 1.5), (0.05, 2.0), (0.1, 3.0), (0.2, 6.0)])
def test_chance_does_not_starve_a_run(
    share: float, times: float, concurrency: int | None, seed: int
) -> None:
    outcome = run(
        lambda: SimulatedProvider([Chance(share, seed)]),
        calls=6000,
        concurrency=concurrency,
        seed=seed,
    )
    assert len(outcome.answers) == 6000
    assert outcome.lost == 0
    assert outcome.refused() == pytest.approx(share, rel=0.2)
    assert outcome.seconds <= times * seconds_without_refusals(concurrency)


@pytest.mark.parametrize("seed", SEEDS)
def test_failures_by_chance_do_not_starve_a_run(seed: int) -> None:
    chance = Chance(0.01, seed, error=lambda: ServerFailed("503"))
    outcome = run(lambda: SimulatedProvider([chance]), calls=6000, concurrency=64, seed=seed)
    assert outcome.seconds <= 1.5 * seconds_without_refusals(64)


@pytest.mark.parametrize("seed", SEEDS)
def test_chance_that_begins_late_is_found_out(seed: int) -> None:
    outcome = run(
        lambda: SimulatedProvider([Chance(0.1, seed, begin=60.0)], latency=0.5, spread=0.3),
        seconds=120.0,
        workers=300,
        concurrency=64,
        seed=seed,
    )
    assert outcome.answered(60.0, 120.0) >= 0.8 * outcome.answered(10.0, 60.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("latency", [0.1, 0.5])
@pytest.mark.parametrize(("rate", "burst"), [(10, 10), (10, 100), (100, 100)])
@pytest.mark.parametrize("tells", [False, True])
def test_a_rate_is_used_well(rate: int, burst: int, latency: float, tells: bool, seed: int) -> None:
    seconds = 4000.0 / rate + 60.0 if rate == 10 else 150.0
    outcome = run(
        lambda: SimulatedProvider([Rate(rate, burst, tells=tells)], latency, 0.3, seed=seed),
        seconds=seconds,
        workers=300,
        seed=seed,
    )
    assert len(outcome.answers) >= 0.8 * rate * seconds
    assert outcome.answered(60.0, seconds) >= 0.8 * rate
    assert outcome.refused(since=60.0) <= 0.05


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("latency", [0.1, 0.3])
@pytest.mark.parametrize("concurrency", [64, None])
def test_a_rate_is_used_from_the_first_calls_on(
    concurrency: int | None, latency: float, seed: int
) -> None:
    outcome = run(
        lambda: SimulatedProvider([Rate(100, 100)], latency),
        calls=1200,
        workers=300,
        concurrency=concurrency,
        seed=seed,
    )
    # 100 at once and 1,100 at 100 a second take 11 s.
    assert outcome.seconds <= 11.0 / 0.8


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [10, 100])
def test_a_rate_that_halves_is_followed(rate: int, seed: int) -> None:
    outcome = run(
        lambda: SimulatedProvider([Rate(rate, rate, (120.0, rate / 2))], 0.5, 0.3, seed=seed),
        seconds=240.0,
        workers=300,
        seed=seed,
    )
    assert outcome.answered(60.0, 120.0) >= 0.8 * rate
    assert outcome.answered(120.0, 240.0) >= 0.8 * rate / 2
    assert outcome.refused(since=150.0) <= 0.06


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bursts", [Bursts(60.0, 5.0), Bursts(20.0, 2.0, share=0.5)])
def test_bursts_of_refusals_pass(bursts: Bursts, seed: int) -> None:
    outcome = run(
        lambda: SimulatedProvider(
            [Bursts(bursts.period, bursts.length, bursts.share, seed)], 0.5, 0.3, seed=seed
        ),
        seconds=240.0,
        workers=300,
        concurrency=64,
        seed=seed,
    )
    # The mean of exp(0.3 z) is 1.05.
    assert len(outcome.answers) >= 0.5 * 240.0 * 64 / 0.5 / 1.05
    assert outcome.refused() <= 0.08


@pytest.mark.parametrize("seed", SEEDS)
def test_so_many_a_minute_are_used(seed: int) -> None:
    outcome = run(
        lambda: SimulatedProvider([Minute(6000)], 0.5, 0.3, seed=seed),
        seconds=180.0,
        workers=300,
        seed=seed,
    )
    assert len(outcome.answers) >= 0.8 * 100 * 180.0
    assert outcome.refused(since=60.0) <= 0.05


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [8, 40])
@pytest.mark.parametrize("concurrency", [64, None])
def test_so_many_at_once_are_used(concurrency: int | None, most: int, seed: int) -> None:
    outcome = run(
        lambda: SimulatedProvider([AtOnce(most)], 0.5, 0.3, seed=seed),
        seconds=240.0,
        workers=300,
        concurrency=concurrency,
        seed=seed,
    )
    # Starts are spread evenly and answers are not, so 8 at once cannot always be in flight.
    assert outcome.answered(60.0, 240.0) >= 0.55 * most / 0.5
    assert outcome.refused(since=60.0) <= 0.08


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [10, 100])
@pytest.mark.parametrize("share", [0.05, 0.1])
def test_chance_on_top_of_a_rate(share: float, rate: int, seed: int) -> None:
    outcome = run(
        lambda: SimulatedProvider([Chance(share, seed), Rate(rate, rate)], 0.5, 0.3, seed=seed),
        seconds=240.0,
        workers=300,
        seed=seed,
    )
    assert outcome.answered(60.0, 240.0) >= 0.6 * rate
    assert outcome.refused(since=60.0) <= share + 0.12


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_a_first_query_starts_fast(spread: float) -> None:
    learned, given = (
        run(lambda: SimulatedProvider((), 0.3, spread), calls=300, workers=300, concurrency=each)
        for each in (None, 256)
    )
    # 16, 64 and 220 at once take three answers' time, 256 and 44 take two.
    assert learned.seconds <= (1.6 if spread == 0.0 else 2.2) * given.seconds
    assert learned.limit > FIRST


@pytest.mark.parametrize("slots", [1, 4, 40])
def test_a_fast_start_does_not_flood_a_server_with_few_slots(slots: int) -> None:
    outcome = run(lambda: SimulatedProvider((), 0.5, slots=slots), seconds=20.0, workers=300)
    assert outcome.limit <= max(48, 4 * slots)
    assert len(outcome.answers) >= 0.9 * 20.0 * slots / 0.5
