"""From replies to scores: integers, expectations over labels, and weighted means."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.config import NO_YES, RankerConfig
from mcranker.llm.chat import ChatReply
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.orders import likeliest
from mcranker.replies.scoring import Scoring, expected_value, weighted_mean
from personas import Criterion, PromptSet, Rubric
from personas.ranking.types import Score

PAPER = PromptSet.load("paper")
RUBRIC = Rubric(
    criteria=(
        Criterion(name="On topic", weight=50),
        Criterion(name="Recent", weight=30),
        Criterion(name="Clear", weight=20),
    )
)


def scoring(config: RankerConfig, prompts: PromptSet, rubric: Rubric | None) -> Scoring:
    return config.scoring_class(config, prompts, rubric)


def _log(**probabilities: float) -> dict[str, float]:
    return {label: math.log(value) for label, value in probabilities.items()}


THREE = ("low", "middle", "high")


@pytest.mark.parametrize(
    ("logprobs", "labels", "expected"),
    [
        # 0 * 0.2 + 1 * 0.3 + 2 * 0.5
        (_log(low=0.2, middle=0.3, high=0.5), THREE, 1.3),
        # listed: 0.1 and 0.3; normalised 0.25 and 0.75; 0 * 0.25 + 2 * 0.75
        (_log(low=0.1, high=0.3, other=0.6), THREE, 1.5),
        (_log(high=0.011), THREE, 2),
        (_log(low=0.011), THREE, 0),
        ({"No": math.nan, "Yes": -1.0}, NO_YES, 1),
        ({"No": -1.0, "Yes": -math.inf}, NO_YES, 0),
    ],
)
def test_an_expectation(
    logprobs: dict[str, float], labels: tuple[str, ...], expected: float
) -> None:
    assert expected_value(logprobs, labels) == pytest.approx(expected)


@pytest.mark.parametrize(
    "logprobs",
    [
        *({}, {"other": -0.1}, {"Yes": -math.inf}, {"Yes": math.nan}, {"Yes": math.inf}),
        # 0.004 + 0.005 is below 0.01; what is left to labels in the tail is noise
        *({"yes": -0.1}, _log(No=0.004, Yes=0.005), {"No": -12.0, "Yes": -18.0}),
    ],
)
def test_no_label_at_all_is_unreadable(logprobs: dict[str, float]) -> None:
    with pytest.raises(Unreadable, match="none of the labels No, Yes is among the likely answers"):
        expected_value(logprobs, NO_YES)
    with pytest.raises(Unreadable):
        likeliest(logprobs, NO_YES)


@given(st.dictionaries(st.sampled_from("abcdefghijk"), st.floats(-1e6, 0), min_size=1))
def test_an_expectation_is_on_the_scale(logprobs: dict[str, float]) -> None:
    assert 0 <= expected_value({**logprobs, "d": -1.0}, tuple("abcdefghijk")) <= 10


def test_an_integer_answer() -> None:
    answer = scoring(RankerConfig(scale=20), PAPER, RUBRIC)
    assert answer.read(ChatReply('{"Score": 17}')) == Score(17.0)
    assert type(answer.read(ChatReply('{"Score": 17}')).value) is float
    assert "20" in answer.instruction
    assert answer.labels == ()
    with pytest.raises(Unreadable, match="21 is not an integer from 0 to 20"):
        answer.read(ChatReply('{"Score": 21}'))


def test_a_bare_integer_that_was_cut_is_unreadable() -> None:
    answer = scoring(RankerConfig(), PAPER, None)
    assert answer.read(ChatReply("1")) == Score(1.0)
    with pytest.raises(Unreadable, match="cut"):
        answer.read(ChatReply("1", finish_reason="length"))


def test_a_label_answer() -> None:
    answer = scoring(RankerConfig(scoring="expected", labels=NO_YES), PAPER, RUBRIC)
    assert answer.labels == ("No", "Yes")
    assert answer.schema is None
    assert "No, Yes" in answer.instruction
    assert answer.prefill == ""
    score = answer.read(ChatReply("Yes", label_logprobs=_log(No=0.4, Yes=0.6)))
    assert score.value == pytest.approx(0.6)
    with pytest.raises(Unreadable):
        answer.read(ChatReply("Yes"))


def test_an_answer_for_each_criterion() -> None:
    answer = scoring(RankerConfig(scoring="per_criterion"), PAPER, RUBRIC)
    score = answer.read(ChatReply('{"Scores": {"1": 10, "2": 5, "3": 0}}'))
    # 10 * 50% + 5 * 30% + 0 * 20%
    assert score == Score(6.5, criteria=(10.0, 5.0, 0.0))
    assert "3" in answer.instruction
    with pytest.raises(Unreadable, match='"Scores" must hold 3 integers'):
        answer.read(ChatReply('{"Scores": {"1": 10, "2": 5}}'))


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10)), min_size=1, max_size=8))
def test_a_weighted_mean_is_between_its_scores(pairs: list[tuple[int, int]]) -> None:
    criteria = [
        Criterion(name=str(number), weight=weight) for number, (weight, _) in enumerate(pairs)
    ]
    answer = scoring(RankerConfig(scoring="per_criterion"), PAPER, Rubric(criteria=tuple(criteria)))
    scores = [score for _, score in pairs]
    value = answer.read(ChatReply(json.dumps({"Scores": scores}))).value
    assert value is not None
    assert min(scores) <= value <= max(scores)
    total = sum(weight for weight, _ in pairs)
    assert value == pytest.approx(sum(weight * score for weight, score in pairs) / total)


def test_means_that_are_equal_on_paper_are_equal() -> None:
    # 33.3 x 7 + 33.3 x 3 + 33.4 x 5 = 500 = 33.3 x 5 + 33.3 x 5 + 33.4 x 5, as decimals.
    weights = [33.3, 33.3, 33.4]
    assert weighted_mean([7, 3, 5], weights) == weighted_mean([5, 5, 5], weights) == 5.0
    # 10.1 + 20.2 = 30.3: first and second criterion together weigh as much as the third.
    weights = [10.1, 20.2, 30.3, 39.4]
    assert weighted_mean([4, 4, 0, 1], weights) == weighted_mean([0, 0, 4, 1], weights)


def test_a_mean_stays_within_the_scores() -> None:
    for weights in ([33.3, 33.3, 33.4], [100 / 3] * 3, [100 / 7] * 7):
        assert weighted_mean([7] * len(weights), weights) == 7
