from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConfigError,
    ContentRefused,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
)
from mcranker.llm.chat import REASONING_TOKENS, ChatRequest, Message, ReplySchema
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_chat import environment_proxy
from mcranker.llm.providers.openai_chat import CompatibleChat, OpenAIChat
from personas.ranking.usage import Usage
from tests.support.loopback import (
    Answer,
    Body,
    anthropic_error,
    anthropic_message,
    clean_environment,
    completion,
    openai_error,
    position,
    serve,
)
from tests.support.wire import BACK_ENDS, REQUEST

SCHEMA = ReplySchema("score", {"type": "object", "additionalProperties": False})
ASKED = [{"role": "user", "content": "Hé?"}]
PREFILLED = (Message("system", "Be fair."), *REQUEST.messages, Message("assistant", "{"))

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


OPENAI_FORM = {
    "type": "json_schema",
    "json_schema": {"name": "score", "strict": True, "schema": SCHEMA.schema},
}
ANTHROPIC_FORM = {"format": {"type": "json_schema", "schema": SCHEMA.schema}}
FULL = replace(REQUEST, messages=PREFILLED, schema=SCHEMA, seed=3)
TURNS = [{"role": "system", "content": "Be fair."}, *ASKED]
BODIES: dict[str, tuple[ChatRequest, Body]] = {
    "openai": (
        FULL,
        {
            "model": "gpt-4.1-mini",
            "messages": TURNS,
            "max_completion_tokens": 5,
            "temperature": 0.0,
            "seed": 3,
            "response_format": OPENAI_FORM,
        },
    ),
    "compatible": (
        FULL,
        {
            "model": "m",
            "messages": TURNS,
            "max_tokens": 5,
            "temperature": 0.0,
            "seed": 3,
            "response_format": OPENAI_FORM,
            "top_k": 1,
        },
    ),
    "anthropic": (
        FULL,
        {
            "model": "claude-haiku-5-5",
            "max_tokens": 5,
            "system": "Be fair.",
            "messages": ASKED,
            "output_config": ANTHROPIC_FORM,
            "thinking": {"type": "disabled"},
        },
    ),
}


@pytest.mark.parametrize("name", BODIES)
async def test_what_goes_over_the_wire(name: str) -> None:
    request, body = BODIES[name]
    options = {"extra_body": {"top_k": 1}} if name == "compatible" else {}
    async with serve(lambda _: BACK_ENDS[name].good) as server:
        model = BACK_ENDS[name].at(server.root, **options)
        assert (await model.complete(request)).text == "7"
        await model.aclose()
    assert server.bodies == [body]


@pytest.mark.parametrize("name", ["openai", "compatible"])
async def test_labels(name: str) -> None:
    request = replace(REQUEST, labels=("Yes", "No"))
    content = [position("No", Yes=0.25, No=0.75)]
    async with serve(lambda _: completion("No", logprobs={"content": content})) as server:
        model = BACK_ENDS[name].at(server.root)
        reply = await model.complete(request)
        for refusal, error in (
            (Answer(403, openai_error("not allowed")), AuthenticationFailed),
            (Answer(400, openai_error("no", param="logprobs", code="x")), RequestRejected),
            (
                Answer(400, openai_error("", param="top_logprobs", code="unsupported_parameter")),
                UnsupportedCapability,
            ),
        ):
            server.script = lambda _, refusal=refusal: refusal  # type: ignore[misc]
            with pytest.raises(error):
                await model.complete(request)
        await model.aclose()
    assert set(reply.label_logprobs or {}) == {"Yes", "No"}
    sent = server.bodies[0]
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 20)
    assert sent.get("max_tokens", sent.get("max_completion_tokens")) == 5
    assert not model.capabilities.label_logprobs


