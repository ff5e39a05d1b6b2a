"""Ensembles: the ways from the personas' scores to a ranking (Eq. 4), by name.

Rows are passages in first-stage order, columns are personas; NaN is a missing score. Pure: scores
are combined in another way, or without a persona, at no call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from personas.errors import PersonasError
from personas.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from personas.schema import Member

    Matrix: TypeAlias = NDArray[np.float64]

HIGHEST_SCORE = (2 - 2**-23) * 2.0**127  # of either sign: single precision, as TREC runs hold
RRF_K = 60  # of reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)

MissingPolicy = Literal["mean_of_team", "lowest", "constant"]
"""Substitutes for a missing score; a ranker may also refuse to go on without it (``fail``)."""

_POLICIES: Mapping[str, MissingPolicy] = {
    "lowest": "lowest",
    "constant": "constant",
    "fail": "lowest",  # by then nothing is missing; until then, what helps least
}


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Combines the scores of a team to one score a passage.

    >>> MEDIAN = Ensemble(
    ...     "median",
    ...     lambda scores: np.median(scores, axis=1),
    ...     "The median of the personas' scores.",
    ...     by_row=True,
    ... )

    A package makes it known by name in its ``pyproject.toml``::

        [project.entry-points."mcranker.ensembles"]
        median = "my_package:MEDIAN"

    Attributes:
        combine: takes scores of shape (passages, personas), none missing, equal passages as one
            row, rows in first-stage order; returns one finite score a row, the higher the better.
        description: where the final score comes from; a sentence for reports.
        by_row: each row is combined by itself.
        asks: a model combines the scores; `combine` replaces it where it is not to be called.
        ranks: `combine` ranks the passages persona by persona, equal scores alike.
    """

    name: str
    combine: Callable[..., Matrix]
    description: str
    by_row: bool = False
    asks: bool = False
    ranks: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule from scores to the final scores of a ranking."""

    ensemble: Ensemble
    missing_policy: MissingPolicy = "mean_of_team"
    constant: float = 0.0
    first_stage_weight: float = 0.0
    top: float = 0.0
    assessor_top: float = 0.0
    weights: tuple[float, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Rule:
        """The rule of a configuration; what it does not say, or cannot be, is the default."""
        return cls(
            ensemble=find_ensemble(config) or SUM,
            missing_policy=_POLICIES.get(str(config.get("missing_policy")), "mean_of_team"),
            constant=_number(config.get("missing_constant")),
            first_stage_weight=min(_number(config.get("first_stage_weight")), 1.0),
            top=highest_score(config) or 0.0,
            assessor_top=_number(config.get("scale")),
        )

    def for_columns(self, members: Iterable[Member], names: Sequence[str]) -> Rule:
        """The rule for the columns of these names, with the weights of the team's members."""
        weights: dict[str, float] = {}
        for member in members:  # which mostly weigh 1
            if member.weight != 1.0:
                weights[member.name] = member.weight
        if not weights and not self.weights:
            return self
        return self.weighted([weights.get(name, 1.0) for name in names])

    def weighted(self, weights: Sequence[float]) -> Rule:
        """The rule with these weights of its columns, brought to the mean 1."""
        highest = max(weights, default=0.0)
        if min(weights, default=0.0) == highest:
            return replace(self, weights=())
        mean = math.fsum(each / highest for each in weights) / len(weights)
        return replace(self, weights=tuple(each / highest / mean for each in weights))

    @property
    def weights_problem(self) -> str:
        """The reason why the ensemble cannot take the weights; empty if it can."""
        if not self.weights or self.ensemble.name == SUM.name:
            return ""
        return (
            f"the personas' weights differ, and the ensemble {self.ensemble.name!r} counts all "
            'alike; use ensemble="sum", or give all members of the team the same weight'
        )

    @property
    def keeps_order(self) -> bool:
        """True if the order of passages with equal scores can show in more than final ties."""
        ensemble = self.ensemble
        return not (ensemble.by_row or ensemble.asks or ensemble.ranks)

    def final(
        self,
        values: Matrix,
        group_of: NDArray[np.intp],
        first_stage: Sequence[float | None],
        *,
        assessed: Matrix | None = None,
    ) -> Matrix:
        """The final score of each passage, NaN without any."""
        import numpy as np

        by_row = np.full(len(values), np.nan)
        scored = ~self._without_score(values, assessed)
        if assessed is None:
            by_row[scored] = self._combined(values[scored])
        else:
            given = assessed[scored]
            if self.missing_policy == "mean_of_team":
                means = self.filled(values[scored]).mean(axis=1)
                given = np.where(np.isnan(given), means, given)
            by_row[scored] = self.filled(given[:, None])[:, 0]
        scores = by_row[group_of]
        known = [score for score in first_stage if score is not None]
        if self.first_stage_weight and len(known) == len(scores):
            places = np.flatnonzero(~np.isnan(scores))
            given = np.asarray(known, dtype=np.float64)[places]
            scores[places] = interpolate(scores[places], given, self.first_stage_weight)
        return scores

    def relevance(self, values: Matrix, assessed: Matrix | None = None) -> Matrix:
        """The mean judge's score by k, 0 to 1, of each row; the assessor's, where there was one."""
        import numpy as np

        found = np.full(len(values), np.nan)
        scored = ~self._without_score(values, assessed)
        if not (self.top and scored.any()):
            return found
        filled = self.filled(values[scored])
        means = score_sum(self.weigh(filled)) / max(filled.shape[1], 1) / self.top
        if assessed is not None:
            given = assessed[scored]
            instead = means
            if self.missing_policy != "mean_of_team":
                instead = self.filled(given[:, None])[:, 0] / self.assessor_top
            means = np.where(np.isnan(given), instead, given / self.assessor_top)
        found[scored] = np.clip(means, 0.0, 1.0)
        return found

    def _without_score(self, values: Matrix, assessed: Matrix | None) -> NDArray[np.bool_]:
        """Rows without a score, and without an imputed one."""
        import numpy as np

        if self.missing_policy == "constant" and values.shape[1]:
            return np.zeros(len(values), dtype=np.bool_)
        nothing = np.isnan(values).all(axis=1)
        if assessed is not None:
            nothing &= np.isnan(assessed)
        return np.asarray(nothing, dtype=np.bool_)

    def _combined(self, values: Matrix) -> Matrix:
        import numpy as np

        if not values.size:
            return np.zeros(len(values))
        if self.weights_problem:
            raise PersonasError(self.weights_problem)
        filled = self.weigh(self.filled(values))
        combined = np.asarray(self.ensemble.combine(filled), dtype=np.float64)
        if combined.shape != (len(values),) or not np.isfinite(combined).all():
            raise PersonasError(
                f"the ensemble {self.ensemble.name!r} gave an array of shape {combined.shape} for "
                f"{len(values)} passages, or a number that is not finite; it must give one finite "
                "score a passage"
            )
        return combined

    def filled(self, values: Matrix) -> Matrix:
        """The scores, with substitutes for missing ones."""
        weights = self.weights if values.shape[1] == len(self.weights) else ()
        return fill_missing(values, self.missing_policy, constant=self.constant, weights=weights)

    def weigh(self, filled: Matrix) -> Matrix:
        """Scores times the weights of their columns."""
        return filled * self.weights if self.weights else filled


