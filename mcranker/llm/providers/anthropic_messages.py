"""Anthropic's messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import REASONING_TOKENS, ChatReply, ChatRequest, Message
from mcranker.llm.prices import listed_price
from mcranker.llm.provider import Provider
from mcranker.llm.providers.http_chat import HostedChat
from mcranker.llm.providers.http_errors import refusal, unreadable
from mcranker.llm.providers.reply_fields import (
    finish_of,
    joined_text,
    reported_model,
    text_in,
    usage_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTES_A_TOKEN = 3  # of English, by the newest tokenizers
_ASKED_OFTEN = ("score", "assess")  # writing to the cache costs a quarter more than not to


class AnthropicMessages(HostedChat):
    """Asks a model of Anthropic, e.g. ``claude-haiku-5-5``."""

    provider = "Anthropic"
    url = "https://api.anthropic.com"
    models = "platform.claude.com/docs"
    cut = "/v1"
    _path = "v1/messages"

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        content = data.get("content")
        if data.get("stop_reason") == "refusal":
            raise refusal(text_in(data.get("stop_details"), "explanation"), self.service)
        if not isinstance(content, list):
            raise unreadable("no content in it", self.service)
        return ChatReply(
            text=joined_text(content),
            usage=usage_in(data, self.service),
            model=reported_model(data),
            finish_reason=finish_of(data.get("stop_reason")),
        )

    def _headers(self) -> dict[str, str]:
        return {"x-api-key": self.service.key, "anthropic-version": "2023-06-01"}

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        if request.labels:
            raise UnsupportedCapability(
                f"{self.name}: Anthropic gives no log-probabilities; "
                'use scoring="integer" or another model',
                model=self.name,
            )
        end = self._end_of_prefix(request)
        system = "\n\n".join(m.content for m in request.messages if m.role == "system")
        turns = [
            {"role": m.role, "content": _split(m.content, m.shared) if m is end else m.content}
            for m in request.messages
            if m.role != "system"
        ]
        if turns and turns[-1]["role"] == "assistant":
            turns.pop()  # a prefill; newer models refuse it
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "messages": turns,
            "thinking": {"type": "disabled"},
        }
        if system:
            marked = end is not None and end.role == "system"
            body["system"] = _split(system, end.shared) if end and marked else system
        if request.temperature is not None and self._traits.temperature:
            body["temperature"] = request.temperature
        if request.schema is not None:
            schema = {"type": "json_schema", "schema": dict(request.schema.schema)}
            body["output_config"] = {"format": schema}
        return body

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        if "thinking" not in body:
            body["max_tokens"] += REASONING_TOKENS
        return body

    def _end_of_prefix(self, request: ChatRequest) -> Message | None:
        """The last message of what many requests share, if that is long enough to be cached."""
        if request.tag.stage not in _ASKED_OFTEN:
            return None
        shared = [m for m in request.messages if m.shared]
        length = sum(len(m.content[: m.shared].encode()) for m in shared)
        return shared[-1] if length >= self._traits.least_cached * _BYTES_A_TOKEN else None


ANTHROPIC = Provider(
    connect=AnthropicMessages,
    note="a model of Anthropic",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    price=partial(listed_price, "anthropic"),
)


def _split(text: str, shared: int) -> list[dict[str, Any]]:
    """The text as blocks, the first `shared` characters to be kept in the prompt cache."""
    kept = {"type": "text", "text": text[:shared], "cache_control": {"type": "ephemeral"}}
    rest = text[shared:]
    return [kept, {"type": "text", "text": rest}] if rest else [kept]
