"""Orders of passages as ensembles combine them: ranks, one column a persona, become points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from personas.ensembles import Rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def points(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Borda's points: above how many other passages a passage stands, equal ranks counted half."""
    import numpy as np

    found = np.empty(ranks.shape)
    for place, column in enumerate(ranks.T):
        ordered = np.sort(column)
        above = np.searchsorted(ordered, column, "left")
        up_to = np.searchsorted(ordered, column, "right")
        found[:, place] = len(column) - (above + up_to + 1) / 2
    return found


def rule_of_points(rule: Rule, passages: int) -> Rule:
    """The rule for the points of that number of distinct passages."""
    return replace(rule, top=float(max(passages - 1, 0)))
