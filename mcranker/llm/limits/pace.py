"""Spacing of calls: within the user's limits and the provider's observed capacity."""

from __future__ import annotations

import math

from mcranker.llm.chat import ChatRequest
from mcranker.llm.limits.refusals import Refusals

CATCH_UP = 0.1  # seconds of lateness that are made up for; event loops are late by milliseconds
MINUTE = 60.0 + 2 * CATCH_UP  # seconds, so that making up never brings too many into 60 s
BYTES_A_TOKEN = 4
OUTPUT_TOKENS = 128  # of a reply, where fewer are not asked for


class Pace:
    """Start times of calls to a model, in seconds on one clock.

    **What the user allows.** With r requests a minute, a start at time t moves the next one to
    ``max(due, t - 0.1) + 60.2 / r`` seconds: even distances, never more than r (rounded
    up) starts in any 60 s, and no hurry after an idle hour (a virtual schedule, as in
    https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm). Tokens are spread in the same way
    by the estimate for a request, and `correct` moves the schedule once they are counted: all
    requests but the last of any 60 s stay within the tokens a minute, so one that is larger
    than that goes out, and the next one waits for as long as it takes.

    **What the provider can take** is learned from its refusals, see `Refusals`.

    Not safe for several threads; `Limits` guards it.
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None,
        tokens_per_minute: float | None,
        first_pause: float,
        longest_pause: float,
    ) -> None:
        self._a_request = MINUTE / requests_per_minute if requests_per_minute else 0.0
        self._a_token = MINUTE / tokens_per_minute if tokens_per_minute else 0.0
        self._requests_due = self._tokens_due = self._learned_due = -math.inf
        self.due = -math.inf
        """Time of the next start."""
        self.refusals = Refusals(first_pause=first_pause, longest_pause=longest_pause)

    @property
    def paused_until(self) -> float:
        """End of the provider's pause."""
        return self.refusals.paused_until

    @property
    def counts_tokens(self) -> bool:
        """True if `book` and `correct` need token counts."""
        return self._a_token > 0

    def book(self, now: float, tokens: float) -> None:
        """Count the start of a call; `due` must have come."""
        self.refusals.started(now)
        if self._a_request:
            self._requests_due = max(self._requests_due, now - CATCH_UP) + self._a_request
        if self._a_token:
            self._tokens_due = max(self._tokens_due, now - CATCH_UP) + tokens * self._a_token
        if (rate := self.refusals.rate(now)) is not None:
            self._learned_due = max(self._learned_due, now - CATCH_UP) + 1.0 / rate
        self._settle()

    def correct(self, tokens: float) -> None:
        """Add tokens used beyond those booked; negative for fewer."""
        self._tokens_due += tokens * self._a_token
        self._settle()

    def refused(self, now: float, number: int, took: float, retry_after: float | None) -> None:
        """Count a refused call; see `Refusals.refused`."""
        self.refusals.refused(now, number, took, retry_after)
        self._settle()

    def resume(self, now: float) -> bool:
        """Call this before a start; see `Refusals.resume`."""
        resumed = self.refusals.resume(now)
        self._settle()
        return resumed

    def _settle(self) -> None:
        self.due = max(self.paused_until, self._requests_due, self._tokens_due, self._learned_due)


def estimated_tokens(request: ChatRequest) -> float:
    """Estimate the tokens of a request and its reply."""
    from mcranker.llm.limits.budget import prompt_bytes  # brings the providers' prices along

    return prompt_bytes(request) / BYTES_A_TOKEN + min(request.max_tokens, OUTPUT_TOKENS)
