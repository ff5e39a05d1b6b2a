from __future__ import annotations

import inspect
from typing import Any

import anthropic
import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContentRefused,
    ModelNotFound,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from mcranker.llm.chat import (
    REASONING_TOKENS,
    Capabilities,
    ChatModel,
    ChatRequest,
    Message,
    ReplySchema,
    Tag,
)
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.bodies import http_of
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.sdk_chat import library_error as sdk_error
from personas.ranking.usage import Usage
from tests.support.loopback import (
    Answer,
    Body,
    anthropic_error,
    anthropic_message,
    clean_environment,
    serve,
)

MESSAGES = (Message("system", "Be fair."), Message("user", "Hé?"))
REQUEST = ChatRequest(messages=MESSAGES, tag=Tag("score"), max_tokens=5, seed=3)
SCHEMA = ReplySchema("score", {"type": "object", "additionalProperties": False})
OFF = {"type": "disabled"}

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


def chat(url: str, model: str = "claude-haiku-5-5", **options: Any) -> AnthropicMessages:
    return AnthropicMessages(model, api_key="k-secret", base_url=url, **options)


async def test_what_goes_over_the_wire() -> None:
    request = ChatRequest(messages=MESSAGES, tag=Tag("score"), max_tokens=5, schema=SCHEMA)
    async with serve(lambda _: anthropic_message("7")) as server:
        model = chat(server.root)
        reply = await model.complete(request)
        await model.aclose()
    assert isinstance(model, ChatModel)
    assert model.name == "anthropic:claude-haiku-5-5"
    assert model.capabilities == Capabilities(json_schema=True)
    assert reply.text == "7"
    assert reply.model == "served-model"
    # 5 fresh + 4 read from the cache + 2 written to it = 11 in all
    assert reply.usage == Usage(calls=1, input_tokens=11, cached_input_tokens=4, output_tokens=3)
    sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert "k-secret" in (sent.headers.get("x-api-key"), sent.headers.get("authorization", "")[7:])
    assert sent.headers["anthropic-version"]
    assert sent.body == {
        "model": "claude-haiku-5-5",
        "max_tokens": 5,
        "system": "Be fair.",
        "messages": [{"role": "user", "content": "Hé?"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA.schema}},
        "thinking": OFF,
    }


@pytest.mark.parametrize(
    ("name", "takes_it"),
    [
        ("claude-haiku-4-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-sonnet-4-6", True),
        ("claude-opus-4-20250514", True),
        ("claude-3-haiku-20240307", True),
        ("claude-opus-4-7", False),
        ("claude-sonnet-5", False),
        ("claude-haiku-5-5", False),
    ],
)
async def test_temperature_goes_to_models_that_take_one(name: str, takes_it: bool) -> None:
    async with serve(lambda _: anthropic_message()) as server:
        model = chat(server.root, name)
        await model.complete(REQUEST)
        await model.aclose()
    assert server.bodies[0].get("temperature") == (0.0 if takes_it else None)
    assert "seed" not in server.bodies[0]


async def test_a_prefill_is_not_sent() -> None:
    request = ChatRequest(messages=(*MESSAGES, Message("assistant", "{")), tag=Tag("score"))
    async with serve(lambda _: anthropic_message()) as server:
        model = chat(server.url)  # "/v1" at its end is understood
        await model.complete(request)
        await model.aclose()
    assert server.requests[0].path == "/v1/messages"
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "Hé?"}]


async def test_refused_parameters_are_remembered() -> None:
    def answer(body: Body) -> Answer | Body:
        if "thinking" in body:
            message = "thinking.type: disabled is not supported for this model"
            return Answer(400, anthropic_error(message))
        if "output_config" in body:
            message = "output_config: Extra inputs are not permitted"
            return Answer(400, anthropic_error(message))
        if "temperature" in body:
            message = "`temperature` is deprecated for this model."
            return Answer(400, anthropic_error(message))
        return anthropic_message("7")

    request = ChatRequest(messages=MESSAGES, tag=Tag("score"), max_tokens=5, schema=SCHEMA)
    async with serve(answer) as server:
        model = chat(server.root, "claude-haiku-4-5")
        for _ in range(2):
            assert (await model.complete(request)).text == "7"
        await model.aclose()
    assert len(server.bodies) == 5  # three refusals, then one for each of the two calls
    assert server.bodies[-1] == {
        "model": "claude-haiku-4-5",
        "max_tokens": 5 + REASONING_TOKENS,  # it thinks, and pays for it from the limit
        "system": "Be fair.",
        "messages": [{"role": "user", "content": "Hé?"}],
    }
    assert model.capabilities == Capabilities()


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
    ],
)
async def test_finish_reasons(stop: str, finish: str) -> None:
    async with serve(lambda _: anthropic_message("7", stop_reason=stop)) as server:
        model = chat(server.root)
        assert (await model.complete(REQUEST)).finish_reason == finish
        await model.aclose()


