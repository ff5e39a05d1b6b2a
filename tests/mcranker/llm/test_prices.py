"""The cost of calls."""

from __future__ import annotations

import pytest

from mcranker import ChatRequest, Message, Question, Usage
from mcranker.llm.chat import Tag, billed_as
from mcranker.llm.prices import cost


def test_many_short_calls_are_priced_as_short_calls() -> None:
    # claude-sonnet-4-5: 3 US dollars a million tokens in, 0.30 cached, 15 out, and more for
    # input only where one call has over 200,000 tokens.
    usage = Usage(calls=1000, input_tokens=1_000_000, output_tokens=100_000)
    assert cost("anthropic:claude-sonnet-4-5", usage) == pytest.approx(3.0 + 1.5)
    cached = Usage(calls=1, input_tokens=1000, cached_input_tokens=600, output_tokens=0)
    assert cost("anthropic:claude-sonnet-4-5", cached) == pytest.approx((400 * 3 + 600 * 0.3) / 1e6)


def test_a_long_call_costs_more_a_token() -> None:
    short = cost("anthropic:claude-sonnet-4-5", Usage(calls=3, input_tokens=300_000))
    long = cost("anthropic:claude-sonnet-4-5", Usage(calls=1, input_tokens=300_000))
    assert short == pytest.approx(0.9)
    assert long is not None
    assert long > 0.9


def test_batches_cost_half() -> None:
    usage = Usage(calls=10, input_tokens=10_000, output_tokens=1000)
    single = cost("openai:gpt-6-luna", usage)
    assert single is not None
    assert single > 0
    assert cost("openai:gpt-6-luna+batch", usage) == pytest.approx(single / 2)


def test_local_models_are_free_and_unknown_ones_have_no_price() -> None:
    assert cost("local:smollm2-135m", Usage(1, 100, 0, 10)) == 0.0
    assert cost("openai:no-such-model", Usage(1, 100, 0, 10)) is None
    assert cost("elsewhere:model", Usage(1, 100, 0, 10)) is None


def test_typed_questions_have_a_price_of_their_own() -> None:
    asked = ChatRequest((Message("user", "?"),), Tag("score"), questions=(Question("q", "?", 9),))
    prompt = ChatRequest((Message("user", "?"),), Tag("score"))
    assert billed_as("openai:gpt-6-luna", asked) == "openai:gpt-6-luna+decisions"
    assert billed_as("openai:gpt-6-luna", prompt) == "openai:gpt-6-luna"
    usage = Usage(calls=1, input_tokens=1_000_000, output_tokens=50_000)
    # US dollars a million tokens of input, output free: 0.10
    assert cost("openai:gpt-6-luna-2026-10-06+decisions", usage) == pytest.approx(0.10)
    assert cost("openai:gpt-4.1+decisions", usage) is None
