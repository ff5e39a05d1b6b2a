"""Fields that all providers' answers have: texts in parts, ends of a reply, counts of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mcranker.llm.providers.http_errors import CODE_LIMIT, Service, one_line, said_by
from mcranker.llm.typed_answers import shown_value
from mcranker.logs import safe_logger
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_TOKENS = 10**9
"""More than any context holds, and so few that sums of them fit into 64 bits."""

_CUT = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded", "abort"})
_warned: set[str] = set()

logger = safe_logger("mcranker.llm")


def text_in(data: Any, name: str) -> str:
    """Return a text of an object; empty if it is missing or no text."""
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""


def joined_text(content: Any) -> str:
    """The text of a message's content, a string or a list of parts, of which thoughts are left."""
    if isinstance(content, list):
        parts = (each for each in content if isinstance(each, dict) and each.get("type") == "text")
        return "".join(text_in(part, "text") for part in parts)
    return content if isinstance(content, str) else ""


def finish_of(reason: Any) -> Literal["stop", "length"]:
    """The end of a reply, by any provider's word for it."""
    return "length" if isinstance(reason, str) and reason.lower() in _CUT else "stop"


def reported_model(data: Mapping[str, Any]) -> str:
    """Return the model's name in an answer: one short line, empty if it is none."""
    name = text_in(data, "model")
    return name if len(name) <= CODE_LIMIT and name.isprintable() else one_line(name[:CODE_LIMIT])


def usage_in(data: Mapping[str, Any], service: Service) -> Usage:
    """Return the tokens of a call, where stated; counts that are none are 0, with a warning."""
    usage = data.get("usage")
    counts: dict[str, Any] = usage if isinstance(usage, dict) else {}

    def count(*names: str) -> int:
        value = next((counts[name] for name in names if name in counts), None)
        if type(value) is int and 0 <= value <= MOST_TOKENS:  # a bool is no count
            return value
        if value is not None:
            _warn(value, service)
        return 0

    tokens = count("prompt_tokens", "input_tokens", "total_tokens")
    details = counts.get("prompt_tokens_details", counts.get("input_tokens_details"))
    if isinstance(details, dict):
        counts = {**counts, "cached_tokens": details.get("cached_tokens")}
        cached = count("cached_tokens")
    elif "prompt_tokens" in counts:
        cached = 0
    else:  # Anthropic's input_tokens leaves out what went through the cache
        cached = count("cache_read_input_tokens")
        tokens += cached + count("cache_creation_input_tokens")
    if cached > tokens:
        _warn(cached, service)
        cached = 0
    output = count("completion_tokens", "output_tokens")
    return Usage(calls=1, input_tokens=tokens, cached_input_tokens=cached, output_tokens=output)


def _warn(value: Any, service: Service) -> None:
    if service.model in _warned:
        return
    _warned.add(service.model)
    logger.warning(
        "%s: %s gives %s as a number of tokens; such counts are taken for 0, so usage and costs "
        "come out too low",
        service.model,
        service.where,
        said_by(service, shown_value(value)),
    )
