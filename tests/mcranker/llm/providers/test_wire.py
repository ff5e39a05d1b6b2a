from __future__ import annotations

import asyncio
import gzip
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping

import aiohttp
import anyio
import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContentRefused,
    ContextTooLong,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from mcranker.llm.chat import ChatModel, ChatReply
from mcranker.llm.limits.rate_limiter import RateLimiter
from mcranker.llm.limits.retries import Retrying
from tests.support.loopback import (
    Answer,
    Body,
    Drop,
    Hang,
    Loopback,
    Reply,
    Trickle,
    clean_environment,
    completion,
    deaf_port,
    openai_error,
    serve,
    serve_in_thread,
)
from tests.support.raw_server import (
    Asked,
    Script,
    Wire,
    bomb,
    endless,
    sends,
    serve_raw,
)
from tests.support.wire import (
    BACK_ENDS,
    CHECKS,
    KEY,
    RESULTS,
    TOKEN,
    BackEnd,
    asking,
    check_message,
    failure,
)

MIB = 2**20

pytestmark = pytest.mark.anyio
every = pytest.mark.parametrize("back_end", BACK_ENDS.values(), ids=BACK_ENDS)
one = pytest.mark.parametrize("back_end", [BACK_ENDS["compatible"], BACK_ENDS["anthropic"]])
every_call = pytest.mark.parametrize("name", [*BACK_ENDS, *CHECKS, *RESULTS])


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


# The contract of every back-end.


@every
async def test_a_call_and_its_reply(back_end: BackEnd) -> None:
    async with serve(lambda _: back_end.good) as server:
        model = back_end.at(server.root)
        reply = await model.complete(back_end.request)
        await model.aclose()
    assert isinstance(model, ChatModel)
    assert model.name == back_end.name
    (sent,) = server.requests
    assert sent.path == back_end.path
    assert KEY in f"{sent.headers.get('x-api-key')} {sent.headers.get('authorization')}"
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.body["model"] == back_end.model
    assert "Hé?" in str(sent.body)
    assert reply.model == "served-model"
    assert (reply.text == "7") is not bool(reply.answers)
    usage = reply.usage
    assert usage.calls == 1
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == back_end.usage


STATUSES = {
    307: RequestRejected,  # nothing is sent elsewhere
    400: RequestRejected,
    401: AuthenticationFailed,
    402: AuthenticationFailed,
    403: AuthenticationFailed,
    404: ModelNotFound,
    408: ModelTimeout,
    409: RequestRejected,
    413: RequestRejected,
    422: RequestRejected,
    429: RateLimited,
    500: ServerFailed,
    503: ServerFailed,
    504: ModelTimeout,
    529: RateLimited,
}


ANSWERS: dict[str, tuple[Callable[[BackEnd], Reply], type[ModelError]]] = {
    "a page": (lambda _: Answer(500, b"<html>oops</html>"), ServerFailed),
    "nothing": (lambda _: Answer(503, b""), ServerFailed),
    "a page as an answer": (lambda _: Answer(200, b"<html>hello</html>"), ServerFailed),
    "a list": (lambda _: Answer(200, []), ServerFailed),
    "another object": (lambda _: Answer(200, {"object": "list"}), ServerFailed),
    "another protocol": (lambda back_end: back_end.foreign, ServerFailed),
    "half of it": (lambda _: Answer(200, b'{"model": "m", "cho'), ServerFailed),
    "hung up": (lambda _: Drop(), ConnectionFailed),
    "hung up half way": (lambda _: Drop(after=b'{"model": '), ConnectionFailed),
    "too long": (lambda back_end: Answer(400, back_end.too_long), ContextTooLong),
    "filtered": (lambda _: Answer(400, openai_error("", code="content_filter")), ContentRefused),
    "refused": (lambda b: b.refused or Answer(403, openai_error("flagged")), ContentRefused),
}


