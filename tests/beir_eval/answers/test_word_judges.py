"""Judges that ask no model, against SQuAD's own rules and numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from beir_eval.answers.judges import Answered, Judgement, judge_of, normalised, token_f1
from beir_eval.answers.questions import Question
from mcranker.rag.result import Citation


def answered(text: str, *golden: str, **values: Any) -> Answered:
    return Answered(Question("q", "Who?", golden), text, **values)


async def judged(name: str, answer: Answered) -> Judgement:
    return await judge_of(name).judge(answer)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("The Denver Broncos!", "denver broncos"),
        ("  an  apple,\ta pear ", "apple pear"),
        ("A.N. Other", "other"),  # punctuation goes first, and leaves the article "an"
        ("theatre", "theatre"),
        ("2,000", "2000"),
        ("the", ""),
    ],
)
def test_texts_are_normalised_as_squad_does(text: str, left: str) -> None:
    assert normalised(text) == left


@pytest.mark.parametrize(
    ("said", "golden", "f1"),
    [
        ("the cat sat", "a cat sat", 1.0),
        ("cat sat down here", "cat sat", 2 * 0.5 * 1 / 1.5),  # precision 2/4, recall 2/2
        ("cat cat", "cat", 2 * 0.5 * 1 / 1.5),  # each word counts as often as in both
        ("dog", "cat", 0.0),
        ("the", "", 1.0),  # neither has a word left
        ("cat", "", 0.0),
    ],
)
def test_f1_counts_words(said: str, golden: str, f1: float) -> None:
    assert token_f1(said, golden) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("name", "value"), [("exact_match", 0), ("f1", 2 * 0.5 / 1.5), ("accuracy", 1)]
)
async def test_the_best_golden_answer_counts(name: str, value: float) -> None:
    # Against "Broncos": precision 1/2, recall 1.
    answer = answered("the Denver Broncos", "Carolina", "Broncos")
    assert (await judged(name, answer)).value == pytest.approx(value)
    assert (await judged(name, answered("Broncos.", "Carolina", "Broncos"))).value == 1


async def test_accuracy_is_by_whole_words() -> None:
    assert (await judged("accuracy", answered("a concatenation", "cat"))).value == 0
    assert (await judged("accuracy", answered("a cat.", "cat"))).value == 1


async def test_recall_looks_at_the_first_passages() -> None:
    found = ("one", "two", "three", "four", "five", "it is six")
    answer = answered("?", "Six", retrieved=found)
    assert (await judged("answer_recall", answer)).value == 0  # the first 5
    assert (await judged("answer_recall@6", answer)).value == 1


def cited(*verdicts: tuple[str, Any]) -> tuple[Citation, ...]:
    return tuple(
        Citation(claim=claim, passage=1, quote="q", verdict=each) for claim, each in verdicts
    )


async def test_citations_are_counted_by_verdict_and_by_claim() -> None:
    citations = cited(("a", "found"), ("a", "invented"), ("b", "stitched"), ("c", "found"))
    answer = answered("?", citations=citations)
    precision = await judged("citation_precision", answer)
    assert (precision.value, precision.parts) == (0.5, {"found": 2, "invented": 1, "stitched": 1})
    assert (await judged("citation_recall", answer)).value == pytest.approx(2 / 3)  # not b


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("exact_match", answered("x"), "it has no golden answers"),
        ("answer_recall", answered("x", "x"), "it has no passages"),
        ("citation_precision", answered("x", citations=()), "it cites nothing"),
        ("citation_recall", answered("x"), "it has no citations"),
        *(
            (name, answered("x", citations=cited(("a", "found")), extract=True), "a writer chose")
            for name in ("citation_precision", "citation_recall")
        ),
        ("retrieval_precision", answered("x", passages=()), "no passage was left"),
    ],
)
async def test_without_what_it_needs_a_value_is_undefined_and_not_zero(
    name: str, answer: Answered, why: str
) -> None:
    found = await judged(name, answer) if name != "retrieval_precision" else await _unasked(answer)
    assert (found.value, found.undefined) == (None, True)
    assert why in found.why


async def test_an_answer_that_failed_has_the_lowest_value() -> None:
    found = await judged("f1", answered("", "x", failure="no model"))
    assert (found.value, found.undefined) == (0.0, False)
    assert found.why == "there is no answer: no model"


async def _unasked(answer: Answered) -> Judgement:
    from tests.beir_eval.answers.test_asked_judges import judge

    return await judge("retrieval_precision", []).judge(answer)
