"""A model with a ledger: asked once, shared while it is on its way, kept before it is used."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker.errors import LedgerError, RateLimited, RequestRejected
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Tag
from mcranker.llm.ledger.ledger import Kept, Ledger
from mcranker.llm.ledger.ledgered import Ledgered
from mcranker.llm.ledger.request_key import request_key
from mcranker.llm.scripted import ScriptedChat
from tests.support.ledger_support import MODEL, reply, request

pytestmark = pytest.mark.anyio

SECRET = "sk-live-4f1d"


class Paced:
    """A model that answers when it is told to, and counts."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        self.asked.set()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return reply(f"answer {self.calls}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def model(
    answer: Callable[[ChatRequest], str | ChatReply | Awaitable[str | ChatReply]], ledger: Ledger
) -> Ledgered:
    return Ledgered(ScriptedChat(answer, name=MODEL), ledger)


async def gather(chat: ChatModel, count: int) -> list[ChatReply]:
    replies: list[ChatReply] = []

    async def ask() -> None:
        replies.append(await chat.complete(request()))

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(ask)
    return replies


def content(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


async def settle() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def test_an_answer_is_asked_for_once_ever(path: Path) -> None:
    asked: list[str] = []

    def answer(request: ChatRequest) -> ChatReply:
        asked.append(request.messages[0].content)
        return reply(f"to {asked[-1]}")

    first = Ledger(path)
    chat = model(answer, first)
    assert await chat.complete(request("a")) == reply("to a")
    assert await chat.complete(request("a")) == reply("to a", reused=True)
    first.close()
    second = Ledger(path)
    again = await model(answer, second).complete(
        dataclasses.replace(request("a"), tag=Tag("assess", "q"))
    )
    assert again == reply("to a", reused=True)
    assert again.usage.seconds == 0.25
    await model(answer, second).complete(request("b"))
    assert asked == ["a", "b"]
    second.close()


async def test_samples_are_answers_of_their_own(ledger: Ledger) -> None:
    texts = iter("abc")
    chat = model(lambda request: next(texts), ledger)
    sampled = [request(temperature=1.0, sample=sample) for sample in (0, 1, 0)]
    assert [(await chat.complete(each)).text for each in sampled] == ["a", "b", "a"]


async def test_equal_requests_in_flight_share_one_call(ledger: Ledger) -> None:
    paced = Paced()
    chat = model(paced, ledger)
    async with anyio.create_task_group() as group:
        group.start_soon(paced.asked.wait)
        group.start_soon(_let_go, paced)
        replies = await gather(chat, 5)
    assert paced.calls == 1
    assert sorted(each.reused for each in replies) == [False, True, True, True, True]
    assert {each.text for each in replies} == {"answer 1"}
    assert not len(ledger.flights)


async def _let_go(paced: Paced) -> None:
    await paced.asked.wait()
    await settle()
    paced.go.set()


async def test_an_answer_is_durable_before_anybody_gets_it(ledger: Ledger) -> None:
    chat = model(lambda request: "yes", ledger)
    wanted = request()

    async def ask() -> None:
        await chat.complete(wanted)
        assert ledger.find(request_key(chat, wanted)) is not None

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)


@pytest.mark.parametrize("error", [RequestRejected("no"), RateLimited("slow down")])
async def test_an_error_is_everybodys_and_is_not_kept(ledger: Ledger, error: Exception) -> None:
    paced = Paced()
    paced.error = error
    chat = model(paced, ledger)
    caught: list[Exception] = []

    async def ask() -> None:
        with pytest.raises(type(error)) as info:
            await chat.complete(request())
        caught.append(info.value)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)
        group.start_soon(_let_go, paced)
    assert (paced.calls, caught) == (1, [error] * 3)
    paced.error = None
    assert (await chat.complete(request())).text == "answer 2"


async def test_another_one_asks_if_the_first_is_cancelled(ledger: Ledger) -> None:
    paced = Paced()
    chat = model(paced, ledger)
    first = asyncio.create_task(chat.complete(request()))
    others = [asyncio.create_task(chat.complete(request())) for _ in range(3)]
    await paced.asked.wait()
    others[0].cancel()
    first.cancel()
    await settle()
    assert first.cancelled()
    assert others[0].cancelled()
    assert paced.calls == 2
    paced.go.set()
    with anyio.fail_after(60):
        answers = [await other for other in others[1:]]
    assert [each.text for each in answers] == ["answer 2"] * 2
    assert sorted(each.reused for each in answers) == [False, True]
    assert not len(ledger.flights)


