"""Exact top-k by itself: the first ranks are right, and no call is made without need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from mcranker.method.topk import NecessaryCalls, fewest_rows, strictest_first
from personas.ensembles import ENSEMBLES, MissingPolicy, Rule, descending, fill_missing, score_sum
from personas.ranking.types import Score, ScoreMatrix

NAN = math.nan
SUM = ENSEMBLES.get("sum")
POLICIES: tuple[Literal["mean_of_team", "lowest", "constant"], ...] = (
    "mean_of_team",
    "lowest",
    "constant",
)
Matrix = NDArray[np.float64]
Call = tuple[int, int]


@dataclass(frozen=True)
class Case:
    """What full scoring would find (NaN: missing for good), and how it is combined."""

    values: Matrix
    row_of: NDArray[np.intp]
    k: int
    top: float
    policy: MissingPolicy
    constant: float
    order: tuple[int, ...]
    weights: tuple[float, ...]

    def bounds(self, open_calls: NDArray[np.bool_], rows: slice = slice(None)) -> list[float]:
        opened = open_calls[rows]
        seen = np.where(opened, NAN, self.values[rows])
        rule = Rule(SUM, self.policy, self.constant, top=self.top, weights=self.weights)
        return [float(bound) for bound in rule.reach(seen, opened)]

    def full_scoring(self) -> tuple[list[int], Matrix]:
        """Places best first and their sums, by the arithmetic of a ranking without top_k."""
        filled = fill_missing(
            self.values, self.policy, constant=self.constant, weights=self.weights
        )
        sums = score_sum(filled * (self.weights or 1.0))
        if self.policy != "constant":
            sums[np.isnan(self.values).all(axis=1)] = -math.inf  # behind all others
        return descending(sums[self.row_of]).tolist(), sums[self.row_of]


def random_case(rng: np.random.Generator) -> Case:
    rows, judges = int(rng.integers(1, 10)), int(rng.integers(1, 7))
    shape = (rows, judges)
    top = float(rng.choice([1, 2, 10, 20]))
    match rng.integers(5):
        case 0:
            values = rng.integers(0, int(top) + 1, shape).astype(float)
        case 1:  # few values, so many ties, and many at the top
            values = rng.choice([0.0, top / 2, top], shape)
        case 2:
            values = top * rng.random(shape)
        case 3:  # expectations over two labels, close to the ends
            values = top * np.exp(-np.exp(rng.normal(0, 3, shape)))
        case _:  # sums that depend on the order of adding, unless they are rounded exactly
            values = np.minimum(top, rng.integers(0, 11, shape) * 0.1)
    values[rng.random(shape) < rng.choice([0.0, 0.0, 0.1, 0.5])] = NAN
    copies = rng.integers(0, rows, int(rng.integers(0, 5)))
    row_of = rng.permutation(np.concatenate([np.arange(rows), copies]))
    # Rows are numbered by their first passage.
    _, first = np.unique(row_of, return_index=True)
    renumbered = np.empty(rows, dtype=np.intp)
    renumbered[np.argsort(first)] = np.arange(rows)
    row_of = renumbered[row_of]
    return Case(
        values,
        row_of,
        k=int(rng.integers(1, len(row_of) + 3)),
        top=top,
        policy=POLICIES[rng.integers(3)],
        constant=float(rng.choice([0.0, top / 2, 2 * top])),
        order=tuple(rng.permutation(judges).tolist()),
        # In every second case the personas differ in weight.
        weights=Rule(SUM)
        .weighted(rng.integers(1, 9 if rng.integers(2) else 2, judges).tolist())
        .weights,
    )


def probe(
    case: Case, rng: np.random.Generator, begun: NDArray[np.int_]
) -> tuple[set[Call], NDArray[np.bool_]]:
    """The calls made after `begun` ones a row, answered in any order, and what stays open."""
    judges = len(case.order)
    turns = np.argsort(case.order)
    open_calls = turns[None, :] >= begun[:, None]
    necessary = NecessaryCalls(
        case.bounds(open_calls),
        case.row_of.tolist(),
        k=case.k,
        order=case.order,
        asked=begun.tolist(),
    )
    made: set[Call] = set()
    in_flight: list[Call] = []
    concurrency = int(rng.integers(1, 6))
    while True:
        preferred = None if rng.random() < 0.5 else int(rng.integers(judges))
        if len(in_flight) < concurrency and (call := necessary.take(preferred)) is not None:
            assert call not in made
            made.add(call)
            in_flight.append(call)
            assert len({row for row, _ in in_flight}) == len(in_flight) <= case.k
        elif in_flight:
            row, column = in_flight.pop(int(rng.integers(len(in_flight))))
            assert open_calls[row, column]
            open_calls[row, column] = False
            before = necessary.open
            assert before > 0
            necessary.settle(row, case.bounds(open_calls, slice(row, row + 1))[0])
        else:
            assert necessary.open == 0
            return made, open_calls


def needed(case: Case, begun: NDArray[np.int_]) -> set[Call]:
    """The calls without which the first k ranks stay unknown, found by knowing all scores.

    A row must be asked about once more if what it could still reach would put its first passage
    no lower than where the k-th passage stands in the end.
    """
    places, sums = case.full_scoring()
    last = places[: case.k][-1]
    bar = (-sums[last], last)
    turns = np.argsort(case.order)
    calls: set[Call] = set()
    for row, start in enumerate(begun.tolist()):
        first = case.row_of.tolist().index(row)
        for turn in range(start, len(case.order)):
            open_calls = np.broadcast_to(turns >= turn, case.values.shape)
            (bound,) = case.bounds(open_calls, slice(row, row + 1))
            if (-bound, first) > bar:
                break
            calls.add((row, case.order[turn]))
    return calls


@pytest.mark.parametrize("seed", range(20))
def test_ten_thousand_random_teams(seed: int) -> None:
    """500 a seed: integers, two labels, floats; ties, equal passages, missing scores; any k."""
    rng = np.random.default_rng(seed)
    for _ in range(500):
        case = random_case(rng)
        rows, judges = case.values.shape
        # From nothing, from one score a row, or with the first few rows scored by all.
        begun = np.full(rows, int(rng.integers(2)))
        begun[: int(rng.integers(rows + 1))] = rng.choice([int(begun[0]), judges])
        made, open_calls = probe(case, rng, begun)

        bounds = np.array(case.bounds(open_calls))[case.row_of]
        found = descending(bounds).tolist()
        places, sums = case.full_scoring()
        assert found[: case.k] == places[: case.k], case
        assert bounds[found[: case.k]].tolist() == sums[places[: case.k]].tolist(), case
        assert not open_calls[case.row_of[found[: case.k]]].any(), case
        assert (bounds >= sums).all(), case
        assert made == needed(case, begun), case


def test_by_hand() -> None:
    # Three judges from 0 to 10, k = 1. After the first, d0 can reach 7 + 20, d1 9 + 20 and
    # d2 1 + 20: d1 must be asked about, and with 9 + 8 + 10 = 27 ties with d0, which stands
    # first. d0 falls to 7 + 4 + 10 = 21, so d1 again: 9 + 8 + 4 = 21. The tie goes to d0
    # once more, which falls to 7 + 4 + 9 = 20. d2's 21 ties with d1, but d1 stands first.
    calls = NecessaryCalls([27, 29, 21], [0, 1, 2], k=1, order=[0, 1, 2], asked=[1, 1, 1])
    assert calls.open == 2
    assert calls.take() == (1, 1)
    assert calls.take() is None
    calls.settle(1, 27)
    assert calls.take() == (0, 1)
    calls.settle(0, 21)
    assert calls.open == 1
    assert calls.take() == (1, 2)
    calls.settle(1, 21)
    assert calls.take() == (0, 2)
    calls.settle(0, 20)
    assert calls.take() is None
    assert calls.open == 0


def test_equal_passages_take_a_rank_each() -> None:
    # Passages 0 and 2 are equal; all reach 10, so the first two are passages 0 and 1.
    calls = NecessaryCalls([10, 10, 10], [0, 1, 0, 2], k=2, order=[4, 5], asked=[1, 1, 1])
    assert {calls.take(), calls.take()} == {(0, 5), (1, 5)}
    assert calls.take() is None
    # Row 0 falls to 3, so row 2 comes up. Row 1 keeps its 10, row 2 falls below both of row 0.
    calls.settle(0, 3)
    assert calls.take() == (2, 5)
    calls.settle(1, 10)
    calls.settle(2, 2)
    assert calls.open == 0


def test_the_preferred_judge_comes_first() -> None:
    calls = NecessaryCalls([9, 9, 9, 9], [0, 1, 2, 3], k=4, order=[0, 1], asked=[0, 0, 1, 0])
    assert calls.take(1) == (2, 1)
    assert calls.take(1) == (0, 0)
    assert calls.take(0) == (1, 0)


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [
        # Known 4, missing, open: the missing one is worth at most the top, and so is the open.
        # Complete rows are what fill_missing and score_sum make of them; without a score, the last.
        ("mean_of_team", [4 + 10 + 10, 4 + 6 + 5, 30.0, -math.inf]),
        ("lowest", [4 + 0 + 10, 4 + 6 + 0, 30.0, -math.inf]),
        ("constant", [4 + 12 + 12, 4 + 6 + 12, 36.0, 36.0]),
    ],
)
def test_upper_bounds(policy: MissingPolicy, bounds: list[float]) -> None:
    values = np.array([[4, NAN, NAN], [4, 6, NAN], [NAN, NAN, NAN], [NAN, NAN, NAN]])
    open_calls = np.zeros((4, 3), dtype=np.bool_)
    open_calls[0, 2] = open_calls[2, :] = True
    found = Rule(SUM, policy, 12.0, top=10.0).reach(values, open_calls)
    assert found.tolist() == bounds


def test_a_constant_below_the_top_does_not_lower_what_is_open() -> None:
    values, open_calls = np.full((1, 2), NAN), np.array([[True, False]])
    found = Rule(SUM, "constant", 3.0, top=10.0).reach(values, open_calls)
    assert found.tolist() == [10 + 3]


def test_the_bound_of_a_row_does_not_depend_on_the_other_rows() -> None:
    # Bounds are found row by row while scores come, and for all rows at once in the end.
    rng = np.random.default_rng(7)
    for judges in range(1, 21):
        values = 10 * rng.random((50, judges))
        values[rng.random(values.shape) < 0.3] = NAN
        settled = np.zeros(values.shape, dtype=np.bool_)
        rule = Rule(SUM, top=10.0)
        together = rule.reach(values, settled)
        each = [rule.reach(values[i : i + 1], settled[i : i + 1])[0] for i in range(50)]
        assert together.tolist() == each


def test_strictest_first() -> None:
    # Means 5, 2, 2 and none: the lower first, equal ones in order, the one without last.
    sample = np.array([[9.0, 2.0, NAN, NAN], [1.0, 2.0, 2.0, NAN]])
    assert strictest_first(sample) == (1, 2, 0, 3)


def test_unasked_is_neither_there_nor_missing() -> None:
    matrix = ScoreMatrix.empty(2, 2)
    matrix.put(0, 0, Score(3.0))
    matrix.put(1, 1, Score(None, reason="no number"))
    assert matrix.unasked.tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize(("k", "fewest"), [(1, 1), (3, 1), (4, 2), (5, 2), (6, 3), (99, 3)])
def test_fewest_rows(k: int, fewest: int) -> None:
    # Row 1 stands for three passages, row 0 for two, row 2 for one.
    assert fewest_rows(np.array([0, 1, 1, 0, 2, 1]), k) == fewest
