"""Which calls are handed out, in which order, and when all is done."""

from __future__ import annotations

from mcranker.method.ensembler import Schedule


def drained(schedule: Schedule) -> list[tuple[int, int]]:
    calls = []
    while (call := schedule.take()) is not None:
        calls.append(call)
    return calls


def test_judges_take_turns_passage_by_passage() -> None:
    schedule = Schedule(2, 3, together=False, by_judge=False)
    for judge in range(3):
        schedule.ready(judge)
    assert drained(schedule) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_a_judge_who_is_late_catches_up_before_the_others_go_on() -> None:
    schedule = Schedule(3, 2, together=False, by_judge=False)
    schedule.ready(1)
    assert [schedule.take(), schedule.take()] == [(0, 1), (1, 1)]
    schedule.ready(0)
    assert drained(schedule) == [(0, 0), (1, 0), (2, 0), (2, 1)]


def test_one_judge_after_the_other_once_all_are_ready() -> None:
    schedule = Schedule(2, 2, together=True, by_judge=True)
    schedule.ready(1)
    assert schedule.take() is None
    schedule.ready(0)
    assert drained(schedule) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_it_is_finished_when_every_call_has_ended_and_no_seat_is_left() -> None:
    schedule = Schedule(1, 3, together=False, by_judge=False)
    schedule.ready(0)
    assert len(drained(schedule)) == 1
    schedule.settle()
    assert (schedule.finished, schedule.total) == (False, 3)
    schedule.team_known(2)  # one recruit fewer than there were seats
    schedule.ready(1)
    assert (schedule.finished, schedule.total) == (False, 2)
    assert len(drained(schedule)) == 1
    schedule.settle()
    assert schedule.finished
