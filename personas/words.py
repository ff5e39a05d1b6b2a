"""Numbers as text for people."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["counted", "dollars", "file_size", "score_column", "seconds"]

_MISSING = "-"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def seconds(value: float) -> str:
    """A duration in seconds: ``0.42 s``, ``12.3 s``, ``3 min 05 s``, ``2 h 04 min``."""
    if value < 10:
        return f"{value:.2f} s"
    if value < 100:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def dollars(value: float) -> str:
    """US dollars with two digits that count: ``$12.40``, ``$0.031``, ``$0.00042``."""
    if value == 0 or value >= 1:
        return f"${value:,.2f}"
    digits = 2
    while digits < 8 and round(value, digits) * 10 ** (digits - 1) < 1:
        digits += 1
    return f"${value:.{digits}f}"


def file_size(size: int | None) -> str:
    """Bytes in powers of ten: ``98 MB``, ``4.7 GB``; ``?`` where it is not known."""
    if size is None:
        return "?"
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            value = size / factor
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{size} B"


def score_column(values: Sequence[float | None]) -> list[str]:
    """The scores of one column, all with the same number of decimals; ``-`` for None."""
    known = [abs(value) for value in values if value is not None]
    whole = all(value.is_integer() for value in known)
    decimals = 0 if whole else 2 if max(known) >= 10 else 3
    return [_MISSING if value is None else f"{value:.{decimals}f}" for value in values]
