"""Token counts of an answer, read the same way from every provider.

A count is a whole number from 0 to `MOST_TOKENS`. Anything else counts as 0, and so do more cached
tokens than there was input; a warning says so, once for each model. No count at all, or ``null``,
is 0 without a warning: many servers leave them out.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

from mcranker.llm.providers.http_errors import said_by
from mcranker.logs import safe_logger
from personas.ranking.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcranker.llm.providers.http_errors import Service

MOST_TOKENS = 10**9
"""More than any context holds, and so few that sums of them fit into 64 bits."""

logger = safe_logger("mcranker.llm")

_warned: set[str] = set()


def token_count(value: Any, service: Service) -> int:
    """Return the count of an answer, 0 if it is none; see above."""
    if type(value) is int and 0 <= value <= MOST_TOKENS:  # a bool is no count
        return value
    if value is not None:
        _warn(value, service)
    return 0


def call_usage(*, tokens: Any, cached: Any, output: Any, service: Service) -> Usage:
    """Return the usage of one call from the counts in its answer; see above."""
    known = token_count(tokens, service)
    from_cache = token_count(cached, service)
    if from_cache > known:
        _warn(cached, service)
        from_cache = 0
    written = token_count(output, service)
    return Usage(calls=1, input_tokens=known, cached_input_tokens=from_cache, output_tokens=written)


def usage_in(data: Mapping[str, Any], service: Service) -> Usage:
    """Return the tokens of a call by either of OpenAI's protocols, where stated."""
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return Usage(calls=1)
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    tokens = usage.get("prompt_tokens", usage.get("input_tokens", usage.get("total_tokens")))
    return call_usage(
        tokens=tokens,
        cached=details.get("cached_tokens") if isinstance(details, dict) else None,
        output=usage.get("completion_tokens", usage.get("output_tokens")),
        service=service,
    )


def _warn(value: Any, service: Service) -> None:
    if service.model in _warned:
        return
    _warned.add(service.model)
    # Python refuses to write out integers of more than some thousand digits.
    huge = isinstance(value, int) and value.bit_length() > 1000
    logger.warning(
        "%s: %s gives %s as a number of tokens; such counts are taken for 0, so usage and costs "
        "come out too low",
        service.model,
        service.where,
        "a huge number" if huge else said_by(service, reprlib.repr(value)),
    )