@every
async def test_every_failure_is_one_error_and_nothing_is_tried_twice(
    back_end: BackEnd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mcranker")
    statuses = {
        f"status {status}": (Answer(status, back_end.error(f"because of {KEY}.")), kind)
        for status, kind in STATUSES.items()
    }
    answers = {what: (answer(back_end), kind) for what, (answer, kind) in ANSWERS.items()}
    async with serve(lambda _: {}) as server:
        model = back_end.at(server.root)
        for what, (reply, kind) in (statuses | answers).items():
            server.requests.clear()
            server.script = lambda _, reply=reply: reply  # type: ignore[misc]
            error = await failure(lambda: model.complete(back_end.request))
            assert type(error) is kind, what
            assert error.model == back_end.name
            assert ("because of" in str(error)) == (what in statuses)
            assert len(server.requests) == 1, what
        await model.aclose()
    assert KEY not in caplog.text


@every
async def test_errors_say_what_to_do(back_end: BackEnd) -> None:
    waits = {"12": 12.0, "0.25": 0.25, "": None}
    async with serve(lambda _: Answer(401, back_end.error("wrong"))) as server:
        model = back_end.at(server.root)
        said = str(await failure(lambda: model.complete(back_end.request)))
        assert f"(set {back_end.key} or pass api_key=)" in said
        for wait, seconds in waits.items():
            answer = Answer(429, back_end.error("slow"), {"Retry-After": wait})
            server.script = lambda _, answer=answer: answer  # type: ignore[misc]
            error = await failure(lambda: model.complete(back_end.request))
            assert isinstance(error, RateLimited)
            assert error.retry_after == seconds
        await model.aclose()
    with deaf_port() as port:
        model = back_end.at(f"http://127.0.0.1:{port}")
        with pytest.raises(ConnectionFailed, match=back_end.advice):
            await model.complete(back_end.request)
        await model.aclose()


async def time_out(back_end: BackEnd, server: Loopback) -> None:
    """Time out on a server that has been asked: the first call also loads a library."""
    timeout = 0.1
    while not server.requests:
        model = back_end.at(server.root, timeout=timeout)
        with anyio.fail_after(60), pytest.raises(ModelTimeout, match=f"within {timeout:g} s"):
            await model.complete(back_end.request)
        await model.aclose()
        timeout *= 4


@one
async def test_a_slow_answer_times_out_and_hangs_up(back_end: BackEnd) -> None:
    hang = Hang()
    async with serve(lambda _: hang) as server:
        await time_out(back_end, server)
        with anyio.fail_after(60):
            await hang.gone.wait()
        # The deadline is for the whole answer.
        server.requests.clear()
        server.script = lambda _: Trickle()
        await time_out(back_end, server)


@one
async def test_cancelling_a_call_hangs_up(back_end: BackEnd) -> None:
    hang, asked = Hang(), asyncio.Event()

    def answer(_: Body) -> Hang:
        asked.set()
        return hang

    async with serve(answer) as server:
        model = back_end.at(server.root)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(model.complete, back_end.request)
                await asked.wait()
                group.cancel_scope.cancel()
            await hang.gone.wait()
        await model.aclose()


@one
async def test_connections_are_reused_and_limited(back_end: BackEnd) -> None:
    async with serve(lambda _: back_end.good) as server:
        model = back_end.at(server.root, concurrency=3)
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(model.complete, back_end.request)
        await model.complete(back_end.request)
        await model.aclose()
    assert len(server.requests) == 13
    assert len(server.peers) <= 3


@one
def test_one_model_in_many_loops_and_threads(back_end: BackEnd) -> None:
    """Without aclose() nothing is left open (warnings are errors)."""
    replies = []
    with serve_in_thread(lambda _: back_end.good) as server:
        model = back_end.at(server.root)

        def once() -> None:
            replies.append(asyncio.run(model.complete(back_end.request)))

        once()
        once()
        threads = [threading.Thread(target=once) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert [each.model for each in replies] == ["served-model"] * 5


@every
@pytest.mark.parametrize("key", ["two words", "line\nbreak", "k\u00e9y"])
def test_a_key_that_cannot_be_one_is_not_shown(
    back_end: BackEnd, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthenticationFailed, match=r"copy it again and pass it as api_key=$") as e:
        back_end.make(back_end.model, base_url="http://h", api_key=key)
    assert key not in str(e.value)
    monkeypatch.setenv(back_end.key, key)
    with pytest.raises(AuthenticationFailed, match=rf"copy it again and set {back_end.key}$"):
        back_end.make(back_end.model, base_url="http://h", api_key=None)


@every_call
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
            assert TOKEN not in str(error)
    assert not other.asked


# Faults of the wire itself.


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


FAULTS: Mapping[str, Script] = {
    "endless": endless(),
    "gzip": bomb("gzip"),
    "refusal": endless(b"400 x", b"no " * 2**14),
    "gzip-error": bomb("gzip", status=b"401 x"),
}


ENDS = ["ServerFailed", "ServerFailed", "RequestRejected", "AuthenticationFailed"]


async def _by_path(asked: Asked, wire: Wire) -> None:
    fault = asked.line.split("/")[1]
    if fault == "ok":
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    else:
        await FAULTS[fault](asked, wire)


@pytest.mark.parametrize("name", ["compatible", "anthropic"])
async def test_no_body_fills_the_memory(name: str) -> None:
    """Four bodies of 512 MiB or 2 GiB each; 8 MiB are read of a reply, at most."""
    if name == "compatible" and int(aiohttp.__version__.split(".")[1]) < 14:
        pytest.skip("older versions of aiohttp unpack all that they have received at once")
    async with serve_raw(_by_path) as server:
        command = [sys.executable, "-m", "tests.support.wire", name, server.root, *FAULTS]
        with anyio.fail_after(120):
            done = await anyio.run_process(command)
    said = json.loads(done.stdout)
    assert said["ends"] == ENDS
    assert said["grown"] < 64, "MiB"  # twice 8 MiB, and what the allocator keeps
    # What the sockets hold is sent in vain.
    assert server.sent < len(FAULTS) * 32 * MIB


@pytest.mark.parametrize("name", ["compatible"])
async def test_a_compressed_answer_is_understood(name: str) -> None:
    body = gzip.compress(json.dumps(BACK_ENDS[name].good).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    async with (
        serve_raw(sends(head % len(body), body)) as server,
        asking(name, server.root) as call,
    ):
        reply = await call()
    assert isinstance(reply, ChatReply)
    assert reply.text == "7"


GOOD = b"HTTP/1.1 200 OK\r\n"


WIRE_FAULTS: Mapping[str, tuple[bytes, ...]] = {
    "nothing": (b"",),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n",),
    "empty": (GOOD + b"Content-Length: 0\r\n\r\n",),
    "many 100s": (b"HTTP/1.1 100 Continue\r\n\r\n" * 5000,),
    "status 204": (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "status 304": (b"HTTP/1.1 304 Not Modified\r\n\r\n",),
    "status 999": (b"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",),
    "long header": (GOOD + b"X: " + b"a" * 200_000 + b"\r\n\r\n{}",),
    "length too long": (GOOD + b"Content-Length: 9999\r\n\r\n{}",),
    "length huge": (GOOD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",),
    "chunk cut": (GOOD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}",),
    "chunk extension": (GOOD + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"a" * 200_000,),
    "no brotli": (GOOD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",),
    "deep": (GOOD + b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000,),
}


@pytest.mark.parametrize("name", ["compatible", "openai results"])
async def test_broken_http_is_one_of_our_errors(name: str) -> None:
    ends: set[type] = set()
    async with serve_raw(sends()) as server, asking(name, server.root, 5.0) as call:
        for fault, parts in WIRE_FAULTS.items():
            server.script = sends(*parts)
            try:
                with anyio.fail_after(20):
                    found: object = await call()
            except ModelError as error:
                check_message(error)
                ends.add(type(error))
            else:  # lines of results are read as JSON later
                assert isinstance(found, int), fault
    assert ends == {ServerFailed, ConnectionFailed, RequestRejected}


ODD = {
    "another object": lambda turn: {"status": "done", "request": f"r-{turn}", "time": 1.5 * turn},
    "a page": lambda turn: Answer(body=f"<html>Sign in, request {turn}a</html>".encode()),
    "nothing": lambda turn: Answer(body=b""),
    "a text": lambda turn: Answer(body=f"busy {turn}"),
}


@one
@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
async def test_the_same_odd_reply_is_asked_for_twice(
    back_end: BackEnd, body: Callable[[int], Reply]
) -> None:
    async with serve(lambda _: body(len(server.requests))) as server:
        limits = RateLimiter(concurrency=8)
        model = Retrying(back_end.at(server.root), limits, first_wait=0.01)
        error = await failure(lambda: model.complete(back_end.request))
        assert isinstance(error, ServerFailed)
        assert len(server.requests) == 2
        reply = body(2)
        shown = reply.body if isinstance(reply, Answer) else json.dumps(reply)
        assert (shown.decode() if isinstance(shown, bytes) else shown) in str(error)
        replies = iter([body(3), {"another": 1}, back_end.good])
        server.script = lambda _: next(replies)
        later = Retrying(back_end.at(server.root), limits, first_wait=0.01)
        await later.complete(back_end.request)
        await model.aclose()
        await later.aclose()


@one
async def test_a_quota_by_the_minute_is_waited_for(back_end: BackEnd) -> None:
    said = "You exceeded your current quota, check your plan and billing. Please retry in 10ms."
    replies: Iterator[Reply] = iter([Answer(429, back_end.error(said)), back_end.good])
    async with serve(lambda _: next(replies)) as server:
        model = Retrying(back_end.at(server.root), RateLimiter(concurrency=8), first_wait=0.01)
        await model.complete(back_end.request)
        assert len(server.requests) == 2
        await model.aclose()


@one
async def test_a_request_that_is_too_large_is_final_for_itself(back_end: BackEnd) -> None:
    said = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 90000."
    async with serve(lambda _: Answer(429, back_end.error(said), {"Retry-After": "9"})) as server:
        limits = RateLimiter(concurrency=8)
        model = Retrying(back_end.at(server.root), limits)
        assert isinstance(await failure(lambda: model.complete(back_end.request)), ContextTooLong)
        assert len(server.requests) == 1
        assert limits._pace.paused_until < 0
        await model.aclose()
