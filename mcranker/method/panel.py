"""The whole team in one call a passage, for models that answer many questions at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from mcranker.errors import ModelError
from mcranker.llm.chat import ChatReply, Question
from mcranker.method.annotator import ScorePassage, Scores, TakesScores, missing_score
from mcranker.method.answers import weighted_mean
from mcranker.method.session import Session
from mcranker.replies.read import Unreadable
from mcranker.runtime.actor import Actor
from mcranker.types import Passage, Score
from personas import Criterion, Member

__all__ = ["Panel", "may_be_panel"]


def may_be_panel(session: Session) -> bool:
    """Whether the team judges as one `Panel`, if its criteria are not too many."""
    config = session.config
    asks_many = session.models.scoring.capabilities.max_questions > 0
    return config.scoring == "per_criterion" and config.panel and asks_many


class Panel(Actor[ScorePassage, None]):
    """All personas judge a passage together: one call asks for every criterion of each (Eq. 3).

    A persona's scores by criterion are combined by the weights of its rubric. Where one of them
    was refused, the persona's score is missing.

    Args:
        members: the team, each with its rubric.
        session: the query.
        ensembler: takes the scores, those of all members at once.
    """

    def __init__(self, members: Sequence[Member], session: Session, ensembler: TakesScores) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__("panel", self._score, workers=workers)
        self._session = session
        self._ensembler = ensembler
        self._rubrics = [member.rubric for member in members if member.rubric is not None]
        assert len(self._rubrics) == len(members), "a panel judges by rubrics"
        self._template = session.prompts["panel"].bind({"query": session.query.text})
        self._questions = tuple(
            Question(
                # Numbers only: names of personas and criteria are written by a model.
                f"persona{i}_criterion{j}",
                _question(member, criterion, session),
                session.config.scale,
            )
            for i, (member, rubric) in enumerate(zip(members, self._rubrics, strict=True), start=1)
            for j, criterion in enumerate(rubric.criteria, start=1)
        )

    @staticmethod
    def fits(members: Sequence[Member], session: Session) -> bool:
        """Whether the scoring model answers as many questions in one call as there are criteria."""
        criteria = [len(member.rubric.criteria) if member.rubric else 0 for member in members]
        return all(criteria) and sum(criteria) <= session.models.scoring.capabilities.max_questions

    async def _score(self, message: ScorePassage) -> None:
        scores = await self._judge(self._session.passage(message.row))
        await self._ensembler.tell(Scores(message.row, 0, scores))

    async def _judge(self, passage: Passage) -> list[Score]:
        """Each member's score of the passage; scores that cannot be had are missing.

        Raises:
            ModelError: the model as such failed, not just this passage's request.
        """
        session = self._session
        try:
            return await session.ask(
                session.models.scoring,
                self._template.render({"passage": session.fenced(passage)}),
                self._read,
                stage="score",
                doc_id=passage.id,
                max_tokens=session.config.max_score_tokens,
                questions=self._questions,
            )
        except ModelError as error:
            return [missing_score(error)] * len(self._rubrics)

    def _read(self, reply: ChatReply) -> list[Score]:
        top = self._session.config.scale
        answers = [answer.value for answer in reply.answers or ()]
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
            name = self._session.models.scoring.name
            return Score(None, reason=f"{name} declined to judge by {', '.join(refused)}")
        weights = [criterion.weight for criterion in criteria]
        return Score(weighted_mean(given, weights), criteria=given)


def _question(member: Member, criterion: Criterion, session: Session) -> str:
    explained = f": {criterion.description}" if criterion.description else ""
    turns = session.prompts["panel_question"].render(
        {
            "persona": member.name,
            "description": member.persona.description,
            "criterion": f"{criterion.name}{explained}",
            "k": str(session.config.scale),
        }
    )
    return "\n\n".join(turn.text for turn in turns if turn.role != "assistant")
