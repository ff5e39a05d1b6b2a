"""Hostile and broken servers: what comes over the wire is bounded, and read as data."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Mapping

import anyio
import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    ContentRefused,
    ModelError,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from mcranker.llm import masking
from mcranker.llm.chat import ChatReply, ChatRequest, Message
from mcranker.llm.providers import (
    anthropic_messages,
    endpoint,
    http_errors,
    openai_chat,
    openai_decisions,
    parameters,
)
from mcranker.llm.providers.http_errors import MESSAGE_LIMIT, READ_LIMIT, error_for, read_problem
from tests.support.raw_server import (
    Asked,
    Script,
    Wire,
    bomb,
    endless,
    endless_chunks,
    sends,
    serve_raw,
)
from tests.attack.scale import scaled
from tests.attack.wire_models import CHATS, CHECKS, RESULTS
from tests.attack.wire_support import (
    DECISION_REPLY,
    MIB,
    SERVICE,
    SYSTEMONE_REPLY,
    TOKEN,
    asking,
    check_message,
    failure,
    failure_of,
)
from tests.support.loopback import (
    Answer,
    Body,
    anthropic_message,
    clean_environment,
    completion,
    serve,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


# --- error pages and patterns -----------------------------------------------------------

FILLERS = (
    "a", "a*", "*", "<", "<a", "<a>", "</", " ", "\n", "1", "exceed", "exceed ", "prompt ",
    "sk-", "Bearer ", "eyJ", "http://", "https://a@", "@", "%41", "=", "/", "?&", "flagged ",
    "account ", "context_", "-", "é", "\x00", "(", ".", "_", "****a",
)  # fmt: skip


@pytest.mark.parametrize("filler", FILLERS)
def test_no_error_page_takes_long_to_read(filler: str) -> None:
    page = (filler * MIB)[:MIB]
    bodies = [
        page.encode(),
        f"<html><img src='data:image/png;base64,{page}'></html>".encode(),
        json.dumps({"error": {"message": page, "code": page, "param": page}}).encode(),
        json.dumps({"detail": [{"loc": [page, 1], "msg": page}] * 2}).encode(),
    ]
    start = time.process_time()
    for body in bodies:
        for status in (400, 500):
            problem = read_problem(status, body, {"retry-after": page[:8000], "location": page})
            parameters.refused_parameter(problem, {"seed": 1, "max_tokens": 5})
            assert len(str(error_for(problem, SERVICE))) < MESSAGE_LIMIT + 200
    assert time.process_time() - start < 2.0  # of 8 pages; a quadratic pattern takes minutes


def test_no_pattern_takes_long_on_what_it_is_given() -> None:
    modules = (http_errors, masking, parameters, endpoint, openai_chat, openai_decisions)
    patterns = {
        (module.__name__, name): pattern
        for module in (*modules, anthropic_messages)
        for name, pattern in vars(module).items()
        if isinstance(pattern, re.Pattern)
    }
    assert len(patterns) > 15
    for place, pattern in patterns.items():
        for filler in FILLERS:
            text = (filler * READ_LIMIT)[:READ_LIMIT]
            assert _seconds(pattern, text) < 0.010, (place, filler)
            # Ten times the text takes ten times as long, not a hundred times.
            assert _seconds(pattern, text * 10) < 0.100, (place, filler)


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    """Of this thread alone, so that no other process counts."""
    start = time.thread_time()
    pattern.search(text)
    return time.thread_time() - start


@pytest.mark.parametrize("name", ["openai", "compatible", "anthropic"])
async def test_an_error_page_with_an_inlined_image(name: str) -> None:
    page = f"<html><h1>Bad gateway</h1><img src='data:image/png;base64,{'iVBORw0K' * 60_000}'>"
    head = f"HTTP/1.1 502 x\r\nContent-Length: {len(page)}\r\n\r\n".encode()
    async with serve_raw(sends(head, page.encode())) as server:
        start = time.process_time()
        error = await failure_of(name, server.root)
    assert time.process_time() - start < 3.0
    assert type(error) is ServerFailed
    assert "Bad gateway" in str(error)


# --- redirects --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CHATS, *CHECKS, *RESULTS])
async def test_no_redirect_is_followed(name: str) -> None:
    async with (
        serve_raw(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")) as other,
        serve_raw(sends()) as server,
        asking(name, server.root) as call,
    ):
        target = other.root.replace("http://", f"http://u:{TOKEN}@")
        for status in (301, 302, 303, 307, 308):
            location = f"Location: {target}/{TOKEN}?k=1\r\nContent-Length: 0\r\n\r\n"
            server.script = sends(f"HTTP/1.1 {status} x\r\n{location}".encode())
            error = await failure(call)
            assert type(error) is RequestRejected
            shown = other.root.replace("http://", "http://[key]@")
            assert f"it redirects to '{shown}', and prompts are not sent on" in str(error)
            assert "set base_url= to it" in str(error)
            assert TOKEN not in str(error)
    assert not other.asked


LOCATIONS = {
    b"": "another path",
    b"/v1/": "another path",
    b"//other.example/x": "'other.example'",
    b"http://[::1": "'http://[::1'",
    b"http://h\x80\xff:99999/": "'http://h",
    b"x" * 8000: "another path",
    b"http://" + b"h" * 7000: "'http://hhh",
}


@pytest.mark.parametrize("name", CHATS)
async def test_a_redirect_to_anywhere(name: str) -> None:
    async with serve_raw(sends()) as server, asking(name, server.root) as call:
        for location, said in LOCATIONS.items():
            head = b"HTTP/1.1 307 x\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
            server.script = sends(head % location)
            error = await failure(call)
            assert type(error) is RequestRejected
            assert f"it redirects to {said}" in str(error)
            check_message(error)


# --- moderation -------------------------------------------------------------------------


FLAGGED: tuple[Body, ...] = (
    {"message": 'This model requires moderation and your input was flagged for "violence".'},
    {"message": "Your request was rejected as a result of our safety system."},
    {"message": "no", "code": "content_policy_violation"},
    {"message": "no", "code": "content_filter"},
    {"message": "The user input was flagged by Responsible AI"},
    {"message": "The prompt was flagged as potentially violating our usage policy"},
)


@pytest.mark.parametrize("name", CHATS)
async def test_a_flagged_text_is_refused_and_the_key_is_not_blamed(name: str) -> None:
    async with serve(lambda _: {}) as server, asking(name, server.root) as call:
        for status in (400, 403):
            for said in FLAGGED:
                answer = Answer(status, {"error": said})
                server.script = lambda _, answer=answer: answer  # type: ignore[misc]
                error = await failure(call)
                assert type(error) is ContentRefused, said
                assert "leave this passage out" in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "Your account has been flagged for suspicious activity",
        "This organization was flagged",
        "your API key was flagged as leaked",
        "Country, region, or territory not supported",
        "",
    ],
)
def test_an_account_without_the_right_is_not_a_refusal(said: str) -> None:
    body = json.dumps({"error": {"message": said}}).encode()
    assert type(error_for(read_problem(403, body, {}), SERVICE)) is AuthenticationFailed


async def test_a_flagged_passage_is_a_missing_score() -> None:
    from mcranker import DirectRanker

    def answer(body: Body) -> Answer | Body:
        if "flag me" in json.dumps(body):
            return Answer(403, {"error": {"code": 403, "message": "your input was flagged"}})
        return completion('{"Score": 7}')

    async with serve(answer) as server:
        ranker = DirectRanker(model="openai:m", base_url=server.url, api_key="k", ledger=None)
        async with ranker:
            ranking = await ranker.arank("masks", ["masks help", "flag me", "masks do not"])
    assert [hit.doc_id for hit in ranking] == ["0", "2", "1"]
    assert [(each.doc_id, "flagged" in each.reason) for each in ranking.missing] == [("1", True)]


# --- bodies without end -----------------------------------------------------------------

FAULTS: Mapping[str, Script] = {
    "endless": endless(),
    "chunks": endless_chunks(),
    "gzip": bomb("gzip"),
    "deflate": bomb("deflate"),
    "error": endless(b"500 x", b"no " * 2**14),
    "refusal": endless(b"400 x", b"no " * 2**14),
    "gzip-error": bomb("gzip", status=b"401 x"),
}
ENDS = [*["ServerFailed"] * 5, "RequestRejected", "AuthenticationFailed"]


async def _by_path(asked: Asked, wire: Wire) -> None:
    fault = asked.line.split("/")[1]
    if fault == "ok":
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    else:
        await FAULTS[fault](asked, wire)


@pytest.mark.parametrize("name", ["openai", "compatible", "anthropic", *RESULTS])
async def test_no_body_fills_the_memory(name: str) -> None:
    """Seven bodies of 512 MiB or 2 GiB each; 8 MiB are read of a reply, at most."""
    async with serve_raw(_by_path) as server:
        command = [sys.executable, "-m", "tests.attack.wire_models", name, server.root, *FAULTS]
        with anyio.fail_after(120):
            done = await anyio.run_process(command)
    said = json.loads(done.stdout)
    assert said["ends"] == ENDS
    assert said["grown"] < 64, "MiB"  # twice 8 MiB, and what the allocator keeps
    # What the sockets hold is sent in vain.
    assert server.sent < len(FAULTS) * 32 * MIB


async def test_results_of_a_batch_are_long_but_their_lines_are_not() -> None:
    line = json.dumps({"custom_id": "x", "text": "y" * MIB}).encode() + b"\n"

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(20):  # 20 MiB in all, more than one reply may have
            await wire.send(line)

    async with serve_raw(script) as server:
        for name in RESULTS:
            async with asking(name, server.root) as call:
                assert await call() == 20


@pytest.mark.parametrize("name", CHATS)
async def test_nobody_is_asked_to_compress_and_everybody_may(name: str) -> None:
    import gzip

    replies = {
        "anthropic": anthropic_message("7"),
        "decisions": DECISION_REPLY,
        "systemone": SYSTEMONE_REPLY,
    }
    body = gzip.compress(json.dumps(replies.get(name, completion("7"))).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    async with (
        serve_raw(sends(head % len(body), body)) as server,
        asking(name, server.root) as call,
    ):
        reply = await call()
    assert isinstance(reply, ChatReply)
    values = reply.answers and [answer.value for answer in reply.answers]
    assert (reply.text, values) in [("7", None), ("", [9.0])]
    assert "accept-encoding: identity\r\n" in server.asked[0].headers.lower()


# --- broken HTTP ------------------------------------------------------------------------

GOOD = b"HTTP/1.1 200 OK\r\n"
WIRE_FAULTS: Mapping[str, tuple[bytes, ...]] = {
    "nothing": (b"",),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n",),
    "garbage": (bytes(range(256)) * 40,),
    "empty": (GOOD + b"Content-Length: 0\r\n\r\n",),
    "status 100": (b"HTTP/1.1 100 Continue\r\n\r\n",),
    "status 101": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",),
    "many 100s": (b"HTTP/1.1 100 Continue\r\n\r\n" * 5000,),
    "status 204": (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "status 206": (b'HTTP/1.1 206 Partial\r\nContent-Length: 4\r\n\r\n{"a"',),
    "status 304": (b"HTTP/1.1 304 Not Modified\r\n\r\n",),
    "status 000": (b"HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n",),
    "status 600": (b"HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",),
    "status 999": (b"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",),
    "status 99999": (b"HTTP/1.1 99999 x\r\nContent-Length: 0\r\n\r\n",),
    "status x": (b"HTTP/1.1 abc x\r\nContent-Length: 0\r\n\r\n",),
    "version 9": (b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}",),
    "odd reason": (b"HTTP/1.1 500 \xff\xfe\x80\r\nContent-Length: 0\r\n\r\n",),
    "long header": (GOOD + b"X: " + b"a" * 200_000 + b"\r\n\r\n{}",),
    "endless first line": (b"HTTP/1.1 200 " + b"a" * 200_000,),
    "many headers": (GOOD + b"X: 1\r\n" * 20_000 + b"\r\n{}",),
    "odd header": (GOOD + b"X\x00: \xff\r\nContent-Length: 2\r\n\r\n{}",),
    "header without colon": (GOOD + b"oops\r\nContent-Length: 2\r\n\r\n{}",),
    "length too long": (GOOD + b"Content-Length: 9999\r\n\r\n{}",),
    "length too short": (GOOD + b'Content-Length: 2\r\n\r\n{"a": 1}',),
    "length huge": (GOOD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",),
    "length negative": (GOOD + b"Content-Length: -2\r\n\r\n{}",),
    "length no number": (GOOD + b"Content-Length: x\r\n\r\n{}",),
    "two lengths": (GOOD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",),
    "length and chunks": (GOOD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",),
    "chunk cut": (GOOD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}",),
    "chunk too long": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}{}{}\r\n0\r\n\r\n",),
    "chunk huge": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n" + b"F" * 40 + b"\r\n{}",),
    "chunk negative": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}",),
    "chunk no number": (GOOD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",),
    "chunk extension": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * 200_000,),
    "chunk without end": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",),
    "trailers": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: 1\r\n" * 20_000,),
    "no gzip": (GOOD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",),
    "gzip cut": (GOOD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",),
    "no deflate": (GOOD + b"Content-Encoding: deflate\r\nContent-Length: 2\r\n\r\n{}",),
    "no brotli": (GOOD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",),
    "no zstd": (GOOD + b"Content-Encoding: zstd\r\nContent-Length: 2\r\n\r\n{}",),
    "unknown encoding": (GOOD + b"Content-Encoding: x\xff\r\nContent-Length: 1\r\n\r\n{",),
    "gzip a thousand times": (
        GOOD + b"Content-Encoding: " + b"gzip," * 1000 + b"gzip\r\nContent-Length: 2\r\n\r\n{}",
    ),
    "wrong type": (GOOD + b"Content-Type: text/html; charset=\xff\r\nContent-Length: 1\r\n\r\n[",),
    "event stream": (GOOD + b"Content-Type: text/event-stream\r\n\r\ndata: {}\n\n",),
    "unicode": (GOOD + b"Content-Length: 4\r\n\r\n\xff\xfe{\x00",),
    "half a pair": (GOOD + b'Content-Length: 14\r\n\r\n{"a":"\\ud83d"}',),
    "deep": (GOOD + b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000,),
    "not a number": (GOOD + b'Content-Length: 9\r\n\r\n{"a":NaN}',),
    "infinite": (GOOD + b'Content-Length: 11\r\n\r\n{"a":1e999}',),
}


@pytest.mark.parametrize("name", [*CHATS, *CHECKS])
async def test_broken_http_is_one_of_our_errors(name: str) -> None:
    ends: set[type] = set()
    async with serve_raw(sends()) as server, asking(name, server.root, 5.0) as call:
        for fault, parts in WIRE_FAULTS.items():
            server.script = sends(*parts)
            error = await failure(call)
            assert isinstance(error, ServerFailed | ConnectionFailed | RequestRejected), fault
            check_message(error)
            ends.add(type(error))
    assert len(ends) == 3


@pytest.mark.parametrize("name", RESULTS)
async def test_broken_results_are_one_of_our_errors(name: str) -> None:
    async with serve_raw(sends()) as server, asking(name, server.root, 5.0) as call:
        for parts in WIRE_FAULTS.values():
            server.script = sends(*parts)
            try:
                with anyio.fail_after(20):
                    lines = await call()
            except ModelError as error:
                check_message(error)
            else:
                assert isinstance(lines, int)


@pytest.mark.parametrize("name", CHATS)
async def test_a_connection_that_is_cut_anywhere(name: str) -> None:
    replies = {
        "anthropic": anthropic_message("7"),
        "decisions": DECISION_REPLY,
        "systemone": SYSTEMONE_REPLY,
    }
    body = json.dumps(replies.get(name, completion("7"))).encode()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with serve_raw(sends()) as server, asking(name, server.root) as call:
        for place in range(1, len(whole), max(1, len(whole) // scaled(40))):
            server.script = sends(whole[:place])
            assert type(await failure(call)) is ConnectionFailed, place


@pytest.mark.parametrize("name", CHATS)
async def test_a_body_that_stalls(name: str) -> None:
    async def script(_: Asked, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 500 x\r\nContent-Length: 100\r\n\r\n{")
        await asyncio.sleep(30)  # then the connection ends, which is another error

    async with serve_raw(script) as server:
        error = await failure_of(name, server.root, 0.3)
    assert type(error) is ModelTimeout


RETRY_AFTER = [
    "1" + "0" * 400, "-5", "NaN", "inf", "-inf", "1e9", "0x10", "٣", "", " ", "5, 6", "\x00",
    "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "Mon, 01 Jan 2024",
    "Fri, 31 Dec 99999 23:59:59 GMT", "Mon, 99 Jan 2026 99:99:99 GMT", "9" * 9, "9" * 10,
    "Thu, 01 Jan 1970 00:00:00 +9999", "Thu, 01 Jan 1970 00:00:00 -99999999999999", "a" * 8000,
    "Mon, 4 May 2026 12:00:00 " + "(" * 100, ", " * 100, ":" * 100, "1-1-1 1:1:1",
]  # fmt: skip


def test_any_time_to_wait() -> None:
    odd = random.Random(3)
    letters = "0123456789 ,:+-().MonTueJanDecGMTUTCZ\x00é"
    texts = ["".join(odd.choices(letters, k=odd.randint(0, 40))) for _ in range(scaled(3000))]
    for text in (*RETRY_AFTER, *texts):
        for name in ("retry-after", "retry-after-ms"):
            error = error_for(read_problem(429, b"", {name: text}), SERVICE)
            assert isinstance(error, RateLimited)
            wait = error.retry_after
            assert wait is None or 0.0 <= wait <= 1e9, text
    assert read_problem(429, b"", {"retry-after": "1" + "0" * 400}).retry_after is None


# --- what is sent -----------------------------------------------------------------------


@pytest.mark.parametrize("name", CHATS)
async def test_what_json_cannot_hold_is_not_sent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.attack import wire_models

    for change in ({"messages": (Message("user", "half \ud83d"),)}, {"max_tokens": 2**70}):
        for request in ("REQUEST", "DECISION"):
            old = getattr(wire_models, request)
            fields = {each: getattr(old, each) for each in old.__dataclass_fields__} | change
            monkeypatch.setattr(wire_models, request, ChatRequest(**fields))
        if name in ("decisions", "systemone") and "max_tokens" in change:
            continue  # a decision has no limit
        async with serve_raw(sends(GOOD + b"Content-Length: 2\r\n\r\n{}")) as server:
            error = await failure_of(name, server.root)
        assert type(error) is RequestRejected
        assert "the request cannot be sent (" in str(error)
        assert not server.asked


def test_an_extra_body_that_cannot_be_sent() -> None:
    from mcranker.llm.providers.compatible_http import CompatibleChat

    for odd in ({1, 2}, object(), "\ud83d", 2**70):
        with pytest.raises(ConfigError, match="cannot be sent as JSON"):
            CompatibleChat("m", base_url="http://h", extra_body={"x": odd})
