"""A fleet of workers on one provider's limit, simulated in virtual time.

    python benchmarks/fleet.py [--workers 100] [--calls 10000000] [--seed 0]

The limits are the real ones: each worker has a `RateController` that learns how many calls to make
at once, and leases its requests a minute from a `Bucket`, as it does from the database. Provider,
network and ledger are a model, a loop over events in the order of their times, so that 10⁷ calls
take minutes, and a seed gives the same figures each time. The limit is such that all calls take
1,000 s at best. What happens:

- from 150 to 300 s the provider takes half of the limit, and its 429 says how long to wait;
- from 400 to 550 s the same, but it does not say;
- from 600 to 630 s it fails three quarters of the calls with 500; it fails 0.2% of them always;
- at 650 s the database is away for 20 s, and at 700 s a worker's network is cut for 90 s;
- one worker in twenty is killed, and begins again after 30 s; its claims end after 45 s;
- 1% of the calls take 10 times as long, and those of one worker 5 times;
- at 800 s another run of 0.5% of the calls begins, with a twentieth of the workers.

Printed: what was accepted in each of these times as a share of what the provider takes then, what
was refused, calls paid for twice, and how evenly the workers shared.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

from mcranker.errors import RateLimited, ServerFailed
from mcranker.llm.limits.leases import BEAT, Ask, Bucket, Lease
from mcranker.llm.limits.rate_controller import RateController
from mcranker.llm.limits.retries import ATTEMPTS, FIRST_WAIT

QUERY = 100  # calls, which a worker takes at once
CLAIM = 45.0  # seconds that a claim lasts unless it is renewed
BACK = 30.0  # seconds until a worker that was killed begins again
LATENCY, SPREAD = 0.8, 0.4  # seconds of a call, log-normal
REFUSED_AFTER, FAILED_AFTER = 0.05, 0.3  # seconds
SLOW_CALLS, SLOW_CALL, SLOW_WORKER = 0.01, 10.0, 5.0
DATABASE = 0.004  # seconds of a commit, exponential
FAILURES = 0.002
BURST = 1.0  # seconds of its limit that the provider lets through at once


HALVED = ((150.0, 300.0, True), (400.0, 550.0, False))
"""Since, until, and whether a refusal says how long to wait."""

FAILING = (600.0, 630.0)
AWAY = (650.0, 670.0)
CUT = (700.0, 790.0)
STEADY = (320.0, 395.0)  # nothing happens, and fairness is measured
OTHER, SHARE = 800.0, 0.005  # the other run, and its share of the calls
KILLS = (30.0, 900.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts at a time, in seconds from the beginning."""

    at: float
    accepted: int
    refused: int
    failed: int
    made: tuple[int, ...]


class Provider:
    """Takes calls up to its limit, a second, and counts those it took, refused and could take."""

    def __init__(self, rate: float, luck: random.Random) -> None:
        self.rate, self._luck = rate, luck
        self._left, self._filled = rate * BURST, 0.0
        self.accepted = self.refused = self.failed = 0

    def limit(self, now: float) -> tuple[float, bool]:
        """Calls a second, and whether a refusal says how long to wait."""
        for begin, end, tells in HALVED:
            if begin <= now < end:
                return self.rate / 2, tells
        return self.rate, True

    def could_take(self, begin: float, end: float) -> float:
        """Calls within a time."""
        lost = sum(max(0.0, min(end, until) - max(begin, since)) for since, until, _ in HALVED)
        return self.rate * (end - begin - lost / 2)

    def compared(self, first: Sample, last: Sample) -> dict[str, Any]:
        """Compare what was accepted between two samples with what it could take."""
        accepted, refused = last.accepted - first.accepted, last.refused - first.refused
        took = accepted + last.failed - first.failed
        return {
            "from": first.at,
            "until": round(last.at, 1),
            "taken_of_limit": round(took / self.could_take(first.at, last.at), 3),
            "refused_share": round(refused / max(1, took + refused), 4),
        }

    def call(self, now: float) -> RateLimited | ServerFailed | None:
        """Take a call: None if it is answered, else the error."""
        rate, tells = self.limit(now)
        self._left = min(rate * BURST, self._left + (now - self._filled) * rate)
        self._filled = now
        if self._left < 1.0:
            self.refused += 1
            # Whole seconds, as in the header.
            return RateLimited("429", retry_after=1.0 if tells else None)
        self._left -= 1.0
        begin, end = FAILING
        if self._luck.random() < (0.75 if begin <= now < end else FAILURES):
            self.failed += 1
            return ServerFailed("500")
        self.accepted += 1
        return None


