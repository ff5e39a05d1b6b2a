"""One sorting of passages by comparisons: its order and its counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mcranker.errors import FormNotKept, MissingScoreError, ModelError, ReplyError
from mcranker.events import PassagesCompared
from mcranker.method.session import Session
from mcranker.rankers.dispatch import FATAL_ERRORS
from personas.ranking.types import DEADLINE, Comparisons
from personas.templates import Template

Pair = frozenset[int]

_DOWN = 3  # failures in a row that are no chance


@dataclass(slots=True)
class SortState:
    """One query whose passages are being compared.

    Passages are named by their row in `Session.distinct`: equal ones are compared as one.

    Attributes:
        session: the query.
        total: the most comparisons that there may be.
        order: rows, best first, as far as is known; always each once.
        team: those of all judges, this one among them.
        persona: who compares; empty without a team.
        template: of the persona's prompt; None for the ranker's.
        settled: first places of `order` that are sorted out.
        undecided: pairs of rows whose order no reply decides, though it was asked for.
        counts: what came of the replies.
        made_up: whether a reply was made up, for an estimate; then `order` is none.
        first_number: that of the first passage in a prompt, 1 but in estimates, which count equal
            requests once: what follows a reply that was made up will not be equal.
    """

    session: Session
    total: int
    order: list[int]
    team: Sequence[SortState]
    persona: str = ""
    template: Template | None = None
    settled: int = 0
    undecided: set[Pair] = field(default_factory=set)
    counts: Comparisons = field(default_factory=Comparisons)
    made_up: bool = False
    first_number: int = 1
    _first: ModelError | None = None
    _in_a_row: int = 0

    @property
    def worst(self) -> bool:
        """True if every comparison is to go the way that leads to the most, for an estimate."""
        return self.session.job.estimated

    def settle(self, first: Sequence[int]) -> None:
        """Put these rows first; the others follow in first-stage order."""
        known = set(first)
        self.order = [*first, *(row for row in range(len(self.order)) if row not in known)]
        self.settled = len(first)

    @property
    def unanswered(self) -> bool:
        """True if comparisons were asked for and none was answered."""
        return bool(self.counts.asked) and self.counts.failed == self.counts.asked

    @property
    def left_out(self) -> str:
        """Reason that a team cannot count the order; empty if it can."""
        if self.unanswered:
            return self.counts.reason
        return "" if self.settled else DEADLINE

    def ranks(self) -> list[int]:
        """Return the rank of each row, from 1; undecided ones share their first rank.

        They are what is not sorted out, and neighbours of which no reply says which is better.
        """
        ranks, rank = [0] * len(self.order), 1
        for place, row in enumerate(self.order):
            before = self.order[place - 1]
            if place <= self.settled and frozenset((before, row)) not in self.undecided:
                rank = place + 1
            ranks[row] = rank
        return ranks

    def note(self, pairs: Iterable[Pair], *, decided: bool) -> None:
        """Take down whether a reply decides the order of these pairs."""
        if decided:
            self.undecided.difference_update(pairs)
        else:
            self.undecided.update(pairs)

    def count(self, **more: int) -> None:
        """Add to the counts."""
        sums = {name: getattr(self.counts, name) + value for name, value in more.items()}
        self.counts = dataclasses.replace(self.counts, **sums)

    def note_answer(self) -> None:
        """Count a comparison that was answered."""
        self.count(asked=1)
        self._in_a_row = 0

    def note_failure(self, error: ModelError) -> None:
        """Count a comparison that failed.

        Raises:
            ModelError: further comparisons would fail as well, by the kind of the error or since
                the model did not answer several times; or it is given up before it has answered.
            MissingScoreError: ``missing_policy="fail"``.
        """
        if isinstance(error, FATAL_ERRORS):
            raise error
        if self.worst:
            self.made_up = True
            return
        answered = self.counts.asked - self.counts.failed
        if isinstance(error, FormNotKept) and not answered:
            raise error
        if self.session.config.missing_policy == "fail":
            raise MissingScoreError(
                f'a comparison failed and missing_policy="fail": {error} Choose another policy to '
                "keep the order of its passages"
            ) from error
        self._first = self._first or error
        self._in_a_row += 1
        self.count(asked=1, failed=1)
        self.counts = dataclasses.replace(self.counts, reason=str(self._first))
        down = error.retryable or not (answered or isinstance(error, ReplyError))
        if down and self._in_a_row >= _DOWN:
            raise error

    def check(self, *, partial: bool) -> None:
        """Check that this is a ranking: at least one comparison was answered, or none was needed.

        Raises:
            ModelError: the first failure, if nothing was.
        """
        if self._first is not None and self.counts.failed == self.counts.asked and not partial:
            raise self._first

    async def emit(self, rows: Sequence[int], *, failed: bool) -> None:
        """Give the event that these rows were compared; best first."""
        asked = sum(each.counts.asked for each in self.team)
        total = sum(each.total for each in self.team)
        ids = tuple(self.session.passage(row).id for row in rows)
        query_id = self.session.query.id
        event = PassagesCompared(query_id, ids, failed, asked, total, self.persona)
        await self.session.emit(event)


def added_up(counts: Sequence[Comparisons]) -> Comparisons:
    """Return the sums of the counts, with the first reason."""
    names = [each.name for each in dataclasses.fields(Comparisons) if each.name != "reason"]
    sums = {name: sum(getattr(each, name) for each in counts) for name in names}
    return Comparisons(**sums, reason=next((each.reason for each in counts if each.reason), ""))
