"""Scores as they come in: into the matrix, and out as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mcranker.agents import OnScore
from mcranker.events import PassageAssessed, PassageScored
from mcranker.session import Session
from mcranker.types import Score, ScoreMatrix

__all__ = ["OnScoreOf", "Tally"]


class OnScoreOf(Protocol):
    """Gives what is done with a score, for the judge of one column."""

    def __call__(self, column: int) -> OnScore: ...


class Tally:
    """Takes scores as they come: into the matrix, and out as events.

    Attributes:
        names: of the matrix's columns.
        done: scores that have come, or are known to be missing.
        total: scores that are going to come, as far as is known.
        taken: called with the row and column of each score; None if nobody wants to know.
    """

    def __init__(self, session: Session, names: Sequence[str], *, assessing: bool = False) -> None:
        self.matrix = ScoreMatrix.empty(len(session.distinct), len(names))
        self._session = session
        self.names = names
        self._assessing = assessing
        self.done = 0
        self.total = self.matrix.values.size
        self.taken: Callable[[int, int], None] | None = None

    def of(self, column: int) -> OnScore:
        """What is done with a score of column `column`."""

        async def scored(row: int, doc_id: str, score: Score) -> None:
            self.matrix.put(row, column, score)
            self.done += 1
            if self.taken is not None:
                self.taken(row, column)
            session = self._session
            if session.emit is None:
                return
            if self._assessing:
                event: PassageAssessed | PassageScored = PassageAssessed(
                    session.query.id,
                    doc_id,
                    score.value,
                    score.reason,
                    self.done,
                    self.total,
                )
            else:
                event = PassageScored(
                    session.query.id,
                    doc_id,
                    self.names[column],
                    score.value,
                    score.reason,
                    self.done,
                    self.total,
                )
            await session.emit(event)

        return scored
