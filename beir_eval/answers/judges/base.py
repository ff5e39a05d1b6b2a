"""An answer to be judged, and the interface of all judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from beir_eval.answers.questions import Question
from mcranker.errors import BudgetExceeded, ModelError
from mcranker.rag.asking import Asking
from mcranker.rag.record import Citation
from mcranker.rankers.dispatch import FATAL_ERRORS
from personas.sanitize import plain

LONGEST_WHY = 1_000  # characters
LONGEST_CONTEXT = 200_000
"""Characters of the passages that a judge is shown."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, from a pipeline or from anything else.

    Attributes:
        question: with its golden answers.
        text: the answer.
        abstained: True if it says that it does not know.
        failure: why there is no answer; empty if there is one.
        passages: texts that the writer saw, best first; None if they are not known.
        retrieved: texts that were found, best first, whether the writer saw them or not; None if
            not known.
        citations: checked ones; None if the answer makes none by its form.
    """

    question: Question
    text: str
    abstained: bool = False
    failure: str = ""
    passages: tuple[str, ...] | None = None
    retrieved: tuple[str, ...] | None = None
    citations: tuple[Citation, ...] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's value for one answer.

    Attributes:
        value: on the judge's scale; None if it is missing or undefined.
        why: why there is no value; empty if there is one.
        undefined: True if the judge has no value for such an answer, and would have none if it was
            asked again, e.g. the precision of no passages.
        notes: what the judge wrote.
        parts: finer values, e.g. one for each passage.
    """

    value: float | None
    why: str = ""
    undefined: bool = False
    notes: str = ""
    parts: Mapping[str, Any] = field(default_factory=dict)


class AnswerJudge:
    """A judge; subclasses implement `_judge`.

    Attributes:
        name: in reports and files.
        scale: lowest and highest value.
        asks: True if it asks a model.
        needs: what an answer must have: "golden_answers", "passages", "retrieved", "citations".
    """

    name: ClassVar[str]
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    asks: ClassVar[bool] = False
    needs: ClassVar[Sequence[str]] = ()

    def __init__(self, asking: Asking | None = None) -> None:
        self.asking = asking

    async def judge(self, answered: Answered) -> Judgement:
        """Return the judgement; a reply that cannot be read is a missing value with its reason.

        Raises:
            ModelError, LedgerError: one that all answers would meet, such as a wrong key.
        """
        if answered.failure:
            return Judgement(None, f"there is no answer: {answered.failure}", undefined=True)
        for need in self.needs:
            there = getattr(answered.question if need == "golden_answers" else answered, need)
            if there is None or (need == "golden_answers" and not there):
                return Judgement(None, f"it has no {need.replace('_', ' ')}", undefined=True)
        try:
            return await self._judge(answered)
        except FATAL_ERRORS:
            raise
        except (ModelError, BudgetExceeded) as error:
            return Judgement(None, plain(str(error), LONGEST_WHY))

    async def _judge(self, answered: Answered) -> Judgement:
        raise NotImplementedError

    @property
    def asked_model(self) -> str:
        """The name of the model that it asks; empty if it asks none."""
        return "" if self.asking is None else self.asking.model.name

    def _texts(self, answered: Answered, *names: str) -> dict[str, str]:
        """The question, and of an answer those that are named, between markers."""
        question, prompts = answered.question.text, self._asked().prompts
        texts = {
            "response": answered.text,
            "reference": "\n\n".join(answered.question.golden_answers),
            "context": "\n\n".join(answered.passages or ())[:LONGEST_CONTEXT],
        }
        shown = {name: prompts.passage(texts[name], query=question) for name in names}
        return {"question": question, **shown}

    def _asked(self) -> Asking:
        assert self.asking is not None, "a judge that asks is made with a model"
        return self.asking
