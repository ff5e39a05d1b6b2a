"""The plain values that a ranking is stored as, checked.

They are what ``Ranking.to_dict()`` makes, version 1. Keys that are not known are no error: a
newer ranking may say more. What passes can be shown, summed up and written again: numbers are
finite and not too great for sums and squares, and nothing nests too deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from personas.errors import SchemaError
from personas.inspection.leave_one_out import HIGHEST_SCORE
from personas.schema import Team

__all__ = [
    "StoredCalls",
    "StoredCounts",
    "StoredHit",
    "StoredRanking",
    "check_plain",
    "read_stored",
]

_MOST_PROBLEMS = 5
_LARGEST = 2**63 - 1
_DEEPEST = 20  # lists and mappings in one another in a configuration
_FORM = "this is no ranking as Ranking.to_dict() makes it, version 1"

_Score = Annotated[float, Field(ge=-HIGHEST_SCORE, le=HIGHEST_SCORE)]
_Count = Annotated[int, Field(ge=0, le=_LARGEST)]


def read_stored(data: Mapping[str, Any], *, texts: bool = True) -> StoredRanking:
    """The stored ranking.

    Args:
        data: the ranking.
        texts: whether its passages have their titles and texts, which run folders keep apart.

    Raises:
        SchemaError: `data` is something else, is not complete, or contradicts itself.
    """
    try:
        stored = StoredRanking.model_validate(data)
    except ValidationError as error:
        raise SchemaError(_explain(error)) from error
    except RecursionError as error:
        raise SchemaError(f"{_FORM}; its values nest too deep") from error
    for place, hit in enumerate(stored.hits if texts else ()):
        for name in ("title", "text"):
            if name not in hit.model_fields_set:
                raise SchemaError(f"{_FORM}; hits.{place}.{name}: Field required")
    return stored


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class StoredQuery(_Stored):
    text: str
    id: str


class StoredHit(_Stored):
    """One passage, as `InspectedHit` explains its fields."""

    rank: int = Field(ge=1)
    doc_id: str
    score: _Score | None
    scores: dict[str, _Score | None]
    missing: dict[str, str]
    criteria: dict[str, dict[str, _Score]]
    first_stage_rank: int = Field(ge=1)
    first_stage_score: _Score | None
    title: str = ""
    text: str = ""
    skipped: tuple[str, ...] = Field((), strict=False)
    at_most: _Score | None = None


class StoredCounts(_Stored):
    """Calls and tokens, and US dollars if the price is known."""

    calls: _Count
    input_tokens: _Count
    cached_input_tokens: _Count
    output_tokens: _Count
    cost: _Score | None


class StoredCalls(StoredCounts):
    """Calls of one stage by one persona to one model."""

    stage: str
    persona: str
    model: str
    seconds: _Score = 0.0
    unreadable: _Count = 0


class StoredUsage(StoredCounts):
    by_stage: list[StoredCalls]
    reused: list[StoredCalls] = []


class StoredRanking(_Stored):
    """One ranked query."""

    version: Literal[1]
    query: StoredQuery
    ranker: str
    team: Team | None
    personas: list[str]
    hits: list[StoredHit]
    config: dict[str, Any]
    models: dict[str, str]
    prompt_hashes: dict[str, str]
    usage: StoredUsage
    seconds: dict[str, _Score]

    @field_validator("config")
    @classmethod
    def _plain_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        check_plain(config)
        return config

    @model_validator(mode="after")
    def _consistent(self) -> StoredRanking:
        if len(set(self.personas)) < len(self.personas):
            raise ValueError("two score columns have the same name")
        places = list(range(1, len(self.hits) + 1))
        for kind in ("rank", "first_stage_rank"):
            if sorted(getattr(hit, kind) for hit in self.hits) != places:
                raise ValueError(f"the hits' {kind} must be 1 to {len(self.hits)}, each once")
        for hit in self.hits:
            if set(hit.scores) != set(self.personas):
                raise ValueError(f"the hit of rank {hit.rank} must have one score a persona")
            if not all(name in hit.scores and hit.scores[name] is None for name in hit.skipped):
                raise ValueError(f"the hit of rank {hit.rank} has a score that was not asked for")
        return self

    def criteria_of(self, persona: str) -> tuple[str, ...]:
        """Names of a persona's criteria, in their order; none where it has no rubric."""
        members = self.team.members if self.team else ()
        rubric = next((each.rubric for each in members if each.name == persona), None)
        return tuple(each.name for each in rubric.criteria) if rubric else ()


def check_plain(value: object, depth: int = 0) -> None:
    """Refuse values that JSON cannot hold, or that are too great to be shown or reckoned with.

    Raises:
        ValueError: there is one in `value`, or lists and mappings nest too deep.
    """
    if depth > _DEEPEST:
        raise ValueError(f"it nests deeper than {_DEEPEST} levels")
    match value:
        case None | bool() | str():
            return
        case int() | float() if abs(value) <= _LARGEST:
            return
        case dict():
            for name, inner in value.items():
                check_plain(name if isinstance(name, str) else object(), depth)
                check_plain(inner, depth + 1)
        case list() | tuple():
            for inner in value:
                check_plain(inner, depth + 1)
        case _:
            raise ValueError(f"it holds a {type(value).__name__} that JSON and sums cannot hold")


def _explain(error: ValidationError) -> str:
    # Values are left out: they may be whole passages.
    details = error.errors(include_url=False, include_input=False, include_context=False)
    problems = [
        f"{'.'.join(str(part) for part in detail['loc']) or 'the whole'}: {detail['msg']}"
        for detail in details[:_MOST_PROBLEMS]
    ]
    more = f"; and {len(details) - _MOST_PROBLEMS} more" if len(details) > _MOST_PROBLEMS else ""
    return f"{_FORM}; {'; '.join(problems)}{more}"
