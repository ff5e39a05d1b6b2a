"""nDCG: by hand, and as ir-measures has it."""

from __future__ import annotations

import math
import random

import pytest

from beir_eval import evaluate
from personas.ranking.agreement import ndcg

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
def test_by_hand(found: list[int | None], known: list[int], expected: float | None) -> None:
    assert ndcg(found, known) == (expected if expected is None else pytest.approx(expected))


def test_only_the_first_ranks_count_in_the_ranking_and_in_the_best_order() -> None:
    # Found: rank 2 only; best: 1 + 1 / log2(3), the third relevant one does not count
    assert ndcg([0, 1, 1], [1, 1, 1, 0], depth=2) == pytest.approx(SECOND / (1 + SECOND))
    with pytest.raises(ValueError, match="depth=0 is below 1"):
        ndcg([1], [1], depth=0)


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
