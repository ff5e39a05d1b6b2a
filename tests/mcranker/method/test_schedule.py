"""Which calls are handed out, in which order, and when all is done."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.method.schedule import SAMPLE, Call, EveryScore, TopScores


def drained(schedule: EveryScore | TopScores) -> list[Call]:
    calls = []
    while (call := schedule.take()) is not None:
        calls.append(call)
    return calls


def test_judges_take_turns_passage_by_passage() -> None:
    schedule = EveryScore(2, 3, together=False, by_judge=False)
    for judge in range(3):
        schedule.ready(judge)
    assert drained(schedule) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_a_judge_who_is_late_catches_up_before_the_others_go_on() -> None:
    schedule = EveryScore(3, 2, together=False, by_judge=False)
    schedule.ready(1)
    assert [schedule.take(), schedule.take()] == [(0, 1), (1, 1)]
    schedule.ready(0)
    assert drained(schedule) == [(0, 0), (1, 0), (2, 0), (2, 1)]


def test_one_judge_after_the_other_once_all_are_ready() -> None:
    schedule = EveryScore(2, 2, together=True, by_judge=True)
    schedule.ready(1)
    assert schedule.take() is None
    schedule.ready(0)
    assert drained(schedule) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_it_is_finished_when_every_call_has_ended_and_no_seat_is_left() -> None:
    schedule = EveryScore(1, 3, together=False, by_judge=False)
    schedule.ready(0)
    schedule.settle(*drained(schedule)[0])
    assert (schedule.finished, schedule.total) == (False, 3)
    schedule.team_known(2)  # one recruit fewer than there were seats
    schedule.ready(1)
    assert (schedule.finished, schedule.total) == (False, 2)
    schedule.settle(*drained(schedule)[0])
    assert schedule.finished


def top(scores: np.ndarray[tuple[int, int], np.dtype[np.float64]], k: int) -> TopScores:
    """A schedule over sums of scores from 0 to 10, which sees what was scored by then."""
    rows, judges = scores.shape
    known = np.full((rows, judges), np.nan)

    def reach(places: slice) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        found: np.ndarray[tuple[int], np.dtype[np.float64]]
        found = np.where(np.isnan(known[places]), 10.0, known[places]).sum(axis=1)
        return found

    schedule = TopScores(np.arange(rows), known, k=k, reach=reach)
    for judge in range(judges):
        schedule.ready(judge)
    return schedule


def run(schedule: TopScores, scores: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> int:
    calls = 0
    while (call := schedule.take()) is not None:
        schedule._scores[call] = scores[call]
        schedule.settle(*call)
        calls += 1
    return calls


@given(data=st.data())
def test_the_first_ranks_are_complete_and_no_call_is_made_twice(data: st.DataObject) -> None:
    rows, judges = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 4))
    cells = st.lists(st.integers(0, 10), min_size=judges, max_size=judges)
    table = data.draw(st.lists(cells, min_size=rows, max_size=rows))
    scores = np.array(table, dtype=np.float64)
    k = data.draw(st.integers(1, rows))
    schedule = top(scores, k)
    calls = run(schedule, scores)
    assert schedule.finished
    assert schedule.total == calls == int((~np.isnan(schedule._scores)).sum())
    best = np.argsort(-scores.sum(axis=1), kind="stable")[:k]
    assert not np.isnan(schedule._scores[best]).any()


def test_all_judges_score_the_first_passages_and_the_strictest_the_rest() -> None:
    # Judge 1 gives less, so it scores first; 9 + 9 for the first row, 1 + 9 at most for the rest.
    scores = np.array([[9.0, 9.0]] + [[9.0, 1.0]] * 6)
    schedule = top(scores, 1)
    first = [schedule.take() for _ in range(2 * SAMPLE)]
    assert first == [(row, judge) for judge in (0, 1) for row in range(SAMPLE)]
    assert schedule.take() is None
    for call in first:
        assert call is not None
        schedule._scores[call] = scores[call]
        schedule.settle(*call)
    assert [schedule.take() for _ in range(4)] == [(row, 1) for row in range(SAMPLE, 7)]


def test_nobody_is_asked_before_all_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcranker.method.schedule.SAMPLE", 0)
    known = np.full((2, 2), np.nan)
    schedule = TopScores(np.arange(2), known, k=1, reach=lambda rows: np.full(2, 20.0)[rows])
    schedule.ready(1)
    assert schedule.take() is None
    schedule.ready(0)
    assert schedule.take() == (0, 0)
