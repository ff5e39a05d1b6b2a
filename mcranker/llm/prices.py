"""Cost of calls, from the price table of genai-prices."""

from __future__ import annotations

from functools import lru_cache

from mcranker.llm.batch.protocol import BATCH_SUFFIX
from mcranker.llm.chat import ChatRequest
from mcranker.llm.providers.openai_decisions import decides
from personas.ranking.usage import Usage

DECISIONS_SUFFIX = "+decisions"
"""Suffix of the name of an OpenAI model that was asked typed questions."""

# US dollars a token of input; output is free. The table has neither; as reported in November 2026.
_DECISIONS = 0.10e-6
_JEV = 0.04e-6

_PROVIDERS = ("openai", "anthropic")
_FREE = ("local", "crossencoder", "scripted")
_SHORT = 100_000  # tokens of a call, below which no price depends on its length
_SAMPLE = 1000  # tokens


def cost(model: str, usage: Usage) -> float | None:
    """US dollars for these tokens, 0 for local models, None where no price is known.

    Where long calls have another price, all calls are taken to be as long as their mean. For
    models that are asked in batches it is the table's price for batches, half of the usual one;
    the usual one for the few models of which the table has no other. That some providers take
    more for input that they write into their prompt cache is left out.

    Args:
        model: as `ChatModel.name` has it, e.g. ``"openai:gpt-5-mini"``.
        usage: what was used; cached input is priced as such.
    """
    provider, _, name = model.partition(":")
    if provider in _FREE:
        return 0.0
    if provider == "systemone" and name.startswith("jev"):
        return _JEV * usage.input_tokens
    if provider == "openai" and name.endswith(DECISIONS_SUFFIX):
        known = decides(name.removesuffix(DECISIONS_SUFFIX))
        return _DECISIONS * usage.input_tokens if known else None
    if provider not in _PROVIDERS:
        return None
    calls = max(1, usage.calls)
    mean = round(usage.input_tokens / calls)
    prices = _prices(provider, name, mean if mean > _SHORT else _SAMPLE)
    if prices is None:
        return None
    fresh, cached, output = prices
    return (
        fresh * (usage.input_tokens - usage.cached_input_tokens)
        + cached * usage.cached_input_tokens
        + output * usage.output_tokens
    )


def billed_as(model: str, request: ChatRequest) -> str:
    """The name under which a call's tokens have their price, for `cost`."""
    has_two_prices = model.startswith("openai:") and bool(request.questions)
    return f"{model}{DECISIONS_SUFFIX}" if has_two_prices else model


@lru_cache(maxsize=256)
def _prices(provider: str, name: str, length: int) -> tuple[float, float, float] | None:
    """US dollars a token of fresh input, cached input and output, in calls of that length."""
    try:
        fresh = _price(provider, name, length, 0, 0)
        cached = _price(provider, name, length, length, 0)
        both = _price(provider, name, length, 0, _SAMPLE)
    except LookupError:
        return None
    return fresh / length, cached / length, (both - fresh) / _SAMPLE


def _price(provider: str, name: str, tokens: int, cached: int, output: int) -> float:
    import genai_prices

    in_batches = name.endswith(BATCH_SUFFIX)
    price = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=tokens, cache_read_tokens=cached, output_tokens=output),
        model_ref=name.removesuffix(BATCH_SUFFIX),
        provider_id=provider,
        price_context={"processing": "batch"} if in_batches else None,
    )
    return float(price.total_price)
