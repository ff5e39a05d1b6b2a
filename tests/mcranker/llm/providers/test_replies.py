from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from mcranker.errors import ContentRefused, ModelError, ServerFailed, UnsupportedCapability
from mcranker.llm.batch.services import AnthropicBatches, BatchService, OpenAIBatches
from mcranker.llm.chat import ChatReply, ChatRequest, Message, Question, Tag
from mcranker.llm.providers import http_chat
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_chat import MOST_TOKENS
from mcranker.llm.providers.http_errors import error_for
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.openai_decisions import decision_reply
from mcranker.llm.providers.openai_protocol import chat_reply
from tests.support.loopback import (
    Body,
    anthropic_error,
    anthropic_message,
    clean_environment,
    completion,
    openai_error,
    position,
)
from tests.support.raw_server import Asked, Wire, serve_raw
from tests.support.wire import CHECKS, SERVICE, asking, check_message

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)
    http_chat._warned.clear()


LABELS = ("0", "1", "10")
LABELLED = ChatRequest(messages=(Message("user", "?"),), tag=Tag("score"), labels=LABELS)
FREE = ChatRequest(messages=(Message("user", "?"),), tag=Tag("score"))
ASKED = ChatRequest(
    messages=(Message("user", "?"),),
    tag=Tag("score"),
    questions=(Question("q1", "?", 9), Question("q2", "?", 3)),
)
_USAGE = {"input_tokens": 5, "output_tokens": 2}
_LEVEL = {"value": 9, "label": "9", "probability": 1.0}
DECISION_REPLY: Body = {
    "model": "gpt-6-luna",
    "answers": [{"type": "score", "name": "q1", "probabilities": [_LEVEL]}],
    "usage": _USAGE | {"input_tokens_details": {"cached_tokens": 3}},
}
TWO_ANSWERS = DECISION_REPLY | {
    "answers": [*DECISION_REPLY["answers"], {"type": "score", "name": "q2", "score": 1.5}]
}
LOGPROBS = {"content": [position("1", **{"1": 0.5, "0": 0.25}), position("0", **{"0": 0.5})]}
OPENAI = OpenAIChat("gpt-4.1-mini", api_key="k")
ANTHROPIC = AnthropicMessages("claude-haiku-4-5", api_key="k")
Reading = Callable[[Any], ChatReply]
SHAPES: Mapping[str, tuple[Body, ChatRequest, Reading]] = {
    "text": (completion("7"), FREE, lambda data: OPENAI.read(data, FREE)),
    "labels": (
        completion("10", logprobs=LOGPROBS),
        LABELLED,
        lambda data: chat_reply(data, LABELLED, service=SERVICE, prefill=True),
    ),
    "error": (
        {"error": {"message": "no", "code": 429, "type": "t", "param": "seed", "metadata": {}}},
        FREE,
        lambda data: chat_reply(data, FREE, service=SERVICE),
    ),
    "anthropic": (anthropic_message("7"), FREE, lambda data: ANTHROPIC.read(data, FREE)),
    "anthropic refusal": (
        anthropic_message("", stop_reason="refusal", stop_details={"explanation": "no"}),
        FREE,
        lambda data: ANTHROPIC.read(data, FREE),
    ),
    "decision": (TWO_ANSWERS, ASKED, lambda data: decision_reply(data, ASKED, service=SERVICE)),
}


def _deep(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {("error", "message", "msg")[level % 3]: value}
    return value


ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 0.5, -0.5, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, -(2**63),
    10**400, -(10**400), float("nan"), float("inf"), float("-inf"), "", "7", "x" * 5000, "\x1b[31m",
    "\ud83d", "length", "refusal", "content_filter", "error", "score", [], {}, [None], [[]], [{}],
    {"": None}, {"message": None}, {"token": 1, "logprob": "x"}, {"type": "text", "text": 5},
    _deep(40), _deep(400), _deep(900),
)  # fmt: skip
SHARED = frozenset(map(id, ODD))


