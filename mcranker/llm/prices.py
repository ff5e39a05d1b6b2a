"""What calls cost, by the price table that genai-prices carries."""

from __future__ import annotations

from mcranker.llm.chat import Usage

__all__ = ["cost"]

_PROVIDERS = ("openai", "anthropic")
_FREE = ("local", "scripted")


def cost(model: str, usage: Usage) -> float | None:
    """US dollars for these tokens, 0 for local models, None where no price is known.

    Args:
        model: as `ChatModel.name` has it, e.g. ``"openai:gpt-5-mini"``.
        usage: what was used; cached input is priced as such.
    """
    provider, _, name = model.partition(":")
    if provider in _FREE:
        return 0.0
    if provider not in _PROVIDERS:
        return None
    import genai_prices

    try:
        price = genai_prices.calc_price(
            genai_prices.Usage(
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cached_input_tokens,
                output_tokens=usage.output_tokens,
            ),
            model_ref=name,
            provider_id=provider,
        )
    except LookupError:
        return None
    return float(price.total_price)
