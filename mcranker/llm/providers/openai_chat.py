"""OpenAI's models, and servers that speak its protocol: vLLM, Ollama, llama.cpp, OpenRouter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from mcranker.errors import ConfigError
from mcranker.llm.chat import (
    DECISIONS_SUFFIX,
    REASONING_TOKENS,
    Capabilities,
    ChatModel,
    ChatReply,
    ChatRequest,
)
from mcranker.llm.masking import shown_url
from mcranker.llm.prices import listed_price
from mcranker.llm.provider import Provider
from mcranker.llm.providers.http_chat import (
    Exchange,
    HostedChat,
    HttpChat,
    checked_url,
    find_key,
    key_advice,
    url_in,
)
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_protocol import DECISION, ECHO, chat_body, chat_reply
from mcranker.llm.providers.parameters import RENAMED, traits_of
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY, _URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
_HOST = "api.openai.com"
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
_DECISION_TOKEN = 0.10e-6
"""US dollars a token of input, output free; not in the table, as reported in November 2026."""


class OpenAIChat(HostedChat):
    """Asks a model of OpenAI, e.g. ``gpt-6-luna``."""

    provider = "OpenAI"
    url = "https://api.openai.com/v1"
    models = "platform.openai.com/docs/models"
    _questions = DECISION

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        return chat_reply(data, request, service=self.service)

    def _headers(self) -> dict[str, str]:
        account = {name: os.environ.get(each, "").strip() for name, each in _ACCOUNT.items()}
        return super()._headers() | {name: value for name, value in account.items() if value}

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = chat_body(
            request,
            self._model,
            capabilities=self._capabilities,
            limit_name="max_completion_tokens",
        )
        return body | {"reasoning_effort": "none"} if self._traits.reasons else body

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._traits.reasons and body.get("reasoning_effort") != "none":
            for limit in RENAMED.keys() & body.keys():
                body[limit] += REASONING_TOKENS
        return body


class CompatibleChat(HttpChat):
    """Asks a server that speaks OpenAI's chat protocol.

    Args:
        model: the model's name as the server knows it.
        base_url: the address before ``/chat/completions``, e.g. ``http://localhost:8000/v1``.
        api_key: sent as bearer token; None for the one in `key_variable`, if it is set.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.
        key_variable: the environment variable that may hold the key; empty for none.
        name: how the model is named in rankings; by default ``openai:MODEL``.
        capabilities: what the model offers; by default JSON schemas and log-probabilities,
            and what the server then refuses is left out. Those of a given text it is only known
            not to give once it has been asked.
        extra_body: fields added to the body of every chat completion, e.g. vLLM's ``top_k``.
        questions: how typed questions are asked; by default they are not.

    Raises:
        ConfigError: an argument that cannot be.
        AuthenticationFailed: the key cannot be one.
    """

    _continuation = ECHO

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        key_variable: str = "",
        timeout: float = 120.0,
        concurrency: int = 64,
        name: str | None = None,
        capabilities: Capabilities | None = None,
        extra_body: Mapping[str, Any] | None = None,
        questions: Exchange | None = None,
    ) -> None:
        name, url = name or f"openai:{model}", checked_url(base_url)
        service = Service(
            model=name,
            where=(shown := shown_url(url)),
            key_advice=key_advice(key_variable),
            model_advice=(
                f"check the model's name with GET {shown}/models, and base_url=, "
                "which usually ends in /v1"
            ),
            connection_advice="check that the server runs and that base_url= is right",
            timeout=timeout,
            key=find_key(api_key, key_variable, model=name, required=False),
            url=url,
        )
        offers = Capabilities(json_schema=True, label_logprobs=True, continuation_logprobs=True)
        super().__init__(model, service, capabilities or offers, concurrency=concurrency)
        self._questions = questions
        self._extra_body = dict(extra_body or {})
        try:
            orjson.dumps(self._extra_body)
        except orjson.JSONEncodeError as error:
            raise ConfigError(
                f"extra_body={extra_body!r} cannot be sent as JSON: {error}"
            ) from error

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        prefill = self._capabilities.prefill
        return chat_reply(data, request, service=self.service, prefill=prefill)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body = chat_body(request, self._model, capabilities=self._capabilities)
        return body | self._extra_body


def _connect(name: str, /, *, base_url: str | None, **options: Any) -> ChatModel:
    url = url_in(_URL) if base_url is None else checked_url(base_url)
    host = "" if url is None else urlsplit(url).hostname or ""
    if url is None or host == _HOST or host.endswith(f".{_HOST}"):  # eu.api.openai.com
        return OpenAIChat(name, base_url=url, **options)
    return CompatibleChat(name, base_url=url, key_variable=_KEY, **options)


def _price(name: str, usage: Usage) -> float | None:
    if not name.endswith(DECISIONS_SUFFIX):
        return listed_price("openai", name, usage)
    decides = traits_of(f"openai:{name.removesuffix(DECISIONS_SUFFIX)}").capabilities.max_questions
    return _DECISION_TOKEN * usage.input_tokens if decides else None


OPENAI = Provider(
    connect=_connect,
    note="a model of OpenAI; with base_url= of vLLM, Ollama, TGI, OpenRouter, LiteLLM, ...",
    key_variable=_KEY,
    url_variable=_URL,
    price=_price,
)