def _paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    # What was put in before is left alone: it is the same object in every case.
    if not isinstance(value, dict | list) or id(value) in SHARED:
        return
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _paths(inner, (*here, name))


def mutated(value: Any, chance: random.Random) -> Any:
    """A copy with one to three places changed."""
    copy = json.loads(json.dumps(value))
    for _ in range(chance.randint(1, 3)):
        path = chance.choice([*_paths(copy)][1:] or [()])
        if not path:
            return copy
        holder = copy
        for name in path[:-1]:
            holder = holder[name]
        last = path[-1]
        match chance.randrange(6):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.append(chance.choice(ODD))
            case 2:
                holder[last] = [holder[last]] * chance.choice((1, 3))
            case 3 if isinstance(holder, dict):
                holder[chance.choice(("error", "extra", "logprob", "code"))] = chance.choice(ODD)
            case _:
                holder[last] = chance.choice(ODD)
    return copy


def assert_sound(reply: ChatReply, request: ChatRequest) -> None:
    """Everything in a reply is of its type and within its bounds."""
    usage = reply.usage
    for count in (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens):
        assert type(count) is int
        assert 0 <= count <= 3 * MOST_TOKENS
    assert usage.cached_input_tokens <= usage.input_tokens
    assert usage.calls == 1
    assert type(reply.text) is str
    assert type(reply.model) is str
    assert len(reply.model) <= 200
    assert reply.model.isprintable()
    assert reply.finish_reason in ("stop", "length")
    assert (reply.label_logprobs is None) == (not request.labels)
    for label, logprob in (reply.label_logprobs or {}).items():
        assert label in request.labels
        assert -1e4 <= logprob <= 0.0
    assert (reply.answers is None) == (not request.questions)
    for answer, question in zip(reply.answers or (), request.questions, strict=True):
        assert answer.value is None or 0.0 <= answer.value <= question.top


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_of_any_shape(shape: str) -> None:
    data, request, read = SHAPES[shape]
    chance = random.Random(shape)
    ends: set[type] = set()
    classes: set[type] = set()
    for _ in range(600):
        odd = mutated(data, chance)
        try:
            reply = read(odd)
        except ModelError as error:
            check_message(error)
            ends.add(type(error))
            # What carries an error of its own may be any error.
            if not odd.get("error"):
                classes.add(type(error))
        else:
            assert_sound(reply, request)
            ends.add(ChatReply)
    assert classes <= {ServerFailed, ContentRefused, UnsupportedCapability}
    assert len(ends) > 1


RESULT_LINES: Mapping[str, tuple[Body, ...]] = {
    "openai": (
        {"custom_id": "k", "response": {"status_code": 200, "body": completion("7")}},
        {"custom_id": "k", "response": {"status_code": 400, "body": openai_error("no")}},
        {"custom_id": "k", "response": None, "error": {"code": "batch_expired"}},
    ),
    "anthropic": (
        {"custom_id": "k", "result": {"type": "succeeded", "message": anthropic_message("7")}},
        {"custom_id": "k", "result": {"type": "errored", "error": anthropic_error("no")}},
        {"custom_id": "k", "result": {"type": "expired"}},
    ),
}


@pytest.mark.parametrize("provider", RESULT_LINES)
def test_a_line_of_results_of_any_shape(provider: str) -> None:
    service: BatchService = OpenAIBatches(OPENAI)
    if provider == "anthropic":
        service = AnthropicBatches(ANTHROPIC)
    chance = random.Random(provider)
    for line in RESULT_LINES[provider]:
        for _ in range(200):
            item = service.item(mutated(line, chance))
            assert type(item.key) is str
            try:
                if item.body is None:
                    raise error_for(item.problem, SERVICE)
                assert_sound(service.chat.read(item.body, FREE), FREE)
            except ModelError as failure:
                check_message(failure)


