"""A team of personas as the judge of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beir_eval.answers.judges.base import Answered, Judgement
from personas.ranking.types import Passage, Query

if TYPE_CHECKING:
    from mcranker.rankers import Ranker
    from personas.ranking.usage import UsageTable

INSTRUCTION = "The passage is an answer to the query: judge whether it is right and complete."
"""Option of the `MCRanker` that judges."""


async def team(answered: Answered, ranker: Ranker, *, usage: UsageTable | None = None) -> Judgement:
    """Return the relevance, 0 to 1, that a team gives the answer as its question's only passage.

    The team is recruited for the question and writes criteria for it, as `mcranker.MCRanker` does.
    It sees the first golden answer, if there is one. `Judgement.parts` has each persona's score.
    `usage` counts the calls.
    """
    ranking = await ranker.arank(*as_ranking(answered))
    if usage is not None:
        usage.add_all(ranking.calls)
    (hit,) = ranking.hits
    parts = dict(hit.scores)
    if hit.relevance is None:
        reasons = [each.reason for each in ranking.missing]
        return Judgement(None, reasons[0] if reasons else ranking.failure, parts=parts)
    return Judgement(hit.relevance, parts=parts)


def as_ranking(answered: Answered) -> tuple[Query, list[Passage]]:
    """Return the query and the passage that an answer is to a team."""
    question = answered.question
    text = question.query.conversation
    if question.golden_answers:
        text += f"\n\nA right answer: {question.golden_answers[0]}"
    return Query(text, question.id), [Passage("answer", answered.text or "(no text)")]
