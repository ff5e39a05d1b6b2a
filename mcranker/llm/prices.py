"""Cost of calls: from a model's provider, or the price table of genai-prices."""

from __future__ import annotations

from functools import lru_cache

from mcranker.llm.provider import provider_of
from personas.ranking.usage import Usage

BATCH_SUFFIX = "+batch"  # of a model that is asked through its batch API

_SHORT = 100_000  # tokens of a call, below which no price depends on its length
_SAMPLE = 1000  # tokens


def cost(model: str, usage: Usage) -> float | None:
    """US dollars for the usage of a `ChatModel.name`; 0 for local models, None if not known."""
    if model.startswith("scripted:"):
        return 0.0
    provider = provider_of(model)
    return provider.price(model.partition(":")[2], usage) if provider else None


def listed_price(provider: str, name: str, usage: Usage) -> float | None:
    """US dollars by the table of genai-prices; None for a model that it does not list."""
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