async def test_only_text_blocks_are_the_reply() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": '{"a"'},
        {"type": "text", "text": ": 1}"},
    ]
    async with serve(lambda _: anthropic_message(content=blocks, usage=None)) as server:
        model = chat(server.root)
        reply = await model.complete(REQUEST)
        server.script = lambda _: anthropic_message(content=[])
        empty = await model.complete(REQUEST)
        await model.aclose()
    assert (reply.text, reply.usage) == ('{"a": 1}', Usage(calls=1))
    assert empty.text == ""


async def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "It is dangerous."}
    declined = anthropic_message("", stop_reason="refusal", stop_details=details)
    async with serve(lambda _: declined) as server:
        model = chat(server.root)
        with pytest.raises(ContentRefused, match="It is dangerous"):
            await model.complete(REQUEST)
        await model.aclose()


def test_key_and_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationFailed, match="set ANTHROPIC_API_KEY or pass api_key="):
        AnthropicMessages("m")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-env")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    assert AnthropicMessages("m").endpoint == "http://127.0.0.1:1"


HTTP = http_of(anthropic.DefaultAioHttpClient)
HTTP_REQUEST = HTTP.Request("POST", "http://127.0.0.1/")
SERVICE = Service("anthropic:m", "Anthropic", "", "", "", 1.0)
# Status errors are mapped by their status; these are the others.
MAPPED = {
    "APIConnectionError": ConnectionFailed,
    "APIError": RequestRejected,
    "APIResponseValidationError": ServerFailed,
    "APITimeoutError": ModelTimeout,
    "APIWebhookValidationError": RequestRejected,
    "AnthropicError": RequestRejected,
    "CredentialsError": AuthenticationFailed,
    "IdentityTokenFileError": AuthenticationFailed,
    "RetryableError": ServerFailed,
}
BY_STATUS = {
    400: RequestRejected,
    401: AuthenticationFailed,
    402: AuthenticationFailed,
    403: AuthenticationFailed,
    404: ModelNotFound,
    408: ModelTimeout,
    409: RequestRejected,
    412: RequestRejected,
    413: RequestRejected,
    422: RequestRejected,
    429: RateLimited,
    431: RequestRejected,
    499: RequestRejected,
    500: ServerFailed,
    501: ServerFailed,
    503: ServerFailed,
    504: ModelTimeout,
    529: RateLimited,
}


def test_every_error_of_the_library_is_mapped() -> None:
    found = {
        kind.__name__: kind
        for name in anthropic.__all__
        if inspect.isclass(kind := getattr(anthropic, name)) and issubclass(kind, Exception)
    }
    by_status = {n: k for n, k in found.items() if issubclass(k, anthropic.APIStatusError)}
    assert set(found) - set(by_status) <= set(MAPPED)  # older libraries have fewer
    for name, kind in by_status.items():
        status = getattr(kind, "status_code", 500)
        response = HTTP.Response(status, request=HTTP_REQUEST, content=b"{}")
        error = sdk_error(kind("said", response=response, body=None), SERVICE)
        assert type(error) is BY_STATUS[status], name
    for name, expected in ((name, MAPPED[name]) for name in set(found) & set(MAPPED)):
        error = sdk_error(instance(found[name]), SERVICE)
        assert type(error) is expected, name
        assert error.model == "anthropic:m"


def instance(kind: Any) -> Any:
    if kind is anthropic.APIResponseValidationError:
        return kind(HTTP.Response(200, request=HTTP_REQUEST), None)
    if issubclass(kind, anthropic.APIConnectionError):
        return kind(request=HTTP_REQUEST)
    if issubclass(kind, anthropic.APIError):
        return kind("said", HTTP_REQUEST, body=None)
    return kind("said")
