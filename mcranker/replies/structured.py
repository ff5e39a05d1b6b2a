"""Typed questions as one prompt, for models that answer in text: one JSON object for all."""

from __future__ import annotations

from collections.abc import Sequence

from mcranker.llm.chat import Answer, Question, ReplySchema, State
from mcranker.llm.typed_answers import missing
from mcranker.replies.read import read_named_integers
from mcranker.replies.schemas import named_integers_schema
from personas import PromptSet
from personas.templates import Turn
from personas.untrusted import fence


def questions_as_prompt(
    questions: Sequence[Question], state: State, prompts: PromptSet
) -> tuple[tuple[Turn, ...], ReplySchema]:
    """Return the prompt with the questions in words, and the form of the reply."""
    listed = "\n".join(f"{question.name}: {question.text}" for question in questions)
    passages = "\n\n".join(
        f"{name}:\n{fence(text, query=state.query)}" for name, text in state.passages.items()
    )
    judges = "\n\n".join(f"{name}: {words}" for name, words in state.judges.items())
    turns = prompts["typed_reply"].render(
        {
            "query": state.query,
            "passages": passages,
            "judges": judges or "(each question says who judges)",
            "questions": listed,
            "levels": _levels(questions[0]),
            "task": "\n\n".join(turn.text for turn in prompts["typed_task"].render({})),
        }
    )
    return turns, named_integers_schema({each.name: _top(each) for each in questions})


def read_answers(text: str, questions: Sequence[Question]) -> tuple[Answer, ...]:
    """The answer to each question; one that is missing or off its levels has a problem instead."""
    found = read_named_integers(text, {each.name: _top(each) for each in questions})
    return tuple(
        missing(value) if isinstance(value, str) else Answer(_value(value, question))
        for value, question in zip(found, questions, strict=True)
    )


def _top(question: Question) -> int:
    """The highest number that answers it."""
    return 1 if question.kind == "yes_no" else len(question.levels) - 1


def _value(place: int, question: Question) -> float:
    top = 1 if question.kind == "yes_no" else question.top
    return place * top / _top(question)


def _levels(question: Question) -> str:
    if question.kind == "yes_no":
        return "1 for yes, 0 for no"
    described = [
        f"{place} for {option.description or option.name!r}"
        for place, option in enumerate(question.levels)
        if option.description or option.name != str(place)
    ]
    return f"0 to {_top(question)}{', ' if described else ''}{', '.join(described)}"
