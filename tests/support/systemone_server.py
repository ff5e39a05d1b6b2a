"""What a System One service does with a request: validates every field, refuses, or answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from typesafe_sdk._schemas.models import HTTPValidationError, SystemOneRequest, SystemOneResponse

from tests.support.loopback import Answer, Body, Reply

MOST_LEVELS, MOST_CHOICES, MOST_QUESTIONS = 10, 255, 64

Judgement = Callable[[str, Body], float]
"""Name and body of a question -> probability of yes, or of the last level or option."""


def service(judge: Judgement = lambda name, question: 0.5) -> Callable[[Body], Reply]:
    """A service that answers as told; what the published types do not allow is refused."""

    def answer(body: Body) -> Reply:
        problems = refusals(body)
        if problems:
            detail = HTTPValidationError.model_validate({"detail": problems})
            return Answer(422, detail.model_dump(mode="json", exclude_unset=True))
        answers = {
            name: answered(question, judge(name, question))
            for name, question in body["questions"].items()
        }
        return response(body["model"], answers)

    return answer


def response(model: str, answers: Body) -> Body:
    """A reply, checked against the published types."""
    usage = {"input_tokens": 120, "output_tokens": len(answers)}
    reply = {"model": model, "answers": answers, "usage": usage}
    SystemOneResponse.model_validate(reply)
    return reply


def answered(question: Body, p: float) -> Body:
    """An answer of the question's type: all mass on the first and the last level or option."""
    if question["type"] == "noul":
        return {"type": "noul", "noul": p}
    if question["type"] == "choice":
        names = list(question["criteria"])
        listed = dict.fromkeys(names, 0.0) | {names[0]: 1 - p, names[-1]: p}
        chosen = max(names, key=lambda name: listed[name])
        return {"type": "choice", "choice": chosen, "confidence": 0.9, "probabilities": listed}
    levels = question["criteria"]
    last = len(levels) - 1
    probabilities = {str(place): 0.0 for place in range(len(levels))}
    probabilities |= {"0": 1 - p, str(last): p}
    return {
        "type": "score",
        "score": p * last,
        "confidence": 0.9,
        "legend": {str(place): text for place, text in enumerate(levels)},
        "probabilities": probabilities,
    }


def refusals(body: Any) -> list[Body]:
    """Why the service would refuse a request, as its 422 has it; empty if it would not."""
    try:
        request = SystemOneRequest.model_validate(body, strict=True)
    except ValidationError as error:
        return [
            {"loc": ["body", *map(str, each["loc"])], "msg": each["msg"], "type": each["type"]}
            for each in error.errors(include_url=False)
        ]
    problems = []

    def refuse(loc: list[str | int], msg: str) -> None:
        problems.append({"loc": ["body", *loc], "msg": msg, "type": "value_error"})

    # Fields that the types do not know were left out of what was read.
    if request.model_dump(mode="json", exclude_unset=True) != body:
        refuse([], "there are unknown fields")
    if len(body["questions"]) > MOST_QUESTIONS:
        refuse(["questions"], f"at most {MOST_QUESTIONS} questions")
    for name, question in body["questions"].items():
        criteria = question.get("criteria") or ()
        if question["type"] == "score" and not 2 <= len(criteria) <= MOST_LEVELS:
            refuse(["questions", name, "criteria"], f"2 to {MOST_LEVELS} levels")
        if question["type"] == "choice" and not 2 <= len(criteria) <= MOST_CHOICES:
            refuse(["questions", name, "criteria"], f"2 to {MOST_CHOICES} choices")
    return problems
