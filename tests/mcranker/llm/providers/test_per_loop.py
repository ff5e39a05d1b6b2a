from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

from mcranker.llm.providers.http_chat import PerLoop


class Client:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed_in: list[asyncio.AbstractEventLoop] = []

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed_in.append(asyncio.get_running_loop())


def test_a_client_without_aclose_goes_with_its_loop() -> None:
    clients = PerLoop(Client)
    client = asyncio.run(clients.get())
    assert client.closed_in == [client.loop]


@pytest.mark.anyio
async def test_aclose_closes_once_and_get_opens_another() -> None:
    clients = PerLoop(Client)
    first = await clients.get()
    await clients.aclose()
    await clients.aclose()
    assert first.closed_in == [first.loop]
    assert await clients.get() is not first
    await clients.aclose()


def test_dead_loops_are_let_go_of() -> None:
    clients = PerLoop(Client)
    loop = asyncio.new_event_loop()
    gone = weakref.ref(loop.run_until_complete(clients.get()))
    loop.close()  # without shutting its generators down
    asyncio.run(clients.get())
    del loop
    gc.collect()
    assert gone() is None


def test_loops_in_several_threads() -> None:
    clients = PerLoop(Client)
    found: list[Client] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        async def main() -> None:
            barrier.wait(60)
            found.append(await clients.get())

        asyncio.run(main())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({id(client) for client in found}) == 8
    assert all(client.closed_in == [client.loop] for client in found)
