"""One difference over several collections: a random-effects meta-analysis.

A t-test on the means of collections throws away how sure each of them is, and a Wilcoxon test over
collections cannot fall below p = 0.05 with five of them or fewer. A meta-analysis weights each
collection by how exact its difference is and lets the true difference vary between collections;
Soboroff (CIKM 2018) recommends it for test collections.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beir_eval.measures.significance import EQUAL, Interval, chance_above, quantile


@dataclass(frozen=True, slots=True)
class Pooled:
    """The difference of two rankers over several collections.

    Attributes:
        collections: how many.
        better: on how many of them the mean difference is above 0.
        difference: the mean of the collections' true differences, as estimated.
        interval: of it.
        p_value: two-sided.
        p_adjusted: corrected for all rankers of its table.
        between: standard deviation of the true differences between collections, as estimated.
    """

    collections: int
    better: int
    difference: float
    interval: Interval
    p_value: float
    p_adjusted: float
    between: float


def pooled(differences: Sequence[Mapping[str, float]], *, level: float = 0.95) -> Pooled | None:
    """Pool the differences of one ranker; None with fewer than two collections that vary.

    With mean d_i and squared standard error v_i of each of k collections, DerSimonian and Laird's
    variance between them is t2 = max(0, (Q - k + 1) / (S1 - S2 / S1)), where S1 and S2 are the sums
    of 1 / v_i and of 1 / v_i^2, and Q = sum (d_i - d)^2 / v_i about the mean d weighted by 1 / v_i.
    The pooled difference is weighted by w_i = 1 / (v_i + t2). Its standard error is Hartung and
    Knapp's, sqrt(max(1, q) / sum w_i) with q = sum w_i (d_i - difference)^2 / (k - 1), on k - 1
    degrees of freedom. Collections of one query or without any spread say nothing of their
    exactness and are left out.

    Args:
        differences: collection by collection, query id -> difference.
        level: of the interval.

    Raises:
        ExtraMissing: scipy is not installed.
    """
    means, variances = [], []
    for each in differences:
        count = len(each)
        mean = math.fsum(each.values()) / count if count else 0.0
        squares = math.fsum((value - mean) ** 2 for value in each.values())
        if count > 1 and squares > EQUAL**2:
            means.append(mean)
            variances.append(squares / (count - 1) / count)
    count = len(means)
    if count < 2:
        return None
    weights = [1 / each for each in variances]
    mean, total = _weighted(means, weights), math.fsum(weights)
    excess = _spread(means, weights, mean) - (count - 1)
    scale = total - math.fsum(each**2 for each in weights) / total
    between = max(0.0, excess / scale)
    weights = [1 / (each + between) for each in variances]
    mean = _weighted(means, weights)
    inflation = max(1.0, _spread(means, weights, mean) / (count - 1))
    error = math.sqrt(inflation / math.fsum(weights))
    reach = quantile((1 + level) / 2, count - 1) * error
    p_value = 2 * chance_above(abs(mean) / error, count - 1)
    return Pooled(
        collections=count,
        better=sum(each > EQUAL for each in means),
        difference=mean,
        interval=Interval(max(-1.0, mean - reach), min(1.0, mean + reach)),
        p_value=p_value,
        p_adjusted=p_value,
        between=math.sqrt(between),
    )


def _weighted(means: Sequence[float], weights: Sequence[float]) -> float:
    products = (each * weight for each, weight in zip(means, weights, strict=True))
    return math.fsum(products) / math.fsum(weights)


def _spread(means: Sequence[float], weights: Sequence[float], about: float) -> float:
    return math.fsum(
        weight * (each - about) ** 2 for each, weight in zip(means, weights, strict=True)
    )
