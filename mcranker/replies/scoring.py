"""Scoring schemes: the form of a judge's reply, and its conversion to a `Score`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Protocol

from mcranker.errors import ConfigError
from mcranker.llm.chat import Capabilities, ChatReply, ReplySchema
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_criterion_scores, read_score
from mcranker.replies.schemas import criterion_scores_schema, integer_schema
from personas import PromptSet, Rubric
from personas.ranking.types import Score
from personas.registry import Registry
from personas.untrusted import Own

TYPED_SCORINGS = ("integer", "expected", "per_criterion")
"""The schemes that answers to typed questions serve, see `mcranker.method.batch_judge`."""

LEAST_MASS = 0.01
"""Probability that all labels of an answer have together, at least; what has less is missing."""


class ScaleOptions(Protocol):
    """The fields of `mcranker.RankerConfig` that a scheme reads."""

    @property
    def scale(self) -> int: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def all_labels(self) -> tuple[str, ...]: ...


class Scoring(ABC):
    """Answer format of one judge; see ``docs/extending.md`` for writing your own.

    Args:
        config: the ranker's choices.
        prompts: the wording of the built-in schemes.
        rubric: the judge's criteria, if there are any.

    Attributes:
        instruction: says in the prompt what to answer; replaces its ``{answer}``.
        prefill: the beginning of the reply, for models that take one.
        schema: form of the reply; None for free text, which an estimate takes to be short.
        labels: texts of which the reply is one, and whose probabilities are wanted.
        continuation: a text that is taken for the reply, and of whose tokens they are.
    """

    needs_rubric: ClassVar[bool] = False
    """True if it scores by the criteria themselves, and so needs them."""

    uses_labels: ClassVar[bool] = False
    """True if it takes the option ``labels``."""

    instruction: str
    prefill: str = ""
    schema: ReplySchema | None = None
    labels: tuple[str, ...] = ()
    continuation: str = ""

    def __init__(self, config: ScaleOptions, prompts: PromptSet, rubric: Rubric | None) -> None:
        self.config = config
        self.rubric = rubric

    @abstractmethod
    def read(self, reply: ChatReply) -> Score:
        """Return the score in a reply, from 0 to `top`; `Unreadable` if it has another form."""

    @classmethod
    def top(cls, config: ScaleOptions) -> float:
        """The highest score that one judge can give."""
        return len(config.labels) - 1 if config.labels else config.scale

    @classmethod
    def lack(cls, capabilities: Capabilities) -> str:
        """Return the required feature that a model lacks, as "gives no ..."; empty if none."""
        return ""

    def _take(self, prompts: PromptSet, name: str, **values: str) -> None:
        texts: dict[bool, str] = {}
        for turn in prompts[name].render(values):
            texts.setdefault(turn.role == "assistant", turn.text)
        self.instruction, self.prefill = texts.get(False, ""), texts.get(True, "")


class IntegerScoring(Scoring):
    """One integer a passage, 0 to k (the paper's)."""

    def __init__(self, config: ScaleOptions, prompts: PromptSet, rubric: Rubric | None) -> None:
        super().__init__(config, prompts, rubric)
        levels = levels_in_words(described_levels(prompts, config.scale))
        self._take(prompts, "answer_integer", k=str(config.scale), levels=levels)
        self.schema = integer_schema("Score", config.scale)

    def read(self, reply: ChatReply) -> Score:
        cut = reply.finish_reason == "length"
        return Score(float(read_score(reply.text, key="Score", top=self.config.scale, cut=cut)))


class ExpectedScoring(Scoring):
    """The expectation over the labels' probabilities."""

    uses_labels = True

    def __init__(self, config: ScaleOptions, prompts: PromptSet, rubric: Rubric | None) -> None:
        super().__init__(config, prompts, rubric)
        self.labels = config.all_labels
        self._take(prompts, "answer_label", labels=Own(", ".join(self.labels)))

    def read(self, reply: ChatReply) -> Score:
        return Score(expected_value(reply.label_logprobs, self.labels))

    @classmethod
    def lack(cls, capabilities: Capabilities) -> str:
        return "" if capabilities.label_logprobs else "gives no log-probabilities"


class PeakScoring(ExpectedScoring):
    """The probability of the highest label, times its place."""

    def read(self, reply: ChatReply) -> Score:
        masses = label_masses(reply.label_logprobs, self.labels)
        return Score(masses[-1] * (len(self.labels) - 1))


class CriterionScoring(Scoring):
    """One integer a criterion, combined by the weights."""

    needs_rubric = True

    def __init__(self, config: ScaleOptions, prompts: PromptSet, rubric: Rubric | None) -> None:
        super().__init__(config, prompts, rubric)
        assert rubric is not None, "needs_rubric"
        self._weights = [criterion.weight for criterion in rubric.criteria]
        count = len(self._weights)
        self._take(prompts, "answer_per_criterion", k=str(config.scale), criteria_count=str(count))
        self.schema = criterion_scores_schema(count, config.scale)

    def read(self, reply: ChatReply) -> Score:
        each = read_criterion_scores(reply.text, count=len(self._weights), top=self.config.scale)
        return Score(weighted_mean(each, self._weights), criteria=tuple(map(float, each)))


SCORINGS: Registry[type[Scoring]] = Registry(
    "scoring",
    "mcranker.scorings",
    {
        "integer": "mcranker.replies.scoring:IntegerScoring",
        "expected": "mcranker.replies.scoring:ExpectedScoring",
        "peak": "mcranker.replies.scoring:PeakScoring",
        "per_criterion": "mcranker.replies.scoring:CriterionScoring",
    },
    ConfigError,
    lambda found: isinstance(found, type) and issubclass(found, Scoring),
)
"""Every scheme's class, by name."""


def described_levels(prompts: PromptSet, top: int) -> dict[int, str]:
    """The levels of the prompt ``typed_levels`` and their places, spread evenly over 0 to `top`."""
    turns = prompts["typed_levels"].render({})
    described = "\n".join(turn.text for turn in turns).splitlines()
    last = max(1, len(described) - 1)
    places = {round(place * top / last): text for place, text in enumerate(described)}
    return {**places, 0: described[0]}


def levels_in_words(levels: Mapping[int, str]) -> Own:
    """The levels for a prompt, one a line."""
    return Own("\n".join(f"{place}: {text}" for place, text in levels.items()))


def label_masses(logprobs: Mapping[str, float] | None, labels: Sequence[str]) -> list[float]:
    """Return the probability of each label, 0 if it is not listed."""
    known = [(logprobs or {}).get(label, -math.inf) for label in labels]
    # NaN is below nothing.
    masses = [math.exp(min(each, 0.0)) if each < math.inf else 0.0 for each in known]
    if (total := math.fsum(masses)) < LEAST_MASS:
        raise Unreadable(
            f"none of the labels {', '.join(labels)} is among the likely answers: they have "
            f"{total:.2g} of the probability together, and {LEAST_MASS} is the least."
        )
    return masses


def expected_value(logprobs: Mapping[str, float] | None, labels: Sequence[str]) -> float:
    """Return the sum of p(label) · place, places from 0, p normalised over the labels."""
    masses = label_masses(logprobs, labels)
    expected = math.fsum(place * mass for place, mass in enumerate(masses)) / math.fsum(masses)
    # Rounding must not carry it off the scale.
    return min(expected, float(len(labels) - 1))


def weighted_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    """The mean of the scores by weights that sum to 100, never outside the scores' range."""
    # As decimals, and rounded once: what is equal on paper is equal here.
    exact = [[Fraction(repr(float(each))) for each in numbers] for numbers in (scores, weights)]
    mean = float(sum(score * weight for score, weight in zip(*exact, strict=True)) / 100)
    # Weights sum to 100 but for rounding, which must not carry the mean off the scale.
    return min(max(mean, min(scores)), max(scores))