def find_ensemble(config: Mapping[str, Any]) -> Ensemble | None:
    """The ensemble of a configuration, `SUM` if it names none; None if it is not known here."""
    try:
        return ENSEMBLES.get(str(config.get("ensemble", SUM.name)))
    except PersonasError:
        return None


def highest_score(config: Mapping[str, Any]) -> float | None:
    """The highest score one persona can give by a configuration; None if it does not say."""
    labels = config.get("labels")
    levels = len(labels) - 1 if isinstance(labels, list | tuple) else 0
    tops = (config.get("top_score"), levels, config.get("scale"))
    return next((top for top in map(_number, tops) if top), None)


def distinct(contents: Iterable[Hashable]) -> tuple[list[int], NDArray[np.intp]]:
    """The places of the first of each of equal passages, which are the rows; the row of each."""
    import numpy as np

    rows: dict[Hashable, int] = {}
    group_of = np.array([rows.setdefault(each, len(rows)) for each in contents], dtype=np.intp)
    return np.unique(group_of, return_index=True)[1].tolist(), group_of


def fill_missing(
    values: Matrix,
    policy: MissingPolicy = "mean_of_team",
    *,
    constant: float = 0.0,
    weights: Sequence[float] = (),
) -> Matrix:
    """The matrix without NaN; the options as in `Rule`. The mean of the others is by weight."""
    import numpy as np

    # Rows that lie apart in memory would be added up in another order.
    values = np.ascontiguousarray(values)
    gaps = np.isnan(values)
    if not gaps.any():
        return values
    if policy == "constant":
        return np.where(gaps, constant, values)
    if policy == "lowest":
        return np.where(gaps, 0.0, values)
    known = (~gaps * weights if weights else ~gaps).sum(axis=1)
    sums = score_sum(np.where(gaps, 0.0, values * weights if weights else values))
    means = np.divide(sums, known, out=np.zeros(len(values)), where=known > 0)
    return np.where(gaps, means[:, None], values)


