"""The JSON schemas of all replies, in the subset that every provider understands.

Strict structured output wants every property required and none added; numbers are given as
enumerations, because a range is not understood everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcranker.llm.chat import ReplySchema

_STRING = {"type": "string"}


def integer_schema(key: str, top: int) -> ReplySchema:
    """An object whose only key holds an integer from 0 to `top`."""
    return ReplySchema(key.lower().replace(" ", "_"), _object({key: _integers(top)}))


def criterion_scores_schema(count: int, top: int) -> ReplySchema:
    """Under ``Scores``, an integer from 0 to `top` for each number of a criterion, from 1.

    One key a criterion: unlike the length of a list, every provider can enforce that.
    """
    numbers = {str(number): _integers(top) for number in range(1, count + 1)}
    return ReplySchema("scores", _object({"Scores": _object(numbers)}))


def named_integers_schema(tops: Mapping[str, int]) -> ReplySchema:
    """Under each name, an integer from 0 to what `tops` has for it."""
    return ReplySchema("answers", _object({name: _integers(top) for name, top in tops.items()}))


def library_team_schema(names: Sequence[str]) -> ReplySchema:
    """The schema of a team whose identities are among `names`."""
    return _team({"type": "string", "enum": list(names)})


def _team(identity: dict[str, Any]) -> ReplySchema:
    identities = {"type": "array", "items": identity}
    return ReplySchema("team", _object({"Identities": identities, "Reason": _STRING}))


def _integers(top: int) -> dict[str, Any]:
    return {"type": "integer", "enum": list(range(top + 1))}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEAM_SCHEMA = _team(_STRING)
"""Identities of any kind, and the reason for them (App. D.1)."""

RUBRIC_SCHEMA = ReplySchema(
    "rubric",
    _object(
        {
            "Criteria": {
                "type": "array",
                "items": _object(
                    {
                        "Criterion": _STRING,
                        "Explanation": _STRING,
                        "Weight": {"type": "integer"},
                    }
                ),
            },
            "Reason": _STRING,
        }
    ),
)
"""Criteria with weights, and the reason for them (App. D.2, D.3)."""
