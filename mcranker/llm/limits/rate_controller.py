"""The rate and number of calls that a provider can take, learned from what becomes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NotRequired, TypedDict, Unpack

from mcranker.errors import ConnectionFailed, ModelTimeout, RateLimited, ServerFailed
from mcranker.llm.limits.concurrency import FIRST, USED, LearnedConcurrency
from mcranker.llm.limits.leases import CATCH_UP, Lease, Leases

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds, see `RateLimits`
MINUTE = 60.0 + 2 * CATCH_UP  # seconds, so that making up never brings too many into 60 s
AT_ONCE = 1e-6  # seconds that a timer may be early, or a sum of floats be off
_FAILURES = (ConnectionFailed, ModelTimeout, ServerFailed)  # of a server in trouble

WINDOW = 60.0  # seconds after which what was seen begins to count for less
LEAST = 0.05  # seconds that a rate is told from
TOLERATED = 0.03  # share of calls whose refusal is no reason to be slower
FEW, SPREAD = 4.0, 2.0  # refusals, and standard deviations of them, that say nothing
MOST_CHANCE = 0.3  # share of calls; where more are refused, it is not by chance
MOST_UNSURE = 0.4  # share in a trial that may still turn out to be at most that
RARE = 1e-4  # of the calls: as rare is a row of refusals that is not by chance
LIKELY = 0.1  # share refused by chance that is reckoned with before one is known
SLOWER = 0.5  # of the rate accepted before, in a trial
NONE, EACH = 4.0, 1.75  # refusals expected by chance, for none to show that the rate was it
SOME, SHARE = 3.0, 1 / 3  # refusals that show chance, and more for each that is expected
EVEN = 1.3  # of what was accepted in a trial, where more were sent than in it
CLEAN = 16  # answers, after which few refusals are forgotten
ENOUGH = 200.0  # calls, for the share refused by chance to be corrected by them
LONG = 5.0  # seconds; a longer pause counts by the minute
WAITING = 0.25  # of the time in long pauses, which is too much
MILD = 1.05  # of the former rate, after a pause for few refusals
BACK_OFF = 0.9  # of what was accepted
RECOVERY = 15.0  # seconds from there to what was accepted, at most
PROBED, PROBED_AGAIN = 150.0, 15.0  # calls in that time, where it is shorter
MEMORY = 10.0  # seconds in which a rate is held to be that of late
FELL = 0.5  # of the rate of late; from less than that the way back is shorter
SLOWEST = 0.1  # starts a second
UNKNOWN = 2.0  # starts a second, taken as too fast where nothing was accepted yet
GENTLE = 16.0  # starts a second that are few enough after any pause
DOUBLING, DOUBLED = 1.0, 4.0  # seconds, and calls, at least, in which a rate doubles
FASTEST = 1e6  # starts a second


class _Curve(Enum):
    """Shape of the rate's growth after `_peak`."""

    FREE = 0
    RISING = 1
    TRIAL = 2
    CUBIC = 3


class RateLimits(TypedDict):
    """Limits of the user, and times in seconds."""

    concurrency: int | None
    """Calls in flight at once; None to learn it, see `LearnedConcurrency`."""
    requests_per_minute: NotRequired[float | None]
    """Starts in any 60 s at most, evenly spread; None for no limit."""
    tokens_per_minute: NotRequired[float | None]
    """Input and output tokens likewise."""
    first_pause: NotRequired[float]
    """Pause of all calls once every one is refused (429, 529) without saying for how long; 1 by
    default, and doubled as long as that goes on."""
    longest_pause: NotRequired[float]
    """The most that such a pause takes; 60 by default."""


