"""OpenAI's models through OpenAI's own library: the only file that imports it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcranker.errors import ConfigError
from mcranker.llm.chat import REASONING_TOKENS, ChatModel, ChatReply, ChatRequest
from mcranker.llm.prices import DECISIONS_SUFFIX, listed_price
from mcranker.llm.provider import Provider
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.http_chat import checked_url, url_in
from mcranker.llm.providers.openai_decisions import DECISION
from mcranker.llm.providers.openai_protocol import chat_body, chat_reply
from mcranker.llm.providers.parameters import DECISIONS, RENAMED, traits_of
from mcranker.llm.providers.sdk_chat import SdkChat
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY, _URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
_HOST = "api.openai.com"
_DECISION_TOKEN = 0.10e-6
"""US dollars a token of input, output free; not in the table, as reported in November 2026."""


class OpenAIChat(SdkChat):
    """Asks a model of OpenAI, e.g. ``gpt-6-luna``."""

    provider = "OpenAI"
    url = "https://api.openai.com/v1"
    models = "platform.openai.com/docs/models"
    _questions = DECISION

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        return chat_reply(data, request, service=self.service)

    def _library(self) -> Any:
        import openai

        return openai

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
    decides = traits_of(f"openai:{name.removesuffix(DECISIONS_SUFFIX)}").capabilities.max_questions
    return _DECISION_TOKEN * usage.input_tokens if decides else None


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
