"""Limits on a ranker's spending: calls and US dollars, never exceeded."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from itertools import islice
from typing import NamedTuple, TypeAlias

from mcranker.errors import BudgetExceeded, ConfigError, ContentRefused, ReplyError
from mcranker.llm import chat
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Wrapper, billed_as
from mcranker.llm.prices import cost
from personas.ranking.usage import Usage

MARGIN = 1.1  # above the largest ratio of tokens to bytes seen

_AT_ONCE = 256  # claims in a booking
_LOOK = 0.5  # seconds until calls of other processes are looked for again, about


class Sums(NamedTuple):
    """Calls, and their US dollars."""

    calls: int = 0
    cost: float = 0.0

    def plus(self, *calls: float) -> Sums:
        return Sums(self.calls + len(calls), self.cost + sum(calls))


class Booking(NamedTuple):
    """Sums that a payer has spent and set aside, and claims that it would set aside besides."""

    payer: str
    max_calls: int | None
    max_cost: float | None
    spent: Sums
    open: Sums
    claims: tuple[float, ...]

    def room(self, others: Sums) -> int:
        """Return the number of claims there is room for, beside what other payers have taken."""
        max_calls = math.inf if self.max_calls is None else self.max_calls
        max_cost = math.inf if self.max_cost is None else self.max_cost
        calls, costs = map(sum, zip(self.spent, self.open, others, strict=True))
        for number, most in enumerate(self.claims):
            calls, costs = calls + 1, costs + most
            if calls > max_calls or costs > max_cost:
                return number
        return len(self.claims)


class Booked(NamedTuple):
    """The number of claims that are granted; what other payers have spent and set aside."""

    granted: int
    others: Sums
    open_calls: int


Book: TypeAlias = Callable[[Booking], Awaitable[Booked]]


class Budget:
    """Remaining budget, shared by all models of a ranker across threads and event loops."""

    def __init__(self, *, max_calls: int | None = None, max_cost: float | None = None) -> None:
        self.max_calls = max_calls
        self.max_cost = max_cost
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, Future[bool]]] = deque()
        self._calls_under_way = 0
        self._set_aside = 0.0
        self.spent_calls = 0
        self.spent_cost = 0.0
        self._book: Book | None = None
        self._payer = secrets.token_hex(16)
        self._booking: asyncio.Future[Booked] | None = None  # that is not answered yet
        self._noted = Sums(), Sums()  # spent and set aside, as others know
        self._others = Sums()
        self._timer: asyncio.TimerHandle | None = None

    def share(self, book: Book) -> None:
        """Keep to the limits together with other processes."""
        self._book = book

    async def aclose(self) -> None:
        """Wait until others know what was spent here."""
        loop = asyncio.get_running_loop()
        while self._booking is not None and self._booking.get_loop() is loop:
            await asyncio.wait([self._booking])
            await asyncio.sleep(0)  # for its callback

    @property
    def limited(self) -> bool:
        return self.max_calls is not None or self.max_cost is not None

    async def claim(self, most: float) -> None:
        """Set `most` US dollars aside for one call; wait until there is room for it."""
        granted: Future[bool] = Future()
        with self._lock:
            self._waiting.append((most, granted))
            self._serve()
        try:
            found = granted.result() if granted.done() else await asyncio.wrap_future(granted)
        except asyncio.CancelledError:
            with self._lock:
                if not granted.cancel() and not granted.exception() and granted.result():
                    self._free(most)
                self._serve()
            raise
        if not found:
            raise self._exceeded(most)

    def settle(self, most: float, paid: float | None) -> None:
        with self._lock:
            self._free(most)
            if paid is not None:
                self.spent_calls += 1
                self.spent_cost += paid
            self._serve()

    def _now(self, *claims: float) -> Booking:
        spent = Sums(self.spent_calls, self.spent_cost)
        under_way = Sums(self._calls_under_way, self._set_aside)
        return Booking(self._payer, self.max_calls, self.max_cost, spent, under_way, claims)

    def _free(self, most: float) -> None:
        self._calls_under_way -= 1
        # Sums and differences of floats drift; nothing under way is nothing set aside.
        self._set_aside = self._set_aside - most if self._calls_under_way else 0.0

    def _serve(self) -> None:
        """Decide for waiting calls, in order, as far as possible now."""
        if self._book is not None:
            self._ask_others(self._book)
            return
        while self._waiting:
            has_room = bool(self._now(self._waiting[0][0]).room(Sums()))
            if not has_room and self._calls_under_way and not self._waiting[0][1].cancelled():
                return
            self._decide(self._waiting[0], has_room)

    def _ask_others(self, book: Book) -> None:
        """Book what has changed and what waits, unless a booking is under way."""
        if self._booking is not None and not self._booking.get_loop().is_closed():
            return
        while self._waiting and self._waiting[0][1].cancelled():
            self._waiting.popleft()
        asked = [*islice(self._waiting, _AT_ONCE)]
        booking = self._now(*(most for most, _ in asked))
        if asked or self._noted != (booking.spent, booking.open):
            self._booking = asyncio.ensure_future(book(booking))
            self._booking.add_done_callback(lambda found: self._answered(found, booking, asked))

    def _answered(
        self,
        found: asyncio.Future[Booked],
        booking: Booking,
        asked: list[tuple[float, Future[bool]]],
    ) -> None:
        """Grant what was booked; refuse the next call if nothing is under way anywhere."""
        with self._lock:
            self._booking = None
            if found.cancelled():
                return
            if (error := found.exception()) is not None:
                for each in asked:
                    self._decide(each, error)
                return
            granted, self._others, open_calls = found.result()
            self._noted = booking.spent, booking.open.plus(*booking.claims[:granted])
            for each in asked[:granted]:
                self._decide(each, True)
            if granted < len(asked) and not self._calls_under_way and not open_calls:
                self._decide(asked[granted], False)
            elif granted < len(asked) and self._noted == self._now()[3:5]:
                pause = _LOOK * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = found.get_loop().call_later(pause, self._look)
                return
            self._serve()

    def _decide(self, each: tuple[float, Future[bool]], outcome: bool | BaseException) -> None:
        """Settle a claim, unless its caller was cancelled; what is granted is set aside."""
        self._waiting.remove(each)
        most, granted = each
        if not granted.set_running_or_notify_cancel():
            return
        if isinstance(outcome, BaseException):
            granted.set_exception(outcome)
            return
        if outcome:
            self._calls_under_way += 1
            self._set_aside += most
        granted.set_result(outcome)

    def _look(self) -> None:
        with self._lock:
            self._serve()

    def _exceeded(self, most: float) -> BudgetExceeded:
        together = "" if self._book is None else " of all workers of this run together"
        if self.max_calls is not None and self.spent_calls + self._others.calls >= self.max_calls:
            what = f"max_calls={self.max_calls}{together} is used up"
        else:
            left = max(0.0, (self.max_cost or 0.0) - self.spent_cost - self._others.cost)
            what = f"max_cost={self.max_cost:g}{together} leaves ${left:.2g}, and the next call "
            what += f"may cost up to ${most:.2g}"
        if self._others.calls:
            what += f" ({self._others.calls:,} calls of other processes count)"
        return BudgetExceeded(
            f"{what}; what was answered stays in the ledger, so a run with a higher limit "
            "goes on from there"
        )


class Budgeted(Wrapper):
    """A chat model whose calls are paid from a budget."""

    def __init__(self, model: ChatModel, budget: Budget) -> None:
        if budget.max_cost is not None and cost(model.name, Usage()) is None:
            raise ConfigError(
                f"no price is known for {model.name!r}, so max_cost={budget.max_cost:g} cannot "
                "be kept; use max_calls= instead"
            )
        super().__init__(model)
        self.budget = budget
        self._tokens_a_byte = chat.TOKENS_A_BYTE

    async def complete(self, request: ChatRequest) -> ChatReply:
        most = self._price(request, chat.most_used(request, tokens_a_byte=self._tokens_a_byte))
        await self.budget.claim(most)
        paid: float | None = None
        try:
            reply = await self._model.complete(request)
            if not reply.reused:
                paid = self._price(request, reply.usage)
                self._learn(request, reply.usage)
        except (ContentRefused, ReplyError):
            paid = most
            raise
        finally:
            self.budget.settle(most, paid)
        return reply

    async def aclose(self) -> None:
        await self.budget.aclose()
        await super().aclose()

    def _price(self, request: ChatRequest, usage: Usage) -> float:
        if self.budget.max_cost is None:
            return 0.0
        return cost(billed_as(self.name, request), usage) or 0.0

    def _learn(self, request: ChatRequest, usage: Usage) -> None:
        if self.budget.max_cost is not None:
            seen = usage.input_tokens / max(1, chat.prompt_bytes(request))
            self._tokens_a_byte = max(self._tokens_a_byte, MARGIN * seen)
