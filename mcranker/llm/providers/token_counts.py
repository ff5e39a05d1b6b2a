"""Token counts of an answer, read the same way from every provider.

A count is a whole number from 0 to `MOST_TOKENS`. Anything else in its place (a
negative or a huge number, a fraction, a text) counts as 0, and so does a number of cached tokens
that is above all of the input; a warning says so, once for each model. No count at all, or
``null``, is 0 without a warning: many servers leave them out.
"""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

from mcranker.llm.providers.http_errors import said_by
from mcranker.logs import safe_logger
from personas.ranking.usage import Usage

if TYPE_CHECKING:
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
    """Return the usage of one call from the counts in its answer; see above.

    Args:
        tokens: all input.
        cached: the part of it that came from the provider's prompt cache.
        output: what the model wrote.
        service: who answered.
    """
    known = token_count(tokens, service)
    from_cache = token_count(cached, service)
    if from_cache > known:
        _warn(cached, service)
        from_cache = 0
    return Usage(
        calls=1,
        input_tokens=known,
        cached_input_tokens=from_cache,
        output_tokens=token_count(output, service),
    )


def _warn(value: Any, service: Service) -> None:
    if service.model in _warned:
        return
    _warned.add(service.model)
    shown = said_by(service, reprlib.repr(value)) if _is_short(value) else "a huge number"
    logger.warning(
        "%s: %s gives %s as a number of tokens; such counts are taken for 0, so usage and costs "
        "come out too low",
        service.model,
        service.where,
        shown,
    )


def _is_short(value: Any) -> bool:
    # Python refuses to write out integers of more than some thousand digits.
    return not isinstance(value, int) or value.bit_length() <= 1000
