"""Anthropic's messages through Anthropic's own library: the only file that imports it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from mcranker.errors import AuthenticationFailed, ModelError, ServerFailed, UnsupportedCapability
from mcranker.llm.chat import REASONING_TOKENS, Capabilities, ChatReply, ChatRequest, Message
from mcranker.llm.prices import listed_price
from mcranker.llm.provider import Provider
from mcranker.llm.providers.http_errors import (
    Service,
    StatusError,
    error_for,
    refusal,
    reported_model,
    unreadable,
)
from mcranker.llm.providers.sdk_chat import SdkChat, SdkService, library_error
from mcranker.llm.providers.token_counts import call_usage, token_count
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    import anthropic

_ANTHROPIC = SdkService(
    name="Anthropic",
    url="https://api.anthropic.com",
    variable="ANTHROPIC",
    models="platform.claude.com/docs",
    cut="/v1",
)

# The last models that take a temperature; from 4.7 on it is an error.
_TAKES_TEMPERATURE = re.compile(r"claude-(3|[a-z]+-4-([0-6](?!\d)|\d{8}))")

# How long a prompt's beginning must be to be kept, in tokens; no shorter one is kept by any
# model. A mark on what is too short costs nothing, so unknown models count as the newest.
_LEAST_CACHED = (
    (re.compile(r"claude-(haiku-4|opus-4-[56])"), 4096),
    (re.compile(r"claude-(3-(5-)?haiku|opus-4-7)"), 2048),
    (re.compile(r"claude-(3|opus-4|sonnet-4|sonnet-5$)"), 1024),
)
_LEAST_CACHED_BY_NEWEST = 512
_BYTES_A_TOKEN = 3  # of English, by the newest tokenizers
_ASKED_OFTEN = ("score", "assess")  # writing to the cache costs a quarter more than not to


class AnthropicMessages(SdkChat):
    """Asks a model of Anthropic.

    Thinking is turned off, as scores are many and short; a model that refuses that thinks,
    and `REASONING_TOKENS` are added to the limit of its replies. Newer models take no
    temperature, so repeated calls may differ there. There is no seed and there are no
    log-probabilities.

    Args:
        model: e.g. ``claude-haiku-5-5``.
        api_key: None for ``ANTHROPIC_API_KEY``.
        base_url: another address of the same service, with or without ``/v1``; None for
            ``ANTHROPIC_BASE_URL``, else Anthropic's own.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.

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
    ) -> None:
        super().__init__(
            _ANTHROPIC,
            f"anthropic:{model}",
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            concurrency=concurrency,
        )
        self._model = model

    @property
    def capabilities(self) -> Capabilities:
        return self._memory.within(Capabilities(json_schema=True))

    async def complete(self, request: ChatRequest) -> ChatReply:
        try:
            data = await self._memory.ask(self._body(request), self._send)
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure
        return _reply(data, self._service)

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        return _reply(data, self._service)

    def _library(self) -> Any:
        import anthropic

        return anthropic

    def _error(self, error: anthropic.AnthropicError, service: Service) -> ModelError:
        return sdk_error(error, service)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        if request.labels:
            raise UnsupportedCapability(
                f"{self.name}: Anthropic gives no log-probabilities; "
                'use scoring="integer" or another model',
                model=self.name,
            )
        return _body(request, self._model)

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        if "thinking" not in body:
            body["max_tokens"] += REASONING_TOKENS
        return body

    async def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._post("/v1/messages", self._with_room(body))


ANTHROPIC = Provider(
    connect=AnthropicMessages,
    note="a model of Anthropic",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    price=partial(listed_price, "anthropic"),
)


def sdk_error(error: anthropic.AnthropicError, service: Service) -> ModelError:
    """The error of this package for one of the library's."""
    import anthropic

    if isinstance(error, getattr(anthropic, "RetryableError", ())):
        return ServerFailed(
            f"{service.model}: Anthropic's library asks to retry; it is", model=service.model
        )
    if isinstance(error, getattr(anthropic, "CredentialsError", ())):
        return AuthenticationFailed(
            f"{service.model}: no credentials; {service.key_advice}", model=service.model
        )
    return library_error(error, service, anthropic, _ANTHROPIC.name)


def _body(request: ChatRequest, model: str) -> dict[str, Any]:
    end = _end_of_prefix(request, model)
    system = "\n\n".join(m.content for m in request.messages if m.role == "system")
    turns = [
        {"role": m.role, "content": _split(m.content, m.shared) if m is end else m.content}
        for m in request.messages
        if m.role != "system"
    ]
    if turns and turns[-1]["role"] == "assistant":
        turns.pop()  # a prefill; newer models refuse it
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_tokens, "messages": turns}
    if system:
        body["system"] = system
        if end is not None and end.role == "system":
            body["system"] = _split(system, end.shared)
    if request.temperature is not None and _TAKES_TEMPERATURE.match(model):
        body["temperature"] = request.temperature
    if request.schema is not None:
        schema = {"type": "json_schema", "schema": dict(request.schema.schema)}
        body["output_config"] = {"format": schema}
    body["thinking"] = {"type": "disabled"}
    return body


def _end_of_prefix(request: ChatRequest, model: str) -> Message | None:
    """The last message of what many requests share, if that is long enough to be cached."""
    if request.tag.stage not in _ASKED_OFTEN:
        return None
    shared = [m for m in request.messages if m.shared]
    least = next((n for name, n in _LEAST_CACHED if name.match(model)), _LEAST_CACHED_BY_NEWEST)
    length = sum(len(m.content[: m.shared].encode()) for m in shared)
    return shared[-1] if length >= least * _BYTES_A_TOKEN else None


def _split(text: str, shared: int) -> list[dict[str, Any]]:
    """The text as blocks, the first `shared` characters to be kept in the prompt cache."""
    kept = {"type": "text", "text": text[:shared], "cache_control": {"type": "ephemeral"}}
    rest = text[shared:]
    return [kept, {"type": "text", "text": rest}] if rest else [kept]


def _reply(data: Mapping[str, Any], service: Service) -> ChatReply:
    stop, content = data.get("stop_reason"), data.get("content")
    if stop == "refusal":
        details = data.get("stop_details")
        said = details.get("explanation") if isinstance(details, dict) else None
        raise refusal(said if isinstance(said, str) else "", service)
    if not isinstance(content, list):
        raise unreadable("no content in it", service)
    texts = [b.get("text") for b in content if isinstance(b, dict) and b.get("type") == "text"]
    cut = stop in ("max_tokens", "model_context_window_exceeded")
    return ChatReply(
        text="".join(text for text in texts if isinstance(text, str)),
        usage=_usage(data.get("usage"), service),
        model=reported_model(data),
        finish_reason="length" if cut else "stop",
    )


def _usage(usage: Any, service: Service) -> Usage:
    counts = usage if isinstance(usage, dict) else {}
    fresh, read, written = (
        token_count(counts.get(name), service)
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    # Anthropic's input_tokens leaves out what went through the cache.
    return call_usage(
        tokens=fresh + read + written,
        cached=read,
        output=counts.get("output_tokens"),
        service=service,
    )
