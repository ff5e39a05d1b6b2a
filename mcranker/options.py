"""Options as keyword arguments, for type checkers; `RankerConfig` says what its fields mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from personas import Member, Persona, Team

if TYPE_CHECKING:
    from mcranker.config import RankerConfig
    from mcranker.llm.models import LedgerSpec, ModelSpec

TeamSpec: TypeAlias = Team | str | os.PathLike[str] | Sequence[str | Persona | Member]
"""A team, a file, the name of a team or member of the library, or a list of its members.

A file holds a team, or a saved ranking: then it is the team that judged.

In a list, a string is the name of a member of the library if there is one, and else the
name of a persona without a rubric.
"""


class CallOptions(TypedDict, total=False):
    """Options of a single call, as for `Ranker.rank`; None for those of the configuration."""

    top_n: int | None
    min_relevance: float | None
    deadline: float | None
    instruction: str | None


class EstimateOptions(TypedDict, total=False):
    """Options of an estimate."""

    instruction: str | None
    reasons: int
    counted: set[bytes] | None


class RankerOptions(TypedDict, total=False):
    """The fields of `RankerConfig`, without ``team_size``."""

    preset: Literal["paper", "reference"]
    nlp_scientist: bool
    recruiting: Literal["invent", "library"]
    require: tuple[str, ...]
    forbid: tuple[str, ...]
    criteria: Literal["query", "dataset", "library", "none"]
    criteria_examples: int
    dataset: str
    dataset_team: bool
    scoring: str
    scale: int
    labels: tuple[str, ...]
    batch_criteria: bool
    questions: Literal["per_persona", "per_criterion"] | None
    passages_per_call: int | None
    ensemble: str
    missing_policy: Literal["mean_of_team", "lowest", "constant", "fail"]
    missing_constant: float
    top_n: int | None
    min_relevance: float | None
    deadline: float | None
    instruction: str
    on_failure: Literal["error", "keep_order"]
    repair_attempts: int
    resample: int
    first_stage_weight: float
    depth: int | None
    example_rank: int
    lowercase_query: bool
    title_separator: str
    max_passage_words: int | None
    max_passage_tokens: int | None
    single_quotes: bool
    snake_case_personas: bool
    prompts: str
    temperature: float | None
    seed: int | None
    max_tokens: int
    max_score_tokens: int
    cache_variant: int
    concurrency: int | None
    query_concurrency: int
    timeout: float
    requests_per_minute: float | None
    tokens_per_minute: float | None
    max_calls: int | None
    max_cost: float | None
    batch: bool


class RankerKeywords(RankerOptions, total=False):
    """The keyword arguments that rankers share; `Ranker` says which of them one takes."""

    model: ModelSpec
    recruiter_model: ModelSpec
    criteria_model: ModelSpec
    scoring_model: ModelSpec
    assessor_model: ModelSpec
    base_url: str | None
    api_key: str | None
    team: TeamSpec | None
    team_size: int | None
    ledger: LedgerSpec
    config: RankerConfig | None
