"""Agreement of a judge with people: on grades, and on the order of systems.

Intervals are percentiles over resampled queries (bootstrap); with few queries they are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beir_eval.errors import SettingError
from beir_eval.judging.judge import HIGHEST, Qrels, System
from beir_eval.measures.metrics import evaluate
from beir_eval.measures.values import Interval
from personas.ranking.agreement import kendall_tau

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

RELEVANT = 2
"""Lowest grade of a judge that counts as relevant."""
FEWEST_SYSTEMS = 5
"""Systems below which Kendall's tau says little."""
RESAMPLES = 1_000

_PLACES = 9  # decimals of means; what differs by less is a tie


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its 95% interval over queries; None where it is not defined."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement on the pairs that people and the judge have graded."""

    pairs: int
    queries: int
    mapping: Mapping[int, int]  # people's grade -> the judge's scale, 0 to 3
    relevant: int  # people's lowest grade that counts as relevant; of the judge it is `RELEVANT`
    confusion: Mapping[int, Sequence[int]]  # people's grade -> pairs that the judge gave 0, 1, 2, 3
    kappa: Figure  # Cohen's, of the four grades; undefined if people say no more than yes and no
    weighted_kappa: Figure  # the same with quadratic weights
    binary_kappa: Figure  # Cohen's, of relevant or not; undefined if people say only one of these
    false_positives: Figure  # of people's 0 or less, the share that the judge finds relevant
    recall: Figure  # of what people find relevant, the share that the judge does


@dataclass(frozen=True, slots=True)
class SystemOrder:
    """Agreement on the order of systems, by Kendall's tau-b of their means."""

    measure: str  # of the means
    queries: int  # that people and the judge have judged
    means: Mapping[str, Sequence[float]]  # label -> by people, by judge; people's best first
    tau: Figure  # of all systems


def default_mapping(grades: Sequence[int]) -> dict[int, int]:
    """Map people's grades to 0 to 3 in proportion: 3 · grade / highest, halves up; below 0 is 0."""
    top = max(1, *grades, 1)
    return {each: math.floor(HIGHEST * max(each, 0) / top + 0.5) for each in sorted(set(grades))}


def grade_mapping(people: Qrels, mapping: Mapping[int, int] | None = None) -> dict[int, int]:
    """Return the place from 0 to 3 of each grade of people's, the lowest first."""
    rows = sorted({each for grades in people.values() for each in grades.values()})
    mapping = default_mapping(rows) if mapping is None else mapping
    if lost := [each for each in rows if mapping.get(each) not in range(HIGHEST + 1)]:
        raise SettingError(
            f"people's grade {lost[0]} has no place from 0 to {HIGHEST}; map it, e.g. 0:0,1:2,2:3"
        )
    return {each: mapping[each] for each in rows}


