"""The whole team in one call a passage, for models that answer many questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from mcranker.errors import ModelError
from mcranker.llm.chat import ChatReply, Question
from mcranker.method.answers import weighted_mean
from mcranker.method.judges import Desk, OnScore, ScoreTask, missing_score
from mcranker.replies.ask import Asker
from mcranker.replies.read import Unreadable
from mcranker.runtime.actor import Actor
from mcranker.types import Passage, Score
from personas import Criterion, Member

__all__ = ["Panel"]


class Panel(Actor[ScoreTask, None]):
    """All personas judge a passage together: one call asks for every criterion of each (Eq. 3).

    A persona's scores by criterion are combined by the weights of its rubric. Where one of them
    was refused, the persona's score is missing.

    Args:
        members: the team, each with its rubric.
        desk: what the agents share.
        rater: asks a model that answers as many questions at once as there are criteria.
        workers: how many passages are judged at once.
        on_scores: what is done with a score, for each of the members.
    """

    def __init__(
        self,
        members: Sequence[Member],
        desk: Desk,
        rater: Asker,
        *,
        workers: int,
        on_scores: Sequence[OnScore],
    ) -> None:
        super().__init__("panel", self._score, workers=workers)
        self._desk = desk
        self._rater = rater
        self._on_scores = on_scores
        self._rubrics = [member.rubric for member in members if member.rubric is not None]
        assert len(self._rubrics) == len(members), "a panel judges by rubrics"
        self._template = desk.prompts["panel"].bind({"query": desk.query.text})
        self._questions = tuple(
            Question(
                # Numbers only: names of personas and criteria are written by a model.
                f"persona{i}_criterion{j}",
                _question(member, criterion, desk),
                desk.config.scale,
            )
            for i, (member, rubric) in enumerate(zip(members, self._rubrics, strict=True), start=1)
            for j, criterion in enumerate(rubric.criteria, start=1)
        )

    async def _score(self, task: ScoreTask) -> None:
        scores = await self._judge(task.passage)
        for on_score, score in zip(self._on_scores, scores, strict=True):
            await on_score(task.row, task.passage.id, score)

    async def _judge(self, passage: Passage) -> list[Score]:
        """Each member's score of the passage; scores that cannot be had are missing.

        Raises:
            ModelError: the model as such failed, not just this passage's request.
        """
        fenced = self._desk.passage_text.fenced(passage, self._desk.query.text)
        try:
            return await self._rater.ask(
                self._template.render({"passage": fenced}),
                self._read,
                tag=self._desk.tag("score", doc_id=passage.id),
                max_tokens=self._desk.config.max_score_tokens,
                questions=self._questions,
            )
        except ModelError as error:
            return [missing_score(error)] * len(self._rubrics)

    def _read(self, reply: ChatReply) -> list[Score]:
        top = self._desk.config.scale
        answers = reply.answers or ()
        if len(answers) != len(self._questions):
            raise Unreadable(f"it holds {len(answers)} of {len(self._questions)} answers.")
        if not all(answer is None or 0 <= answer <= top for answer in answers):
            raise Unreadable(f"not all of its answers are from 0 to {top}.")
        each = iter(answers)
        return [
            self._combine(rubric.criteria, list(islice(each, len(rubric.criteria))))
            for rubric in self._rubrics
        ]

    def _combine(self, criteria: Sequence[Criterion], answers: Sequence[float | None]) -> Score:
        given = tuple(answer for answer in answers if answer is not None)
        if len(given) < len(answers):
            refused = [
                repr(criterion.name)
                for criterion, answer in zip(criteria, answers, strict=True)
                if answer is None
            ]
            name = self._rater.model.name
            return Score(None, reason=f"{name} declined to judge by {', '.join(refused)}")
        weights = [criterion.weight for criterion in criteria]
        return Score(weighted_mean(given, weights), criteria=given)


def _question(member: Member, criterion: Criterion, desk: Desk) -> str:
    explained = f": {criterion.description}" if criterion.description else ""
    turns = desk.prompts["panel_question"].render(
        {
            "persona": member.name,
            "description": member.persona.description,
            "criterion": f"{criterion.name}{explained}",
            "k": str(desk.config.scale),
        }
    )
    return "\n\n".join(turn.text for turn in turns if turn.role != "assistant")