class RateController:
    """Decides when calls of a model may start, and how many may be in flight."""

    def __init__(self, **limits: Unpack[RateLimits]) -> None:
        concurrency = limits["concurrency"]
        per_minute = limits.get("requests_per_minute")
        tokens_per_minute = limits.get("tokens_per_minute")
        self.leases: Leases | None = None
        self._learned = LearnedConcurrency() if concurrency is None else None
        self.limit = FIRST if concurrency is None else concurrency
        self._full = False  # calls were refused with as many in flight as may be
        self._a_request = MINUTE / per_minute if per_minute else 0.0
        self._a_token = MINUTE / tokens_per_minute if tokens_per_minute else 0.0
        self._requests_due = self._tokens_due = self._learned_due = -math.inf
        self.due = self.paused_until = -math.inf
        self._first_pause = limits.get("first_pause", FIRST_PAUSE)
        self._longest_pause = limits.get("longest_pause", LONGEST_PAUSE)
        self.pauses = self.number = 0
        self._last = self._last_but_one = 0  # the last call before the last two decisions
        self._closed_since = 0.0  # start of the first pause after which nothing was answered
        self._in_a_row = 0  # pauses
        self._resuming = False
        self._pausing = False  # the last decision was to pause
        self._told = False  # the provider said for how long
        self._reopened = 0  # the last call before the last pause
        self._trust = 0  # answers since then
        self._row = self._row_started = 0  # refusals since the last answer; starts since then
        self._curve = _Curve.FREE
        self._peak = 0.0
        self._resumed = 0.0
        self._before = 0.0  # what was accepted a second before a trial
        self._share = 0.0  # of the calls that were refused before a trial
        self._slow = 0.0  # what was accepted a second in the last trial that found chance
        self._tried = False  # a trial has just found the rate to be the reason
        self._checked = self._checked_refused = 0.0  # calls with few refusals since chance is known
        self._proven = 0.0  # starts a second of which none was refused
        self._good = 0.0  # calls a second, over the last seconds with few refusals
        self._chance = 0.0  # share of the calls that are refused whatever the rate
        self._took = 0.0  # twice the seconds that the last refusal took
        self._decided = 0.0  # when
        self._long = _Span(0, 0.0)  # since the rate was lowered
        self._span = _Span(0, 0.0)  # since the last decision

    def share(self) -> None:
        """Keep to the user's limits together with other processes, by `leases`."""
        distances = self._a_request, self._a_token
        self.leases = Leases(*(1.0 / each if each else 0.0 for each in distances))

    def leased(self, lease: Lease, now: float) -> None:
        """Count what was leased, and keep to the pauses of others."""
        assert self.leases is not None
        self.leases.add(lease, now)
        if lease.requests and lease.requests.amount > 0:
            self._requests_due = max(self._requests_due, now + lease.requests.wait)
        if lease.tokens and lease.tokens.amount > 0:
            self._tokens_due = max(self._tokens_due, now + lease.tokens.wait)
        if lease.pause > 0:
            self.paused_until = max(self.paused_until, now + lease.pause)
        self._settle()

    def start(self, now: float, tokens: float) -> float | None:
        """Count the start of a call with that many tokens."""
        if self._resuming and self.due <= now + AT_ONCE:
            if self._resume(now) and self._full and self._learned is not None:
                self._learned.back_off(now)
                self.limit = self._learned.limit
                self._full = False
            self._settle()
        if self.due > now + AT_ONCE:
            return self.due
        if self.leases is not None and not self.leases.take(tokens):
            return math.inf
        self.number += 1
        self._row_started += 1
        if self._curve is not _Curve.TRIAL and self._span.answered >= CLEAN:
            self._roll(now)
        for span in (self._span, self._long):
            if not span.started:
                span.since = now
            span.started += 1
        if now - self._long.since > 2 * WINDOW:
            self._long.forget(WINDOW / (now - self._long.since), now - WINDOW)
        if self._curve is _Curve.TRIAL and self._verdict():
            self._decide(now)
        if self._a_request:
            self._requests_due = max(self._requests_due, now - CATCH_UP) + self._a_request
        if self._a_token:
            self._tokens_due = max(self._tokens_due, now - CATCH_UP) + tokens * self._a_token
        if self._curve is not _Curve.FREE and (rate := self.rate(now)):
            self._learned_due = max(self._learned_due, now - CATCH_UP) + 1.0 / rate
        self._settle()
        return None

    def ended(
        self,
        now: float,
        *,
        number: int,
        started: float,
        in_flight: int,
        error: BaseException | None,
        extra_tokens: float,
    ) -> None:
        """Count the end of a call."""
        if isinstance(error, RateLimited):
            self._full |= in_flight >= USED * self.limit
            if error.retry_after is None or error.retry_after > 0:
                self._refused(now, number, now - started, error.retry_after)
                self._settle()
        elif error is None:
            if number > self._last_but_one:
                # While some calls are answered, a pause is the first of its row, not one more.
                self._in_a_row = min(self._in_a_row, int(number <= self._last))
            self._row = self._row_started = 0
            self._trust += number > self._reopened
            self._span.answered += number > self._span.before
            if self._a_token:
                self._tokens_due += extra_tokens * self._a_token
                if self.leases is not None and self.leases.tokens is not None:
                    self.leases.tokens.take(extra_tokens)
                self._settle()
        failed = isinstance(error, _FAILURES)
        if self._learned is not None and (error is None or failed):
            self._learned.finished(now, started, in_flight, failed=failed)
            self.limit = self._learned.limit

    def rate(self, now: float) -> float | None:
        """Starts a second that the provider is assumed to allow; None if unlimited."""
        if self._curve is _Curve.FREE:
            return None
        seconds = now - self._resumed
        peak = max(SLOWEST, self._peak)
        if self._curve is _Curve.RISING:
            return _doubled(peak, seconds / max(DOUBLING, DOUBLED / peak))
        if self._curve is _Curve.TRIAL:
            return peak
        curve = seconds / self._recovery - 1.0
        peak *= 1.0 + (1.0 - BACK_OFF) * min(curve, 1.0) ** 3
        return _doubled(max(SLOWEST, peak), max(0.0, 2.0 * (curve - 1.0)))

    def closed(self, now: float) -> float:
        """Seconds for which pauses have followed each other with no answer in between."""
        return now - self._closed_since if self._in_a_row > 1 else 0.0

    def idle(self, seconds: float) -> None:
        """Note seconds without calls, which say nothing about the provider."""
        self._long.since += seconds
        self._span.since += seconds

    def _settle(self) -> None:
        self.due = max(self.paused_until, self._requests_due, self._tokens_due, self._learned_due)

    def _refused(self, now: float, number: int, took: float, retry_after: float | None) -> None:
        late = number <= self._last
        self._took = min(2.0 * took, self._first_pause)
        self._long.refused += number > self._long.before
        self._span.refused += number > self._span.before
        if retry_after is not None:
            self._told = True
            self._pause(now, retry_after, late=late)
        elif not late:
            self._row += 1
            if self._row >= self._too_many_in_a_row() and 2 * self._row >= self._row_started:
                if self._trust < 2:
                    self._close(now)
                else:
                    self._decide(now)
            elif self._verdict() if self._curve is _Curve.TRIAL else self._is_much(self._span):
                self._decide(now)

    def _roll(self, now: float) -> None:
        span = self._span
        share = TOLERATED + self._chance
        if span.refused > share * span.started:
            return
        rate = span.accepted(now)
        self._proven = 0.0 if span.refused else rate
        self._good += (rate - self._good) * -math.expm1((span.since - now) / MEMORY)
        self._span = _Span(self.number, now)
        if self._chance:
            self._checked += span.started
            self._checked_refused += span.refused
            if self._checked >= ENOUGH:
                seen = self._checked_refused + SPREAD * math.sqrt(self._checked_refused + 1.0)
                self._chance = min(self._chance, seen / self._checked)
                self._checked = self._checked_refused = 0.0

    def _resume(self, now: float) -> bool:
        """Decide, at the first start after a pause; return True if the provider is overloaded."""
        self._resuming = False
        paused, told, self._pausing, self._told = self._pausing, self._told, False, False
        span = self._span
        by_minute = self._long.long_paused > WAITING * max(now - self._long.since, WINDOW)
        whole = self._long.accepted(now)
        if by_minute and (told or whole):
            return self._lower(now, whole)
        if told:
            return self._resume_as_told(now)
        if paused:
            return self._resume_as_guessed(now)
        if span.refused and span.refused >= span.started:
            self._close(now)
            return False
        accepted = span.accepted(self._decided)
        if self._curve is _Curve.TRIAL:
            verdict = self._verdict()
            if verdict == "chance":
                share = (span.refused / span.started + self._share) / 2.0
                self._chance = min(MOST_CHANCE, share)
                self._slow = accepted
                self._go(now, _Curve.RISING, max(GENTLE, 2.0 * self._before))
            elif verdict == "rate":
                self._tried = True
                self._chance = min(self._chance, span.refused / span.started)
                if self._fell(self._before):
                    self._go(now, _Curve.RISING, self._before)
                else:
                    self._lower(now, self._before)
            elif verdict:
                self._lower(now, accepted)
            return verdict in ("rate", "more")
        if not self._is_much(span):
            self._span = _Span(self.number, now)
            return False
        if self._curve is _Curve.CUBIC:
            accepted = max(accepted, self._proven)
        if self._curve is _Curve.RISING and self._chance and accepted < EVEN * self._slow:
            # What was taken for chance was this rate, which the trial had already reached.
            self._chance = 0.0
            return self._lower(now, accepted)
        settled = self._curve is _Curve.CUBIC and now - self._resumed >= self._recovery
        if settled or self._tried or span.is_obvious:
            self._tried = False
            return self._lower(now, accepted)
        sure = max(span.refused - 1.5 * math.sqrt(span.refused), 1.0)
        self._before, self._share = accepted, sure / span.started
        self._go(now, _Curve.TRIAL, SLOWER * accepted)
        return False

    def _resume_as_told(self, now: float) -> bool:
        whole = self._long.accepted(now)
        if self._is_much(self._long):
            return self._lower(now, whole)
        if self._curve is _Curve.CUBIC:
            self._peak = max(MILD * self._peak, whole)
            self._resumed = now - self._recovery
        else:
            self._go(now, _Curve.RISING, max(GENTLE, 2.0 * self._span.accepted(self._decided)))
        return False

    def _resume_as_guessed(self, now: float) -> bool:
        span = self._span
        if span.refused >= span.started:
            before = self.rate(self._decided) or self._proven
            self._go(now, _Curve.RISING, max(UNKNOWN, before / 2.0))
            return True
        if span.refused >= span.started / 2.0:
            self._go(now, _Curve.RISING, span.accepted(now))
            return True
        if self._curve is _Curve.CUBIC:
            self._go(now - self._recovery, _Curve.CUBIC, MILD * self._peak)
        else:
            self._go(now, _Curve.RISING, max(GENTLE, 2.0 * span.accepted(self._decided)))
        return False

    def _lower(self, now: float, accepted: float) -> bool:
        # Where nothing is accepted, the rate is halved as long as that lasts.
        self._go(now, _Curve.CUBIC, accepted or (self.rate(self._decided) or UNKNOWN) / 2.0)
        self._long = _Span(self.number, now)
        return True

    def _go(self, now: float, curve: _Curve, peak: float) -> None:
        self._curve, self._peak, self._resumed = curve, peak, now
        self._span = _Span(self.number, now)
        self._proven = 0.0

    def _fell(self, rate: float) -> bool:
        """True if a rate is far below one accepted lately, so that it may soon rise again."""
        return rate < FELL * self._good

    @property
    def _recovery(self) -> float:
        calls = PROBED_AGAIN if self._fell(self._peak) else PROBED
        return min(RECOVERY, max(1.0, calls / max(SLOWEST, self._peak)))

    def _close(self, now: float) -> None:
        if doubled := self._first_pause * 2.0 ** min(self._in_a_row, 30):
            self._pause(now, min(self._longest_pause, doubled), late=False)

    def _pause(self, now: float, seconds: float, *, late: bool) -> None:
        if not late:
            self.pauses += 1
            if self._in_a_row <= 1:
                self._closed_since = now
            self._in_a_row += 1
            self._trust = 0
            self._pausing = True
            self._decide(now)
            self._reopened = self.number
            self._row = self._row_started = 0
        if seconds > LONG:
            self._long.long_paused += max(0.0, now + seconds - max(now, self.paused_until))
        self.paused_until = max(self.paused_until, now + seconds)

    def _decide(self, now: float) -> None:
        self._last_but_one, self._last = self._last, self.number
        self._resuming = True
        self._decided = now
        # By then it is known whether the calls are refused that have just been sent.
        self.paused_until = max(self.paused_until, now + self._took)

    def _too_many_in_a_row(self) -> float:
        rare = math.log(RARE) / math.log(max(LIKELY, self._chance))
        return min(math.ceil(rare), 1 + self._trust // 2)

    def _is_much(self, span: _Span) -> bool:
        by_chance = self._chance * span.started
        expected = TOLERATED * span.started + by_chance
        return span.refused > FEW + expected + SPREAD * math.sqrt(by_chance)

    def _verdict(self) -> str:
        span = self._span
        if span.is_obvious:
            return "more"
        expected = span.started * self._share
        if expected >= NONE + EACH * span.refused:
            return "rate"
        if MOST_UNSURE * span.started >= span.refused >= SOME + SHARE * expected:
            return "chance"
        return ""


@dataclass(slots=True)
class _Span:
    """Results of the calls after one of them; times and pauses in seconds."""

    before: int  # the last call that does not count
    since: float
    started: float = 0.0
    answered: float = 0.0
    refused: float = 0.0
    long_paused: float = 0.0

    def forget(self, kept: float, since: float) -> None:
        self.since = since
        self.started *= kept
        self.refused *= kept
        self.long_paused *= kept

    def accepted(self, until: float) -> float:
        """Calls a second."""
        return max(0.0, self.started - self.refused) / max(until - self.since, LEAST)

    @property
    def is_obvious(self) -> bool:
        return self.refused - SPREAD * math.sqrt(self.refused) > MOST_CHANCE * self.started


def _doubled(rate: float, times: float) -> float:
    return min(FASTEST, rate * math.exp2(min(50.0, times)))