REFUSALS: dict[str, tuple[dict[str, Body], ChatRequest, Body]] = {
    "compatible": (
        {
            name: openai_error(f"{name} is not supported", param=name)
            for name in ("response_format", "seed", "max_tokens")
        },
        replace(REQUEST, schema=SCHEMA, seed=4),
        {"model": "m", "messages": ASKED, "max_completion_tokens": 5, "temperature": 0.0},
    ),
    "openai": (
        {
            "temperature": openai_error("'temperature' does not support 0", param="temperature"),
            "max_completion_tokens": openai_error("Unrecognized: max_completion_tokens"),
        },
        REQUEST,
        {"model": "gpt-4.1-mini", "messages": ASKED, "max_tokens": 5},
    ),
    "anthropic": (
        {
            "thinking": anthropic_error("thinking.type: disabled is not supported for this model"),
            "output_config": anthropic_error("output_config: Extra inputs are not permitted"),
        },
        replace(REQUEST, schema=SCHEMA),
        # It thinks, and pays for it from the limit.
        {"model": "claude-haiku-5-5", "max_tokens": 5 + REASONING_TOKENS, "messages": ASKED},
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_refused_parameters_are_remembered(name: str) -> None:
    refused, request, left = REFUSALS[name]

    def answer(body: Body) -> Answer | Body:
        said = next((said for each, said in refused.items() if each in body), None)
        return BACK_ENDS[name].good if said is None else Answer(400, said)

    async with serve(answer) as server:
        model = BACK_ENDS[name].at(server.root)
        for _ in range(2):
            assert (await model.complete(request)).text == "7"
        await model.aclose()
    assert len(server.bodies) == len(refused) + 2
    assert server.bodies[-1] == left
    if request.schema:
        assert not model.capabilities.json_schema


async def test_a_model_that_must_think_gets_room_for_it() -> None:
    def answer(body: Body) -> Answer | Body:
        if body["reasoning_effort"] == "none":
            message = "Unsupported value: 'none'. Supported values are: 'low', 'high'."
            return Answer(400, openai_error(message, param="reasoning_effort"))
        return completion("7")

    async with serve(answer) as server:
        model = OpenAIChat("gpt-7", api_key="k", base_url=server.url)
        for _ in range(2):
            assert (await model.complete(REQUEST)).text == "7"
        await model.aclose()
    assert len(server.bodies) == 3  # a refusal, then one for each of the two calls
    assert server.bodies[0]["max_completion_tokens"] == 5
    assert server.bodies[-1]["max_completion_tokens"] == 5 + REASONING_TOKENS
    assert server.bodies[-1]["reasoning_effort"] == "low"


async def test_replies_of_anthropic() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": '{"a"'},
        {"type": "text", "text": ": 1}"},
    ]
    stops = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
    }
    model = AnthropicMessages("m", api_key="k")
    reply = model.read(anthropic_message(content=blocks, usage=None), REQUEST)
    assert (reply.text, reply.usage) == ('{"a": 1}', Usage(calls=1))
    assert model.read(anthropic_message(content=[]), REQUEST).text == ""
    for stop, finish in stops.items():
        reply = model.read(anthropic_message("7", stop_reason=stop), REQUEST)
        assert reply.finish_reason == finish
    details = {"type": "refusal", "category": "bio", "explanation": "It is dangerous."}
    with pytest.raises(ContentRefused, match="It is dangerous"):
        model.read(anthropic_message("", stop_reason="refusal", stop_details=details), REQUEST)


@pytest.mark.parametrize(
    ("make", "name", "url"), [(OpenAIChat, "OPENAI", "/v1"), (AnthropicMessages, "ANTHROPIC", "")]
)
async def test_key_and_address_from_the_environment(
    make: Any, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{name}_API_KEY", " ")
    with pytest.raises(AuthenticationFailed, match=f"set {name}_API_KEY or pass api_key="):
        make("m")
    async with serve(lambda _: completion() | anthropic_message()) as server:
        monkeypatch.setenv(f"{name}_BASE_URL", f"{server.root}/v1")
        monkeypatch.setenv(f"{name}_API_KEY", "k-env")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
        model = make("m")
        await model.complete(REQUEST)
        await model.aclose()
    assert model.endpoint == f"{server.root}{url}"
    headers = server.requests[0].headers
    assert "k-env" in f"{headers.get('x-api-key')} {headers.get('authorization')}"
    expected = "org-1" if name == "OPENAI" else None
    assert headers.get("openai-organization") == expected


async def test_a_request_of_any_length_is_sent_whole() -> None:
    async with serve(lambda _: completion("7")) as server:
        model = CompatibleChat("m", base_url=server.url)
        await model.complete(replace(REQUEST, messages=(Message("user", "x" * 2**21),)))
        await model.aclose()
    assert len(server.bodies[0]["messages"][0]["content"]) == 2**21


async def test_a_server_of_ones_own_needs_no_key() -> None:
    async with serve(lambda body: {"got": body}) as server:
        model = CompatibleChat("m", base_url=server.root + "/")
        found = await model.call("post", "tokenize", b'{"content": "x"}')
        assert found == {"got": {"content": "x"}}
        server.script = lambda _: Answer(503, openai_error("Loading model"))
        with pytest.raises(ServerFailed, match="Loading model"):
            await model.call("post", "tokenize", b"{}")
        await model.aclose()
    assert server.requests[0].path == "/tokenize"
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0.0},
        {"timeout": float("nan")},
        {"concurrency": 0},
        {"extra_body": {"x": object()}},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CompatibleChat("m", base_url="http://h", **options)


def test_a_proxy_is_used_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3129")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert environment_proxy("https://api.example/v1") == "http://proxy:3128"
    for host in ("inside.example", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert environment_proxy(f"http://{host}/v1") is None
