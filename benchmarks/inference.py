"""Reliability of the intervals and daggers of reports, by simulated experiments.

    python benchmarks/inference.py --population 2000 --experiments 500

Makes a population of queries of 20 passages, 1 to 4 of them relevant, in an order like BM25's. A
team of three scores them 0 to 2, a little better than chance, so that most scores tie; nDCG@10 is
taken as reports take it, with ties drawn by lot. Then draws experiments of `n` queries from the
population, whose means are known, and prints one JSON object:

    coverage        share of the 95% intervals that hold the population's mean: Student's, as
                    reports have them, and a percentile bootstrap of 2,000 resamples beside it;
                    for values of a team, and for a measure with a single relevant passage
    daggers         five rankers of equal quality against a sixth, Holm's correction: share of
                    the experiments with a dagger at all, and share of the comparisons with one
    ties            scores by chance, combined by sum and by reciprocal rank with ordinal ranks,
                    which are worth the same: share of the experiments in which they differ at
                    p < 0.05 as ranked, and with ties drawn by lot
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from beir_eval.measures.significance import compare_runs, confidence_intervals
from beir_eval.measures.ties import Tied, tie_figures
from personas.ranking.record import RankingRecord
from personas.ranking.types import Passage, Query, ScoreMatrix
from personas.ranking.usage import UsageTable

Numbers = NDArray[np.float64]

MEASURE = "nDCG@10"
PASSAGES, TOP, PERSONAS, RANKERS = 20, 2, 3, 6
RESAMPLES = 2000
LEVEL = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--population", type=int, default=2000)
    parser.add_argument("--experiments", type=int, default=500)
    parser.add_argument("--queries", type=int, nargs="+", default=[10, 50, 300])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    teams = by_lot(rng, options.population, relevant=(1, 4), signal=0.4, rankers=RANKERS)
    single = by_lot(rng, options.population, relevant=(1, 1), signal=0.4, rankers=1)[0]
    ranked, drawn = by_chance(rng, options.population)
    print(
        json.dumps(
            {
                "population": options.population,
                "experiments": options.experiments,
                "seed": options.seed,
                "by_queries": {
                    str(count): {
                        "coverage": coverage(rng, teams[0], count, options.experiments),
                        "coverage, one relevant": coverage(rng, single, count, options.experiments),
                        "daggers": daggers(rng, teams, count, options.experiments),
                        "ties": {
                            "as ranked": differing(rng, ranked, count, options.experiments),
                            "by lot": differing(rng, drawn, count, options.experiments),
                        },
                    }
                    for count in options.queries
                },
            },
            indent=2,
        )
    )


def by_lot(
    rng: np.random.Generator,
    queries: int,
    *,
    relevant: tuple[int, int],
    signal: float,
    rankers: int,
) -> Numbers:
    """nDCG@10 with ties drawn by lot, a row a ranker, of the sums of its team's scores."""
    grades = [relevances(rng, relevant) for _ in range(queries)]
    qrels = {f"q{place}": of_query for place, of_query in enumerate(grades)}
    rows = []
    for _ in range(rankers):
        tied = {}
        for query_id, of_query in qrels.items():
            gains = np.array([of_query.get(f"d{n}", 0) for n in range(PASSAGES)])
            totals = scores(rng, gains, signal).sum(axis=1)
            order = np.argsort(-totals, kind="stable")
            tied[query_id] = Tied.of_scores([(f"d{n}", float(totals[n])) for n in order])
        rows.append(list(honest(tied, qrels).values()))
    return np.array(rows)


def by_chance(rng: np.random.Generator, queries: int) -> tuple[Numbers, Numbers]:
    """Values of the sum and of ordinal reciprocal ranks: as ranked, and with ties by lot.

    Both are moved to the same mean by lot, which they have but for chance.
    """
    from personas.ensembles import Rule

    qrels, tied = {}, ({}, {})
    rules = [
        {"ensemble": "sum"},
        {"ensemble": "reciprocal_rank", "rank_ties": "ordinal"},
    ]
    for place in range(queries):
        grades = relevances(rng, (1, 4))
        qrels[f"q{place}"] = grades
        gains = np.array([grades.get(f"d{n}", 0) for n in range(PASSAGES)])
        # Passages are numbered in the first stage's order, the relevant ones mostly in front.
        first = np.argsort(-(1.2 * gains + rng.normal(size=PASSAGES)))
        values = scores(rng, np.zeros(PASSAGES), 0.0)
        for rule, into in zip(rules, tied, strict=True):
            final = Rule.of(rule).final(values, np.arange(PASSAGES), [None] * PASSAGES)
            ids = [f"d{n}" for n in first.tolist()]
            into[f"q{place}"] = Tied.of_ranking(record(ids, final, values, rule))
    ranked = np.array([as_ranked(each, qrels) for each in tied])
    drawn = np.array([list(honest(each, qrels).values()) for each in tied])
    return ranked, drawn - drawn.mean(axis=1, keepdims=True) + drawn.mean()