class Held(Ledger):
    """A ledger that writes when it is told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.write = asyncio.Event()
        self.error: LedgerError | None = None
        self._writing: set[asyncio.Task[None]] = set()

    def put(self, key: bytes, reply: ChatReply, told: Kept, **options: Any) -> None:
        async def later() -> None:
            await self.write.wait()
            if self.error is not None:
                told(self.error, kept=False)
            else:
                Ledger.put(self, key, reply, told, **options)

        self._writing.add(asyncio.create_task(later()))


async def test_an_answer_that_came_is_shared_though_its_caller_is_cancelled(path: Path) -> None:
    ledger = Held(path)
    paced = Paced()
    paced.go.set()
    chat = model(paced, ledger)
    first = asyncio.create_task(chat.complete(request()))
    await paced.asked.wait()
    await settle()
    first.cancel()
    await settle()
    assert first.cancelled()
    other = asyncio.create_task(chat.complete(request()))
    await settle()
    assert not other.done()
    ledger.write.set()
    assert await other == reply("answer 1", reused=True)
    assert await chat.complete(request()) == reply("answer 1", reused=True)
    assert paced.calls == 1
    ledger.close()


async def test_what_cannot_be_kept_is_not_used(path: Path) -> None:
    ledger = Held(path)
    ledger.error = LedgerError("the disk is full")
    ledger.write.set()
    chat = model(lambda request: "yes", ledger)
    with pytest.raises(LedgerError, match="the disk is full"):
        await chat.complete(request())
    assert not len(ledger.flights)
    ledger.close()


def test_a_later_event_loop_finds_the_answer(ledger: Ledger) -> None:
    calls = []

    async def answer(request: ChatRequest) -> str:
        calls.append(request)
        return "yes"

    chat = model(answer, ledger)
    for expected in ([False], [True]):
        assert [each.reused for each in asyncio.run(gather(chat, 1))] == expected
    assert len(calls) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
async def test_only_calls_of_their_own_are_locked_between_processes(
    ledger: Ledger, path: Path
) -> None:
    locks = anyio.Path(f"{path}-claims")
    inner = ScriptedChat(lambda _: "yes", name=MODEL)
    await Ledgered(inner, ledger, among_processes=False).complete(request())
    assert not await locks.exists()
    await Ledgered(inner, ledger).complete(request("another"))
    assert (await locks.stat()).st_size == 0


async def test_it_is_the_model_with_its_name(ledger: Ledger) -> None:
    class Served(ScriptedChat):
        endpoint = "http://127.0.0.1:1/v1"
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    inner = Served(lambda request: "yes", name=MODEL)
    chat = Ledgered(inner, ledger)
    assert isinstance(chat, ChatModel)
    assert (chat.name, chat.capabilities, chat.endpoint) == (
        MODEL,
        inner.capabilities,
        inner.endpoint,
    )
    assert model(lambda request: "yes", ledger).endpoint == ""
    await chat.complete(request())
    await chat.aclose()
    assert inner.closed == 1
    assert ledger.find(request_key(inner, request())) is not None


async def test_an_unusable_answer_is_marked_and_reused(ledger: Ledger, path: Path) -> None:
    texts = iter(["nonsense", "sense"])
    chat = model(lambda request: next(texts), ledger)
    await chat.complete(request())
    await chat.mark_unusable(request())
    assert (await chat.complete(request())).text == "nonsense"
    from mcranker.llm.ledger.upkeep import Selection, prune

    assert prune(path, Selection(unusable=True)) == 1
    assert (await chat.complete(request())).text == "sense"


async def test_nothing_of_a_request_is_stored(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Served(ScriptedChat):
        endpoint = "https://inside.example/v1"
        api_key = SECRET

    ledger = Ledger(path)
    chat = Ledgered(Served(lambda request: "fine", name=MODEL), ledger)
    with caplog.at_level(logging.DEBUG):
        await chat.complete(request("a private passage", labels=("hidden label",)))
        stored = content(path.parent)
        ledger.close()
        stored += content(path.parent)
    assert b"fine" in stored
    for secret in (SECRET, "private passage", "hidden label", "inside.example"):
        assert secret.encode() not in stored
        assert secret not in caplog.text
