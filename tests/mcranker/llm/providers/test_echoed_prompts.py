"""The log-probabilities of a given text, from servers that echo prompts: tokens and their text."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker.errors import (
    ModelError,
    ModelNotFound,
    ReplyError,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import ChatReply, ChatRequest, Message, Tag
from mcranker.llm.providers.openai_chat import CompatibleChat
from mcranker.llm.providers.openai_protocol import echo_reply
from tests.support.loopback import Answer, Body, openai_error, serve
from tests.support.wire import SERVICE

pytestmark = pytest.mark.anyio


def ask(text: str) -> ChatRequest:
    messages = (Message("user", "About bread.\n\nQuestion:"),)
    return ChatRequest(messages, Tag("score"), max_tokens=1, continuation=text)


def echoed(tokens: list[str], *, count: bool = True, **fields: Any) -> Body:
    """An answer as vLLM's: each token is half as likely as the one before; the last is written."""
    values: list[Any] = [None, *(-0.5 * place for place in range(1, len(tokens)))]
    usage = {"prompt_tokens": len(tokens) - 1, "completion_tokens": 1}
    choice = {
        "text": "".join(tokens),
        "logprobs": {"tokens": tokens, "token_logprobs": values, **fields},
    }
    return {"model": "served", "choices": [choice], **({"usage": usage} if count else {})}


def read(tokens: list[str], text: str, **options: Any) -> ChatReply:
    return echo_reply(echoed(tokens, **options), ask(text), service=SERVICE)


PROMPT = ["<s>", "About", " bread", ".", "\n\n", "Question", ":"]


async def test_prompt_and_text_are_sent_as_they_are() -> None:
    tokens = [*PROMPT, " who", " rises", "?", " It"]
    async with serve(lambda _: echoed(tokens)) as server:
        model = CompatibleChat("m", base_url=server.url)
        reply = await model.complete(ask("who rises?"))
        await model.aclose()
    (sent,) = server.requests
    assert sent.path == "/v1/completions"
    assert sent.body == {
        "model": "m",
        "prompt": "About bread.\n\nQuestion: who rises?",
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }
    assert reply.continuation_logprobs == (-3.5, -4.0, -4.5)  # places 7 to 9
    assert (reply.text, reply.model) == ("", "served")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 1)


@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize(
    ("text", "tokens", "places"),
    [
        ("who", [" who"], [7]),
        ("who", ["who"], [7]),  # a tokenizer whose pieces lose their blank
        ("who", ["▁", "who"], [7, 8]),  # the blank is a token of the text
        ("who", [" w", "h", "o"], [7, 8, 9]),
        ("é?", [" \ufffd", "\ufffd", "?"], [7, 8, 9]),  # a character in two tokens
        ("口罩", [" 口", "\ufffd", "\ufffd"], [7, 8, 9]),
    ],
)
def test_the_texts_tokens_are_found(
    text: str, tokens: list[str], places: list[int], count: bool
) -> None:
    # What the model writes may look like the text's own end.
    reply = read([*PROMPT, *tokens, tokens[-1]], text, count=count)
    assert reply.continuation_logprobs == tuple(-0.5 * place for place in places)


@pytest.mark.parametrize(
    "tokens",
    [
        [*PROMPT[:-1], ": who", "."],  # one token for the end of the prompt and the text
        [*PROMPT, " whom", "."],
        ["who", "."],  # nothing goes before it
        [*PROMPT, " who", "x", "."],
    ],
)
def test_a_text_that_no_token_begins_has_no_likelihood(tokens: list[str]) -> None:
    with pytest.raises(ReplyError, match="no token that begins where 'who' does"):
        read(tokens, "who")


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (Answer(404, openai_error("Not Found")), UnsupportedCapability, "Not Found.* vLLM"),
        (Answer(400, openai_error("echo is not supported")), UnsupportedCapability, "echo is not"),
        (Answer(400, openai_error("", param="logprobs")), UnsupportedCapability, "ranker='rg_yn'"),
        (Answer(400, openai_error("too hot")), RequestRejected, "too hot"),
        ({"choices": [{"text": "x"}]}, UnsupportedCapability, "gives no log-probabilities"),
        (echoed([" x"]), UnsupportedCapability, "gives no log-probabilities"),
        (echoed([*PROMPT, " who", "."], token_logprobs=[0]), ServerFailed, "not belong together"),
        (
            echoed([*PROMPT, " who", "."], token_logprobs=[None] * 9),
            ServerFailed,
            "log-probabilities that are none",
        ),
    ],
)
async def test_servers_that_do_not_echo_are_told(
    answer: Any, error: type[ModelError], said: str
) -> None:
    async with serve(lambda _: answer) as server:
        model = CompatibleChat("m", base_url=server.url)
        with pytest.raises(error, match=said) as caught:
            await model.complete(ask("who"))
        await model.aclose()
    assert type(caught.value) is error
    assert not isinstance(caught.value, ModelNotFound)