def score_sum(values: Matrix) -> Matrix:
    """Sum of the personas' scores, one a passage (Eq. 4, left), to 13 significant digits."""
    import numpy as np

    sums = [float(f"{math.fsum(row):.12e}") for row in values.tolist()]
    return np.array(sums, dtype=np.float64)


def reciprocal_rank(values: Matrix, *, constant: float = 0.0) -> Matrix:
    """Sum over the personas of 1 / (constant + rank), ranks from 1 (Eq. 4, middle, with 0).

    Equal scores of a persona have the mean of the ranks that they share: the paper does not say.
    """
    import numpy as np

    if not values.shape[1]:
        return np.zeros(len(values))
    ranks = np.stack([_ranks(scores) for scores in values.T], axis=1)
    return score_sum(1.0 / (constant + ranks))


def interpolate(scores: Matrix, first_stage: Matrix, weight: float) -> Matrix:
    """``(1 - weight) · scores + weight · first stage``, both scaled to 0..1 over the passages."""
    return (1.0 - weight) * unit_range(scores) + weight * unit_range(first_stage)


def descending(scores: Matrix) -> NDArray[np.intp]:
    """Row numbers by falling score, NaN last; equal ones stay in row order (first-stage order)."""
    import numpy as np

    return np.argsort(-scores, kind="stable")


def _ranks(scores: Matrix) -> Matrix:
    """Ranks from 1 by falling score; equal ones have the mean of the ranks that they share."""
    import numpy as np

    _, level, tied = np.unique(-scores, return_inverse=True, return_counts=True)
    shared = np.cumsum(tied) - (tied - 1) / 2
    return np.asarray(shared[level], dtype=np.float64)


def unit_range(scores: Matrix) -> Matrix:
    """The scores from 0 for the least to 1 for the greatest; all 0 if they are equal."""
    import numpy as np

    if not len(scores):
        return scores
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else np.zeros(len(scores))


def _number(value: object) -> float:
    """A number of a stored configuration; 0 for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) and number >= 0 else 0.0


SUM = Ensemble("sum", score_sum, "The sum of the personas’ scores.", by_row=True)  # noqa: RUF001
RECIPROCAL_RANK = Ensemble(
    "reciprocal_rank",
    reciprocal_rank,
    "The sum of 1 / rank over the personas, each of whom ranks all passages.",
    ranks=True,
)
RRF = Ensemble(
    "rrf",
    partial(reciprocal_rank, constant=RRF_K),
    f"Reciprocal rank fusion: the sum of 1 / ({RRF_K} + rank) over the personas, each of whom "
    "ranks all passages.",
    ranks=True,
)
ASSESSOR = Ensemble(
    "assessor", score_sum, "That of an assessor, who was shown all scores.", asks=True
)

ENSEMBLES: Registry[Ensemble] = Registry(
    "ensemble",
    "mcranker.ensembles",
    {
        name: f"personas.ensembles:{name.upper()}"
        for name in ("sum", "reciprocal_rank", "rrf", "assessor")
    },
    PersonasError,
    lambda found: isinstance(found, Ensemble),
)
"""Ensembles by name; packages add theirs under the entry point group ``mcranker.ensembles``."""
