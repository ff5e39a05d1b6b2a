"""Numbers of a report as text: the same in every form, and the same on every machine."""

from __future__ import annotations

from beir_eval.measures.anova import AnovaRow
from personas import format as formatting
from personas.format import fixed

NOTHING = "\N{EN DASH}"
"""Shown where there is no number."""

PLACES = 3
"""Decimals of a measure."""

LEVELS = ((0.01, "‡"), (0.05, "†"))
"""A corrected p-value below the number gets the mark; the strictest first."""

TIES_SIGN, MISSING_SIGN = "§", "¶"
"""Marks of a value that leads by ties, and of one that lacks scores or comparisons."""


def measure_text(value: float | None) -> str:
    """A measure of 0 to 1: ``0.679``."""
    return NOTHING if value is None else fixed(value, PLACES)


def gain_text(value: float | None) -> str:
    """A difference of measures: ``+0.012``, ``0.000``; below 0 with a true minus sign."""
    return NOTHING if value is None else formatting.signed(value, PLACES)


def interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Both ends: ``0.612 to 0.740``."""
    shown = gain_text if signed else measure_text
    return f"{shown(low)} to {shown(high)}"


def p_text(p_value: float | None) -> str:
    """A p-value with three decimals: ``0.032``; ``<0.001`` below that."""
    return NOTHING if p_value is None else formatting.p_text(p_value)


def mark(p_adjusted: float | None) -> str:
    """``†``, ``‡`` or nothing, as `LEVELS` says."""
    if p_adjusted is None:
        return ""
    return next((sign for level, sign in LEVELS if p_adjusted < level), "")


def rate(part: int, whole: int) -> str:
    """A share in percent: ``1.5%``; only nothing reads as 0.0%, and only everything as 100.0%."""
    if not whole:
        return NOTHING
    if 0 < part < 0.0005 * whole:
        return "<0.1%"
    if 0.9995 * whole <= part < whole:
        return ">99.9%"
    return f"{100 * part / whole:.1f}%"


def anova_cells(row: AnovaRow) -> tuple[str, ...]:
    """SS, DF, MS, F, p and both effect sizes of a term as texts; empty where there is none."""
    p = "" if row.p is None else "<0.0001" if row.p < 0.0001 else f"{row.p:.4f}"
    f, omega, one_way = (
        "" if each is None else f"{each:.4f}" for each in (row.f, row.omega, row.omega_one_way)
    )
    return _small(row.ss), f"{row.df}", _small(row.ms), f, p, omega, one_way


def _small(value: float) -> str:
    return f"{value:.1e}" if 0 < value < 0.001 else f"{value:.4f}"
