"""Settings of a ranker: every choice is one field, and the presets are values of the fields."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypedDict, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mcranker.errors import ConfigError
from mcranker.llm.chat import Capabilities
from mcranker.llm.limits.rate_limiter import MOST_LEARNED
from mcranker.replies.scoring import SCORINGS, TYPED_SCORINGS, Scoring
from personas.ensembles import ENSEMBLES, Rule
from personas.errors import fault, shown
from personas.ranking.usage import Stage
from personas.sanitize import can_be_encoded

MOST_IN_A_BATCH = 10_000  # calls that wait together for a batch, without ``concurrency``
QUERIES_OF_A_BATCH = 100  # whose calls go into one batch, without ``query_concurrency``
MOST_IN_A_CALL = 100  # passages that one call may judge
MOST_INSTRUCTION = 10_000  # characters
LARGEST = 2**63 - 1  # whole numbers, either way: databases and JSON hold 64 bits
HIGHEST_CONSTANT = 1_000_000.0  # for a missing score; sums of such scores stay exact

NO_YES = ("No", "Yes")  # the scale of two labels

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "paper": MappingProxyType({}),
        "reference": MappingProxyType(
            {
                "example_rank": 3,
                "lowercase_query": True,
                "title_separator": ". . .",
                "max_passage_words": 512,
                "single_quotes": True,
                "snake_case_personas": True,
                "dataset_team": True,
                "missing_policy": "constant",
                "missing_constant": 5.0,
                "repair_attempts": 0,
                "resample": 20,
                "temperature": None,
                "depth": 30,
            }
        ),
    }
)
"""Values set by each preset: ``reference`` holds what the authors' code does otherwise than the
paper says, see ``docs/evaluation.md``."""

_Count = Annotated[int | None, Field(ge=1, le=LARGEST)]

HOW_NOT_WHAT = frozenset(
    (
        *("concurrency", "query_concurrency", "timeout", "batch", "offline"),
        *("requests_per_minute", "tokens_per_minute", "max_calls", "max_cost"),
    )
)
"""Fields of the configuration that concern calls and change no score."""


class RankerConfig(BaseModel):
    """All choices of a ranking.

    >>> RankerConfig()                                # the paper: k = 10, sum, temperature 0
    >>> RankerConfig(team_size=2, nlp_scientist=False)  # two recruits alone
    >>> RankerConfig(require=("clinician",))
    >>> RankerConfig(criteria="dataset", dataset="…") # Table 3, dataset-based criteria
    >>> RankerConfig(ensemble="reciprocal_rank")      # Table 4
    >>> RankerConfig(scoring="expected", labels=("No", "Yes"))

    Rankers with options of their own have a subclass each, such as `SetwiseConfig`.

    Raises:
        ConfigError: a value is impossible, an option is unknown, or two do not go together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # Personas and their criteria.
    preset: Literal["paper", "reference"] = "paper"
    """Follow the paper, or its authors' code where a field can (see docs/evaluation.md)."""
    team_size: Annotated[int, Field(ge=1, le=20)] = 3
    """Personas on the team, the NLP scientist included; recruits join a given team up to it."""
    nlp_scientist: bool = True
    """Have the fixed NLP scientist on the team (paper, section 3.2)."""
    recruiting: Literal["invent", "library"] = "invent"
    """Let the model invent personas, or pick them from the library."""
    require: tuple[str, ...] = ()
    """Personas on every recruited team: members of the library, or any other names."""
    criteria: Literal["query", "dataset", "library", "none"] = "query"
    """Write criteria for each query or the data set, take the library's, or judge without."""
    dataset: str = ""
    """Description of the collection; needed for criteria="dataset"."""

    # Judges' scores.
    scoring: Annotated[str, SCORINGS] = "integer"
    """One integer a passage (paper), the labels' expectation, the probability of the highest label
    (peak), or one score a criterion, combined by weights."""
    scale: Annotated[int, Field(ge=1, le=100)] = 10
    """k: scores are 0 to k."""
    labels: tuple[str, ...] = ()
    """Labels for scoring="expected" or "peak", least relevant first; without, 0 to k."""
    questions: Literal["per_persona", "per_criterion"] | None = None
    """Ask typed questions, one a persona or one a criterion. None: per_persona for models that
    answer nothing else, and with passages_per_call; per_criterion with that scoring."""
    passages_per_call: Annotated[int | None, Field(ge=1, le=MOST_IN_A_CALL)] = None
    """With typed questions: passages in one call, judged beside each other; none for one."""
    instruction: Annotated[
        str, StringConstraints(strip_whitespace=True, max_length=MOST_INSTRUCTION)
    ] = ""
    """Anything else that matters, in a sentence: one more criterion for every judge, with 30% of
    the weight; for rerank services, their instruction."""

    # From scores to the ranking that is returned.
    ensemble: Annotated[str, ENSEMBLES] = "sum"
    """Rule from the personas' scores to one (paper, Eq. 4)."""
    missing_policy: Literal["mean_of_team", "lowest", "constant", "fail"] = "mean_of_team"
    """Replacement of a missing score: mean of the passage's others, 0, a constant, or an error."""
    missing_constant: Annotated[float, Field(ge=0, le=HIGHEST_CONSTANT, allow_inf_nan=False)] = 0.0
    """The constant for missing_policy="constant"."""
    first_stage_weight: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the first stage's score in the final one, both scaled to 0..1; all passages need
    such a score."""
    depth: _Count = None
    """Rank only the first N passages; the rest follow as they are."""
    top_n: _Count = None
    """Return only the first N passages."""
    min_relevance: Annotated[float | None, Field(ge=0, le=1)] = None
    """Return only passages of this relevance or more: the mean judge's score by k, 0 to 1."""
    deadline: Annotated[float | None, Field(ge=0.001, le=1e9, allow_inf_nan=False)] = None
    """Seconds after which a query is ranked by the scores that are there; none to wait for all."""
    on_failure: Literal["error", "keep_order"] = "error"
    """If the model fails: an error, or passages in first-stage order, with the failure noted."""

    # Peculiarities of the authors' code that preset="reference" sets.
    dataset_team: bool = False
    """With criteria="dataset": recruit one team as well, from the data set's description alone."""
    example_rank: Annotated[int | None, Field(ge=1, le=LARGEST)] = None
    """First-stage passage that the recruiter sees as an example, counted from 1; None for none."""
    lowercase_query: bool = False
    """Lower-case the query."""
    title_separator: str = "\n"
    """Text between title and text."""
    single_quotes: bool = False
    """Turn double quotes in passages into single ones."""
    snake_case_personas: bool = False
    """Write recruits' names in lower case with underscores, cut to what follows a slash."""

    # Prompts, sampling, and the length of replies.
    prompts: str = "paper"
    """Prompt set: paper, or a folder with one's own wording."""
    temperature: Annotated[float | None, Field(ge=0, le=2)] = 0.0
    """Sampling temperature; none for the provider's default."""
    seed: Annotated[int | None, Field(ge=-LARGEST, le=LARGEST)] = None
    """Seed for providers that take one."""
    max_tokens: Annotated[int, Field(ge=16, le=LARGEST)] = 2048
    """Longest reply of recruiter and criteria writers."""
    max_score_tokens: Annotated[int, Field(ge=1, le=LARGEST)] = 1024
    """Longest answer to a scoring call, in tokens."""
    cache_variant: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """Which of several samples of every answer to take; another number asks again."""
    repair_attempts: Annotated[int, Field(ge=0, le=5)] = 1
    """Repetitions of a call whose answer is unreadable, with what is wrong."""
    resample: Annotated[int, Field(ge=0, le=100)] = 0
    """Repetitions of a recruiter's or criteria writer's question, before repair_attempts; none at
    temperature 0."""
    max_passage_words: _Count = None
    """Cut a passage's text after this number of words."""
    max_passage_tokens: _Count = None
    """The same in tokens of the scoring model, if its tokenizer is at hand (local GGUF models)."""

    # Concurrency, rates, and what may be spent.
    concurrency: Annotated[int | None, Field(ge=1, le=50_000)] = None
    """Calls in flight at once, for each model; none to learn how many it takes."""
    query_concurrency: Annotated[int, Field(ge=1, le=1000)] = 8
    """Queries in progress at once when many are ranked."""
    timeout: Annotated[float, Field(ge=0.001, le=1e6, allow_inf_nan=False)] = 120.0
    """Seconds allowed to one call to a provider; it is then tried again."""
    requests_per_minute: Annotated[float | None, Field(ge=0.001, le=1e9, allow_inf_nan=False)] = (
        None
    )
    """Calls begun a minute, for each model."""
    tokens_per_minute: Annotated[float | None, Field(ge=1, le=1e12, allow_inf_nan=False)] = None
    """Tokens a minute, input and output, for each model."""
    max_calls: Annotated[int | None, Field(ge=0, le=LARGEST)] = None
    """Send no more calls than this, all queries together."""
    max_cost: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """Spend no more US dollars, all queries together."""
    batch: bool = False
    """Send calls through the provider's batch API: half the price, an answer within hours."""
    offline: bool = False
    """Take answers from the ledger alone, without a key; what it lacks is missing."""

    if not TYPE_CHECKING:  # for type checkers, the fields are the arguments

        def __init__(self, **data: Any) -> None:
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise ConfigError(explain(error, type(self))) from error

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, data: Any) -> Any:
        preset = data.get("preset", "paper")
        known = isinstance(preset, str) and preset in PRESETS
        return {**PRESETS[preset], **data} if known else data

    @field_validator("prompts", mode="before")
    @classmethod
    def _path_to_text(cls, value: Any) -> Any:
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    @field_validator("*")
    @classmethod
    def _can_be_sent(cls, value: Any) -> Any:
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and not can_be_encoded(text):
                raise ValueError("holds a character that is not UTF-8; write it in UTF-8")
        return value

    @field_validator("scoring", "ensemble")
    @classmethod
    def _known(cls, name: str, info: ValidationInfo) -> str:
        (SCORINGS if info.field_name == "scoring" else ENSEMBLES).get(name)
        return name

    @field_validator("labels")
    @classmethod
    def _distinct_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        folded = [label.strip().casefold() for label in labels]
        if labels and (len(labels) < 2 or "" in folded or len(set(folded)) < len(folded)):
            raise ValueError("give at least two labels, none empty, all different")
        return labels

    @field_validator("require")
    @classmethod
    def _distinct_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        tidied = tuple(" ".join(name.split()) for name in names)
        folded = {name.casefold().replace("_", " ") for name in tidied}
        if not all(tidied) or len(folded) < len(tidied):
            raise ValueError("give names that are not empty, each once")
        return tidied

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.labels and not self.scoring_class.uses_labels:
            raise ValueError(
                f'labels go with scoring="expected" or "peak", not with {self.scoring!r}'
            )
        if self.labels and "scale" in self.model_fields_set:
            raise ValueError("labels are a scale of their own; leave out either labels or scale")
        constant, preset = self.missing_constant, PRESETS[self.preset].get("missing_constant")
        if self.missing_policy == "constant" and constant != preset and constant > self.top:
            raise ValueError(
                f"missing_constant={constant} is above the highest score, {self.top:g}: a passage "
                f"would win by a missing score; give 0 to {self.top:g}"
            )
        if self.criteria == "dataset" and not self.dataset.strip():
            raise ValueError('criteria="dataset" needs dataset=: say in words what the data set is')
        if self.criteria == "none" and self.scoring_class.needs_rubric:
            raise ValueError(f'scoring="{self.scoring}" needs criteria; criteria="none" has none')
        if self.deadline is not None and self.missing_policy == "fail":
            raise ValueError(
                f"deadline={self.deadline:g} ranks without the scores that are missing by then, "
                'which missing_policy="fail" forbids; use one of the two'
            )
        self._check_questions()
        return self

    def _check_questions(self) -> None:
        if self.questions is None and self.passages_per_call is None:
            return
        asked = f"questions={self.questions!r}" if self.questions else "passages_per_call"
        if self.scoring not in TYPED_SCORINGS:
            raise ValueError(
                f"{asked} goes with scoring={' or '.join(map(repr, TYPED_SCORINGS))}, "
                f"not with {self.scoring!r}"
            )
        if self.questions == "per_persona" and self.scoring_class.needs_rubric:
            raise ValueError(
                f'scoring="{self.scoring}" needs an answer to each criterion; use '
                'questions="per_criterion", or scoring="expected"'
            )
        if self.questions == "per_criterion" and self.criteria == "none":
            raise ValueError('questions="per_criterion" needs criteria; criteria="none" has none')

    @classmethod
    def of(cls, config: RankerConfig | None, options: Mapping[str, Any]) -> Self:
        """A configuration of this class with some fields replaced, as `replaced` does."""
        if config is None:
            return cls(**options)
        if not isinstance(config, RankerConfig):
            raise ConfigError(f"config={shown(config)} is no RankerConfig; give one, or none")
        if not issubclass(cls, type(config)):
            raise ConfigError(
                f"config={type(config).__name__}(...) has options of another ranker; give a "
                f"{cls.__name__}"
            )
        if type(config) is not cls:
            config = cls(**config.model_dump(include=config.model_fields_set))
        return config.replaced(options)

    def replaced(self, options: Mapping[str, Any]) -> Self:
        """Return this configuration with some fields replaced; unset fields stay unset.

        With another preset, what the former preset had set goes with it.
        """
        if not options:
            return self
        fields = self.model_dump(include=self.model_fields_set)
        if options.get("preset", self.preset) != self.preset:
            former = PRESETS[self.preset].items()
            fields = dict(each for each in fields.items() if each not in former)
        return type(self)(**{**fields, **options})

    def for_model(self, capabilities: Capabilities) -> Self:
        """This configuration with the defaults for typed questions, but for fields that are set."""
        chosen: dict[str, Any] = {}
        if not capabilities.prompts and "scoring" not in self.model_fields_set:
            chosen["scoring"] = "expected"
        many = self.scoring == "per_criterion" and capabilities.max_questions > 0
        asks = not capabilities.prompts or self.passages_per_call is not None or many
        if asks and self.questions is None:
            by_criterion = self.scoring_class.needs_rubric
            chosen["questions"] = "per_criterion" if by_criterion else "per_persona"
        config = self.replaced(chosen)
        if config.questions == "per_criterion" and not capabilities.reasons:
            raise ConfigError(
                "an encoder does not read criteria, so it cannot be asked by them; leave "
                'questions="per_criterion" or scoring="per_criterion" out, or name another model'
            )
        return config

    def for_writers(self, recruiter: Capabilities, criteria: Capabilities) -> Self:
        """This configuration with the library's personas and rubrics, where no model writes any."""
        roles = {"recruiting": recruiter, "criteria": criteria}
        unset = roles.keys() - self.model_fields_set
        return self.replaced({name: "library" for name in unset if not roles[name].prompts})

    @property
    def workers(self) -> int:
        """Calls that a stage keeps ready to be sent; what is in flight may be fewer."""
        return self.concurrency or (MOST_IN_A_BATCH if self.batch else MOST_LEARNED)

    @property
    def queries_at_once(self) -> int:
        """``query_concurrency``, or many if it is not set and a batch gathers them."""
        gathered = self.batch and "query_concurrency" not in self.model_fields_set
        return QUERIES_OF_A_BATCH if gathered else self.query_concurrency

    @property
    def scoring_class(self) -> type[Scoring]:
        """The scoring scheme."""
        return SCORINGS.get(self.scoring)

    @property
    def top(self) -> float:
        """The highest score one persona can give, e.g. k, or the number of labels less one."""
        return self.scoring_class.top(self)

    @property
    def one_team(self) -> bool:
        """True if all queries have the same recruits."""
        return self.criteria == "dataset" and self.dataset_team

    def resamples(self, stage: Stage) -> int:
        """Return how often the same question is asked again at this stage; see ``resample``."""
        by_team = stage in ("recruit", "criteria")
        return self.resample if by_team and self.temperature != 0 else 0

    def recorded(self, *, how: bool = True) -> dict[str, Any]:
        """Return all fields as plain values, as rankings and run folders keep them.

        ``scale`` is what the scoring scheme makes of it. Without `how`, fields of `HOW_NOT_WHAT`
        are left out.
        """
        values = self.model_dump(mode="json", exclude=None if how else {*HOW_NOT_WHAT})
        values["missing_constant"] = self.rule.constant
        if not self.instruction:
            del values["instruction"]
        return values if self.labels else {**values, "scale": self.top}

    @property
    def rule(self) -> Rule:
        """Rule from scores to final ones; no substitute is above the highest score."""
        return Rule(
            ensemble=ENSEMBLES.get(self.ensemble),
            missing_policy="lowest" if self.missing_policy == "fail" else self.missing_policy,
            constant=min(self.missing_constant, float(self.top)),
            first_stage_weight=self.first_stage_weight,
            top=float(self.top),
            assessor_top=float(self.scale),
        )

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The labels of ``scoring="expected"``, least relevant first; label i counts i."""
        return self.labels or tuple(str(value) for value in range(self.scale + 1))


class CallOptions(TypedDict, total=False):
    """Options of a single call, as for `Ranker.rank`; None for those of the configuration."""

    top_n: int | None
    min_relevance: float | None
    deadline: float | None
    instruction: str | None


def explain(error: ValidationError, model: type[BaseModel] = RankerConfig) -> str:
    """Say what is wrong with the values for a model, one sentence for all."""
    problems = []
    for detail in error.errors(include_url=False):
        names: list[str] = []
        owner = model
        for part in detail["loc"]:
            if isinstance(part, int):  # the place in a list of tables
                names[-1] += f" {part + 1}"
                continue
            names.append(part[:100])
            field = owner.model_fields.get(part)
            kind = field.annotation if field else None
            kind = next(iter(get_args(kind)), kind)
            if not isinstance(kind, type) or not issubclass(kind, BaseModel):
                break
            owner = kind
        name = ".".join(names)
        if detail["type"] == "extra_forbidden":
            close = difflib.get_close_matches(names[-1], owner.model_fields, n=1)
            meant = ".".join([*names[:-1], *close])
            hint = f"did you mean {meant!r}?" if close else f"see {model.__name__} for all options"
            problems.append(f"there is no option {name!r}; {hint}")
        elif detail["type"] == "missing":
            problems.append(f"the key {name!r} is missing; add it")
        else:
            problems.append(fault(detail, name))
    return "; ".join(problems)
