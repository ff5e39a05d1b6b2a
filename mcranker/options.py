"""The fields of `RankerConfig` as keyword arguments, for type checkers.

Made by ``python -m mcranker.cli.reference options > mcranker/options.py``; edit `RankerConfig`.
"""

from typing import Literal, TypedDict


class RankerOptions(TypedDict, total=False):
    """The fields of `RankerConfig`, without ``team_size``, which rankers take by itself."""

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
    panel: bool
    questions: Literal["per_persona", "per_criterion"] | None
    passages_per_call: int | None
    ensemble: str
    rank_ties: Literal["average", "min", "ordinal"]
    missing: Literal["mean_of_team", "lowest", "constant", "fail"]
    missing_constant: float
    top_n: int | None
    min_relevance: float | None
    deadline: float | None
    instruction: str
    on_failure: Literal["error", "first_stage"]
    reask: int
    ask_anew: int
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
    sample: int
    top_k: int | None
    persona_order: Literal["auto", "team"]
    concurrency: int | None
    query_concurrency: int
    timeout: float
    requests_per_minute: float | None
    tokens_per_minute: float | None
    max_calls: int | None
    max_cost: float | None
    batch: bool
