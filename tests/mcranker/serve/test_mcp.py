"""The MCP server, by the SDK's own client: in this process, over pipes, and over HTTP."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client

from mcranker import ChatRequest
from mcranker.serve import Settings
from mcranker.serve.mcp import mcp_server
from tests.mcranker.cli.test_cli_process import COMMAND, SECONDS, environment, reply
from tests.support.cli_support import invoke
from tests.support.loopback import Body, Hang, serve_in_thread
from tests.support.serving import by_place, settings

TEXTS = ["soap", "cloth", "N95"]
ASKED: dict[str, Any] = {"query": "masks", "documents": TEXTS}


@asynccontextmanager
async def client(service: Settings | None = None, **given: Any) -> AsyncIterator[Client]:
    async with (
        mcp_server(service or settings(**given)) as server,
        Client(server, raise_exceptions=True) as found,
    ):
        yield found


async def called(client: Client, tool: str, **arguments: Any) -> Mapping[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    assert isinstance(found, dict)
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    return str(content.model_dump()["text"])


class Heard:
    """Notifications of progress."""

    def __init__(self) -> None:
        self.all: list[tuple[float, float | None, str | None]] = []

    async def add(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        self.all.append((progress, total, message))


async def test_its_tools_say_what_they_take_and_give() -> None:
    async with client() as found:
        tools = {tool.name: tool for tool in (await found.list_tools()).tools}
    assert list(tools) == ["rank", "estimate", "explain"]
    for tool in tools.values():
        assert tool.description
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.annotations.open_world_hint is (tool.name == "rank")
    assert set(tools["rank"].input_schema["required"]) == {"query", "documents"}
    # What the SDK hands to a tool is none of its arguments.
    assert "context" not in tools["rank"].input_schema["properties"]


async def test_it_ranks_explains_and_tells_how_far_it_is() -> None:
    heard = Heard()
    async with client() as found:
        arguments = {"query": "masks", "documents": TEXTS, "top_n": 2}
        result = await found.call_tool("rank", arguments, progress_callback=heard.add)
        ranked: Any = result.structured_content
        # Texts of a later place have higher scores: 3 and 2 of 10 by each of three judges.
        assert [(each["index"], each["relevance"]) for each in ranked["results"]] == [
            (2, pytest.approx(0.3)),
            (1, pytest.approx(0.2)),
        ]
        assert ranked["judges"] == ["NLP scientist", "Virologist", "Worried parent"]
        assert ranked["results"][0]["scores"] == dict.fromkeys(ranked["judges"], 3)
        assert (ranked["calls"], ranked["reused_answers"], ranked["notes"]) == (13, 0, [])
        assert list(heard.all[-1]) == [9, 9, "9 of 9 scores"]
        told = await called(found, "explain", ranking_id=ranked["ranking_id"], document_id="2")
        assert (told["rank"], told["first_stage_rank"]) == (1, 3)
        assert told["scores"]["Virologist"] == 3
        assert told["judges"]["Virologist"]["criteria"] == [
            "75% Answers the question: It says so.",
            "25% Names a source: It cites.",
        ]
        message = await refused(found, "explain", ranking_id=ranked["ranking_id"], document_id="9")
        assert "no document '9'" in message
        assert "no ranking 'x'" in await refused(found, "explain", ranking_id="x", document_id="1")


async def test_a_document_without_scores() -> None:
    def lost(request: ChatRequest) -> str:
        return "I cannot say." if request.tag.doc_id == "1" else by_place(request)

    async with client(score=lost) as found:
        ranked = await called(found, "rank", **ASKED)
        (document,) = [each for each in ranked["results"] if each["index"] == 1]
        told = await called(found, "explain", ranking_id=ranked["ranking_id"], document_id="1")
    assert (document["rank"], document["relevance"]) == (3, None)
    assert document["imputed"] == told["imputed"] == {}
    assert document["scores"] == dict.fromkeys(ranked["judges"])
    assert set(document["missing"]) == set(ranked["judges"])
    assert ranked["notes"][0] == "3 of 9 scores are missing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"documents": []}, "documents is empty"),
        ({"documents": TEXTS * 2}, "6 documents; send up to 5"),
        ({"query": "q" * 21}, "query has 21 characters; give up to 20"),
        ({"team": "clinician"}, "'team' cannot be chosen"),
        ({"top_n": 0}, "top_n"),
    ],
)
async def test_odd_calls_are_refused_in_words(arguments: dict[str, Any], message: str) -> None:
    async with client(limits={"documents": 5, "query": 20}) as found:
        assert message in await refused(found, "rank", **{**ASKED, **arguments})


async def test_a_caller_that_gives_up_cancels_its_calls() -> None:
    cancelled = anyio.Event()

    async def hang(_: ChatRequest) -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.set()
            raise
        return ""

    async with client(score=hang) as found:
        with anyio.move_on_after(0.2):
            await found.call_tool("rank", {"query": "q", "documents": TEXTS})
        with anyio.fail_after(SECONDS):
            await cancelled.wait()


# --- messages as they come ----------------------------------------------------------------

VERSION = {"protocolVersion": "2025-06-18", "capabilities": {}}
INFO = {**VERSION, "clientInfo": {"name": "tests", "version": "1"}}
BEGINNING = (
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INFO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def a_call(method: str = "tools/call", **params: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})


def a_ranking(**arguments: Any) -> bytes:
    return a_call(name="rank", arguments={"query": "q", "documents": ["a"], **arguments})


class Server:
    """``mcranker serve --mcp stdio``, after the handshake."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self.send(*map(line, BEGINNING))
        self.receive()

    def send(self, *lines: bytes) -> None:
        self.stdin.write(b"".join(lines))
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        found = self.stdout.readline()
        assert len(found) < 2_000
        answer: dict[str, Any] = json.loads(found)
        return answer


