from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from mcranker.errors import ContentRefused, ModelError, ServerFailed, UnsupportedCapability
from mcranker.llm.chat import ChatReply, ChatRequest, Message, Question, Tag
from mcranker.llm.providers import reply_fields
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.openai_protocol import chat_reply, decision_reply
from mcranker.llm.providers.reply_fields import MOST_TOKENS
from tests.support.loopback import (
    Body,
    anthropic_message,
    clean_environment,
    completion,
    position,
)
from tests.support.wire import SERVICE, check_message

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)
    reply_fields._warned.clear()


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


def test_more_from_the_cache_than_there_was() -> None:
    usage = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}
    reply = chat_reply(completion("7") | {"usage": usage}, FREE, service=SERVICE)
    assert (reply.usage.input_tokens, reply.usage.cached_input_tokens) == (5, 0)
