"""Kendall's tau-b and Krippendorff's alpha: by hand, as published, and as SciPy has it."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beir_eval import evaluate
from personas.ranking.agreement import AlphaSums, kendall_tau, ndcg

Unit = Sequence[float | None]

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C: 4 observers
# (rows), 12 units (columns), with missing values. Its result for interval data is 0.849.
PUBLISHED = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)

SCORES = st.one_of(st.none(), st.integers(0, 10).map(float), st.floats(-1e6, 1e6, allow_nan=False))
UNITS = st.lists(st.lists(SCORES, max_size=5), max_size=12)


def krippendorff_alpha(units: Iterable[Unit]) -> float | None:
    sums = AlphaSums()
    for values in units:
        sums.add(values)
    return sums.alpha


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        # 6 pairs; only the second and third passage are in opposite orders: (5 - 1) / 6
        ([1, 2, 3, 4], [1, 3, 2, 4], 4 / 6),
        # 6 pairs: each judge tells 5 apart; 4 are in the same order, and 2 are tied for one judge
        ([1, 2, 2, 3], [1, 2, 3, 3], 4 / 5),
        # Pairs told apart by the first: 4, by the second: 3. In opposite orders: the second
        # passage and either of the last two: (0 - 2) / sqrt(12)
        ([1, 1, 2, 2], [1, 2, 1, 1], -2 / math.sqrt(12)),
        # Without the second and the third: (1, 5), (4, 7), (6, 6): in the same order 2, opposite 1
        ([1, None, 9, 4, 6], [5, 8, None, 7, 6], 1 / 3),
    ],
)
def test_tau_by_hand(first: Unit, second: Unit, tau: float) -> None:
    assert kendall_tau(first, second) == pytest.approx(tau, abs=1e-15)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([], []),
        ([1.0], [2.0]),
        ([1.0, None, 3.0], [None, 2.0, 3.0]),
        ([4.0, 4.0, 4.0], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]),
        ([4.0, 4.0], [4.0, 4.0]),
        ([1.0, 1.0, 2.0], [1.0, 2.0, None]),
    ],
)
def test_tau_is_not_defined_without_two_passages_told_apart(first: Unit, second: Unit) -> None:
    assert kendall_tau(first, second) is None
    assert kendall_tau(second, first) is None


def test_tau_and_alpha_refuse_what_is_no_score() -> None:
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not all are finite"):
            krippendorff_alpha([(1.0, value)])
    with pytest.raises(ValueError, match="2 scores and 1; give one a passage"):
        kendall_tau([1, 2], [1])
    with pytest.raises(ValueError, match="a score is nan; give None"):
        kendall_tau([1, 2], [math.nan, 1])


def test_alpha_of_the_published_example() -> None:
    assert krippendorff_alpha(zip(*PUBLISHED, strict=True)) == pytest.approx(0.849, abs=0.0005)


@pytest.mark.parametrize(
    ("units", "alpha"),
    [
        # The last passage has one score and does not count. Do: 2 · (1 - 2)² / 4 = 1/2.
        # De over 1, 2, 3, 3: 2 · (1 + 4 + 4 + 1 + 1 + 0) / (4 · 3) = 22/12. 1 - (1/2) / (22/12)
        ([(1, 2), (3, None, 3), (5,)], 8 / 11),
        # Three scores: of 0, 0, 3 the ordered pairs differ by 4 · 9 = 36, over m - 1 = 2: 18.
        # Do = 18 / 6 = 3; De: 2 zeros and 4 threes: 2 · 8 · 9 / (6 · 5) = 4.8. 1 - 3 / 4.8
        ([(0, 0, 3), (3, 3, 3)], 0.375),
        ([(0, 1), (1, 0)], -0.5),  # Do = (2 + 2) / 4 = 1, De = 8 / 12: 1 - 12/8
        ([(0.0, 5e-324), (5e-324, 0.0)], -0.5),  # the least float above 0; its square is none
        ([(1, 1), (0.1, 0.1, 0.1)], 1.0),
        ([(7, 7), (7, 7, 7)], None),
        ([(7,), (None, 3), ()], None),
        ([(1, 2), (5,)], None),  # one passage: Do = De, whatever its scores
    ],
)
def test_alpha_by_hand(units: list[Unit], alpha: float | None) -> None:
    assert krippendorff_alpha(units) == (
        alpha if alpha is None else pytest.approx(alpha, abs=1e-15)
    )


@settings(deadline=None)
@given(UNITS, st.randoms(use_true_random=False))
def test_sums_are_the_same_however_passages_are_shared_out(
    units: list[list[float | None]], draws: random.Random
) -> None:
    shares = [AlphaSums() for _ in range(3)]
    for values in sorted(units, key=lambda _: draws.random()):
        draws.choice(shares).add(values)
    merged = AlphaSums()
    for share in shares:
        merged.merge(pickle.loads(pickle.dumps(share)))
    assert merged.alpha == krippendorff_alpha(units)


# nDCG

SECOND = 1 / math.log2(3)
"""The discount of rank 2; that of rank 1 is 1, of rank 3 1/2, of rank 4 1 / log2(5)."""


@pytest.mark.parametrize(
    ("found", "known", "expected"),
    [
        # Gains 0, 1, nothing known, 2 at the first ranks; the best order is 2, 1, 1, 0.
        ([0, 1, None, 2], [0, 1, 2, 1], (SECOND + 2 / math.log2(5)) / (2 + SECOND + 1 / 2)),
        ([3, 2, 1, 0, None], [1, 3, 0, 2], 1.0),
        ([-2, 1], [-2, 1, -1], SECOND),  # grades below 0 gain nothing: 1 at rank 2 of 1 at rank 1
        ([None] * 10 + [1], [1], 0.0),
        ([0, None, -1], [0, -1], 0.0),
        ([], [1], 0.0),
        ([None, None], [], None),
    ],
)
def test_ndcg_by_hand(found: list[int | None], known: list[int], expected: float | None) -> None:
    assert ndcg(found, known) == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("depth", [1, 10, 100])
def test_it_is_that_of_ir_measures(depth: int) -> None:
    draws = random.Random(depth)
    run: dict[str, list[tuple[str, float]]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for query in map(str, range(200)):
        corpus = [f"d{number}" for number in range(150)]
        judged = draws.sample(corpus, draws.randint(1, 60))
        grades = draws.choice(((0, 1), (1,), (-2, -1, 0, 1, 2, 3), (0, -1)))
        qrels[query] = {doc_id: draws.choice(grades) for doc_id in judged}
        found = draws.sample(corpus, draws.randint(1, 100))
        run[query] = [(doc_id, -float(place)) for place, doc_id in enumerate(found)]
    measure = f"nDCG@{depth}"
    theirs = evaluate(run, qrels, [measure]).per_query[measure]
    for query, found_docs in run.items():
        ranked = [qrels[query].get(doc_id) for doc_id, _ in found_docs]
        ours = ndcg(ranked, qrels[query].values(), depth)
        assert ours == pytest.approx(theirs[query], abs=1e-12)
    assert 0.0 in theirs.values()
    assert any(0 < value < 1 for value in theirs.values())
