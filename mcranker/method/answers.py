"""The three ways to score: what is asked, and how the reply becomes a `Score`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mcranker.config import RankerConfig
from mcranker.llm.chat import ChatReply, ReplySchema
from mcranker.replies.read import Unreadable, read_criterion_scores, read_score
from mcranker.replies.schemas import criterion_scores_schema, integer_schema
from mcranker.types import Score
from personas import PromptSet, Rubric
from personas.templates import Turn

__all__ = ["Answer", "expected_value", "weighted_mean"]


class Answer:
    """How one rater answers: instruction, reply form, and reading it.

    Args:
        config: says the scoring mode, the scale and the labels.
        prompts: where the instruction's wording comes from.
        rubric: needed for ``per_criterion``.
    """

    def __init__(self, config: RankerConfig, prompts: PromptSet, rubric: Rubric | None) -> None:
        self._config = config
        self._rubric = rubric
        self.labels: tuple[str, ...] = ()
        self.schema: ReplySchema | None = None
        turns: tuple[Turn, ...]
        if config.scoring == "expected":
            self.labels = config.all_labels
            turns = prompts["answer_label"].render({"labels": ", ".join(self.labels)})
        elif config.scoring == "per_criterion" and rubric is not None:
            count = len(rubric.criteria)
            self.schema = criterion_scores_schema(count, config.scale)
            turns = prompts["answer_per_criterion"].render(
                {"k": str(config.scale), "criteria_count": str(count)}
            )
        else:
            self.schema = integer_schema("Score", config.scale)
            turns = prompts["answer_integer"].render({"k": str(config.scale)})
        self.instruction = next((turn.text for turn in turns if turn.role != "assistant"), "")
        self.prefill = next((turn.text for turn in turns if turn.role == "assistant"), "")

    def read(self, reply: ChatReply) -> Score:
        """The reply as a score.

        Raises:
            Unreadable: it is not of the form that was asked for.
        """
        if self.labels:
            return Score(expected_value(reply.label_logprobs or {}, self.labels))
        if self._config.scoring == "per_criterion" and self._rubric is not None:
            each = read_criterion_scores(
                reply.text, count=len(self._rubric.criteria), top=self._config.scale
            )
            weights = [criterion.weight for criterion in self._rubric.criteria]
            return Score(weighted_mean(each, weights), criteria=tuple(map(float, each)))
        cut = reply.finish_reason == "length"
        return Score(float(read_score(reply.text, key="Score", top=self._config.scale, cut=cut)))


def expected_value(logprobs: Mapping[str, float], labels: Sequence[str]) -> float:
    """Sum over the labels of p(label) · place, places from 0, p normalised over the labels.

    A label that the provider did not list, or whose number is none, counts as impossible.

    Raises:
        Unreadable: none of the labels is listed.
    """
    known = {label: logprobs[label] for label in labels if logprobs.get(label, math.inf) < math.inf}
    peak = max(known.values(), default=-math.inf)
    if peak == -math.inf:
        raise Unreadable(f"none of the labels {', '.join(labels)} is among the likely answers.")
    masses = [math.exp(known[label] - peak) if label in known else 0.0 for label in labels]
    expected = math.fsum(place * mass for place, mass in enumerate(masses)) / math.fsum(masses)
    # Rounding must not carry it off the scale.
    return min(expected, float(len(labels) - 1))


def weighted_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    """The mean of the scores by weights that sum to 100, never outside the scores' range."""
    mean = math.fsum(score * weight for score, weight in zip(scores, weights, strict=True)) / 100
    # Weights sum to 100 but for rounding, which must not carry the mean off the scale.
    return min(max(mean, min(scores)), max(scores))
