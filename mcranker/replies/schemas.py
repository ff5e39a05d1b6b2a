"""The JSON schemas of all replies, in the subset that every provider understands.

Strict structured output wants every property required and none added; numbers are given as
enumerations, because a range is not understood everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from mcranker.llm.chat import ReplySchema

_STRING = {"type": "string"}


@cache
def integer_schema(key: str, top: int) -> ReplySchema:
    """An object whose only key holds an integer from 0 to `top`."""
    return ReplySchema(key.lower().replace(" ", "_"), _object({key: _integers(top)}))


def criterion_scores_schema(count: int, top: int) -> ReplySchema:
    """Under ``Scores``, an integer from 0 to `top` for each number of a criterion, from 1."""
    return ReplySchema("scores", _object({"Scores": _numbered(count, _integers(top))}))


def pack_schema(count: int, width: int, top: int) -> ReplySchema:
    """Under each number of a passage, from 1, `width` integers from 0 to `top`, or the one."""
    listed = {"type": "array", "items": _integers(top)}
    each = _integers(top) if width == 1 else listed
    return ReplySchema("scores", _numbered(count, each), items=width)


def window_schema(count: int, properties: Sequence[str]) -> ReplySchema:
    """Under ``Passages``, REBEL's scores for each number of a passage, from 1."""
    scores: dict[str, Any] = {"Relevance": _integers(10)}
    scores |= {key: _integers(5) for key in properties}
    if properties:
        scores["Final"] = {"type": "number"}
    return ReplySchema("window", _object({"Passages": _numbered(count, _object(scores))}))


def reasons_schema(count: int) -> ReplySchema:
    """Under ``Passages``, a quote and a sentence for each number of a passage, from 1."""
    each = _object({"Quote": _STRING, "Reason": _STRING})
    return ReplySchema("reasons", _object({"Passages": _numbered(count, each)}))


def claims_schema(count: int) -> ReplySchema:
    """Under ``Claims``, sentences with the number of a passage, from 1, and a quote each."""
    number = _one_of(range(1, count + 1))
    each = _object({"Claim": _STRING, "Passage": number, "Quote": _STRING})
    return ReplySchema("claims", _object({"Claims": {"type": "array", "items": each}}))


def library_team_schema(names: Sequence[str]) -> ReplySchema:
    """The schema of a team whose identities are among `names`."""
    return _team({"type": "string", "enum": list(names)})


def _team(identity: dict[str, Any]) -> ReplySchema:
    identities = {"type": "array", "items": identity}
    return ReplySchema("team", _object({"Identities": identities, "Reason": _STRING}))


def _integers(top: int) -> dict[str, Any]:
    return _one_of(range(top + 1))


def _numbered(count: int, each: dict[str, Any]) -> dict[str, Any]:
    return _object({str(number): each for number in range(1, count + 1)})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def verdict_schema(key: str, options: Sequence[str | float], notes: str = "") -> ReplySchema:
    """One of the options under `key`; with notes before it under the name `notes`, if given."""
    before = {notes: _STRING} if notes else {}
    return ReplySchema(key, _object({**before, key: _one_of(options)}))


def support_schema(count: int, options: Sequence[str]) -> ReplySchema:
    """Under ``Support``, one of the options for each number of a fact, from 1."""
    return ReplySchema("support", _object({"Support": _numbered(count, _one_of(options))}))


def _one_of(options: Sequence[str | float]) -> dict[str, Any]:
    kinds: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(options[0])], "enum": list(options)}


_GRADES = dict.fromkeys(("Match", "Trust", "Score"), _integers(3))
UMBRELA_SCHEMA = ReplySchema("grade", _object({"Intent": _STRING, **_GRADES}))
"""The intent of a query, and three grades of a passage, the last of which is final."""

NUGGETS_SCHEMA = ReplySchema(
    "nuggets",
    _object(
        {
            "Nuggets": {
                "type": "array",
                "items": _object({"Nugget": _STRING, "Importance": _one_of(("vital", "okay"))}),
            }
        }
    ),
)
"""The facts of an answer, each vital or okay."""

TEAM_SCHEMA = _team(_STRING)  # identities of any kind, and the reason for them (App. D.1)
RUBRIC_SCHEMA = ReplySchema(
    "rubric",
    _object(
        {
            "Criteria": {
                "type": "array",
                "items": _object(
                    {"Criterion": _STRING, "Explanation": _STRING, "Weight": {"type": "integer"}}
                ),
            },
            "Reason": _STRING,
        }
    ),
)
"""Criteria with weights, and the reason for them (App. D.2, D.3)."""

RELEVANCE_SCHEMA = ReplySchema("relevance", _object({"Reason": _STRING, "Relevance": _STRING}))
"""Schema of the meaning of relevance for a query, for REBEL."""


def properties_schema(*, weighted: bool) -> ReplySchema:
    """Return the same with further properties, and with a weight of each."""
    each = {"Property": _STRING, "Explanation": _STRING}
    listed = _object({**each, "Weight": {"type": "number"}} if weighted else each)
    properties = {"type": "array", "items": listed}
    named = {"Reason": _STRING, "Relevance": _STRING, "Properties": properties}
    return ReplySchema("properties", _object(named))
