"""OpenAI's models through OpenAI's own library: the only file that imports it.

The library does authentication, connections and errors; the bodies are written and read
here (`openai_protocol`, `openai_decisions`), which takes a third of the processor time of its
typed calls.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcranker.errors import AuthenticationFailed, ConfigError, ModelError, ReplyError
from mcranker.llm.batch.protocol import TRANSFER_SECONDS
from mcranker.llm.chat import REASONING_TOKENS, Capabilities, ChatModel, ChatReply, ChatRequest
from mcranker.llm.prices import DECISIONS_SUFFIX, listed_price
from mcranker.llm.provider import Provider
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.endpoint import checked_url, url_in
from mcranker.llm.providers.http_errors import Service, StatusError, error_for, refusal
from mcranker.llm.providers.openai_decisions import (
    DECISIONS,
    decides,
    decision_body,
    decision_reply,
)
from mcranker.llm.providers.openai_protocol import chat_body, chat_reply
from mcranker.llm.providers.parameters import RENAMED
from mcranker.llm.providers.sdk_chat import SdkChat, SdkService, library_error
from mcranker.llm.typed_answers import check_limits
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    import openai

_OPENAI = SdkService(
    name="OpenAI",
    url="https://api.openai.com/v1",
    variable="OPENAI",
    models="platform.openai.com/docs/models",
)
_KEY, _URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
_HOST = "api.openai.com"
_DECISION_TOKEN = 0.10e-6
"""US dollars a token of input, output free; not in the table, as reported in November 2026."""

# These think before they answer, and pay for it from the limit of the reply.
_REASONS = re.compile(r"o\d|gpt-([5-9]|\d\d)")
# Of those, the ones documented to give log-probabilities when they do not think.
_LOGPROBS_WITHOUT_REASONING = re.compile(r"gpt-5\.[12]")


class OpenAIChat(SdkChat):
    """Asks a model of OpenAI.

    Models that think first are told not to (``reasoning_effort="none"``), as scores are many
    and short; where a model refuses, the least effort it takes is used, and
    `REASONING_TOKENS` are added to the limit of the reply.

    A request with questions goes to the decisions endpoint, any other one to the chat
    completions.

    Args:
        model: e.g. ``gpt-6-luna``.
        api_key: None for ``OPENAI_API_KEY``.
        base_url: another address of the same service; None for ``OPENAI_BASE_URL``, else
            OpenAI's own.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.
        capabilities: what the model offers; None to tell by its name. What the service then
            refuses is left out.

    Raises:
        AuthenticationFailed: there is no key, or it cannot be one.
        ConfigError: an argument that cannot be.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 64,
        capabilities: Capabilities | None = None,
    ) -> None:
        super().__init__(
            _OPENAI,
            f"openai:{model}",
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            concurrency=concurrency,
        )
        self._model = model
        self._reasons = _REASONS.match(model) is not None and "chat" not in model
        self._capabilities = capabilities or Capabilities(
            json_schema=True,
            label_logprobs=not self._reasons
            or (
                _LOGPROBS_WITHOUT_REASONING.match(model) is not None
                and "pro" not in model
                and "codex" not in model
            ),
        )
        if capabilities is None and decides(model):
            self._capabilities = replace(
                DECISIONS,
                json_schema=self._capabilities.json_schema,
                label_logprobs=self._capabilities.label_logprobs,
            )

    @property
    def capabilities(self) -> Capabilities:
        return self._memory.within(self._capabilities)

    async def complete(self, request: ChatRequest) -> ChatReply:
        try:
            if request.questions:
                check_limits(request, self._capabilities, self.name)
                data = await self._post("/decisions", decision_body(request, self._model))
                return decision_reply(data, request, service=self._service)
            data = await self._memory.ask(self._body(request), self._send_chat)
            return chat_reply(data, request, service=self._service)
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        return chat_reply(data, request, service=self._service)

    async def upload(self, name: str, content: bytes) -> dict[str, Any]:
        """Send a file of requests for a batch; otherwise like `call`."""
        response_type = self._http.Response

        async def send(client: openai.AsyncOpenAI) -> httpx2.Response:
            response: httpx2.Response = await client.post(
                "/files",
                cast_to=response_type,
                body={"purpose": "batch"},
                files={"file": (name, content, "application/jsonl")},
                options={
                    "headers": {"Content-Type": "multipart/form-data"},
                    "timeout": TRANSFER_SECONDS,
                },
            )
            return response

        return await self._transfer(send)

    def _library(self) -> Any:
        import openai

        return openai

    def _error(self, error: openai.OpenAIError, service: Service) -> ModelError:
        return sdk_error(error, service)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = chat_body(
            request,
            self._model,
            capabilities=self._capabilities,
            limit_name="max_completion_tokens",
        )
        if self._reasons:
            body["reasoning_effort"] = "none"
        return body

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._reasons and body.get("reasoning_effort") != "none":
            for limit in RENAMED.keys() & body.keys():
                body[limit] += REASONING_TOKENS
        return body

    async def _send_chat(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._post("/chat/completions", self._with_room(body))


def _connect(name: str, /, *, base_url: str | None, **options: Any) -> ChatModel:
    url = url_in(_URL) if base_url is None else checked_url(base_url)
    host = "" if url is None else urlsplit(url).hostname or ""
    if url is None or host == _HOST or host.endswith(f".{_HOST}"):  # eu.api.openai.com
        return OpenAIChat(name, base_url=url, **options)
    return CompatibleChat(name, base_url=url, key_variable=_KEY, **options)


def _connect_decisions(name: str, /, *, base_url: str | None, **options: Any) -> ChatModel:
    if (url := url_in(_URL) if base_url is None else base_url) is None:
        raise ConfigError(
            f"model='decisions:{name}' is a server's and needs base_url=; OpenAI's own decisions "
            "come with 'openai:gpt-6-luna'"
        )
    return CompatibleChat(
        name,
        base_url=url,
        key_variable=_KEY,
        name=f"decisions:{name}",
        capabilities=replace(DECISIONS, json_schema=True, label_logprobs=True),
        **options,
    )


def _price(name: str, usage: Usage) -> float | None:
    if not name.endswith(DECISIONS_SUFFIX):
        return listed_price("openai", name, usage)
    known = decides(name.removesuffix(DECISIONS_SUFFIX))
    return _DECISION_TOKEN * usage.input_tokens if known else None


OPENAI = Provider(
    connect=_connect,
    note="a model of OpenAI; with base_url= of vLLM, Ollama, TGI, OpenRouter, LiteLLM, ...",
    key_variable=_KEY,
    url_variable=_URL,
    price=_price,
)
DECISIONS_SERVER = Provider(
    connect=_connect_decisions,
    note="typed questions by OpenAI's protocol; needs base_url=",
    key_variable=_KEY,
    url_variable=_URL,
)


def sdk_error(error: openai.OpenAIError, service: Service) -> ModelError:
    """The error of this package for one of the library's."""
    import openai

    if isinstance(error, openai.ContentFilterFinishReasonError):
        return refusal("content filter", service)
    if isinstance(error, openai.LengthFinishReasonError):
        return ReplyError(
            f"{service.model}: the reply was cut off at its limit; raise max_tokens",
            reply="",
            model=service.model,
        )
    if "Token" in type(error).__name__:  # its token providers: no key could be obtained
        return AuthenticationFailed(
            f"{service.model}: no token; {service.key_advice}", model=service.model
        )
    return library_error(error, service, openai, _OPENAI.name)
