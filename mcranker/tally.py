"""Scores as they come in: into the matrix, and out as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from mcranker.errors import ModelError
from mcranker.events import PassageAssessed, PassageScored
from mcranker.llm.limits.silence import DOWN
from mcranker.method.judges import OnScore
from mcranker.method.session import Session
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
        self._answered = 0
        self._failed: ModelError | None = None
        self._open: list[_Open] = []

    def of(self, column: int) -> OnScore:
        """What is done with a score of column `column`."""

        async def scored(row: int, doc_id: str, score: Score) -> None:
            self.matrix.put(row, column, score)
            self.done += 1
            self._note(row, score.failure)
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

    def check(self) -> None:
        """See, once all scores have come, that the model was not down.

        A call that failed while the model answered nothing else may be a missing score, or the
        first sign that it is down. It counts as missing if the model has answered this ranking
        since; of those after the last answer, if they are about fewer than three passages, or
        are at most a third of all scores. Where no score at all was answered, none is missing.

        Raises:
            ModelError: the first of those that are not.
        """
        calls = self._session.usage.total.calls
        last = [each for each in self._open if each.calls == calls]
        several = len({each.row for each in last}) >= DOWN
        if self._failed is not None and not self._answered:
            raise self._failed
        if several and 3 * len(last) > self.done:
            raise last[0].failure

    def _note(self, row: int, failure: ModelError | None) -> None:
        if failure is None:
            self._answered += 1
            return
        self._failed = self._failed or failure
        if failure.others_answered is None:
            self._open.append(_Open(row, self._session.usage.total.calls, failure))


class _Open(NamedTuple):
    """A call that failed while nothing else was answered, and how many calls had been by then."""

    row: int
    calls: int
    failure: ModelError
