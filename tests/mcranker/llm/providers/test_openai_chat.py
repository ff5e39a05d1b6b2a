from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from typing import Any

import openai
import pytest

from mcranker.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ModelNotFound,
    ModelTimeout,
    RateLimited,
    RequestRejected,
    ServerFailed,
    UnsupportedCapability,
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
from mcranker.llm.providers.bodies import http_of
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_chat import OpenAIChat
from mcranker.llm.providers.parameters import DECISIONS
from mcranker.llm.providers.sdk_chat import library_error as sdk_error
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
SCHEMA = ReplySchema("score", {"type": "object", "additionalProperties": False})

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


def chat(url: str, model: str = "gpt-4.1-mini", **options: Any) -> OpenAIChat:
    return OpenAIChat(model, api_key="k-secret", base_url=url, **options)


async def test_what_goes_over_the_wire() -> None:
    request = ChatRequest(messages=REQUEST.messages, tag=Tag("score"), schema=SCHEMA, seed=3)
    async with serve(lambda _: completion("7")) as server:
        model = chat(server.url)
        reply = await model.complete(request)
        await model.aclose()
    assert isinstance(model, ChatModel)
    assert model.name == "openai:gpt-4.1-mini"
    assert reply.text == "7"
    assert (reply.usage.input_tokens, reply.usage.cached_input_tokens) == (11, 4)
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer k-secret"
    assert sent.headers["content-type"] == "application/json"
    assert sent.body == {
        "model": "gpt-4.1-mini",
        "messages": [{"role": "user", "content": "Hé?"}],
        "max_completion_tokens": 1024,
        "temperature": 0.0,
        "seed": 3,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "score", "strict": True, "schema": SCHEMA.schema},
        },
    }


async def test_labels() -> None:
    request = ChatRequest(messages=REQUEST.messages, tag=Tag("score"), labels=("Yes", "No"))
    content = [position("No", Yes=0.25, No=0.75)]
    async with serve(lambda _: completion("No", logprobs={"content": content})) as server:
        model = chat(server.url)
        reply = await model.complete(request)
        server.script = lambda _: Answer(403, openai_error("not allowed"))
        with pytest.raises(AuthenticationFailed):
            await model.complete(request)
        server.script = lambda _: Answer(400, openai_error("no", param="logprobs", code="x"))
        with pytest.raises(RequestRejected):
            await model.complete(request)
        refused = openai_error("", param="top_logprobs", code="unsupported_parameter")
        server.script = lambda _: Answer(400, refused)
        with pytest.raises(UnsupportedCapability, match='scoring="integer"'):
            await model.complete(request)
        await model.aclose()
    assert set(reply.label_logprobs or {}) == {"Yes", "No"}
    assert (server.bodies[0]["logprobs"], server.bodies[0]["top_logprobs"]) == (True, 20)
    assert server.bodies[0]["max_completion_tokens"] == 3
    assert not model.capabilities.label_logprobs


@pytest.mark.parametrize(
    ("name", "reasons", "logprobs"),
    [
        ("gpt-4.1-mini", False, True),
        ("gpt-4o", False, True),
        ("gpt-5-chat-latest", False, True),
        ("gpt-5-mini", True, False),
        ("gpt-5.2", True, True),
        ("gpt-5.2-pro", True, False),
        ("gpt-6-luna", True, False),
        ("gpt-10", True, False),
        ("o3-mini", True, False),
        ("gpt-oss-120b", False, True),
    ],
)
async def test_models_that_think_are_told_not_to(name: str, reasons: bool, logprobs: bool) -> None:
    async with serve(lambda _: completion("7")) as server:
        model = chat(server.url, name)
        await model.complete(REQUEST)
        await model.aclose()
    assert server.bodies[0].get("reasoning_effort") == ("none" if reasons else None)
    assert server.bodies[0]["max_completion_tokens"] == 5
    typed = DECISIONS if name == "gpt-6-luna" else Capabilities()
    offered = replace(typed, json_schema=True, label_logprobs=logprobs)
    assert model.capabilities == offered


async def test_a_model_that_must_think_gets_room_for_it() -> None:
    def answer(body: Body) -> Answer | Body:
        if body["reasoning_effort"] == "none":
            message = "Unsupported value: 'none'. Supported values are: 'low', 'high'."
            return Answer(400, openai_error(message, param="reasoning_effort"))
        if "temperature" in body:
            message = "'temperature' does not support 0 with this model."
            code = "unsupported_value"
            return Answer(400, openai_error(message, param="temperature", code=code))
        return completion("7")

    async with serve(answer) as server:
        model = chat(server.url, "gpt-7")
        for _ in range(2):
            assert (await model.complete(REQUEST)).text == "7"
        await model.aclose()
    assert len(server.bodies) == 4  # two refusals, then one for each of the two calls
    assert server.bodies[0]["max_completion_tokens"] == 5
    assert server.bodies[-1] == {
        "model": "gpt-7",
        "messages": [{"role": "user", "content": "Hé?"}],
        "max_completion_tokens": 5 + REASONING_TOKENS,
        "reasoning_effort": "low",
    }