@contextmanager
def over_pipes(url: str) -> Iterator[Server]:
    flags = ("serve", "--mcp", "stdio", "--model", "openai:m", "--base-url", url, "--quiet")
    env = environment(MCRANKER_LEDGER="none", OPENAI_API_KEY="sk-tests")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, *flags], stdin=pipe, stdout=pipe, stderr=pipe, env=env
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()
            with suppress(OSError, ValueError):  # one of the pipes is closed
                process.communicate()


def test_lines_that_are_no_message_end_nothing() -> None:
    with serve_in_thread(reply) as model, over_pipes(model.url) as server:
        server.send(b"hello\n", b"[" * 40_000, b'\n{"a": 1}\n"\xff"\n\n', a_ranking())
        assert server.receive()["result"]["structuredContent"]["results"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
@pytest.mark.parametrize(("ending", "ranks"), [(signal.SIGINT, True), ("stdin", True)])
def test_over_pipes_it_ends_when_asked(ending: signal.Signals | str, ranks: bool) -> None:
    asked = threading.Event()

    def hang(_: Body) -> Hang:
        asked.set()
        return Hang()

    with serve_in_thread(hang) as model, over_pipes(model.url) as server:
        if ranks:
            server.send(a_ranking())
            assert asked.wait(SECONDS)
        if ending == "stdin":
            server.stdin.close()
        else:
            assert isinstance(ending, signal.Signals)
            server.process.send_signal(ending)
        expected = 128 + ending if isinstance(ending, signal.Signals) else 0
        assert server.process.wait(SECONDS) == expected
        assert server.process.stderr
        assert b"Traceback" not in server.process.stderr.read()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM")
async def test_over_http_and_stopped() -> None:
    with serve_in_thread(reply) as model:
        command = [*COMMAND, "serve", "--mcp", "http", "--port", "0", "--model", "openai:m"]
        env = environment(MCRANKER_LEDGER="none", OPENAI_API_KEY="sk-tests")
        with subprocess.Popen(  # noqa: ASYNC220 - it starts at once
            [*command, "--base-url", model.url], stderr=subprocess.PIPE, encoding="utf-8", env=env
        ) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            url = next(
                re.findall(r" at (http\S+)", line)[0] for line in lines if " at http" in line
            )
            try:
                async with Client(url) as found:
                    ranked = await called(found, "rank", **ASKED)
                    assert len(ranked["results"]) == 3
                    # A page of another site that has its name lead here.
                    evil = {"Host": "evil.example", "Content-Type": "application/json"}
                    async with httpx.AsyncClient(timeout=SECONDS) as other:
                        refusal = await other.post(url, headers=evil, json={})
                    assert refusal.status_code == 421
                    async with httpx.AsyncClient(timeout=SECONDS) as other:
                        headers = {"Content-Type": "application/json"}
                        large = a_ranking(query="q" * 5_000_000)
                        refusal = await other.post(url, headers=headers, content=large)
                    assert refusal.status_code == 413
                    process.send_signal(signal.SIGTERM)
                    _, err = await anyio.to_thread.run_sync(process.communicate)
            finally:
                process.kill()
        assert process.returncode == 0
        assert "Traceback" not in err


def test_other_machines_are_not_served() -> None:
    result = invoke("serve", "--mcp", "http", "--host", "0.0.0.0", "--model", "openai:m")
    assert result.exit_code == 2
    assert "can be reached from other machines" in result.stderr
