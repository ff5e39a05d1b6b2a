"""Which parameters a model refuses: learnt from its first refusal, remembered afterwards.

Models differ in the parameters they take, and the lists change with every release. So each
request is sent whole; when the provider names a parameter in its refusal, the request is
sent again without it (or with its replacement), and later requests leave it out at once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcranker.errors import UnsupportedCapability
from mcranker.llm.providers.http_errors import Problem, StatusError
from mcranker.logs import safe_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcranker.llm.chat import Capabilities

logger = safe_logger("mcranker.llm")

# A parameter, and what is sent once it is refused: nothing, another value, another name.
DROPPED = frozenset({"response_format", "seed", "temperature", "output_config", "thinking"})
LOWER_EFFORT = {"none": "low"}
RENAMED = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
NEEDED = ("logprobs", "top_logprobs")

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


class ParameterMemory:
    """Parameters that one model has refused so far.

    Args:
        model: the model as the user names it, for messages.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._dropped: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._effort: dict[str, str | None] = {}

    def within(self, capabilities: Capabilities) -> Capabilities:
        """The capabilities without what the model has refused since."""
        if not self._dropped:
            return capabilities
        schema_refused = not self._dropped.isdisjoint(("response_format", "output_config"))
        return replace(
            capabilities,
            json_schema=capabilities.json_schema and not schema_refused,
            label_logprobs=capabilities.label_logprobs and "logprobs" not in self._dropped,
        )

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body without parameters that the model is known to refuse."""
        adapted: dict[str, Any] = {}
        for name, value in body.items():
            if name in self._dropped:
                continue
            if name == "reasoning_effort":
                value = self._known_effort(value)
                if value is None:
                    continue
            adapted[self._renamed.get(name, name)] = value
        return adapted

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        """Take note of a refusal.

        Args:
            problem: what the provider answered.
            sent: the body it answered to, as `adapt` had made it.

        Returns:
            True if the request is worth sending again, adapted.

        Raises:
            UnsupportedCapability: log-probabilities were refused; nothing can replace them.
        """
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
        if name == "reasoning_effort":
            change = self._lower_effort(sent[name])
        elif name in RENAMED:
            # Refused under its other name as well: there is no third one.
            if name in self._renamed.values():
                return False
            self._renamed[name] = RENAMED[name]
            change = f"sent as {RENAMED[name]!r}"
        else:
            self._dropped.add(name)
            change = "left out"
        logger.info("%s refuses %r; from now on it is %s", self._model, name, change)
        return True

    async def ask(
        self,
        body: Mapping[str, Any],
        send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Send a request, again for each parameter that turns out to be refused.

        Raises:
            StatusError: the provider answered with an error that is not such a refusal.
            UnsupportedCapability: log-probabilities were refused.
            ModelError: what `send` raises.
        """
        while True:  # ends: every turn takes away a parameter, a value or a name for good
            sent = self.adapt(body)
            try:
                return await send(sent)
            except StatusError as failure:
                if not self.learn(failure.problem, sent):
                    raise

    def _known_effort(self, effort: str) -> str | None:
        value: str | None = effort
        while value is not None and value in self._effort:
            value = self._effort[value]
        return value

    def _lower_effort(self, sent: str) -> str:
        self._effort[sent] = LOWER_EFFORT.get(sent)
        return f"{self._effort[sent]!r}" if self._effort[sent] else "left out"


def refused_parameter(problem: Problem, sent: Mapping[str, Any]) -> str | None:
    """The parameter of the body that a provider's answer refuses; None if it refuses another thing.

    Trusts the answer's own ``param`` first, then looks for the name that comes first in the
    message, and in either case wants words or a code of refusal beside it.
    """
    if problem.status not in (400, 422, 501):
        return None
    candidates = [n for n in sent if n in DROPPED | {"reasoning_effort", *RENAMED, *NEEDED}]
    root = re.split(r"[.\[]", problem.param, maxsplit=1)[0]
    if root:
        # A server that says which one must not be second-guessed by words in its message.
        candidates = [n for n in candidates if n == root or problem.param in _names(n)]
        return candidates[0] if candidates and _refuses(problem, candidates[0]) else None
    places = {n: _place(n, problem.message) for n in candidates if _refuses(problem, n)}
    named = {n: place for n, place in places.items() if place is not None}
    return min(named, key=lambda n: named[n]) if named else None


def _names(name: str) -> tuple[str, ...]:
    return (name, *_OTHER_NAMES.get(name, ()))


def _place(name: str, message: str) -> int | None:
    found = [
        match.start()
        for other in _names(name)
        if (match := re.search(rf"(?<!\w){re.escape(other)}(?!\w)", message, re.IGNORECASE))
    ]
    return min(found) if found else None


def _refuses(problem: Problem, name: str) -> bool:
    if any(code in problem.code for code in _CODES):
        return True
    # "max_tokens must be at most 4096" refuses a value, not the name: another name will not help.
    words = _REFUSED_NAME if name in RENAMED else _REFUSED_VALUE
    return words.search(problem.message) is not None
