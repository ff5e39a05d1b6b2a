from __future__ import annotations

from typing import Any

import pytest

from mcranker.llm.providers.http_errors import Problem
from mcranker.llm.providers.parameters import ParameterMemory, refused_parameter, traits_of

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [],
    "max_completion_tokens": 9,
    "temperature": 0.0,
    "seed": 1,
    "response_format": {"type": "json_schema"},
    "reasoning_effort": "none",
    "thinking": {"type": "disabled"},
    "output_config": {},
}


def said(message: str = "", param: str = "", code: str = "", status: int = 400) -> Problem:
    return Problem(status, message=message, param=param, code=code)


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (said("", "temperature", "unsupported_value"), "temperature"),
        (said("'temperature' does not support 0 with this model"), "temperature"),
        (said("invalid temperature: only 1 is allowed for this model"), "temperature"),
        (said("body.seed: Extra inputs are not permitted", status=422), "seed"),
        (said("Unrecognized request argument supplied: seed"), "seed"),
        (said("", "max_completion_tokens", "unsupported_parameter"), "max_completion_tokens"),
        (said("Unsupported value: 'none'", "reasoning_effort"), "reasoning_effort"),
        (said("This response_format type is unavailable now"), "response_format"),
        (said("structured outputs are not supported", status=501), "response_format"),
        (said("not supported", "response_format.type"), "response_format"),
        (said("thinking.type: disabled is not supported for this model"), "thinking"),
        (said("output_config: Extra inputs are not permitted"), "output_config"),
        (said("temperature is not supported when seed is set"), "temperature"),
        (said("Invalid 'messages': temperature of the sea", "messages"), None),
        (said("The temperature is fine but the prompt is empty"), None),
        (said("max_completion_tokens must be at most 4096"), None),
        (said("temperature is not supported", status=500), None),
        (said("top_k is not supported", "top_k", "unsupported_parameter"), None),
        (said("seedling is not supported"), None),
        (said(), None),
    ],
)
def test_what_a_provider_refuses(problem: Problem, name: str | None) -> None:
    assert refused_parameter(problem, BODY) == name


def test_effort_is_lowered_by_one_step_however_many_calls_are_refused_at_once() -> None:
    memory = ParameterMemory("m")
    refused = said("", "reasoning_effort", "unsupported_value")
    for _ in range(3):  # three calls in flight, all sent with "none"
        assert memory.learn(refused, BODY)
    assert memory.adapt(BODY)["reasoning_effort"] == "low"
    assert memory.learn(refused, memory.adapt(BODY))
    assert "reasoning_effort" not in memory.adapt(BODY)


@pytest.mark.parametrize(
    ("model", "reasons", "logprobs", "temperature", "questions"),
    [
        ("openai:gpt-4.1-mini", False, True, True, 0),
        ("openai:gpt-5-chat-latest", False, True, True, 0),
        ("openai:gpt-5-mini", True, False, True, 0),
        ("openai:gpt-5.2", True, True, True, 0),
        ("openai:gpt-5.2-pro", True, False, True, 0),
        ("openai:gpt-6-luna", True, False, True, 400),
        ("openai:gpt-6-luna-2026-11-03", True, False, True, 400),
        ("openai:gpt-6-luna-mini", True, False, True, 0),
        ("openai:o3-mini", True, False, True, 0),
        ("openai:gpt-oss-120b", False, True, True, 0),
        ("anthropic:claude-haiku-4-5", False, False, True, 0),
        ("anthropic:claude-haiku-4-5-20251001", False, False, True, 0),
        ("anthropic:claude-opus-4-20250514", False, False, True, 0),
        ("anthropic:claude-3-haiku-20240307", False, False, True, 0),
        ("anthropic:claude-opus-4-7", False, False, False, 0),
        ("anthropic:claude-haiku-5-5", False, False, False, 0),
    ],
)
def test_what_is_known_of_a_model_by_its_name(
    model: str, reasons: bool, logprobs: bool, temperature: bool, questions: int
) -> None:
    traits = traits_of(model)
    offered = traits.capabilities
    assert (traits.reasons, traits.temperature) == (reasons, temperature)
    assert (offered.label_logprobs, offered.max_questions) == (logprobs, questions)
    assert offered.json_schema