def relevances(rng: np.random.Generator, between: tuple[int, int]) -> dict[str, int]:
    count = rng.integers(between[0], between[1], endpoint=True)
    return {f"d{n}": 1 for n in rng.choice(PASSAGES, count, replace=False)}


def scores(rng: np.random.Generator, gains: Numbers, signal: float) -> Numbers:
    """Scores of 0 to `TOP`; a relevant passage's is the highest one more often than by chance."""
    drawn = rng.integers(0, TOP, size=(PASSAGES, PERSONAS), endpoint=True)
    sure = (rng.random((PASSAGES, PERSONAS)) < signal) & (gains[:, None] > 0)
    return np.where(sure, TOP, drawn).astype(np.float64)


def record(ids: list[str], final: Numbers, values: Numbers, rule: dict[str, str]) -> RankingRecord:
    return RankingRecord(
        query=Query(""),
        passages=tuple([Passage(each, "") for each in ids]),
        order=np.argsort(-final, kind="stable"),
        final=final,
        matrix=ScoreMatrix(values),
        personas=tuple([str(n) for n in range(PERSONAS)]),
        team=None,
        ranker="mcranker",
        config=rule,
        models={},
        prompt_hashes={},
        calls=UsageTable(),
        seconds={},
        has_texts=False,
    )


def honest(tied: dict[str, Tied], qrels: dict[str, dict[str, int]]) -> dict[str, float]:
    found = tie_figures(tied, qrels, (MEASURE,)).by_lot[MEASURE]
    # A query without a tie has one order only, and its value is that of any draw.
    rest = {query_id: each for query_id, each in tied.items() if query_id not in found}
    values = dict(zip(rest, as_ranked(rest, qrels), strict=True)) if rest else {}
    return {query_id: {**values, **found}[query_id] for query_id in tied}


def as_ranked(tied: dict[str, Tied], qrels: dict[str, dict[str, int]]) -> list[float]:
    from beir_eval import evaluate

    run = {query_id: [(each, 0.0) for each in ranked.doc_ids] for query_id, ranked in tied.items()}
    judged = {query_id: qrels[query_id] for query_id in tied}
    return list(evaluate(run, judged, (MEASURE,)).per_query[MEASURE].values())


def coverage(
    rng: np.random.Generator, population: Numbers, count: int, experiments: int
) -> dict[str, float]:
    mean = float(population.mean())
    found = {"Student": 0, "bootstrap": 0}
    for _ in range(experiments):
        drawn = rng.choice(population, count)
        ours = confidence_intervals({"": named(drawn)}, low=0.0, high=1.0)[""]
        found["Student"] += ours.low <= mean <= ours.high
        means = drawn[rng.integers(0, count, (RESAMPLES, count))].mean(axis=1)
        low, high = np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2])
        found["bootstrap"] += bool(low <= mean <= high)
    return shares(found, experiments)


def daggers(
    rng: np.random.Generator, rankers: Numbers, count: int, experiments: int
) -> dict[str, float]:
    """The values of a query are dealt to the rankers by chance: none is better than another."""
    found = {"experiments": 0, "comparisons": 0.0}
    for _ in range(experiments):
        drawn = rng.permuted(rankers[:, rng.integers(0, rankers.shape[1], count)], axis=0)
        marked = differences(drawn)
        found["experiments"] += any(marked)
        found["comparisons"] += sum(marked) / len(marked)
    return shares(found, experiments)


def differing(rng: np.random.Generator, pair: Numbers, count: int, experiments: int) -> float:
    draw: Callable[[], Numbers] = lambda: pair[:, rng.integers(0, pair.shape[1], count)]  # noqa: E731
    return sum(any(differences(draw())) for _ in range(experiments)) / experiments


def differences(values: Numbers) -> list[bool]:
    """For every row but the first, whether it gets a dagger against the first."""
    runs = {str(place): named(row) for place, row in enumerate(values)}
    compared = compare_runs({"": runs}, "0")[""]
    return [each.p_adjusted < LEVEL for each in compared.values()]


def named(values: Sequence[float] | Numbers) -> dict[str, float]:
    return {str(place): float(value) for place, value in enumerate(values)}


def shares(counts: dict[str, int] | dict[str, float], of: int) -> dict[str, float]:
    return {name: round(count / of, 4) for name, count in counts.items()}


if __name__ == "__main__":
    main()
