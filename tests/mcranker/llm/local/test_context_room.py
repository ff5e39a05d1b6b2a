import threading

import anyio
import anyio.lowlevel
import pytest

from mcranker.llm.local.context_room import ContextRoom

pytestmark = pytest.mark.anyio


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def test_who_does_not_fit_waits_and_is_not_overtaken() -> None:
    room, order = ContextRoom(10), list[str]()
    leave = {name: anyio.Event() for name in ("first", "large", "small")}

    async def call(name: str, tokens: int) -> None:
        async with room.hold(tokens):
            order.append(name)
            await leave[name].wait()

    async with anyio.create_task_group() as group:
        for name, tokens in (("first", 6), ("large", 8), ("small", 2)):
            group.start_soon(call, name, tokens)
            await settle()
        assert order == ["first"]
        assert room.free == 4
        leave["first"].set()
        await settle()
        assert order == ["first", "large", "small"]
        leave["large"].set()
        leave["small"].set()
    assert room.free == 10


async def test_a_call_larger_than_the_room_goes_in_alone() -> None:
    room = ContextRoom(10)
    async with room.hold(1000):
        assert room.free == 0
    assert room.free == 10


async def test_a_cancelled_call_gives_back_its_place() -> None:
    room = ContextRoom(10)
    async with room.hold(10):
        async with anyio.create_task_group() as group:
            group.start_soon(_hold, room, 5)
            await settle()
            group.cancel_scope.cancel()
        assert room.free == 0
    assert room.free == 10


async def test_a_call_cancelled_just_as_it_is_let_in_gives_back_its_tokens() -> None:
    room = ContextRoom(10)
    async with anyio.create_task_group() as group:
        async with room.hold(10):
            group.start_soon(_hold, room, 5)
            await settle()
        group.cancel_scope.cancel()
    assert room.free == 10


def test_it_is_shared_by_several_event_loops() -> None:
    room, most = ContextRoom(10), list[int]()

    async def many() -> None:
        for _ in range(200):
            async with room.hold(6):
                most.append(room.free)
                await anyio.lowlevel.checkpoint()

    threads = [threading.Thread(target=anyio.run, args=(many,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 600
    assert set(most) == {4}  # never two of six tokens at once
    assert room.free == 10


async def _hold(room: ContextRoom, tokens: int) -> None:
    async with room.hold(tokens):
        await anyio.sleep_forever()
