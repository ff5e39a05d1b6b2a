"""The plain values that a ranking is stored as, checked.

They are what ``Ranking.to_dict()`` makes, version 1. Keys that are not known are no error: a
newer ranking may say more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from personas.errors import SchemaError
from personas.schema import Team

__all__ = ["StoredCalls", "StoredHit", "StoredRanking", "read_stored"]

_MOST_PROBLEMS = 5


def read_stored(data: Mapping[str, Any]) -> StoredRanking:
    """The stored ranking.

    Raises:
        SchemaError: `data` is something else, is not complete, or contradicts itself.
    """
    try:
        return StoredRanking.model_validate(data)
    except ValidationError as error:
        raise SchemaError(_explain(error)) from error


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class StoredQuery(_Stored):
    text: str
    id: str


class StoredHit(_Stored):
    """One passage, as `InspectedHit` explains its fields."""

    rank: int = Field(ge=1)
    doc_id: str
    score: float | None
    scores: dict[str, float | None]
    missing: dict[str, str]
    criteria: dict[str, dict[str, float]]
    first_stage_rank: int = Field(ge=1)
    first_stage_score: float | None
    title: str
    text: str
    skipped: tuple[str, ...] = Field((), strict=False)
    at_most: float | None = None


class StoredCounts(_Stored):
    calls: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    cached_input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    cost: float | None


class StoredCalls(StoredCounts):
    """Calls of one stage by one persona to one model."""

    stage: str
    persona: str
    model: str


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
    seconds: dict[str, float]

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


def _explain(error: ValidationError) -> str:
    # Values are left out: they may be whole passages.
    details = error.errors(include_url=False, include_input=False, include_context=False)
    problems = [
        f"{'.'.join(str(part) for part in detail['loc']) or 'the whole'}: {detail['msg']}"
        for detail in details[:_MOST_PROBLEMS]
    ]
    more = f"; and {len(details) - _MOST_PROBLEMS} more" if len(details) > _MOST_PROBLEMS else ""
    return (
        f"this is no ranking as Ranking.to_dict() makes it, version 1; {'; '.join(problems)}{more}"
    )
