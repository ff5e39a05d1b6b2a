"""How fast calls may follow each other: what the user allows, and what the provider can take."""

from __future__ import annotations

import math

from mcranker.llm.chat import ChatRequest

CATCH_UP = 0.1  # seconds of lateness that are made up for; event loops are late by milliseconds
MINUTE = 60.0 + 2 * CATCH_UP  # seconds, so that making up never brings too many into 60 s
BYTES_A_TOKEN = 4
OUTPUT_TOKENS = 128  # of a reply, where fewer are not asked for

WINDOW = 60.0  # seconds after which what was seen begins to count for less
LEAST = 0.05  # seconds that a rate is told from
CHANCE, CHANCE_SHARE = 2, 0.04  # refusals, and share of calls, that say nothing about a rate
MOST_CHANCE = 0.2  # share of calls; where more are refused, it is not by chance
ENOUGH = 12  # calls, for the share of refusals to be compared
MUCH_SLOWER = 0.6  # of a former rate
IN_VAIN = 0.5  # of the share that was refused then; where more are left, haste was not the cause
LONG = 5.0  # seconds; who asks for a longer pause counts by the minute
WAITING = 0.25  # of the time in long pauses, which is too much
MILD = 1.05  # of the former rate, after refusals by chance
BACK_OFF = 0.9  # of what was accepted
RECOVERY = 15.0  # seconds from there to what was accepted
SLOWEST = 0.1  # starts a second
UNKNOWN = 2.0  # starts a second, taken as too fast where nothing was accepted yet
GENTLE = 16.0  # starts a second that are few enough after any pause


