"""Loops, threads, streams, many queries, and how much runs at once."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker import (
    ChatRequest,
    InputError,
    MCRanker,
    Query,
    RubricWritten,
    ScriptedChat,
    ServerFailed,
)
from tests.support.scripted import scripted

DOCS = {f"d{i}": f"text {i}" for i in range(6)}


def hashed_score(request: ChatRequest) -> str:
    place = int(request.tag.doc_id.removeprefix("d"))
    return json.dumps({"Score": (place * 7 + len(request.tag.persona)) % 11})


def test_rank_works_in_a_script_a_thread_and_a_running_loop() -> None:
    ranker = MCRanker(model=scripted(hashed_score))
    expected = ranker.rank("q", DOCS).ids
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: found.append(ranker.rank("q", DOCS).ids))
    thread.start()
    thread.join()

    async def in_a_loop() -> list[str]:
        return ranker.rank("q", DOCS).ids

    found.append(asyncio.run(in_a_loop()))
    found.append(asyncio.run(_ids(ranker)))
    found.append(asyncio.run(_ids(ranker)))
    ranker.close()
    assert found == [expected] * 4


async def _ids(ranker: MCRanker) -> list[str]:
    return (await ranker.arank("q", DOCS)).ids


@given(order=st.permutations(range(3 * len(DOCS))))
def test_the_ranking_does_not_depend_on_the_order_of_replies(order: list[int]) -> None:
    turns = {call: turn for turn, call in enumerate(order)}

    async def in_turn() -> list[tuple[str, float | None]]:
        gates = [anyio.Event() for _ in order]
        calls: list[int] = []

        async def score(request: ChatRequest) -> str:
            turn = turns[len(calls)]
            calls.append(turn)
            if len(calls) == len(order):
                gates[0].set()
            await gates[turn].wait()
            if turn + 1 < len(gates):
                gates[turn + 1].set()
            return hashed_score(request)

        async def answer(request: ChatRequest) -> str:
            if request.tag.stage == "score":
                return await score(request)
            reply = await scripted().complete(request)
            return reply.text

        ranker = MCRanker(model=ScriptedChat(answer), concurrency=len(order))
        return [(hit.doc_id, hit.score) for hit in await ranker.arank("q", DOCS)]

    expected = MCRanker(model=scripted(hashed_score)).rank("q", DOCS)
    assert asyncio.run(in_turn()) == [(hit.doc_id, hit.score) for hit in expected]


@pytest.mark.anyio
async def test_leaving_a_stream_cancels_the_work_and_leaves_no_task() -> None:
    running = 0

    async def answer(request: ChatRequest) -> str:
        nonlocal running
        if request.tag.stage != "score":
            return (await scripted().complete(request)).text
        running += 1
        try:
            await anyio.sleep_forever()
        finally:
            running -= 1
        raise AssertionError("unreachable")

    before = asyncio.all_tasks()
    ranker = MCRanker(model=ScriptedChat(answer))
    async with ranker.astream("q", DOCS) as events:
        async for event in events:
            if isinstance(event, RubricWritten):
                break
        await anyio.wait_all_tasks_blocked()
        assert running > 0
    assert running == 0
    assert asyncio.all_tasks() == before

    stream = ranker.astream("q", DOCS)
    await anext(stream)
    del stream
    gc.collect()
    with anyio.fail_after(60):
        while asyncio.all_tasks() != before:
            await anyio.lowlevel.checkpoint()


def test_rank_many_reports_a_failed_query_in_its_place_and_goes_on() -> None:
    def score(request: ChatRequest) -> str:
        if request.tag.query_id == "2":
            raise ServerFailed("down for this one")
        return '{"Score": 4}'

    work = [(Query("text", str(number)), DOCS) for number in range(5)]
    with MCRanker(model=scripted(score)) as ranker:
        done = {entry.place: entry for entry in ranker.rank_many([*work, ("", DOCS)])}
    assert sorted(done) == list(range(6))
    assert {place for place, entry in done.items() if entry.ranking is None} == {2, 5}
    with pytest.raises(ServerFailed, match="down for this one"):
        done[2].result()
    assert isinstance(done[5].error, InputError)
    assert done[4].result().query.id == "4"


def test_work_that_is_no_list_of_pairs_is_refused() -> None:
    with MCRanker(model=scripted(str)) as ranker:
        for piece in ("q", ("q", DOCS, 3)):
            (done,) = ranker.rank_many([piece])  # type: ignore[list-item]  # wrong on purpose
            with pytest.raises(InputError, match="give pairs of a query and its passages"):
                done.result()
            with pytest.raises(InputError, match="give pairs of a query and its passages"):
                ranker.estimate_many([piece])  # type: ignore[list-item]  # wrong on purpose
        for work in ("masks", {"masks": DOCS}):
            with pytest.raises(InputError, match="give them as a list"):
                list(ranker.rank_many(work))  # type: ignore[arg-type]  # wrong on purpose


def test_rank_many_reads_its_work_no_faster_than_it_ranks() -> None:
    taken = 0

    def work() -> Iterator[tuple[str, dict[str, str]]]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield f"query {number}", {"a": "text"}

    with MCRanker(team_size=1, model=scripted(), query_concurrency=2) as ranker:
        results = ranker.rank_many(work())
        for _ in range(3):
            next(results)
        results.close()  # type: ignore[attr-defined]
    assert taken < 100


@pytest.mark.anyio
@pytest.mark.parametrize("concurrency", [2, 64])
async def test_calls_and_tasks_in_flight_never_exceed_the_concurrency(concurrency: int) -> None:
    running = most = most_tasks = 0

    async def answer(request: ChatRequest) -> str:
        nonlocal running, most, most_tasks
        running += 1
        most = max(most, running)
        most_tasks = max(most_tasks, len(asyncio.all_tasks()))
        await anyio.lowlevel.checkpoint()
        running -= 1
        return (await scripted(hashed_score).complete(request)).text

    before = len(asyncio.all_tasks())
    docs = {f"d{i}": str(i) for i in range(120)}
    await MCRanker(model=ScriptedChat(answer), concurrency=concurrency).arank("q", docs)
    assert most <= concurrency
    # a task a call, some of them for calls that wait for a place, and one or two an actor
    assert most_tasks - before <= concurrency * 9 // 8 + 2 * 4
