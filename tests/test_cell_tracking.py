"""How far an experiment has come, counted by a clock that stands where the test puts it."""

from __future__ import annotations

import pytest

from beir_eval.cli.tracking import CellTracker
from mcranker import PassageScored, RankingStarted


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def scored(query_id: str, done: int, total: int) -> PassageScored:
    return PassageScored(query_id, "d", "p", 1.0, "", done, total)


def test_passages_of_finished_queries_and_shares_of_those_under_way() -> None:
    clock = Clock()
    tracker = CellTracker("tiny, DIRECT (1 of 3)", 4, 80, cells_after=2, clock=clock)
    assert tracker.passages_per_second() is None
    assert tracker.seconds_left() is None
    tracker.take(RankingStarted("q1", "?", 20))
    tracker.take(RankingStarted("q2", "?", 20))
    tracker.take(scored("q1", 30, 60))
    tracker.take(scored("q2", 15, 60))
    assert tracker.done == 15  # half of 20 passages, and a quarter of 20
    clock.now = 3.0
    assert tracker.passages_per_second() == pytest.approx(5.0)
    # This cell has 80 passages and two more follow: 240 less 15, at 5 a second.
    assert tracker.seconds_left() == pytest.approx(45.0)
    tracker.end_query("q1", 20)
    assert tracker.done == 25
    assert tracker.stage == "tiny, DIRECT (1 of 3), query 2 of 4"
    assert tracker.reached == "in tiny, DIRECT (1 of 3), after 1 of 4 queries"


def test_a_cell_without_passages() -> None:
    tracker = CellTracker("tiny, DIRECT (1 of 1)", 0, 0, clock=Clock())
    assert (tracker.done, tracker.seconds_left()) == (0, None)