class Pace:
    """When the next call to a model may start; all times in seconds on one clock.

    **What the user allows.** With r requests a minute, a start at time t moves the next one to
    ``max(due, t - 0.1) + 60.2 / r`` seconds: even distances, never more than r (rounded
    up) starts in any 60 s, and no hurry after an idle hour (a virtual schedule, as in
    https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm). Tokens are spread in the same way
    by the estimate for a request, and `correct` moves the schedule once they are counted: all
    requests but the last of any 60 s stay within the tokens a minute, so one that is larger
    than that goes out, and the next one waits for as long as it takes.

    **What the provider can take.** A refusal (429, 529) makes everybody wait: for what the
    provider says, else for `first_pause` seconds, doubled up to `longest_pause` while nothing
    but refusals comes. Refusals of calls that were in flight together count as one. After the
    pause the starts are held to a rate: t seconds later it is
    ``peak * (1 + 0.1 * ((t - 15) / 15) ** 3)`` starts a second.

    - If refusals were more than chance (more than 2 and 4% of the calls), or pauses of more than
      5 s took a quarter of the time (of a minute at least), `peak` is what was accepted a
      second since that was last so, the pauses included. The rate begins at 0.9 of that, is
      back there after 15 s, lingers, and leaves it behind ever faster.
    - Else `peak` is at least what it was and 5% more (at first twice what was accepted, and 16
      or more), and t begins at 15 s: calls resume evenly rather than all at once.
    - Where a rate of at most 0.6 of a former one leaves more than half of the former share of
      refusals, haste was not the cause: so many (up to 20% of the calls) count as chance from
      then on.

    The curve is that of CUBIC (https://www.rfc-editor.org/rfc/rfc9438), which the adaptive
    retries of AWS's libraries use for the same end
    (https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html), here relative
    to the peak, so that it suits one call a minute as well as a hundred a second.

    A refusal that asks for 0 s is no reason to slow down and changes nothing.

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
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._requests_due = self._tokens_due = self._learned_due = -math.inf
        self.due = -math.inf
        """When the next start may be."""
        self.paused_until = -math.inf
        self.pauses = 0
        """How often the provider made everybody wait; tells calls before from calls after."""
        self._in_a_row = 0
        self._resuming = False
        self._peak = 0.0  # of the learned rate; 0 for no such rate
        self._resumed = 0.0
        self._since = 0.0  # what follows is about the time since then
        self._started = self._refused = 0.0
        self._paused = self._long_paused = 0.0  # seconds
        self._fast = self._fast_share = 0.0  # a rate that was lowered, and what was refused then
        self._by_chance = CHANCE_SHARE

    @property
    def counts_tokens(self) -> bool:
        """Whether `book` and `correct` need to know about tokens."""
        return self._a_token > 0

    def learned_rate(self, now: float) -> float | None:
        """Starts a second that the provider is thought to take; None if it takes all."""
        if not self._peak:
            return None
        curve = ((now - self._resumed - RECOVERY) / RECOVERY) ** 3
        return max(SLOWEST, self._peak * (1.0 + (1.0 - BACK_OFF) * curve))

    def book(self, now: float, tokens: float) -> None:
        """A call starts now; `due` must have come."""
        if not self._started:
            self._since = now
        self._started += 1
        if (seen := now - self._since) > 2 * WINDOW:
            self._since = now - WINDOW
            self._started *= WINDOW / seen
            self._refused *= WINDOW / seen
            self._paused *= WINDOW / seen
            self._long_paused *= WINDOW / seen
        if self._a_request:
            self._requests_due = max(self._requests_due, now - CATCH_UP) + self._a_request
        if self._a_token:
            self._tokens_due = max(self._tokens_due, now - CATCH_UP) + tokens * self._a_token
        if (rate := self.learned_rate(now)) is not None:
            self._learned_due = max(self._learned_due, now - CATCH_UP) + 1.0 / rate
        self._settle()

    def correct(self, tokens: float) -> None:
        """So many tokens more, or less if negative, were used than booked."""
        self._tokens_due += tokens * self._a_token
        self._settle()

    def idle(self, seconds: float) -> None:
        """Nothing was asked for so long; that says nothing about the provider."""
        self._since += seconds

    def answered(self, pauses: int) -> None:
        """A call was answered that started after so many `pauses`."""
        if pauses >= self.pauses - 1:
            # While some calls are answered, a refusal is the first of its row, not one more.
            self._in_a_row = min(self._in_a_row, self.pauses - pauses)

    def refused(self, now: float, pauses: int, retry_after: float | None) -> None:
        """A call was refused that started after so many `pauses`.

        Args:
            now: the time.
            pauses: see above.
            retry_after: seconds that the provider asks to wait, or None if it does not say.
        """
        late = pauses != self.pauses
        pause = retry_after
        if pause is None:
            doubled = self._first_pause * 2.0 ** min(self._in_a_row, 30)
            pause = 0.0 if late else min(self._longest_pause, doubled)
        if not late and pause > 0:
            self.pauses += 1
            self._in_a_row += 1
            self._resuming = True
        if late or pause > 0:
            self._refused += 1
            added = max(0.0, now + pause - max(now, self.paused_until))
            self._paused += added
            if retry_after is not None and retry_after > LONG:
                self._long_paused += added
            self.paused_until = max(self.paused_until, now + pause)
            self._settle()

    def resume(self, now: float) -> bool:
        """To be called before a start; whether a pause has ended that shows too high a load."""
        if not self._resuming:
            return False
        self._resuming = False
        seconds = max(now - self._since, LEAST)
        by_minute = self._long_paused > WAITING * max(seconds, WINDOW)
        answered = self._started - self._refused
        accepted = answered / seconds
        share = self._refused / max(self._started, 1.0)
        slower = self._started >= ENOUGH and accepted < MUCH_SLOWER * self._fast
        if slower and IN_VAIN * self._fast_share < share <= MOST_CHANCE:
            self._by_chance = max(self._by_chance, share)
            self._fast, self._fast_share = accepted, share
        if not by_minute and self._refused <= CHANCE + self._by_chance * self._started:
            working = answered / max(seconds - self._paused, LEAST)
            if not self._peak:
                again = max(GENTLE, 2.0 * working)
            else:
                chance = self._by_chance > CHANCE_SHARE
                again = max(MILD * self._peak, working if chance else accepted)
            self._peak, self._resumed = again, now - RECOVERY
            return False
        if not MUCH_SLOWER * self._fast < accepted < self._fast:
            self._fast, self._fast_share = accepted, share
        # Where nothing is accepted, the rate is halved as long as that lasts.
        self._peak = max(accepted, 0.0) or (self.learned_rate(now) or UNKNOWN) / 2.0
        self._resumed = self._since = now
        self._started = self._refused = self._paused = self._long_paused = 0.0
        return True

    def _settle(self) -> None:
        self.due = max(self.paused_until, self._requests_due, self._tokens_due, self._learned_due)


def estimated_tokens(request: ChatRequest) -> float:
    """About how many tokens a request and its reply will take."""
    from mcranker.llm.limits.budget import prompt_bytes  # brings the providers' prices along

    return prompt_bytes(request) / BYTES_A_TOKEN + min(request.max_tokens, OUTPUT_TOKENS)