async def test_the_limit_under_its_old_name() -> None:
    def answer(body: Body) -> Answer | Body:
        if "max_completion_tokens" in body:
            message = "Unrecognized request argument supplied: max_completion_tokens"
            return Answer(400, openai_error(message))
        return completion()

    async with serve(answer) as server:
        model = chat(server.url)
        await model.complete(REQUEST)
        await model.aclose()
    assert server.bodies[1]["max_tokens"] == 5


async def test_the_librarys_own_address_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(lambda _: completion("7")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k-env")
        model = OpenAIChat("m")
        await model.complete(REQUEST)
        await model.aclose()
    assert model.endpoint == server.url
    assert server.requests[0].headers["authorization"] == "Bearer k-env"


def test_no_key_is_found_out_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    with pytest.raises(AuthenticationFailed, match="set OPENAI_API_KEY or pass api_key="):
        OpenAIChat("m")


def test_importing_does_not_import_the_library() -> None:
    code = (
        "import sys; from mcranker.llm import connect;"
        "from mcranker.llm.providers import openai_chat, anthropic_messages;"
        "openai_chat.OpenAIChat('m', api_key='k'); anthropic_messages.AnthropicMessages('m',"
        "api_key='k'); assert not {'openai', 'anthropic', 'httpx2', 'aiohttp'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


HTTP = http_of(openai.DefaultAioHttpClient)
HTTP_REQUEST = HTTP.Request("POST", "http://127.0.0.1/")
SERVICE = Service("openai:m", "OpenAI", "", "", "", 1.0)
# A call cannot raise these: they belong to web hooks, web sockets and async generators.
ELSEWHERE = {
    "InvalidWebhookSignatureError",
    "WebSocketConnectionClosedError",
    "WebSocketQueueFullError",
}
MAPPED = {
    "APIConnectionError": ConnectionFailed,
    "APIError": RequestRejected,
    "APIResponseValidationError": ServerFailed,
    "APIStatusError": RequestRejected,
    "APITimeoutError": ModelTimeout,
    "AuthenticationError": AuthenticationFailed,
    "BadRequestError": RequestRejected,
    "ConflictError": RequestRejected,
    "ContentFilterFinishReasonError": RequestRejected,
    "InternalServerError": ServerFailed,
    "LengthFinishReasonError": RequestRejected,
    "NotFoundError": ModelNotFound,
    "OAuthError": AuthenticationFailed,
    "OpenAIError": RequestRejected,
    "PermissionDeniedError": AuthenticationFailed,
    "RateLimitError": RateLimited,
    "SubjectTokenProviderError": AuthenticationFailed,
    "UnprocessableEntityError": RequestRejected,
}
STATUS = {"APIStatusError": 418, "InternalServerError": 500, "OAuthError": 401}


def test_every_error_of_the_library_is_mapped() -> None:
    found = {
        name: kind
        for module in (openai, openai._exceptions)
        for name in module.__all__
        if inspect.isclass(kind := getattr(module, name)) and issubclass(kind, Exception)
    }
    assert set(found) - ELSEWHERE <= set(MAPPED)  # older libraries have fewer
    for name, expected in ((name, MAPPED[name]) for name in set(found) & set(MAPPED)):
        error = sdk_error(instance(name, found[name]), SERVICE)
        assert type(error) is expected, name
        assert error.model == "openai:m"


def instance(name: str, kind: Any) -> Any:
    if issubclass(kind, openai.APIStatusError):
        status = STATUS.get(name) or kind.status_code
        response = HTTP.Response(status, request=HTTP_REQUEST, content=b"{}")
        keywords = {"response": response, "body": None}
        return kind(**keywords) if name == "OAuthError" else kind("said", **keywords)
    if name == "APIResponseValidationError":
        return kind(HTTP.Response(200, request=HTTP_REQUEST), None)
    if name == "LengthFinishReasonError":
        return kind(completion=type("Completion", (), {"usage": None})())
    if name == "APIError":
        return kind("said", HTTP_REQUEST, body=None)
    if issubclass(kind, openai.APIConnectionError):
        return kind(request=HTTP_REQUEST)
    return kind() if name == "ContentFilterFinishReasonError" else kind("said")
