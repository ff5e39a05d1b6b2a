"""A model with a ledger: asked once, shared while it is on its way, kept before it is used."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from mcranker.errors import LedgerError, RateLimited, RequestRejected
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest, Tag
from mcranker.llm.ledger import sqlite_file
from mcranker.llm.ledger.ledger import Ledger, Ledgered
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from mcranker.llm.ledger.store import NewAnswer, Selection
from mcranker.llm.scripted import ScriptedChat
from tests.support.ledger_support import MODEL, locked, reply, request

pytestmark = pytest.mark.anyio

SECRET = "sk-live-4f1d"


class Paced:
    """A model that answers on a signal, and counts."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked, self.asked_again = asyncio.Event(), asyncio.Event()
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        (self.asked_again if self.calls > 1 else self.asked).set()
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
    asyncio.run(ledger.aclose())


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
    await first.aclose()
    second = Ledger(path)
    again = await model(answer, second).complete(
        dataclasses.replace(request("a"), tag=Tag("assess", "q"))
    )
    assert again == reply("to a", reused=True)
    assert again.usage.seconds == 0.25
    await model(answer, second).complete(request("b"))
    assert asked == ["a", "b"]
    await second.aclose()


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
    assert not ledger.in_flight._requests


async def _let_go(paced: Paced) -> None:
    await paced.asked.wait()
    await settle()
    paced.go.set()


@pytest.mark.parametrize("error", [RequestRejected("no"), RateLimited("slow down")])
async def test_an_error_is_shared_and_not_kept(ledger: Ledger, error: Exception) -> None:
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
    keys = [request_key(chat, request())]
    assert ledger.path is not None
    other = SQLiteStore(ledger.path)
    assert await other.claim_many(keys) == {*keys}  # another process may ask at once
    await other.release(keys)
    await other.aclose()
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
    with anyio.fail_after(60):
        await paced.asked_again.wait()
    assert first.cancelled()
    assert others[0].cancelled()
    paced.go.set()
    with anyio.fail_after(60):
        answers = [await other for other in others[1:]]
    assert [each.text for each in answers] == ["answer 2"] * 2
    assert sorted(each.reused for each in answers) == [False, True]
    assert not ledger.in_flight._requests


async def test_an_answer_that_cannot_be_kept_is_not_used(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> set[bytes]:
        raise LedgerError("the disk is full")

    monkeypatch.setattr(ledger.store, "complete_many", fail)
    chat = model(lambda request: "yes", ledger)
    with pytest.raises(LedgerError, match="the disk is full"):
        await chat.complete(request())
    assert not ledger.in_flight._requests
    monkeypatch.undo()
    assert (await chat.complete(request())).text == "yes"


@pytest.mark.parametrize("among_processes", [True, False])
async def test_nothing_is_paid_that_cannot_be_kept(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, among_processes: bool
) -> None:
    monkeypatch.setattr(sqlite_file, "PATIENCE", 0.05)
    calls: list[ChatRequest] = []

    async def answer(request: ChatRequest) -> str:
        calls.append(request)
        stack.enter_context(locked(path))  # while the call is in flight
        return "yes"

    chat = Ledgered(ScriptedChat(answer, name=MODEL), ledger, among_processes=among_processes)
    await ledger.keep(b"another", reply(), model=MODEL, stage="score")
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            with pytest.raises(LedgerError, match="locked by another program"):
                await chat.complete(request())
    assert len(calls) == 1


async def test_another_process_is_waited_for(ledger: Ledger, path: Path) -> None:
    asked: list[ChatRequest] = []

    def answer(request: ChatRequest) -> ChatReply:
        asked.append(request)
        return reply("here")

    chat, other = model(answer, ledger), SQLiteStore(path)
    keys = [request_key(chat, request(text)) for text in "abc"]
    await other.claim_many(keys)
    waiting = [asyncio.create_task(chat.complete(request(text))) for text in "abc"]
    await anyio.sleep(0.05)
    assert not asked
    waiting[2].cancel()
    await other.complete_many([NewAnswer(keys[0], reply("there"), MODEL, "score")])
    await other.release(keys[1:])
    with anyio.fail_after(60):
        assert await waiting[0] == reply("there", reused=True)
        assert await waiting[1] == reply("here")
    assert len(asked) == 1
    assert await other.claim_many(keys) == {keys[2]}  # the one that was cancelled claims nothing
    await other.aclose()


async def test_a_call_that_takes_longer_than_the_lease_keeps_its_claim(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SQLiteStore, "lease", 0.3)
    ledger, other = Ledger(path), SQLiteStore(path)
    paced = Paced()
    chat = model(paced, ledger)
    async with anyio.create_task_group() as group:
        group.start_soon(chat.complete, request())
        await paced.asked.wait()
        for _ in range(5):
            await anyio.sleep(0.15)
            assert await other.claim_many([request_key(chat, request())]) == set()
        paced.go.set()
    await other.aclose()
    await ledger.aclose()


async def test_an_unusable_answer_is_marked_and_reused(ledger: Ledger) -> None:
    texts = iter(["nonsense", "sense"])
    chat = model(lambda request: next(texts), ledger)
    await chat.complete(request())
    await chat.mark_unusable(request())
    assert (await chat.complete(request())).text == "nonsense"
    assert await ledger.store.prune(Selection(unusable=True)) == 1
    assert (await chat.complete(request())).text == "sense"


async def test_nothing_of_a_request_is_stored(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Served(ScriptedChat):
        endpoint = "https://inside.example/v1"
        api_key = SECRET

    ledger = Ledger(path)
    chat = Ledgered(Served(lambda request: "fine", name=MODEL), ledger)
    with caplog.at_level(logging.DEBUG, "mcranker"):
        await chat.complete(request("a private passage", labels=("hidden label",)))
        stored = content(path.parent)
        await ledger.aclose()
        stored += content(path.parent)
    assert b"fine" in stored
    for secret in (SECRET, "private passage", "hidden label", "inside.example"):
        assert secret.encode() not in stored
        assert secret not in caplog.text
