from __future__ import annotations

from typing import Any

import pytest

from mcranker.errors import (
    ConfigError,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import Capabilities, ChatModel, ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.providers.compatible_http import CompatibleChat
from tests.support.loopback import (
    Answer,
    Body,
    clean_environment,
    completion,
    openai_error,
    position,
    serve,
)

REQUEST = ChatRequest(messages=(Message("user", "Hé?"),), tag=Tag("score"), max_tokens=5)
SCHEMA = ReplySchema("score", {"type": "object"})

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


async def test_what_goes_over_the_wire() -> None:
    async with serve(lambda _: completion("7")) as server:
        model = CompatibleChat(
            "m", base_url=server.url + "/", api_key="k-1", extra_body={"top_k": 1}
        )
        reply = await model.complete(REQUEST)
        await model.aclose()
    assert isinstance(model, ChatModel)
    assert reply.text == "7"
    assert reply.usage.input_tokens == 11
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer k-1"
    assert sent.headers["content-type"] == "application/json"
    assert sent.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hé?"}],
        "max_tokens": 5,
        "temperature": 0.0,
        "top_k": 1,
    }


async def test_no_key_sends_no_header() -> None:
    async with serve(lambda _: completion()) as server:
        model = CompatibleChat("m", base_url=server.url)
        await model.complete(REQUEST)
        await model.aclose()
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "localhost:8000"},
        {"base_url": "ftp://h"},
        {"base_url": "http://"},
        {"base_url": "http://h:x"},
        {"base_url": "http://me:pw@h"},
        {"base_url": "http://h/v1?key=1"},
        {"base_url": "http://h", "timeout": 0.0},
        {"base_url": "http://h", "timeout": float("nan")},
        {"base_url": "http://h", "concurrency": 0},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CompatibleChat("m", **options)


async def test_refused_parameters_are_remembered() -> None:
    def answer(body: Body) -> Answer | Body:
        for name in ("response_format", "seed", "max_tokens"):
            if name in body:
                return Answer(400, openai_error(f"{name} is not supported", param=name))
        return completion("7")

    request = ChatRequest(messages=REQUEST.messages, tag=Tag("score"), schema=SCHEMA, seed=4)
    async with serve(answer) as server:
        model = CompatibleChat("m", base_url=server.url)
        for _ in range(2):
            assert (await model.complete(request)).text == "7"
        await model.aclose()
    assert len(server.bodies) == 5  # three refusals, then one for each of the two calls
    assert server.bodies[-1] == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hé?"}],
        "max_completion_tokens": 1024,
        "temperature": 0.0,
    }
    assert model.capabilities == Capabilities(label_logprobs=True, continuation_logprobs=True)


async def test_labels() -> None:
    request = ChatRequest(messages=REQUEST.messages, tag=Tag("score"), labels=("Yes", "No"))
    content = [position("No", Yes=0.25, No=0.75)]
    async with serve(lambda _: completion("No", logprobs={"content": content})) as server:
        model = CompatibleChat("m", base_url=server.url)
        reply = await model.complete(request)
        server.script = lambda _: Answer(400, openai_error("logprobs are not supported"))
        with pytest.raises(UnsupportedCapability):
            await model.complete(request)
        await model.aclose()
    assert reply.label_logprobs is not None
    assert set(reply.label_logprobs) == {"Yes", "No"}
    assert server.bodies[0]["top_logprobs"] == 20


async def test_post_to_any_path() -> None:
    async with serve(lambda body: {"tokens": [1], "got": body}) as server:
        model = CompatibleChat("m", base_url=server.root)
        assert await model.post("tokenize", {"content": "x"}) == {
            "tokens": [1],
            "got": {"content": "x"},
        }
        server.script = lambda _: Answer(503, openai_error("Loading model"))
        with pytest.raises(ServerFailed, match="Loading model"):
            await model.post("tokenize", {})
        await model.aclose()
    assert server.requests[0].path == "/tokenize"


def test_a_proxy_is_used_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcranker.llm.providers.endpoint import environment_proxy

    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3129")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert environment_proxy("https://api.example/v1") == "http://proxy:3128"
    assert environment_proxy("http://inside.example/v1") is None
    assert environment_proxy("http://localhost:8000/v1") is None
    assert environment_proxy("http://127.0.0.1:8000/v1") is None
    assert environment_proxy("http://[::1]:8000/v1") is None
