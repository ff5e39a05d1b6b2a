"""Parameters that models take: those known by name, and those learnt from refusals.

Models differ in the parameters they take, and the lists change with every release. So each
request is sent whole; when the provider names a parameter in its refusal, the request is
sent again without it (or with its replacement), and later requests leave it out at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import Capabilities
from mcranker.llm.providers.http_errors import Problem
from mcranker.logs import safe_logger

logger = safe_logger("mcranker.llm")


@dataclass(frozen=True, slots=True)
class Traits:
    """Features of a hosted model, as far as its name says them."""

    capabilities: Capabilities
    reasons: bool = False
    temperature: bool = True
    least_cached: int = 512


_SCHEMA = Capabilities(json_schema=True)
_LABELS = Capabilities(json_schema=True, label_logprobs=True)
# 80,000 tokens of JSON are 256 KiB.
_DECISIONS = replace(
    _SCHEMA, max_questions=400, max_levels=10, max_choices=255, max_state_tokens=80_000
)

# From the general to the special; the last one that fits counts for each feature.
_TRAITS: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"openai:", {"capabilities": _LABELS}),
    (r"openai:(o\d|gpt-([5-9]|\d\d))(?!.*chat)", {"capabilities": _SCHEMA, "reasons": True}),
    # Documented to give log-probabilities when they do not think.
    (r"openai:gpt-5\.[12](?!.*(pro|codex))", {"capabilities": _LABELS}),
    (r"openai:gpt-6-luna(-\d{4}-?\d\d-?\d\d)?$", {"capabilities": _DECISIONS}),
    (r"anthropic:", {"capabilities": _SCHEMA, "temperature": False}),
    (r"anthropic:claude-(3|[a-z]+-4-([0-6](?!\d)|\d{8}))", {"temperature": True}),
    (r"anthropic:claude-(3|opus-4|sonnet-4|sonnet-5$)", {"least_cached": 1024}),
    (r"anthropic:claude-(3-(5-)?haiku|opus-4-7)", {"least_cached": 2048}),
    (r"anthropic:claude-(haiku-4|opus-4-[56])", {"least_cached": 4096}),
)

# A parameter, and what is sent once it is refused: nothing, another value, another name.
_FORMS = ("response_format", "output_config")
_DROPPED = frozenset({*_FORMS, "seed", "temperature", "thinking"})
_LOWER_EFFORT = {"none": "low"}
RENAMED = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
NEEDED = ("logprobs", "top_logprobs")
_KNOWN = _DROPPED | {"reasoning_effort", *RENAMED, *NEEDED}

_OTHER_NAMES = {
    "output_config": ("output_format", "structured output", "structured outputs"),
    "reasoning_effort": ("reasoning.effort", "reasoning effort"),
    "response_format": ("json_schema", "structured output", "structured outputs"),
}
_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_UNKNOWN = (
    r"unsupported|not support|n't support|no support|unrecogni[sz]ed|unknown|unexpected|"
    r"not permitted|not allowed|not (yet )?implemented|deprecated"
)
_REFUSED_NAME = re.compile(_UNKNOWN, re.IGNORECASE)
_REFUSED_VALUE = re.compile(
    _UNKNOWN + r"|unavailable|not available|\bonly\b|must be|cannot be|can't be|invalid",
    re.IGNORECASE,
)


@cache
def traits_of(model: str) -> Traits:
    """Return the features of a model, by its name with its prefix."""
    found: dict[str, Any] = {"capabilities": Capabilities()}
    for pattern, traits in _TRAITS:
        if re.match(pattern, model):
            found |= traits
    return Traits(**found)


class ParameterMemory:
    """Parameters that one model has refused so far."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._dropped: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._effort: dict[str, str | None] = {}

    def within(self, capabilities: Capabilities) -> Capabilities:
        """The capabilities without what the model has refused since."""
        schema = capabilities.json_schema and self._dropped.isdisjoint(_FORMS)
        labels = capabilities.label_logprobs and self._dropped.isdisjoint(NEEDED)
        return replace(capabilities, json_schema=schema, label_logprobs=labels)

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body without parameters that the model is known to refuse."""
        adapted = {
            self._renamed.get(name, name): value
            for name, value in body.items()
            if name not in self._dropped
        }
        while (effort := adapted.get("reasoning_effort")) in self._effort:
            adapted["reasoning_effort"] = self._effort[effort]
        if effort is None:
            adapted.pop("reasoning_effort", None)
        return adapted

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        """Take note of a refusal; True if the request is worth sending again, adapted."""
        name = refused_parameter(problem, sent)
        if name is None:
            return False
        if name in NEEDED:
            self._dropped.update(NEEDED)
            raise UnsupportedCapability(
                f"{self._model}: the provider refuses {name!r}; "
                'use scoring="integer" or another model',
                model=self._model,
            )
        if name in self._renamed.values():  # refused under its other name as well
            return False
        if name == "reasoning_effort":
            self._effort[sent[name]] = _LOWER_EFFORT.get(sent[name])
        elif name in RENAMED:
            self._renamed[name] = RENAMED[name]
        else:
            self._dropped.add(name)
        logger.info("%s refuses %r, which is changed or left out from now on", self._model, name)
        return True


def refused_parameter(problem: Problem, sent: Mapping[str, Any]) -> str | None:
    """The parameter of the body that a provider's answer refuses, or None."""
    if problem.status not in (400, 422, 501):
        return None
    candidates = [name for name in sent if name in _KNOWN]
    root = re.split(r"[.\[]", problem.param, maxsplit=1)[0]
    if root:
        # A server that says which one must not be second-guessed by words in its message.
        candidates = [n for n in candidates if n == root or problem.param in _names(n)]
        return candidates[0] if candidates and _refuses(problem, candidates[0]) else None
    places: dict[int, str] = {}
    for name in reversed(candidates):
        other = "|".join(map(re.escape, _names(name)))
        found = re.search(rf"(?<!\w)({other})(?!\w)", problem.message, re.IGNORECASE)
        if found and _refuses(problem, name):
            places[found.start()] = name
    return places[min(places)] if places else None


def _names(name: str) -> tuple[str, ...]:
    return (name, *_OTHER_NAMES.get(name, ()))


def _refuses(problem: Problem, name: str) -> bool:
    if any(code in problem.code for code in _CODES):
        return True
    # "max_tokens must be at most 4096" refuses a value, not the name: another name will not help.
    words = _REFUSED_NAME if name in RENAMED else _REFUSED_VALUE
    return words.search(problem.message) is not None
