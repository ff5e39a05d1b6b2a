"""Limits on a ranker's spending: calls and US dollars, never exceeded."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from concurrent.futures import Future

import orjson

from mcranker.errors import BudgetExceeded, ConfigError, ContentRefused, ReplyError
from mcranker.llm.chat import REASONING_TOKENS, ChatModel, ChatReply, ChatRequest, Question, State
from mcranker.llm.prices import billed_as, cost
from mcranker.llm.wrapper import Wrapper
from personas.ranking.usage import Usage

TOKENS_A_BYTE = 1 / 3  # more than plain text has in any script; English has a quarter
TOKENS_A_MESSAGE = 8  # for what providers put around each message
MARGIN = 1.1  # above the largest ratio of tokens to bytes seen


class Budget:
    """Remaining budget, shared by all models of a ranker across threads and event loops.

    Before a call is sent, the most that it can cost is set aside; once it is answered, what
    it did cost takes that place. A call for which too little is left waits while others are
    under way, which mostly turn out cheaper than what is set aside for them, and is refused
    once none is. So whatever was sent is also received before anything is refused.

    Calls that fail without an answer are not counted, as if they had not been sent.

    Args:
        max_calls: calls that may be answered; None for any number.
        max_cost: US dollars that may be spent; None for any amount.

    Attributes:
        spent_calls: calls answered.
        spent_cost: US dollars of these calls; 0 without ``max_cost``.
    """

    def __init__(self, *, max_calls: int | None = None, max_cost: float | None = None) -> None:
        self.max_calls = max_calls
        self.max_cost = max_cost
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, Future[bool]]] = deque()
        self._calls_under_way = 0
        self._set_aside = 0.0
        self.spent_calls = 0
        self.spent_cost = 0.0

    @property
    def limited(self) -> bool:
        """True if there is a limit to keep."""
        return self.max_calls is not None or self.max_cost is not None

    async def claim(self, most: float) -> None:
        """Set `most` US dollars aside for one call; wait until there is room for it.

        Every claim that is granted is to be followed by one `settle`.

        Raises:
            BudgetExceeded: the call would go beyond a limit, and nothing is under way that
                could still turn out cheaper.
        """
        granted: Future[bool] = Future()
        with self._lock:
            self._waiting.append((most, granted))
            self._serve()
        try:
            found = granted.result() if granted.done() else await asyncio.wrap_future(granted)
        except asyncio.CancelledError:
            with self._lock:
                if not granted.cancel() and granted.result():
                    self._free(most)
                self._serve()
            raise
        if not found:
            raise self._exceeded(most)

    def settle(self, most: float, paid: float | None) -> None:
        """End a `claim`.

        Args:
            most: what was set aside.
            paid: what the call did cost in US dollars, or None if it was not answered.
        """
        with self._lock:
            self._free(most)
            if paid is not None:
                self.spent_calls += 1
                self.spent_cost += paid
            self._serve()

    def _has_room(self, most: float) -> bool:
        calls = self.spent_calls + self._calls_under_way + 1
        dollars = self.spent_cost + self._set_aside + most
        return (self.max_calls is None or calls <= self.max_calls) and (
            self.max_cost is None or dollars <= self.max_cost
        )

    def _free(self, most: float) -> None:
        self._calls_under_way -= 1
        # Sums and differences of floats drift; nothing under way is nothing set aside.
        self._set_aside = self._set_aside - most if self._calls_under_way else 0.0

    def _serve(self) -> None:
        """Decide for waiting calls, in order, as far as possible now."""
        while self._waiting:
            most, granted = self._waiting[0]
            if not granted.cancelled():
                has_room = self._has_room(most)
                if not has_room and self._calls_under_way:
                    return
                if has_room:
                    self._calls_under_way += 1
                    self._set_aside += most
                granted.set_result(has_room)
            self._waiting.popleft()

    def _exceeded(self, most: float) -> BudgetExceeded:
        if self.max_calls is not None and self.spent_calls >= self.max_calls:
            what = f"max_calls={self.max_calls} is used up"
        else:
            left = max(0.0, (self.max_cost or 0.0) - self.spent_cost)
            what = (
                f"max_cost={self.max_cost:g} leaves ${left:.2g}, "
                f"and the next call may cost up to ${most:.2g}"
            )
        return BudgetExceeded(
            f"{what}; what was answered stays in the ledger, so a run with a higher limit "
            "goes on from there"
        )


class Budgeted(Wrapper):
    """A chat model whose calls are paid from a budget.

    With a ``max_cost`` each call is taken to cost at most the input it has by its length, and
    a reply as long as its limit allows. An answer that came but was of no use (`ReplyError`,
    `ContentRefused`) is counted as that much, because what it took is not known.

    Args:
        model: who answers. Tries that fail and are repeated belong below this, so that they
            count as one call, and answers that cost nothing above it.
        budget: shared by all models of a ranker; may be replaced before the first call.

    Raises:
        ConfigError: the budget has a ``max_cost``, and the model's price is not known.
    """

    def __init__(self, model: ChatModel, budget: Budget) -> None:
        if budget.max_cost is not None and cost(model.name, Usage()) is None:
            raise ConfigError(
                f"no price is known for {model.name!r}, so max_cost={budget.max_cost:g} cannot "
                "be kept; use max_calls= instead"
            )
        super().__init__(model)
        self.budget = budget
        self._tokens_a_byte = TOKENS_A_BYTE

    async def complete(self, request: ChatRequest) -> ChatReply:
        most = self._price(request, most_used(request, tokens_a_byte=self._tokens_a_byte))
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

    def _price(self, request: ChatRequest, usage: Usage) -> float:
        if self.budget.max_cost is None:
            return 0.0
        return cost(billed_as(self.name, request), usage) or 0.0

    def _learn(self, request: ChatRequest, usage: Usage) -> None:
        if self.budget.max_cost is not None:
            seen = usage.input_tokens / max(1, prompt_bytes(request))
            self._tokens_a_byte = max(self._tokens_a_byte, MARGIN * seen)


def most_used(request: ChatRequest, *, tokens_a_byte: float = TOKENS_A_BYTE) -> Usage:
    """The tokens that one call can take: nothing cached, and a reply at its limit.

    Thoughts are counted as well, since many models cannot do without them.

    Args:
        request: what would be sent.
        tokens_a_byte: how many tokens a byte of the prompt may have.
    """
    return Usage(
        calls=1,
        input_tokens=math.ceil(prompt_bytes(request) * tokens_a_byte)
        + TOKENS_A_MESSAGE * len(request.messages),
        output_tokens=request.max_tokens + REASONING_TOKENS,
    )


def prompt_bytes(request: ChatRequest) -> int:
    """The length of what is sent, in bytes of UTF-8: messages, schema, state and questions."""
    schema = orjson.dumps(dict(request.schema.schema)) if request.schema else b""
    texts = [*(message.content for message in request.messages), request.continuation]
    questions = sum(map(question_bytes, request.questions))
    return len(schema) + sum(map(_bytes, texts)) + questions + state_bytes(request.state)


def question_bytes(question: Question) -> int:
    """The length of a question and its options, in bytes of UTF-8."""
    texts = [text for option in question.options for text in (option.name, option.description)]
    return _bytes(question.text) + sum(map(_bytes, texts))


def state_bytes(state: State | None) -> int:
    """The length of a state, in bytes of UTF-8; 0 for none."""
    if state is None:
        return 0
    pairs = (*state.passages.items(), *state.judges.items())
    return _bytes(state.query) + sum(_bytes(text) for pair in pairs for text in pair)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
