"""All judges of a passage in one request, for models that answer typed questions and no prompts."""

from __future__ import annotations

from collections.abc import Sequence

from mcranker.errors import ModelError
from mcranker.llm.chat import ChatReply, Judge, Question, State
from mcranker.method.annotator import ScorePassage, Scores, TakesScores, missing_score
from mcranker.method.answers import weighted_mean
from mcranker.method.session import Session, passage_text
from mcranker.replies.read import Unreadable
from mcranker.runtime.actor import Actor
from mcranker.types import Passage, Score
from personas import Criterion, Member

__all__ = ["TypedJudges"]

PASSAGE = "passage"


class TypedJudges(Actor[ScorePassage, None]):
    """Asks whether a passage is relevant, as each persona sees it: one question a persona.

    With ``scoring="per_criterion"`` it is one a criterion, combined by the weights of the rubric.
    The probability of yes, times the highest score of the scale, is the score. Where an answer
    is missing, the persona's score is.

    Args:
        members: the team; nobody for one question that is nobody's in particular.
        session: the query.
        ensembler: takes the scores, those of all members at once.
    """

    def __init__(self, members: Sequence[Member], session: Session, ensembler: TakesScores) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__("typed judges", self._score, workers=workers)
        self._session = session
        self._ensembler = ensembler
        # Each judge's questions, with the weights of their answers.
        self._asked: list[list[tuple[Question, float]]] = [
            [
                (_question(f"judge{number}_{place}", member, criteria), weight)
                for place, (criteria, weight) in enumerate(_parts(member, session), start=1)
            ]
            for number, member in enumerate(members, start=1)
        ] or [[(_question("judge", None, ()), 100.0)]]

    async def _score(self, message: ScorePassage) -> None:
        scores = await self._judge(self._session.passage(message.row))
        await self._ensembler.tell(Scores(message.row, 0, scores))

    async def _judge(self, passage: Passage) -> list[Score]:
        """Each judge's score of the passage; scores that cannot be had are missing.

        Raises:
            ModelError: the model as such failed, not just this passage's request.
        """
        session = self._session
        try:
            return await session.ask(
                session.models.scoring,
                (),
                self._read,
                stage="score",
                doc_id=passage.id,
                max_tokens=session.config.max_score_tokens,
                questions=tuple(question for part in self._asked for question, _ in part),
                state=State(session.query.text, {PASSAGE: passage_text(passage, session.config)}),
            )
        except ModelError as error:
            return [missing_score(error)] * len(self._asked)

    def _read(self, reply: ChatReply) -> list[Score]:
        answers = list(reply.answers or ())
        if len(answers) != sum(map(len, self._asked)):
            raise Unreadable(f"it holds {len(answers)} answers, and others were asked for.")
        scores = []
        for part in self._asked:
            own, answers = answers[: len(part)], answers[len(part) :]
            lacking = next((each.problem for each in own if each.value is None), None)
            values = [each.value for each in own if each.value is not None]
            if lacking is not None:
                scores.append(Score(None, reason=lacking or "there is no answer"))
            elif not all(0 <= value <= 1 for value in values):
                raise Unreadable("not all of its answers are from 0 to 1.")
            else:
                scores.append(self._combine(values, [weight for _, weight in part]))
        return scores

    def _combine(self, values: Sequence[float], weights: Sequence[float]) -> Score:
        scaled = [value * self._session.config.top for value in values]
        if not self._session.config.scoring_class.needs_rubric:
            return Score(scaled[0])
        return Score(weighted_mean(scaled, weights), criteria=tuple(scaled))


def _parts(member: Member, session: Session) -> list[tuple[tuple[Criterion, ...], float]]:
    """By which criteria each of a member's questions is answered, and what its answer weighs."""
    criteria = member.rubric.criteria if member.rubric is not None else ()
    if session.config.scoring_class.needs_rubric:
        return [((criterion,), criterion.weight) for criterion in criteria]
    return [(tuple(criteria), 100.0)]


def _question(name: str, member: Member | None, criteria: Sequence[Criterion]) -> Question:
    judge = None
    if member is not None:
        judge = Judge(
            member.name,
            member.persona.description,
            tuple((each.name, each.description, each.weight) for each in criteria),
        )
    text = "Is the passage relevant to the query, as the judge sees it?"
    return Question(name, text, kind="yes_no", passage=PASSAGE, judge=judge)