def kappa(table: Numbers, *, quadratic: bool = False) -> Numbers:
    """Cohen's kappa of tables in the last two axes; NaN where agreement by chance is certain."""
    one, two = np.indices(table.shape[-2:])
    weights = (one - two) ** 2 if quadratic else one != two
    both = (-2, -1)
    products = table.sum(axis=-1)[..., :, None] * table.sum(axis=-2)[..., None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = (weights * products).sum(axis=both) / table.sum(axis=both)
        return np.asarray(1 - (weights * table).sum(axis=both) / expected)


def agreement(
    people: Qrels,
    judge: Qrels,
    *,
    mapping: Mapping[int, int] | None = None,
    relevant: int = 1,
    seed: int = 0,
) -> Agreement:
    """Compare grades of the pairs that both have.

    Args:
        people: grades of any scale, whose 0 and less mean not relevant.
        judge: grades from 0 to 3.
        mapping: people's grade -> 0 to 3; None for `default_mapping` of all of people's.
        relevant: lowest grade of people that counts as relevant.
        seed: of the resampling.

    Raises:
        SettingError: no pair has both, or one of people's grades has no place in `mapping`.
    """
    mapping = grade_mapping(people, mapping)
    rows, tables = [*mapping], []
    for query_id, grades in judge.items():
        table = np.zeros((len(rows), HIGHEST + 1))
        for doc_id in people.get(query_id, {}).keys() & grades.keys():
            table[rows.index(people[query_id][doc_id]), grades[doc_id]] += 1
        tables += [table] if table.any() else []
    if not tables:
        raise SettingError("no pair was graded by people and by the judge")
    counts, theirs = np.array(tables), np.array(rows)
    place = np.eye(HIGHEST + 1)[[mapping[each] for each in rows]].T  # people's rows to four
    halve = np.array([theirs < relevant, theirs >= relevant], dtype=np.float64)
    ours = np.repeat(np.eye(2), [RELEVANT, HIGHEST + 1 - RELEVANT], axis=0)

    def figure(statistic: Callable[[Numbers], Numbers]) -> Figure:
        return _figure(lambda each: statistic(np.tensordot(each, counts, 1)), len(counts), seed)

    def found(wanted: NDArray[np.bool_]) -> Figure:
        return figure(
            lambda t: t[:, wanted, RELEVANT:].sum(axis=(1, 2)) / t[:, wanted].sum(axis=(1, 2))
        )

    graded, undefined = max(rows) > 1, Figure(None)
    two_sides = halve.any(axis=1).all()  # else kappa is 0, however the judge judges
    total = counts.sum(axis=0).astype(int)
    return Agreement(
        int(total.sum()),
        len(counts),
        mapping,
        relevant,
        dict(zip(rows, total.tolist(), strict=True)),
        kappa=figure(lambda t: kappa(place @ t)) if graded else undefined,
        weighted_kappa=figure(lambda t: kappa(place @ t, quadratic=True)) if graded else undefined,
        binary_kappa=figure(lambda t: kappa(halve @ t @ ours)) if two_sides else undefined,
        false_positives=found(theirs <= 0),
        recall=found(theirs >= relevant),
    )


def system_order(
    systems: Sequence[System], people: Qrels, judge: Qrels, *, depth: int = 10, seed: int = 0
) -> SystemOrder:
    """Compare the order of two or more systems by nDCG with people's judgements and the judge's.

    Only queries count that both have judged. `depth` is that of nDCG, `seed` of the resampling.

    Raises:
        SettingError: there are fewer than two systems, or no such query.
    """
    common = [each for each in people if people[each] and judge.get(each)]
    if len(systems) < 2 or not common:
        raise SettingError("an order of systems takes two systems or more, and a judged query")
    measure = f"nDCG@{depth}"
    values = np.empty((2, len(systems), len(common)))
    for place, qrels in enumerate((people, judge)):
        kept = {each: qrels[each] for each in common}
        for row, system in enumerate(systems):
            found = evaluate(system.run, kept, (measure,)).per_query[measure]
            values[place, row] = [found[each] for each in common]

    def tau(weights: Numbers) -> Numbers:
        means = np.round(values @ weights.T / len(common), _PLACES)
        each = (kendall_tau(*means[:, :, draw].tolist()) for draw in range(len(weights)))
        return np.array([*each], dtype=np.float64)

    means = values.mean(axis=2)
    best = np.argsort(-means[0], kind="stable").tolist()
    by_label = {systems[each].label: means[:, each].tolist() for each in best}
    return SystemOrder(measure, len(common), by_label, _figure(tau, len(common), seed))


def _figure(statistic: Callable[[Numbers], Numbers], queries: int, seed: int) -> Figure:
    """A statistic and its interval; `statistic` takes rows of how often each query counts."""
    drawn = np.random.default_rng(seed).multinomial(queries, [1 / queries] * queries, RESAMPLES)
    with np.errstate(invalid="ignore", divide="ignore"):
        value, *spread = statistic(np.vstack([np.ones(queries), drawn])).tolist()
    if not math.isfinite(value):
        return Figure(None)
    defined = [each for each in spread if math.isfinite(each)]
    if queries < 2 or len(defined) < RESAMPLES / 2:
        return Figure(value)
    return Figure(value, Interval(*np.quantile(defined, (0.025, 0.975)).tolist()))
