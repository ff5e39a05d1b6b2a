"""Number of simultaneous calls to a model, learned from its answers."""

from __future__ import annotations

import math

MOST_LEARNED = 256
"""Calls in flight at once, at most, without a limit."""

FIRST = 16  # calls at once, to begin with
FEWEST = 24  # calls that a judgement rests on, at least
USED = 0.9  # of the limit must have been in flight for a judgement on it
GAIN = 0.25  # of the rise in throughput that more calls at once would bring at best
KEPT = 0.95  # of the throughput, for fewer calls at once to be kept
BOLD, CAREFUL = 1.5, 1.25  # factors from one limit to the next: before, and after a first check
REST, BRIEF_REST = 4, 2  # windows without a trial: once no trial is better, after a back-off
FAILING = 0.2  # of the calls, for the model to be overloaded
SPREAD = 3.0  # standard deviations above that, so that it is not by chance
BACK_OFF = 0.7
WELL = 8  # answers in a row after which failures are taken to be over
AT_FIRST = 3  # more calls at once for each answer, to begin with
NOT_SLOWER = 1.9  # times the fastest of the first answers, for an answer to count for that
STALLED = 1.5  # the least growth in a round of answers that goes on with it


class LearnedConcurrency:
    """Finds the fewest calls at once that give nearly the highest throughput."""

    def __init__(self) -> None:
        self.limit = FIRST
        self._base = FIRST  # the limit that a trial is compared with
        self._throughput = 0.0  # at the base
        self._upwards = True
        self._factor = BOLD
        self._rest = 0
        self._starting = True
        self._fastest = math.inf  # seconds, of the first answers
        self._first = 0  # answers looked at for that
        self._round = self._round_limit = 0  # answers, and the limit before them
        self._most = MOST_LEARNED  # of a slow start
        self._troubled = False  # failures have lowered the limit, and it is not back at `_most`
        self._well = 0  # answers in a row since
        self._open(-math.inf)

    def finished(self, now: float, started: float, in_flight: int, *, failed: bool) -> None:
        """Count the end of a call."""
        if self._starting:
            if self._grow(now - started, in_flight, failed=failed):
                return
            self._starting = False
            if self.limit > FIRST or self._troubled:
                self._open(now)
            self._troubled &= self.limit < self._most
        if started < self._opened:
            return
        self._well = 0 if failed else self._well + 1
        if failed:
            self._failed += 1
        else:
            self._answered += 1
            self._seconds += now - started
            self._in_flight += in_flight
        if self._troubled and self._well >= WELL:
            self._restart()
        elif self._answered + self._failed >= max(FEWEST, self.limit):
            self._close(now)

    def back_off(self, now: float) -> None:
        """Lower the limit: the model is overloaded."""
        self.limit = self._base = max(1, int(self.limit * BACK_OFF))
        self._upwards, self._factor, self._rest = True, CAREFUL, BRIEF_REST
        self._starting = False
        self._open(now)

    def _grow(self, seconds: float, in_flight: int, *, failed: bool) -> bool:
        """Count an answer of the slow start; return True if it goes on."""
        if failed or in_flight < USED * self.limit:
            return not failed
        if self._round == 0:
            self._round_limit = self.limit
            self._seconds = 0.0
            self._in_flight = 0
        self._round += 1
        self._seconds += seconds
        self._in_flight += in_flight
        if self._first < FIRST:
            self._first += 1
            self._fastest = min(self._fastest, seconds)
        if seconds <= NOT_SLOWER * self._fastest:
            self.limit = self._base = min(self._most, self.limit + AT_FIRST)
        if self.limit == self._most:
            # Whether as many are worth it has not been seen: of the most there can be, fewer are
            # tried next.
            self._upwards = self._most < MOST_LEARNED
            return False
        if self._round < max(FEWEST, self._round_limit):
            return True
        self._round = 0
        if self.limit >= STALLED * self._round_limit:
            return True
        # By Little's law, the number in flight if none waited for another.
        slots = self._fastest * self._in_flight / max(self._seconds, 1e-9)
        self.limit = self._base = min(self.limit, max(FIRST, math.ceil(BOLD * slots)))
        return False

    def _restart(self) -> None:
        """Begin another slow start, unless the limit is back already."""
        self._well = 0
        self._troubled = self._starting = self.limit < self._most
        self._fastest, self._first, self._round = math.inf, 0, 0

    def _open(self, now: float) -> None:
        self._opened = now
        self._answered = self._failed = self._in_flight = 0
        self._seconds = 0.0

    def _close(self, now: float) -> None:
        count = self._answered + self._failed
        if self._failed > FAILING * count + SPREAD * math.sqrt(FAILING * (1 - FAILING) * count):
            if not self._troubled:
                self._troubled, self._most = True, max(1, int(self.limit * BACK_OFF))
            self._well = 0
            self.back_off(now)
            return
        if self._in_flight >= USED * self.limit * self._answered:
            self._judge(self._in_flight / max(self._seconds, 1e-9))
        self._open(now)

    def _judge(self, throughput: float) -> None:
        if self.limit == self._base:
            self._throughput = throughput
            if self._rest:
                self._rest -= 1
            else:
                self._try_another()
            return
        more = self.limit / self._base - 1.0
        wanted = 1.0 + GAIN * more if more > 0 else KEPT
        if throughput >= wanted * self._throughput:
            self._base = self.limit
            # On the way down it stays at what it was at the top: small losses would add up.
            self._throughput = max(self._throughput, throughput)
            self._try_another()
        else:
            self.limit = self._base
            self._turn()

    def _try_another(self) -> None:
        if self._upwards:
            more = max(self._base + 1, round(self._base * self._factor))
            self.limit = min(MOST_LEARNED, more)
        elif self._base > 1:
            self.limit = min(self._base - 1, round(self._base / self._factor))
        else:
            self._turn()

    def _turn(self) -> None:
        if not self._upwards:
            self._rest, self._factor = REST, CAREFUL
        self._upwards = not self._upwards
