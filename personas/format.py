"""Numbers as text for people: the same in terminals, pages and tables. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

_MINUS = "\N{MINUS SIGN}"
_MOST_DECIMALS = 2
_SMALL = 3.0


def whole(number: int) -> str:
    """``12,345``."""
    return f"{number:,}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 call``, ``1,234 calls``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def seconds(value: float) -> str:
    """A duration in seconds: ``0.42 s``, ``12.3 s``, ``3 min 05 s``, ``2 h 04 min``."""
    if value < 10:
        return f"{value:.2f} s"
    if value < 100:
        return f"{value:.1f} s"
    total = round(value)
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600:,} h {total % 3600 // 60:02d} min"


def dollars(value: float | None) -> str:
    """US dollars with two digits that count: ``$12.40``, ``$0.031``, ``$0.00042``, ``$0``."""
    if value is None:
        return "price not known"
    if value == 0:
        return "$0"
    if value >= 1:
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


def fixed(number: float, places: int) -> str:
    """``7``, ``6.35``; never ``-0``."""
    text = f"{number:.{places}f}"
    return text[1:] if text[0] == "-" and not text.strip("-0.") else text


def exact(number: float) -> str:
    """Up to six significant digits: ``6.35``, ``0.333333``, ``24``."""
    return f"{number:.6g}"


def optional(number: float | None, places: int = 3) -> str:
    """``0.431``, with a true minus sign below 0; empty for None."""
    return "" if number is None else fixed(number, places).replace("-", _MINUS)


def signed(number: float, places: int = 3) -> str:
    """``+0.120``, and with a true minus sign -0.050; ``0.000`` for what rounds to it."""
    text = optional(number, places)
    return f"+{text}" if number > 0 and text.strip("0.") else text


def weight(percent: float) -> str:
    """``35%``, ``33.3%``."""
    return f"{percent:.1f}".removesuffix(".0") + "%"


def p_text(p_value: float) -> str:
    """A p-value with three decimals: ``0.032``; ``<0.001`` below that."""
    return "<0.001" if p_value < 0.001 else fixed(p_value, 3)


def percent(share: float | None) -> str:
    """``62%`` for 0.62; empty for None."""
    return "" if share is None else f"{fixed(100 * share, 0)}%"


def decimals(numbers: Sequence[float]) -> int:
    """With how many decimals a column is printed: as few as say it all."""
    most = max((abs(number) for number in numbers), default=0.0)
    limit = _MOST_DECIMALS + (most <= _SMALL)
    return next(
        (
            places
            for places in range(limit)
            if all(abs(round(number, places) - number) < 1e-9 for number in numbers)
        ),
        limit,
    )
