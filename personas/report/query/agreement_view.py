"""How far the personas agree about one query, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from personas.inspection.inspection import Inspection
from personas.report.formats import alpha_reading, fixed, tau_reading

__all__ = ["Agreement", "Pair", "agreement"]

MOST_PAIRS = 200
"""Pairs of personas that are shown, at most."""

_PLACES = 2
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two personas: Kendall's tau, and in words what it says; a dash where it is not defined."""

    first: str
    second: str
    tau: str
    reading: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a team agrees.

    Attributes:
        reading: what `alpha` says, to follow "The personas"; empty if it is not defined.
        alpha: Krippendorff's alpha.
        pairs: every two personas, in the order of the team, up to `MOST_PAIRS`.
        more_pairs: how many are not among them.
    """

    reading: str
    alpha: str
    pairs: tuple[Pair, ...]
    more_pairs: int


def agreement(inspection: Inspection) -> Agreement | None:
    """How far the personas agree; None where fewer than two judged."""
    number = len(inspection.personas)
    if number < 2 or not inspection.hits:
        return None
    alpha, taus = inspection.agreement.sums.alpha, inspection.agreement.taus
    return Agreement(
        reading="" if alpha is None else alpha_reading(alpha),
        alpha="" if alpha is None else _signed(alpha),
        pairs=tuple(
            _pair(first, second, tau) for (first, second), tau in islice(taus.items(), MOST_PAIRS)
        ),
        more_pairs=max(0, number * (number - 1) // 2 - MOST_PAIRS),
    )


def _pair(first: str, second: str, tau: float | None) -> Pair:
    if tau is None:
        return Pair(first, second, "\N{EN DASH}", "cannot be told")
    return Pair(first, second, _signed(tau), tau_reading(tau))


def _signed(number: float) -> str:
    return fixed(number, _PLACES).replace("-", _MINUS)