@dataclass(slots=True)
class Run:
    """Calls that are to be made, and where they are."""

    calls: int
    left: int = 0  # that no worker has taken
    kept: int = 0
    missing: int = 0  # given up after the last try
    twice: int = 0  # paid for and not kept
    began: float = 0.0
    ended: float = math.nan

    def __post_init__(self) -> None:
        self.left = self.calls

    def done(self, now: float) -> None:
        """Note the end if that was the last call."""
        if self.kept + self.missing == self.calls:
            self.ended = now


@dataclass(slots=True, eq=False)
class Worker:
    """A process with its limits; a new one takes the place of one that was killed."""

    run: Run
    controller: RateController
    slow: float = 1.0
    cut_until: float = -math.inf
    life: int = 0
    has: int = 0  # calls that it has taken and not begun
    in_flight: int = 0
    retrying: int = 0  # calls that wait for their next try
    ready: deque[int] = field(default_factory=deque)  # numbers of the next tries of calls
    made: int = 0
    asked: bool = False
    told: float = -math.inf
    wake: float = math.inf
    commits: deque[float] = field(default_factory=deque)


class Fleet:
    """Workers, a provider and a database, and the events to come."""

    def __init__(self, rate: float, seed: int) -> None:
        random.seed(seed)  # of the limits' own chance
        self._luck = random.Random(seed)
        self._rate = rate
        self.provider = Provider(rate, self._luck)
        self.bucket = Bucket(0.0, 0.0)
        self._paused = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = count()
        self.now = 0.0
        self.leases = 0
        self.workers: list[Worker] = []

    def begin(self, run: Run, workers: int) -> None:
        """Begin a run with workers of its own."""
        run.began = self.now
        for _ in range(workers):
            self.workers.append(Worker(run, self._controller()))
            self.at(self.now, self._admit, self.workers[-1])

    def at(self, when: float, do: Callable[..., None], *args: Any) -> None:
        """Do something later."""
        heapq.heappush(self._events, (when, next(self._number), do, args))

    def play(self, until: Callable[[], bool]) -> None:
        """Let time pass."""
        events = self._events
        while events and not until():
            self.now, _, do, args = heapq.heappop(events)
            do(*args)

    def kill(self, worker: Worker) -> None:
        """End a worker; others get its calls when its claims end."""
        run, commits = worker.run, worker.commits
        lost = sum(each > self.now for each in commits)
        run.kept -= lost
        run.twice += lost
        again = lost + worker.in_flight + worker.retrying + len(worker.ready) + worker.has
        self.at(self.now + CLAIM, self._give_back, run, again)
        worker.life += 1
        worker.has = worker.in_flight = worker.retrying = 0
        worker.asked = False
        worker.wake, worker.told = math.inf, -math.inf
        worker.commits.clear()
        worker.ready.clear()
        worker.controller = self._controller()
        self.at(self.now + BACK, self._admit, worker)

    def cut(self, worker: Worker, seconds: float) -> None:
        """Cut a worker's network to the database; others get what it has when its claims end."""
        worker.cut_until = self.now + seconds
        # A claim was renewed within the last third of its time.
        left = CLAIM * self._luck.uniform(2 / 3, 1.0)
        if seconds > left:
            self.at(self.now + left, self._lapse, worker)

    def _controller(self) -> RateController:
        made = RateController(concurrency=None, requests_per_minute=self._rate * 60)
        made.share()
        return made

    def _give_back(self, run: Run, calls: int) -> None:
        run.left += calls
        for each in self.workers:
            if each.run is run and not each.in_flight:
                self._admit(each)

    def _lapse(self, worker: Worker) -> None:
        # What was answered during the cut is asked by others as well, what was not begun is not
        # begun here: a claim on it finds the others'.
        late = sum(each > self.now for each in worker.commits)
        worker.run.twice += late
        worker.run.kept -= late
        worker.commits.clear()
        self._give_back(worker.run, late + worker.has)
        worker.has = 0

    def _reached(self, worker: Worker) -> float:
        """When a statement that is sent now is committed."""
        begin, end = AWAY
        start = end if begin <= self.now < end else self.now
        return max(start, worker.cut_until) + self._luck.expovariate(1 / DATABASE)

    # Limits, as `RateLimiter` does it

    def _admit(self, worker: Worker) -> None:
        controller, run, now = worker.controller, worker.run, self.now
        while worker.in_flight < controller.limit:
            if not (worker.has or worker.ready):
                if not run.left or worker.cut_until > now:
                    break
                worker.has = min(QUERY, run.left)
                run.left -= worker.has
            due = controller.start(now, 0.0)
            if due is None:
                attempt = worker.ready.popleft() if worker.ready else 1
                worker.has -= attempt == 1
                self._call(worker, attempt)
                assert controller.leases is not None
                if controller.leases.wants(now):
                    self._ask(worker)
                continue
            if due == math.inf:
                assert controller.leases is not None
                if now >= controller.leases.again:
                    self._ask(worker, waiting=True)
                    break
                due = controller.leases.again
            if due < worker.wake:
                worker.wake = due
                self.at(due, self._wake, worker, due)
            break

    def _wake(self, worker: Worker, due: float) -> None:
        if worker.wake == due:
            worker.wake = math.inf
            self._admit(worker)

    def _ask(self, worker: Worker, *, waiting: bool = False) -> None:
        if worker.asked:
            return
        worker.asked = True
        controller = worker.controller
        assert controller.leases is not None
        worker.told = controller.paused_until
        room = max(1, worker.has + len(worker.ready)) if waiting else 0
        pause = worker.told - self.now
        ask = controller.leases.ask(self.now, pause=pause, waiting=room)
        self.at(self._reached(worker), self._lease, worker, worker.life, ask)

    def _lease(self, worker: Worker, life: int, ask: Ask) -> None:
        self.leases += 1
        assert ask.requests is not None
        self._paused = max(self._paused, self.now + ask.pause)
        pause = max(0.0, self._paused - self.now)
        lease = Lease(pause, self.bucket.lease(ask.requests, self.now), None)
        if life == worker.life:  # else what it was given is lost
            worker.asked = False
            worker.controller.leased(lease, self.now)
            worker.told = max(worker.told, self.now + pause)
            self._admit(worker)

    # Calls

    def _call(self, worker: Worker, attempt: int) -> None:
        worker.in_flight += 1
        luck = self._luck
        error = self.provider.call(self.now)
        if error is None:
            seconds = luck.lognormvariate(0.0, SPREAD) * LATENCY * worker.slow
            if luck.random() < SLOW_CALLS:
                seconds *= SLOW_CALL
        else:
            seconds = REFUSED_AFTER if isinstance(error, RateLimited) else FAILED_AFTER
        about = worker, worker.life, worker.controller.number, self.now, error, attempt
        self.at(self.now + seconds, self._ended, *about)

    def _ended(
        self,
        worker: Worker,
        life: int,
        number: int,
        started: float,
        error: RateLimited | ServerFailed | None,
        attempt: int,
    ) -> None:
        run = worker.run
        if life != worker.life:
            run.twice += error is None
            return
        now, controller = self.now, worker.controller
        controller.ended(
            now,
            number=number,
            started=started,
            in_flight=worker.in_flight,
            error=error,
            extra_tokens=0.0,
        )
        worker.in_flight -= 1
        if error is None:
            commits = worker.commits
            while commits and commits[0] <= now:
                commits.popleft()
            commits.append(self._reached(worker))
            worker.made += 1
            run.kept += 1
            run.done(now)
        elif attempt == ATTEMPTS:
            run.missing += 1
            run.done(now)
        else:
            wait = FIRST_WAIT * 2.0 ** (attempt - 1) * self._luck.uniform(0.5, 1.0)
            worker.retrying += 1
            self.at(now + wait, self._retry, worker, life, attempt + 1)
        if controller.paused_until > worker.told + BEAT:
            self._ask(worker)
        self._admit(worker)

    def _retry(self, worker: Worker, life: int, attempt: int) -> None:
        if life == worker.life:
            worker.retrying -= 1
            worker.ready.append(attempt)
            self._admit(worker)


