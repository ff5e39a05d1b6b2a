"""Contenders of `throughput.py` and their load: each sends equal requests to one server.

Bare clients send them from as many tasks as calls may be in flight at once; ours are a whole
`MCRanker` with actors, ledger and reading of replies.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from mcranker import ChatRequest, MCRanker, Passage, Query, ScriptedChat
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.openai_chat import OpenAIChat

Body = dict[str, Any]
Call = Callable[[Body], Awaitable[Any]]

TEAM = "scientific_claims"  # three personas with rubrics, so that every call scores a passage
PERSONAS = 3
MODEL = "benchmark"
WORDS = (
    "patients treated with the vaccine had lower rates of severe disease than those in a control "
    "group after six months while antibody levels fell slowly and cells of the memory remained "
    "study cohort risk protein receptor binding mutation trial evidence analysis outcome"
)


@dataclass(frozen=True, slots=True)
class Load:
    """The load: queries with `passages` passages each, three calls a passage.

    `latency` is the server's, in seconds; at most `concurrency` calls are in flight at once.
    """

    queries: int
    passages: int
    concurrency: int
    latency: float

    @property
    def calls(self) -> int:
        """All scoring calls."""
        return self.queries * self.passages * PERSONAS

    @property
    def ideal(self) -> float:
        """Seconds that the server's latency alone takes."""
        return self.calls * self.latency / self.concurrency

    def work(self) -> Iterator[tuple[Query, list[Passage]]]:
        """The queries with passages of 150 to 200 words, the same ones every time."""
        chance, words = random.Random(7), WORDS.split()
        for number in range(self.queries):
            docs = [
                Passage(
                    f"d{place}",
                    " ".join(chance.choices(words, k=chance.randint(150, 200)))
                    + (" (na\u00efve)." if place % 10 == 0 else "."),
                    f"Report {place} on question {number}",
                )
                for place in range(self.passages)
            ]
            yield Query(f"does vaccine {number} prevent severe disease", f"q{number}"), docs


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall and CPU seconds of one run, and the kind of event loop it ran on."""

    seconds: float
    cpu: float
    loop: str

    @classmethod
    async def of(cls, run: Awaitable[None]) -> Timing:
        """The timing of something that is awaited."""
        wall, cpu = time.perf_counter(), time.process_time()
        await run
        seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return cls(seconds, cpu, type(asyncio.get_running_loop()).__module__.partition(".")[0])


@asynccontextmanager
async def bare_aiohttp(port: int, concurrency: int) -> AsyncIterator[Call]:
    import aiohttp

    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    headers = {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def call(body: Body) -> Any:
            async with session.post(url, data=orjson.dumps(body)) as response:
                return orjson.loads(await response.read())["choices"][0]["message"]["content"]

        yield call


@asynccontextmanager
async def bare_openai(port: int, _concurrency: int) -> AsyncIterator[Call]:
    import openai

    url = f"http://127.0.0.1:{port}/v1"
    async with openai.AsyncOpenAI(api_key="x", base_url=url, max_retries=0) as client:

        async def call(body: Body) -> Any:
            return (await client.chat.completions.create(**body)).choices[0].message.content

        yield call


@asynccontextmanager
async def bare_anthropic(port: int, _concurrency: int) -> AsyncIterator[Call]:
    import anthropic

    url = f"http://127.0.0.1:{port}"
    async with anthropic.AsyncAnthropic(api_key="x", base_url=url, max_retries=0) as client:

        async def call(body: Body) -> Any:
            message = {name: body[name] for name in ("model", "messages", "max_tokens")}
            schema = body["response_format"]["json_schema"]["schema"]
            message["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            return (await client.messages.create(**message)).content

        yield call


def through_url(port: int, _concurrency: int) -> dict[str, Any]:
    return {"model": f"openai:{MODEL}", "base_url": f"http://127.0.0.1:{port}/v1"}


def through_openai(port: int, concurrency: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/v1"
    return {"model": OpenAIChat(MODEL, base_url=url, api_key="x", concurrency=concurrency)}


def through_anthropic(port: int, concurrency: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}"
    return {"model": AnthropicMessages(MODEL, base_url=url, api_key="x", concurrency=concurrency)}


BARE: dict[str, Callable[[int, int], AbstractAsyncContextManager[Call]]] = {
    "aiohttp": bare_aiohttp,
    "openai": bare_openai,
    "anthropic": bare_anthropic,
}
OURS: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "ours-url": through_url,
    "ours-openai": through_openai,
    "ours-anthropic": through_anthropic,
}
NAMES = (*BARE, *OURS)


def time_contender(name: str, port: int, load: Load, *, ledger: bool) -> Timing:
    """One run of one contender, with a fresh ledger if any; belongs into a process of its own."""
    with tempfile.TemporaryDirectory() as folder, loop_runner() as runner:
        if name in BARE:
            return runner.run(_time_bare(name, port, load))
        kept = Path(folder) / "ledger.sqlite" if ledger else None
        return runner.run(_time_ours(name, port, load, kept))


def loop_runner() -> asyncio.Runner:
    """Runs coroutines on uvloop where that is installed, else on asyncio's own loop."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=importlib.import_module("uvloop").new_event_loop)


async def _time_bare(name: str, port: int, load: Load) -> Timing:
    bodies: list[Body] = []

    def note(request: ChatRequest) -> str:
        bodies.append(_body(request))
        return '{"Score": 5}'

    async with MCRanker(team=TEAM, model=ScriptedChat(note), ledger=None) as ranker:
        await _rank_all(ranker, load, load.work())
    waiting = iter(bodies)

    async def work(call: Call) -> None:
        for body in waiting:
            await call(body)

    async def work_off(call: Call) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(load.concurrency):
                group.create_task(work(call))

    async with BARE[name](port, load.concurrency) as call:
        await call(bodies[0])
        return await Timing.of(work_off(call))


async def _time_ours(name: str, port: int, load: Load, ledger: Path | None) -> Timing:
    options = OURS[name](port, load.concurrency)
    async with MCRanker(
        team=TEAM, concurrency=load.concurrency, ledger=ledger, **options
    ) as ranker:
        await ranker.arank("warm up", ["a passage"])
        return await Timing.of(_rank_all(ranker, load, list(load.work())))


async def _rank_all(
    ranker: MCRanker, load: Load, work: Iterable[tuple[Query, list[Passage]]]
) -> None:
    async for ranked in ranker.arank_many(work):
        ranking = ranked.result()
        if len(ranking) != load.passages or ranking.missing:
            raise SystemExit(f"{ranked.query.id}: not every passage was scored")


def _body(request: ChatRequest) -> Body:
    """Return the body that our client for a URL sends for this request."""
    assert request.schema is not None
    form = {"name": request.schema.name, "strict": True, "schema": dict(request.schema.schema)}
    return {
        "model": MODEL,
        "messages": [{"role": each.role, "content": each.content} for each in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "response_format": {"type": "json_schema", "json_schema": form},
    }
