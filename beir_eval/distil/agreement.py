"""Agreement of a student with its teacher, and of both with judgements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from beir_eval.distil.data import TaughtQuery
from beir_eval.measures.metrics import evaluate
from beir_eval.measures.significance import SIGNIFICANT, compare_runs, confidence_intervals
from personas.ranking.agreement import kendall_tau

BAR = 0.02
"""Most that a student may fall behind its teacher on the teacher's own order."""

DEPTH = 10
MEASURE = f"nDCG@{DEPTH}"
BY_TEACHER = f"{MEASURE} by teacher"
STUDENT, TEACHER, UNTRAINED, FIRST = "student", "teacher", "untrained", "first stage"

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Query's key -> a score a passage, in their order."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean over queries, with Student's 95% interval.

    Attributes:
        mean: of the queries for which the measure is defined.
        low: end of the interval.
        high: the other end.
        queries: how many those are.
    """

    mean: float
    low: float
    high: float
    queries: int


def agreement(queries: Sequence[TaughtQuery], scores: Scores, *, relevance: bool) -> dict[str, Any]:
    """Compare scores with the teacher's, query by query.

    Args:
        queries: with the teacher's scores.
        scores: of the others.
        relevance: these are relevances, 0 to 1, so that Pearson's correlation and the mean squared
            error are given too.

    Returns:
        ``tau`` (Kendall's tau-b), ``nDCG@10 by teacher``, and perhaps ``pearson`` and ``mse``, a
        `Figure` each; None where no query has a value. A measure is undefined for a query whose
        scores are all equal, and nDCG where the teacher gives 0 to all.
    """
    values: dict[str, dict[str, float | None]] = {}
    for query in queries:
        given, teacher = list(scores[query.key]), query.scores
        found = {"tau": kendall_tau(given, teacher), BY_TEACHER: ndcg_by_scores(given, teacher)}
        if relevance:
            squares = math.fsum((a - b) ** 2 for a, b in zip(given, teacher, strict=True))
            found |= {"pearson": _pearson(given, teacher), "mse": squares / len(given)}
        for name, value in found.items():
            values.setdefault(name, {})[query.key] = value
    below_0 = ("tau", "pearson")
    return {
        name: figure(of_queries, low=-1 if name in below_0 else 0)
        for name, of_queries in values.items()
    }


def ndcg_by_scores(given: Sequence[float], gains: Sequence[float]) -> float | None:
    """nDCG@10 of the order by `given`, with the teacher's scores as gains.

    Of equal scores the order that came counts. None where all gains are 0.
    """

    def dcg(order: Sequence[int]) -> float:
        first = enumerate(order[:DEPTH], start=2)
        return math.fsum(gains[place] / math.log2(rank) for rank, place in first)

    best = dcg(sorted(range(len(gains)), key=lambda place: -gains[place]))
    ranked = sorted(range(len(gains)), key=lambda place: -given[place])
    return dcg(ranked) / best if best > 0 else None


def judged(queries: Sequence[TaughtQuery], systems: Mapping[str, Scores]) -> dict[str, Any]:
    """nDCG@10 of each system by judgements, and paired t-tests of the student against the others.

    The p-values are corrected by Holm for all of them. Empty where no query is judged.

    Raises:
        ExtraMissing: ir-measures or scipy is not installed.
    """
    graded = [each for each in queries if each.grades]
    if not graded:
        return {}
    qrels = {each.key: each.grades for each in graded}
    values: dict[str, dict[str, float]] = {}
    for name, scores in systems.items():
        run = {
            each.key: sorted(
                zip(each.documents, scores[each.key], strict=True), key=lambda pair: -pair[1]
            )
            for each in graded
        }
        values[name] = evaluate(run, qrels, (MEASURE,)).per_query[MEASURE]
    against = {
        name: {STUDENT: values[STUDENT], TEACHER: others}
        for name, others in values.items()
        if name != STUDENT
    }
    tests = compare_runs(against, TEACHER, farthest=1)
    return {
        "figures": {name: figure(of_queries) for name, of_queries in values.items()},
        "student_against": {name: asdict(found[STUDENT]) for name, found in tests.items()},
    }


def reached(figures: Mapping[str, Figure | None]) -> bool:
    """True if the student is within `BAR` of its teacher by the teacher's own scores."""
    found = figures[BY_TEACHER]
    return found is not None and found.mean >= 1 - BAR


def better(test: Mapping[str, Any]) -> bool:
    """True if a paired test of `judged` finds the student better."""
    return bool(test["difference"] > 0 and test["p_adjusted"] < SIGNIFICANT)


def figure(values: Mapping[str, float | None], *, low: float = 0) -> Figure | None:
    """The mean of the values that are there, from `low` to 1; None if none is."""
    known = {key: value for key, value in values.items() if value is not None}
    if not known:
        return None
    ends = confidence_intervals({"": known}, low=low, high=1)[""]
    return Figure(math.fsum(known.values()) / len(known), ends.low, ends.high, len(known))


def _pearson(one: Sequence[float], other: Sequence[float]) -> float | None:
    import numpy as np

    if len({*one}) < 2 or len({*other}) < 2:
        return None
    return float(np.corrcoef(one, other)[0, 1])
