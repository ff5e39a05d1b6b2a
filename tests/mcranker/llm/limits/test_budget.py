"""The budget: counted before a call, settled after it, and never exceeded."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcranker import (
    BudgetExceeded,
    ChatReply,
    ChatRequest,
    ConfigError,
    ContentRefused,
    Message,
    RateLimited,
    ScriptedChat,
    Usage,
)
from mcranker.llm.chat import (
    REASONING_TOKENS,
    Tag,
    most_used,
)
from mcranker.llm.limits.budget import Budget, Budgeted
from mcranker.llm.prices import cost

PRICED = "openai:gpt-5-mini"
pytestmark = pytest.mark.anyio


def request(text: str = "x" * 300, max_tokens: int = 100) -> ChatRequest:
    return ChatRequest((Message("user", text),), Tag("score"), max_tokens=max_tokens)


def most(max_tokens: int = 100) -> float:
    """What `request` costs at most, in US dollars."""
    price = cost(PRICED, most_used(request(max_tokens=max_tokens)))
    assert price is not None
    return price


def chat(answer: Callable[[ChatRequest], ChatReply], name: str = PRICED) -> ScriptedChat:
    return ScriptedChat(answer, name=name)


def used(usage: Usage) -> Callable[[ChatRequest], ChatReply]:
    return lambda _: ChatReply("5", usage=usage)


class Gate:
    """A model that answers on a signal, and counts what is under way."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self.under_way = 0
        self.begun = 0
        self._open = anyio.Event()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, _: ChatRequest) -> ChatReply:
        self.under_way += 1
        self.begun += 1
        try:
            await self._open.wait()
        finally:
            self.under_way -= 1
        return ChatReply("5", usage=self.usage)


async def test_calls_are_counted_and_the_next_one_is_refused() -> None:
    asked: list[ChatRequest] = []

    def answer(each: ChatRequest) -> ChatReply:
        asked.append(each)
        return ChatReply("5", usage=Usage(1, 1000, 0, 50))

    budget = Budget(max_calls=2)
    one, other = Budgeted(chat(answer), budget), Budgeted(chat(answer, "a:b"), budget)
    await one.complete(request())
    await other.complete(request())
    with pytest.raises(BudgetExceeded, match=r"max_calls=2 is used up; .* higher limit goes on"):
        await one.complete(request())
    assert (len(asked), budget.spent_calls, budget.spent_cost) == (2, 2, 0)
    with pytest.raises(BudgetExceeded, match="max_calls=0 is used up"):
        await Budgeted(chat(answer), Budget(max_calls=0)).complete(request())


async def test_a_call_without_an_answer_is_not_counted() -> None:
    fails = [True, False]

    def answer(_: ChatRequest) -> ChatReply:
        if fails.pop(0):
            raise RateLimited("slow down")
        return ChatReply("5", usage=Usage(1, 10, 0, 1))

    budget = Budget(max_calls=1, max_cost=most())
    model = Budgeted(chat(answer), budget)
    with pytest.raises(RateLimited):
        await model.complete(request())
    assert (budget.spent_calls, budget.spent_cost) == (0, 0)
    await model.complete(request())
    assert budget.spent_calls == 1


async def test_an_answer_of_unknown_size_counts_as_the_most() -> None:
    def refuse(_: ChatRequest) -> ChatReply:
        raise ContentRefused("no")

    budget = Budget(max_cost=1)
    with pytest.raises(ContentRefused):
        await Budgeted(chat(refuse), budget).complete(request())
    assert (budget.spent_calls, budget.spent_cost) == (1, most())


def test_a_cost_without_a_price_cannot_be_kept() -> None:
    with pytest.raises(ConfigError, match=r"'openai:foo', so max_cost=2.5 .* use max_calls="):
        Budgeted(chat(used(Usage()), "openai:foo"), Budget(max_cost=2.5))
    Budgeted(chat(used(Usage()), "openai:foo"), Budget(max_calls=2))


async def test_a_call_is_refused_only_when_nothing_is_under_way() -> None:
    gate = Gate(Usage(1, 0, 0, 100 + REASONING_TOKENS))
    budget = Budget(max_cost=1.5 * most())
    model = Budgeted(ScriptedChat(gate, name=PRICED), budget)
    refused: list[int] = []

    async def ask() -> None:
        try:
            await model.complete(request())
        except BudgetExceeded:
            refused.append(gate.under_way)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert refused == []
        gate.open()
    assert refused == [0, 0]
    with pytest.raises(BudgetExceeded, match=r"max_cost=\S+ leaves \$0.00\d+, and .* up to \$0.0"):
        await model.complete(request())


def test_a_budget_is_kept_over_threads_and_event_loops() -> None:
    budget = Budget(max_cost=1)
    done: list[str] = []

    async def many() -> None:
        async def one() -> None:
            try:
                await budget.claim(0.3)
            except BudgetExceeded:
                done.append("refused")
                return
            await anyio.lowlevel.checkpoint()
            budget.settle(0.3, 0.02)
            done.append("paid")

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(one)

    threads = [threading.Thread(target=anyio.run, args=(many,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    # The last call that fits begins with at most $0.70 spent: after 35 or 36 of $0.02.
    assert len(done) == 200
    assert done.count("paid") in (35, 36)
    assert budget.spent_cost == pytest.approx(0.02 * done.count("paid"))


async def test_prompts_that_take_more_tokens_than_thought_are_learnt_from() -> None:
    budget = Budget(max_cost=1)
    model = Budgeted(chat(used(Usage(1, 600, 0, 1))), budget)
    before = model._tokens_a_byte
    await model.complete(request())
    # 600 tokens of 300 bytes, and a tenth more.
    assert model._tokens_a_byte == pytest.approx(2.2)
    assert before == pytest.approx(1 / 3)


@settings(max_examples=40, deadline=None)
@given(
    dollars=st.floats(0.0, 30.0),
    calls=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.booleans()), max_size=25),
)
def test_no_more_is_ever_spent(dollars: float, calls: list[tuple[float, int, bool]]) -> None:
    """Whatever calls use of what they may, however long they take, and whether they fail."""
    limit = dollars * most()
    budget = Budget(max_cost=limit)
    under_way = refused_beside = 0

    async def answer(each: ChatRequest) -> ChatReply:
        nonlocal under_way
        share, turns, fails = calls[each.sample]
        under_way += 1
        try:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            if fails:
                raise RateLimited("slow down")
        finally:
            under_way -= 1
        at_most = most_used(each)
        output = int(share * at_most.output_tokens)
        return ChatReply("5", usage=Usage(1, int(share * 100), 0, output))

    model = Budgeted(ScriptedChat(answer, name=PRICED), budget)

    async def ask(place: int) -> None:
        nonlocal refused_beside
        try:
            await model.complete(
                ChatRequest(
                    (Message("user", "x" * 300),), Tag("score"), max_tokens=100, sample=place
                )
            )
        except RateLimited:
            pass
        except BudgetExceeded:
            refused_beside += under_way

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for place in range(len(calls)):
                group.start_soon(ask, place)

    anyio.run(main)
    assert budget.spent_cost <= limit * (1 + 1e-12)
    assert budget._calls_under_way == budget._set_aside == 0
    assert not budget._waiting
    assert refused_beside == 0