@pytest.mark.parametrize("name", CHECKS)
async def test_an_account_of_a_batch_of_any_shape(name: str) -> None:
    batch: Body = {
        "id": "b",
        "status": "completed",
        "created_at": 5,
        "request_counts": {"completed": 1, "failed": 0, "total": 1},
        "output_file_id": "f",
        "errors": {"data": [{"code": "c", "line": 1, "message": "m"}]},
    }
    if name.startswith("anthropic"):
        created, ended = "2026-05-04T12:00:00Z", {"results_url": "https://x"}
        batch = {"id": "b", "processing_status": "ended", "created_at": created, **ended}
        batch["request_counts"] = {"succeeded": 1}
    chance = random.Random(name)
    cases: list[Any] = [mutated(batch, chance) for _ in range(60)]
    cases += [batch | {"id": odd} for odd in ("../../x", "a\nb", "", "x" * 300, "a?b", "//evil")]
    cases += [batch | {"created_at": odd} for odd in ("0001-01-01T00:00:00", 1e300, -1e300)]
    bodies: list[bytes] = []
    for case in cases:
        with suppress(ValueError, RecursionError):
            bodies.append(json.dumps(case, allow_nan=False).encode())

    async def script(_: Asked, wire: Wire) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(bodies[-1])
        await wire.send(head + bodies[-1])

    async with serve_raw(script) as server, asking(name, server.root) as call:
        while bodies:
            try:
                await call()
            except ModelError as error:
                check_message(error)
            bodies.pop()


def test_one_odd_log_probability_does_no_harm() -> None:
    listed: list[Any] = [None, "x", {"token": "1", "logprob": -0.5}]
    entries = [{"token": "1", "logprob": -0.5, "top_logprobs": listed}]
    data = completion("1", logprobs={"content": [None, *entries]})
    reply = chat_reply(data, LABELLED, service=SERVICE)
    assert reply.label_logprobs == {"1": -0.5}
    entries[0]["top_logprobs"] = [{"token": "1", "logprob": 40.0}, {"token": "0", "logprob": -1.0}]
    reply = chat_reply(data, LABELLED, service=SERVICE)
    assert reply.label_logprobs == {"0": -1.0, "1": -0.5}  # an impossible number is none


# Name of the shape, the fields of its counts, and the input left when the first is none.
COUNTED = {
    "text": (("prompt_tokens", "completion_tokens", "prompt_tokens_details"), 0),
    "decision": (("input_tokens", "output_tokens", "input_tokens_details"), 0),
    # 4 were read from the cache, and 2 written to it.
    "anthropic": (("input_tokens", "output_tokens", "cache_read_input_tokens"), 6),
}
ODD_COUNTS: tuple[Any, ...] = (
    2**64, 10**400, -1, 0.5, 12.0, float("nan"), "12", True, [1], MOST_TOKENS + 1,
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD_COUNTS, ids=lambda odd: repr(odd)[:20])
@pytest.mark.parametrize("shape", COUNTED)
def test_a_count_that_is_none_is_0_and_said_once(
    shape: str, odd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (data, request, read), (fields, left) = SHAPES[shape], COUNTED[shape]
    found = []
    for field in fields:
        nested = {"cached_tokens": odd} if field.endswith("_details") else odd
        reply = read(data | {"usage": {**data["usage"], field: nested}})
        assert_sound(reply, request)
        found.append(reply.usage)
    assert found[0].input_tokens == left
    assert found[1].output_tokens == found[2].cached_input_tokens == 0
    (said,) = [each for each in caplog.messages if "as a number of tokens" in each]
    assert len(said) < 400


@pytest.mark.parametrize("shape", COUNTED)
def test_no_count_at_all_is_0(shape: str, caplog: pytest.LogCaptureFixture) -> None:
    data, request, read = SHAPES[shape]
    usages: tuple[Any, ...] = (None, {}, [], "x", {"prompt_tokens": None})
    for usage in usages:
        assert_sound(reply := read(data | {"usage": usage}), request)
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)
    assert not caplog.messages


def test_more_from_the_cache_than_there_was() -> None:
    usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}
    reply = chat_reply(completion("7") | {"usage": usage}, FREE, service=SERVICE)
    assert (reply.usage.input_tokens, reply.usage.cached_input_tokens) == (5, 0)
