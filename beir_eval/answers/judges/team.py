"""A team of personas as the judge of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from beir_eval.answers.judges.base import Answered, AnswerJudge, Judgement
from personas.ranking.types import Passage, Query

if TYPE_CHECKING:
    from mcranker.rankers import Ranker

INSTRUCTION = "The passage is an answer to the query: judge whether it is right and complete."
"""Option of the `MCRanker` that judges."""


class TeamJudge(AnswerJudge):
    """The relevance, 0 to 1, that a team gives the answer as the only passage of its question.

    The team is recruited for the question and writes criteria for it, as `mcranker.MCRanker` does.
    It sees the first golden answer, if there is one. `Judgement.parts` has each persona's score.

    Args:
        ranker: an `MCRanker`, closed by its maker.
    """

    name: ClassVar[str] = "team"
    asks: ClassVar[bool] = True

    def __init__(self, ranker: Ranker) -> None:
        super().__init__()
        self._ranker = ranker

    @property
    def asked_model(self) -> str:
        """The name of the model that scores."""
        return self._ranker.models.names["scoring"]

    async def _judge(self, answered: Answered) -> Judgement:
        question = answered.question
        text = question.text
        if question.golden_answers:
            text += f"\n\nA right answer: {question.golden_answers[0]}"
        ranking = await self._ranker.arank(
            Query(text, question.id), [Passage("answer", answered.text or "(no text)")]
        )
        (hit,) = ranking.hits
        parts = {
            name: None if score != score else float(score)
            for name, score in zip(ranking.personas, ranking.matrix.values[hit.row], strict=True)
        }
        if hit.relevance is None:
            reasons = [each.reason for each in ranking.missing]
            return Judgement(None, reasons[0] if reasons else ranking.failure, parts=parts)
        return Judgement(hit.relevance, parts=parts)
