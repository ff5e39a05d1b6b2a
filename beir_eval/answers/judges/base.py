"""An answer to be judged, and the interface of all judges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beir_eval.answers.questions import Question
from mcranker.errors import FATAL_ERRORS, BudgetExceeded, ModelError
from mcranker.rag.record import Citation
from personas.sanitize import plain

LONGEST_WHY = 1_000  # characters


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
        models: that wrote it; empty if not known.
    """

    question: Question
    text: str
    abstained: bool = False
    failure: str = ""
    passages: tuple[str, ...] | None = None
    retrieved: tuple[str, ...] | None = None
    citations: tuple[Citation, ...] | None = None
    models: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's value for one answer.

    Attributes:
        value: on the judge's scale; None if it is missing or undefined. An answer that failed has
            the lowest.
        why: why there is no value, or no answer; else empty.
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


def failed(scale: tuple[float, float], why: str) -> Judgement:
    """The judgement of an answer that is not there: the lowest value."""
    return Judgement(scale[0], plain(f"there is no answer: {why}", LONGEST_WHY))


@dataclass(frozen=True, slots=True)
class AnswerJudge:
    """A judge; `dataclasses.replace` gives it what it asks.

    Attributes:
        find: gives the judgement of an answer that has what is needed; takes `by` too, if any.
        needs: of an answer: "golden_answers", "passages", "retrieved", "citations".
        scale: lowest and highest value.
        asks: True if it asks a model.
        by: an `Asking`, or the `MCRanker` of a team; None for a judge that asks nothing.
        asked_model: the name of the model that it asks; empty if it asks none.
    """

    find: Callable[..., Awaitable[Judgement]]
    needs: Sequence[str] = ()
    scale: tuple[float, float] = (0.0, 1.0)
    asks: bool = False
    by: Any = None
    asked_model: str = ""

    async def judge(self, answered: Answered) -> Judgement:
        """Return the judgement; a reply that cannot be read is a missing value with its reason.

        Raises:
            ModelError, LedgerError: one that all answers would meet, such as a wrong key.
        """
        if answered.failure:
            return failed(self.scale, answered.failure)
        if lack := self.lack(answered):
            return Judgement(None, f"it has no {lack}", undefined=True)
        try:
            return await self.find(answered, *([] if self.by is None else [self.by]))
        except FATAL_ERRORS:
            raise
        except (ModelError, BudgetExceeded) as error:
            return Judgement(None, plain(str(error), LONGEST_WHY))

    def lack(self, answered: Answered) -> str:
        """Return what the judge needs and the answer has not; empty if it has everything."""
        golden = answered.question.golden_answers or None
        for need in self.needs:
            if (golden if need == "golden_answers" else getattr(answered, need)) is None:
                return need.replace("_", " ").replace("retrieved", "passages")
        return ""
