"""Typed questions, checked and read the same way for every provider; pure functions.

An answer that is not of its question's type, or whose numbers cannot be, has no value but a
problem that says which: it is never a number. What remains is one score missing, not all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcranker.errors import RequestRejected
from mcranker.llm.chat import Answer, Capabilities, ChatRequest, Question

DECLINED = "declined"
"""`Answer.problem` of a question that the model refuses to answer."""

ROUNDED = 0.01  # a probability may be above 1 by as much
SUM_ROUNDED = 0.02  # probabilities may sum to as much less or more than 1


class OddAnswer(ValueError):
    """An answer is not what its question allows."""


def check_limits(request: ChatRequest, limits: Capabilities, model: str) -> None:
    """Refuse requests that the service would refuse, before sending them."""

    def check(what: str, count: int, most: int | None) -> None:
        if most is not None and count > most:
            raise RequestRejected(
                f"{model}: {what}: {count}, and {most} is the limit; ask less at once", model=model
            )

    check("questions of a request", len(request.questions), limits.max_questions)
    for question in request.questions:
        if question.kind == "score":
            what = f"levels of question {question.name!r}"
            check(what, len(question.levels), limits.max_levels)
        elif question.kind == "choice":
            what = f"options of question {question.name!r}"
            check(what, len(question.options), limits.max_choices)


def missing(problem: str) -> Answer:
    """Return a missing answer."""
    return Answer(None, problem=problem)


def read_answer(answer: Any, kind: str, read: Callable[[Mapping[str, Any]], Answer]) -> Answer:
    """Return the answer that `read` finds in an object of this type, or one with its problem."""
    try:
        if not isinstance(answer, dict) or answer.get("type") != kind:
            raise OddAnswer(f"it is no {kind!r}, which was asked for")
        return read(answer)
    except OddAnswer as problem:
        return missing(f"odd answer: {problem}")


def yes_no(question: Question, p: Any, confidence: Any = None) -> Answer:
    """Return the answer yes with probability `p`."""
    assert question.kind == "yes_no"
    yes = _probability(p, "its probability")
    return Answer(yes, _confidence(confidence), (1 - yes, yes))


def level_score(
    question: Question, score: Any, probabilities: Mapping[Any, Any] | None, confidence: Any
) -> Answer:
    """The mean level, on the question's scale from 0 to its top."""
    last = len(question.levels) - 1
    if probabilities:
        masses = _distribution(probabilities, range(last + 1))
        # Rounding must not carry it off the levels.
        place = min(math.fsum(p * each for each, p in enumerate(masses)), float(last))
        return Answer(place * question.top / last, _confidence(confidence), masses)
    level = finite_number(score)
    if level is None or not 0 <= level <= last:
        raise OddAnswer(f"its score {shown_value(score)} is not on the levels 0 to {last}")
    return Answer(level * question.top / last, _confidence(confidence))


def choice(
    question: Question, chosen: Any, probabilities: Mapping[Any, Any] | None, confidence: Any
) -> Answer:
    """The place of the option that is chosen, and the probability of each."""
    names = [option.name for option in question.options]
    if not isinstance(chosen, str) or chosen not in names:
        raise OddAnswer(f"its choice {shown_value(chosen)} is none of the {len(names)} options")
    masses = _distribution(probabilities, names) if probabilities else None
    return Answer(float(names.index(chosen)), _confidence(confidence), masses)


def finite_number(value: Any) -> float | None:
    """Return the number in an answer; None if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer that no float can hold
        return None


def whole_number(value: Any) -> int | None:
    """Return the integer in an answer, also as ``"2"`` or ``2.0``; None if it is none."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    return int(value) if whole else None


def shown_value(value: Any) -> str:
    """Return a value of an answer as a short text for a message."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    text = ascii(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:59]}…"


def _distribution(listed: Mapping[Any, Any], keys: Sequence[Any]) -> tuple[float, ...]:
    """The probability of each key; they sum to 1."""
    odd = next((key for key in listed if key not in keys), None)
    if odd is not None:
        raise OddAnswer(f"it gives a probability to {shown_value(odd)}, which was not asked about")
    masses = [
        _probability(listed.get(key, 0.0), f"the probability of {shown_value(key)}") for key in keys
    ]
    total = math.fsum(masses)
    if abs(total - 1) > SUM_ROUNDED:
        raise OddAnswer(f"its probabilities sum to {total:.4g}, not to 1")
    return tuple(mass / total for mass in masses)


def _confidence(value: Any) -> float | None:
    return None if value is None else _probability(value, "its confidence")


def _probability(value: Any, what: str) -> float:
    number = finite_number(value)
    if number is None or not 0 <= number <= 1 + ROUNDED:
        raise OddAnswer(f"{what} is {shown_value(value)}, not a number from 0 to 1")
    return min(number, 1.0)
