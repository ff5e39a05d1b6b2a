"""The scoring stage, which leaves out what ``top_k`` makes needless."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

import anyio
import numpy as np

from mcranker.method.ensemble import upper_bounds
from mcranker.method.judges import ScoreTask
from mcranker.method.session import Session
from mcranker.method.stages import judge_workers, score_passages
from mcranker.method.topk import NecessaryCalls, fewest_rows, strictest_first
from mcranker.runtime.actor import Actor
from mcranker.runtime.bridge import task_group
from mcranker.tally import Tally

__all__ = ["score_needed"]

SAMPLE = 3
"""So many passages, the first, are scored by all judges to find the strictest of them."""

Judge = Actor[ScoreTask, None]
Call = tuple[int, int]  # row and column of the score matrix


async def score_needed(session: Session, judges: Sequence[Judge], tally: Tally) -> None:
    """Let the judges score every distinct passage, or with ``top_k`` as far as is needed (Eq. 3).

    One judge then scores all passages, and the others only those that can still reach the first
    ``top_k`` ranks, which are the same as if all had scored all.

    Args:
        session: the query.
        judges: who scores; if it is one, who may stand for a whole team, nothing is left out.
        tally: where the judges' scores go.

    Raises:
        ModelError: the model as such failed, not just some passages' requests.
    """
    top_k = session.config.top_k
    if top_k is None or top_k >= len(session.passages) or len(judges) == 1:
        await score_passages(session, judges, tally)
        return
    with session.timed("score"):
        await _TopScoring(session, judges, tally, top_k).run()
    tally.check()


class _TopScoring:
    """Hands calls to the judges, never more at once than are allowed for all of them."""

    def __init__(self, session: Session, judges: Sequence[Judge], tally: Tally, top_k: int) -> None:
        self._session = session
        self._judges = judges
        self._tally = tally
        self._top_k = top_k
        self._order = tuple(range(len(judges)))
        self._rows = len(session.distinct)
        auto = session.config.persona_order == "auto"
        self._sampled = min(SAMPLE, self._rows) if auto else 0
        self._unasked = np.ones(tally.matrix.values.shape, dtype=np.bool_)
        self._necessary: NecessaryCalls | None = None
        self._limit = judge_workers(session, len(judges))[0]
        self._in_flight = 0
        self._last_judge: int | None = None
        self._answered = anyio.Event()

    async def run(self) -> None:
        """Let the judges work until the first ranks are known."""
        fewest = max(self._sampled, fewest_rows(self._session.group_of, self._top_k))
        self._tally.total = self._rows + fewest * (len(self._judges) - 1)
        self._tally.taken = self._taken
        async with task_group() as group:
            for judge in self._judges:
                group.start_soon(judge.run)
            # A judge who takes no more calls has failed, and tells the group why.
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._feed()

    async def _feed(self) -> None:
        sample, rest = range(self._sampled), range(self._sampled, self._rows)
        if sample:
            await self._work_off((row, column) for column in self._order for row in sample)
            self._order = strictest_first(self._tally.matrix.values[: self._sampled])
        await self._work_off((row, self._order[0]) for row in rest)
        await self._hand_out(self._next_necessary)
        for judge in self._judges:
            judge.close()

    async def _work_off(self, calls: Iterable[Call]) -> None:
        await self._hand_out(partial(next, iter(calls), None))

    async def _hand_out(self, next_call: Callable[[], Call | None]) -> None:
        """Hand out calls until there is none and all are answered; None may mean none for now."""
        while True:
            while self._in_flight < self._limit and (call := next_call()) is not None:
                row, self._last_judge = call
                self._in_flight += 1
                passage = self._session.passages[self._session.distinct[row]]
                await self._judges[self._last_judge].tell(ScoreTask(row, passage))
            if not self._in_flight:
                return
            self._answered = anyio.Event()
            await self._answered.wait()

    def _taken(self, row: int, column: int) -> None:
        self._in_flight -= 1
        self._answered.set()
        self._unasked[row, column] = False
        tally = self._tally
        if self._necessary is not None:
            self._necessary.settle(row, self._bounds(slice(row, row + 1))[0])
        elif tally.done == self._rows + self._sampled * (len(self._judges) - 1):
            self._necessary = NecessaryCalls(
                self._bounds(slice(None)),
                self._session.group_of.tolist(),
                k=self._top_k,
                order=self._order,
                asked=(~self._unasked).sum(axis=1).tolist(),
            )
        else:
            return
        tally.total = tally.done + self._necessary.open

    def _next_necessary(self) -> Call | None:
        assert self._necessary is not None, "every passage has a score by now"
        # The judge who was asked last has its prompt loaded, where the model keeps only a few.
        return self._necessary.take(self._last_judge)

    def _bounds(self, rows: slice) -> list[float]:
        config = self._session.config
        bounds = upper_bounds(
            self._tally.matrix.values[rows],
            self._unasked[rows],
            # With "fail", building the ranking says what is missing, once all is known.
            "lowest" if config.missing == "fail" else config.missing,
            constant=config.missing_constant,
            top=config.top,
        )
        return [float(bound) for bound in bounds]
