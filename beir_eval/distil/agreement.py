"""Agreement of a student with its teacher, and of both with judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import correlation, fmean
from typing import Any, Literal, TypeAlias

from beir_eval.distil.data import TaughtQuery
from beir_eval.measures.significance import SIGNIFICANT, compare_runs, confidence_intervals
from personas.ranking.agreement import kendall_tau
from personas.ranking.effectiveness import ndcg

BAR = 0.02
"""Most that a student may fall behind its teacher on the teacher's own order."""

MEASURE = "nDCG@10"
BY_TEACHER = f"{MEASURE} by teacher"
STUDENT, TEACHER, UNTRAINED, FIRST = "student", "teacher", "untrained", "first stage"

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""Query's key -> a score a passage, in their order."""
Figure: TypeAlias = dict[str, float]
"""Mean over the queries with a value, ends of Student's 95% interval, number of these queries."""


def agreement(
    queries: Sequence[TaughtQuery], scores: Scores, *, relevance: bool
) -> dict[str, Figure | None]:
    """Compare scores with the teacher's, query by query.

    Args:
        queries: with the teacher's scores.
        scores: of the others.
        relevance: these are relevances, 0 to 1.

    Returns:
        ``tau`` (Kendall's tau-b), ``nDCG@10 by teacher``, and of relevances ``pearson`` and
        ``mse``; None where no query has a value. Correlations are undefined where scores are all
        equal, and nDCG where the teacher gives 0 to all.
    """
    values: dict[str, dict[str, float | None]] = {}
    for query in queries:
        given, teacher = scores[query.key], query.scores
        tau = kendall_tau(given, teacher)
        found = {"tau": tau, BY_TEACHER: ndcg_by_scores(given, teacher)}
        if relevance:
            found["pearson"] = None if tau is None else correlation(given, teacher)
            found["mse"] = fmean((a - b) ** 2 for a, b in zip(given, teacher, strict=True))
        for name, value in found.items():
            values.setdefault(name, {})[query.key] = value
    lowest = {"tau": -1, "pearson": -1}
    return {name: _figure(each, low=lowest.get(name, 0)) for name, each in values.items()}


def ndcg_by_scores(given: Sequence[float], gains: Sequence[float]) -> float | None:
    """nDCG@10 of the order by `given`, with the teacher's scores as gains.

    Of equal scores the order that came counts. None where all gains are 0.
    """
    return ndcg(_ordered(gains, given), gains) if any(gains) else None


def judged(queries: Sequence[TaughtQuery], systems: Mapping[str, Scores]) -> dict[str, Any]:
    """nDCG@10 of each system by judgements, and paired t-tests of the student against the others.

    The p-values are corrected by Holm for all of them. Empty where no query is judged.

    Raises:
        ExtraMissing: scipy is not installed.
    """
    values: dict[str, dict[str, float]] = {name: {} for name in systems}
    for query in queries:
        grades = [query.grades.get(each) for each in query.documents]
        for name, scores in systems.items():
            found = ndcg(_ordered(grades, scores[query.key]), query.grades.values())
            if found is not None:
                values[name][query.key] = found
    if not any(values.values()):
        return {}
    student = values[STUDENT]
    others = {name: each for name, each in values.items() if name != STUDENT}
    against = {name: {STUDENT: student, "other": each} for name, each in others.items()}
    tests = compare_runs(against, "other", farthest=1)
    return {
        "figures": {name: _figure(of_queries) for name, of_queries in values.items()},
        "student_against": {name: asdict(found[STUDENT]) for name, found in tests.items()},
    }


def verdict(test: Mapping[str, Any]) -> Literal["better", "worse", "not better"]:
    """Return how the student ranks by a paired test of `judged`."""
    if test["p_adjusted"] >= SIGNIFICANT:
        return "not better"
    return "better" if test["difference"] > 0 else "worse"


def _figure(values: Mapping[str, float | None], *, low: float = 0) -> Figure | None:
    known = {key: value for key, value in values.items() if value is not None}
    if not known:
        return None
    ends = confidence_intervals({"": known}, low=low, high=1)[""]
    return {"mean": fmean(known.values()), **asdict(ends), "queries": len(known)}


def _ordered(gains: Sequence[float | None], scores: Sequence[float]) -> list[float | None]:
    return [gains[each] for each in sorted(range(len(gains)), key=lambda each: -scores[each])]
