"""Numbers of a survey in words and short texts. Pure; nothing is computed here."""

from __future__ import annotations

from markupsafe import Markup, escape

from personas.report.formats import cut, fixed

__all__ = [
    "EMPTY_QUERY",
    "change",
    "count",
    "optional",
    "percent",
    "signed",
    "tersely",
]

EMPTY_QUERY = "(empty query)"

_PLACES = 3
_MINUS = "\N{MINUS SIGN}"
_CHANGE = Markup('<span class="{}">{}</span>')


def signed(number: float, places: int = _PLACES) -> str:
    """``+0.120``, and with a true minus sign -0.050; ``0.000`` for what rounds to it."""
    text = fixed(number, places)
    if not text.strip("-0."):
        return text
    return text.replace("-", _MINUS) if number < 0 else f"+{text}"


def change(text: str) -> str | Markup:
    """What `signed` made, in the colour of a rise or a fall; other text as it is."""
    if text.startswith(("+", _MINUS)):
        return _CHANGE.format("up" if text.startswith("+") else "down", text)
    return text


def optional(number: float | None, places: int = _PLACES) -> str:
    """``0.431``, with a true minus sign below 0; empty for None."""
    return "" if number is None else fixed(number, places).replace("-", _MINUS)


def percent(share: float | None) -> str:
    """``62%`` for 0.62; empty for None."""
    return "" if share is None else f"{fixed(100 * share, 0)}%"


def count(number: int, one: str, many: str = "") -> str:
    """``1 query``, ``1,200 queries``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tersely(text: str, limit: int) -> Markup:
    """Untrusted text on one line, cut to `limit` characters, in as few bytes as is safe.

    Text in ASCII has no marks of writing direction, so it needs no box of its own.
    """
    line = cut(" ".join(text[: 4 * limit].split()), limit)
    return escape(line) if line.isascii() else Markup("<bdi>{}</bdi>").format(line)
