"""The actor that combines the personas' scores of a passage into one (Eq. 4, right; App. D.5)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from mcranker.errors import ModelError
from mcranker.method.annotator import missing_score
from mcranker.method.session import Session
from mcranker.replies.read import read_score
from mcranker.replies.schemas import integer_schema
from mcranker.runtime.actor import Actor
from personas.ranking.types import Score


@dataclass(frozen=True, slots=True)
class Assess:
    """To the assessor: judge this row's passage by the personas' scores, in the team's order."""

    row: int
    scores: Sequence[tuple[str, float | None]]


@dataclass(frozen=True, slots=True)
class Assessed:
    """From the assessor: the final score of this row's passage."""

    row: int
    score: Score


class Assessor(Actor[Assess]):
    """Judges each passage from the personas' scores, given as text."""

    def __init__(
        self, session: Session, ensembler: Actor[Any], scientists: Collection[str]
    ) -> None:
        workers = session.calls_at_once(session.models.assessor)
        super().__init__("assessor", self._assess, workers=workers)
        self._session = session
        self._ensembler = ensembler
        self._scientists = scientists
        self._template = session.prompts["assess"].bind(
            {"query": session.query.text, "k": str(session.config.scale)}
        )

    async def _assess(self, task: Assess) -> None:
        session, config = self._session, self._session.config
        passage = session.passage(task.row)
        experts = sorted(task.scores, key=lambda expert: expert[0] in self._scientists)
        lines = [self._line(number, *expert) for number, expert in enumerate(experts, start=1)]
        values = {"assessments": "\n".join(lines), "experts": str(len(lines))}
        turns = self._template.render({"passage": session.delimited(passage), **values})
        try:
            value = await session.ask(
                session.models.assessor,
                turns,
                lambda reply: read_score(
                    reply.text,
                    key="Final score",
                    top=config.scale,
                    cut=reply.finish_reason == "length",
                ),
                stage="assess",
                doc_id=passage.id,
                max_tokens=config.max_score_tokens,
                schema=integer_schema("Final score", config.scale),
            )
        except ModelError as error:
            score = missing_score(error)
        else:
            score = Score(float(value))
        await self._ensembler.tell(Assessed(task.row, score))

    def _line(self, number: int, name: str, score: float | None) -> str:
        piece = "assessment_scientist" if name in self._scientists else "assessment"
        values = {"number": str(number), "persona": name, "k": str(self._session.config.top)}
        if score is None:
            return self._session.prompts.piece("assessment_missing", values)
        return self._session.prompts.piece(piece, {**values, "score": f"{score:g}"})
