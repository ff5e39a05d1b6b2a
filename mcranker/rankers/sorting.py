"""One sorting of passages by comparisons: its order, its counts, and when it is hopeless."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from mcranker.errors import MissingScoreError, ModelError
from mcranker.events import PassagesCompared
from mcranker.method.session import Session
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.types import DEADLINE, Comparisons
from personas.templates import Template

_HOPELESS = 3  # failures in a row that are no chance


@dataclass(slots=True)
class Sorting:
    """One query whose passages are being compared.

    Passages are named by their row in `Session.distinct`: equal ones are compared as one.

    Attributes:
        session: the query.
        total: the most comparisons that there may be.
        order: rows, best first, as far as is known by now; always each once.
        worst: every comparison is to go the way that leads to the most of them, for estimates.
        team: those of all personas of a team, this one among them; empty without a team.
        persona: who compares; empty without a team.
        template: of the persona's prompt; None for the ranker's.
        settled: so many first places of `order` are sorted out; the ranks of the others are not
            known yet, or are not looked for.
        counts: what came of the replies.
        made_up: whether a reply was made up, for an estimate; then `order` is none.
        first_number: that of the first passage in a prompt. Estimates count equal requests once,
            and those that follow a reply that was made up will not be equal: 1 but for these.
    """

    session: Session
    total: int
    order: list[int]
    worst: bool
    team: Sequence[Sorting] = ()
    persona: str = ""
    template: Template | None = None
    settled: int = 0
    counts: Comparisons = field(default_factory=Comparisons)
    made_up: bool = False
    first_number: int = 1
    _first: ModelError | None = None
    _in_a_row: int = 0

    def settle(self, first: Sequence[int]) -> None:
        """Put these rows first; the others follow in first-stage order."""
        known = set(first)
        self.order = [*first, *(row for row in range(len(self.order)) if row not in known)]
        self.settled = len(first)

    @property
    def unanswered(self) -> bool:
        """Whether comparisons were asked for and none was answered."""
        return bool(self.counts.asked) and self.counts.failed == self.counts.asked

    @property
    def left_out(self) -> str:
        """Why the order is none that a team can count; empty if it is one."""
        if self.unanswered:
            return self.counts.reason
        return "" if self.settled else DEADLINE

    def ranks(self) -> list[int]:
        """The rank of each row, from 1; those that are not sorted out share the rank behind."""
        last = self.settled + 1
        place_of = {row: place for place, row in enumerate(self.order, start=1)}
        return [min(place_of[row], last) for row in range(len(self.order))]

    def add(self, counts: Comparisons) -> None:
        """Add the counts of another sorting; the first reason counts."""
        reason = self.counts.reason or counts.reason
        self.count(**{name: n for name, n in asdict(counts).items() if name != "reason"})
        self.counts = dataclasses.replace(self.counts, reason=reason)

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
            ModelError: further comparisons would fail as well: it is an error of that kind, or
                nothing has been answered yet, or the model did not answer several times.
            MissingScoreError: ``missing="fail"``.
        """
        if isinstance(error, FATAL_ERRORS):
            raise error
        if self.worst:
            self.made_up = True
            return
        if self.session.config.missing == "fail":
            raise MissingScoreError(
                f'a comparison failed and missing="fail": {error} Choose another policy to keep '
                "the order of its passages"
            ) from error
        self._first = self._first or error
        self._in_a_row += 1
        self.count(asked=1, failed=1)
        self.counts = dataclasses.replace(self.counts, reason=str(self._first))
        nothing_answered = self.counts.failed == self.counts.asked
        if self._in_a_row >= _HOPELESS and (nothing_answered or error.retryable):
            raise error

    def check(self, *, partial: bool) -> None:
        """See that this is a ranking: something was answered, if anything was asked.

        Raises:
            ModelError: the first failure, if nothing was.
        """
        if self._first is not None and self.counts.failed == self.counts.asked and not partial:
            raise self._first

    async def tell(self, rows: Sequence[int], *, failed: bool) -> None:
        """Give the event that these rows were compared; best first."""
        await self.session.tell(
            PassagesCompared(
                self.session.query.id,
                tuple(self.session.passage(row).id for row in rows),
                failed,
                sum(each.counts.asked for each in self.team or (self,)),
                sum(each.total for each in self.team or (self,)),
                self.persona,
            )
        )