def simulate(workers: int, calls: int, seed: int) -> dict[str, Any]:
    """Return the figures of a run, and of the one beside it."""
    rate = calls / 1000.0
    fleet = Fleet(rate, seed)
    run, other = Run(calls), Run(max(1, int(SHARE * calls)))
    beside = max(1, workers // 20)
    fleet.begin(run, workers)
    first, slow, *rest = fleet.workers
    slow.slow = SLOW_WORKER
    fleet.at(OTHER, fleet.begin, other, beside)
    fleet.at(CUT[0], fleet.cut, first, CUT[1] - CUT[0])
    killed = rest[: max(1, workers // 20)]
    for place, worker in enumerate(killed):
        fleet.at(KILLS[0] + (KILLS[1] - KILLS[0]) * place / len(killed), fleet.kill, worker)
    samples: list[Sample] = []

    def look() -> None:
        provider = fleet.provider
        made = tuple(each.made for each in fleet.workers[:workers])
        counts = provider.accepted, provider.refused, provider.failed
        samples.append(Sample(fleet.now, *counts, made))

    spans = [each[:2] for each in HALVED]
    times = {0.0, *STEADY, OTHER, *(each for span in (*spans, FAILING, AWAY) for each in span)}
    for each in sorted(times):
        fleet.at(each, look)
    fleet.play(lambda: not run.left and fleet.now > OTHER)
    look()
    fleet.play(lambda: not math.isnan(run.ended + other.ended))
    normal = {*range(workers)} - {fleet.workers.index(each) for each in (slow, *killed)}
    seen = {each.at: each for each in samples}
    done = samples[-1]
    begin, end = (seen[each].made for each in STEADY)
    shares = [end[place] - begin[place] for place in sorted(normal)]
    fair = rate * beside / (workers + beside)
    return {
        "workers": workers,
        "calls": calls,
        "limit_a_second": rate,
        "seconds_until_all_were_begun": round(done.at, 1),
        "seconds": round(run.ended, 1),
        "accepted_of_limit": round(done.accepted / fleet.provider.could_take(0.0, done.at), 4),
        "spans": [fleet.provider.compared(*pair) for pair in pairwise(samples)],
        "refused_share": round(done.refused / (done.accepted + done.refused), 4),
        "failed": done.failed,
        "paid_twice": run.twice + other.twice,
        "missing": run.missing + other.missing,
        "leases_a_second": round(fleet.leases / fleet.now, 1),
        "jain": round(jain(shares), 4),
        "least_and_most_of_mean": [
            round(each * len(shares) / sum(shares), 3) for each in (min(shares), max(shares))
        ],
        "other_run": {
            "workers": beside,
            "calls": other.calls,
            "seconds": round(other.ended - other.began, 1),
            "seconds_by_an_even_share": round(other.calls / fair, 1),
        },
    }


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness, 1 / n to 1: ``(sum x)² / (n · sum x²)``."""
    given = [*values]
    return sum(given) ** 2 / (len(given) * sum(each * each for each in given))


def main() -> None:
    parser = argparse.ArgumentParser(description="A fleet on one limit, in virtual time.")
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.perf_counter()
    found = simulate(given.workers, given.calls, given.seed)
    print(json.dumps(found, indent=1))
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
