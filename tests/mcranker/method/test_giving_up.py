"""When a judge is given up whose replies cannot be read; more in `tests.mcranker.rankers`."""

from __future__ import annotations

import anyio
import pytest

from mcranker import ChatRequest, DirectRanker, FormNotKept, Passage, ScriptedChat

DOCS = [Passage(str(number), f"text {number}") for number in range(60)]


@pytest.mark.anyio
@pytest.mark.parametrize("readable", [True, False])
async def test_calls_under_way_may_still_save_a_judge(readable: bool) -> None:
    """Twelve of twenty fail; the next ones wait for the other eight, instead of being refused."""
    asked = 0
    begun, failed, released = anyio.Event(), anyio.Event(), anyio.Event()

    async def answer(request: ChatRequest) -> str:
        nonlocal asked
        asked += 1
        number = asked
        if number == 20:
            begun.set()
        if number <= 20:
            await begun.wait()
        if number == 12:
            failed.set()
        if 12 < number <= 20:
            await failed.wait()
            for _ in range(100):  # the others come to their next calls
                await anyio.lowlevel.checkpoint()
            released.set()
        if number > 20:
            await released.wait()
        return '{"Score": 4}' if readable and number > 12 else "I cannot tell."

    model = ScriptedChat(answer)
    async with DirectRanker(model=model, ledger=None, concurrency=20, repair_attempts=0) as ranker:
        if not readable:
            with pytest.raises(FormNotKept, match="stopped: 0 of"):
                await ranker.arank("masks", DOCS)
            assert asked < 30
            return
        ranking = await ranker.arank("masks", DOCS)
    assert asked == 60
    assert len(ranking.missing) == 12
