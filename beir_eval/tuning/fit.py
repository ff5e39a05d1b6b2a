"""Two ways to fit weights to judgements: a listwise loss, and coordinate ascent on nDCG@10."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from beir_eval.errors import ExtraMissing
from beir_eval.tuning.scored import Numbers, ScoredQueries, Weights

SPREAD = 1.0
"""Standard deviation of the prior of a weight's logarithm, around that of the present weight."""

FACTORS = (1 / 3, 2 / 3, 1.5, 3.0)
"""Steps that coordinate ascent tries for each weight."""

PASSES = 3
"""Times that coordinate ascent goes over all weights, at most."""

_SHARPNESS = 10.0  # of the softmax at the start, per unit of scores from 0 to 1
_LEAST_GAIN = 1e-6

Fit: TypeAlias = Callable[[ScoredQueries, Weights], Weights]


def listwise(queries: ScoredQueries, present: Weights) -> Weights:
    """Fit weights by the softmax cross-entropy of ListNet (Cao et al., ICML 2007), by L-BFGS.

    The loss of a query is the cross-entropy of its grades, divided by their sum, and the softmax of
    its final scores times a sharpness that is fitted too. A prior pulls each weight to the present
    one: log weights are normal around it, with `SPREAD`. A first stage's share is added as it
    counts at the present weights.

    Raises:
        ExtraMissing: scipy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as missing:
        raise ExtraMissing("scipy", "fitting weights", extra="eval") from missing
    rows = np.flatnonzero((queries.gains * queries.scored).any(axis=1))
    if not len(rows):
        return present
    queries, count = queries.take(rows), len(rows)
    known, share = queries.scored, queries.rule.first_stage_weight
    gains = np.where(known, queries.gains, 0.0)
    targets = gains / gains.sum(axis=1, keepdims=True)
    size = (queries.rule.top or 1.0) * queries.values.shape[2]
    totals = np.where(known, _totals(queries, present)[0], np.nan)
    spreads = np.nanmax(totals, axis=1) - np.nanmin(totals, axis=1)
    offset = share / (1 - share) * spreads[:, None] * np.nan_to_num(queries.first_units)

    def loss(parameters: Numbers) -> tuple[float, Numbers]:
        logs, sharpness = parameters[:-1], np.exp(parameters[-1]) / size
        totals, slopes = _totals(queries, present.times(logs))
        given = np.where(known, sharpness * (totals + offset), -np.inf)
        given -= given.max(axis=1, keepdims=True)
        chances = np.exp(given)
        sums = chances.sum(axis=1, keepdims=True)
        likelihoods = np.where(known, given, 0.0) - np.log(sums)
        by_score = (chances / sums - targets) / count
        prior = logs / (SPREAD**2 * count)
        by_logs = sharpness * np.einsum("qp,qpw->w", by_score, slopes) + prior
        by_sharpness = (by_score * np.where(known, given, 0.0)).sum()
        value = -(targets * likelihoods).sum() / count + logs @ prior / 2
        return float(value), np.append(by_logs, by_sharpness)

    start = np.append(np.zeros(len(present.flat)), np.log(_SHARPNESS))
    bounds = [(-5.0, 5.0)] * len(present.flat) + [(-5.0, 8.0)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return present.times(found.x[:-1])


def ascent(queries: ScoredQueries, present: Weights) -> Weights:
    """Raise mean nDCG@10 weight by weight, from the present ones, until none of `FACTORS` does."""
    best, weights = float(queries.ndcg(present).mean()), present
    for _ in range(PASSES):
        before = best
        for unit in np.eye(len(present.flat)):
            for tried in [weights.times(np.log(factor) * unit) for factor in FACTORS]:
                value = float(queries.ndcg(tried).mean())
                if value > best + _LEAST_GAIN:
                    best, weights = value, tried
        if best <= before:
            break
    return weights


FITS: Mapping[str, Fit] = MappingProxyType({"listwise": listwise, "ascent": ascent})
"""Ways to fit weights, by name."""


def _totals(queries: ScoredQueries, weights: Weights) -> tuple[Numbers, Numbers]:
    """Sums of weighed scores, and their slopes by each weight's logarithm (the last axis)."""
    filled, personas = queries.filled(weights), weights.part(0)
    means, count = filled @ personas, len(personas)
    counted = np.ones(means.shape)
    if queries.rule.missing_policy == "mean_of_team":
        counted = np.maximum(~np.isnan(queries.values) @ personas, np.finfo(float).tiny)
    slopes = np.zeros((*means.shape, len(weights.flat)))
    slopes[:, :, weights.groups[0]] = personas * (filled - means[:, :, None])
    for column, by_criterion in enumerate(queries.criteria):
        apart = np.nan_to_num(by_criterion - filled[:, :, column, None])
        part = weights.part(column + 1)
        slopes[:, :, weights.groups[column + 1]] = personas[column] * part * apart
    return count * means, count * slopes / counted[:, :, None]
