"""Numbers and texts as the reports print them. Pure; nothing is computed here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = [
    "alpha_reading",
    "bare",
    "clean",
    "contained",
    "cut",
    "decimals",
    "exact",
    "fixed",
    "judgement",
    "money",
    "printable",
    "seconds",
    "tau_reading",
    "value",
    "weight",
    "whole",
]

_MOST_DECIMALS = 2
_SMALL = 3.0
_MINUTE = 60.0
_POP = "\u2069"
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ISOLATES = re.compile("[\u2066-\u2069]")
_LINES = re.compile("([\n\r\x1c-\x1e\x85\u2029])")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_PRINTABLE = re.compile(
    "[\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*"
)  # all but _UNPRINTABLE: a whole page is matched in half the time of a search
_AGREEMENT = ("agree well", "agree somewhat", "hardly agree", "rather disagree")
_ALPHA_LIMITS = (0.667, 0.333, 0.0)  # Krippendorff's lower limit, and half of it
_TAU_LIMITS = (0.4, 0.1, -0.1)


def decimals(numbers: Sequence[float]) -> int:
    """With how many decimals a column is printed: as few as say it all.

    At most 2, or 3 where no number exceeds 3.0, as with probabilities and reciprocal ranks.
    """
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


def fixed(number: float, places: int) -> str:
    """``7``, ``6.35``; never ``-0``."""
    text = f"{number:.{places}f}"
    return text[1:] if text[0] == "-" and not text.strip("-0.") else text


def exact(number: float) -> str:
    """Up to six significant digits: ``6.35``, ``0.333333``, ``24``."""
    return f"{number:.6g}"


def whole(number: int) -> str:
    """``12,345``."""
    return f"{number:,}"


def weight(percent: float) -> str:
    """``35%``, ``33.3%``."""
    return f"{percent:.1f}".removesuffix(".0") + "%"


def money(dollars: float | None) -> str:
    """US dollars: ``$1.24``, ``$0.0042``, ``$0``, or that the price is not known."""
    if dollars is None:
        return "price not known"
    if dollars == 0:
        return "$0"
    if dollars < 0.000_05:
        return "under $0.0001"
    return f"${dollars:.4f}" if dollars < 0.1 else f"${dollars:,.2f}"


def seconds(duration: float) -> str:
    """``0.42 s``, ``12.3 s``, ``3 min 20 s``."""
    if round(duration, 1) >= _MINUTE:
        minutes, rest = divmod(round(duration), 60)
        return f"{minutes:,} min {rest} s"
    return f"{duration:.1f} s" if round(duration, 2) >= 10 else f"{duration:.2f} s"


def value(setting: Any) -> str:
    """A setting as a person would write it: text as it is, the rest as JSON."""
    if isinstance(setting, str):
        return setting or '""'
    return json.dumps(setting, ensure_ascii=False, default=str)


def cut(text: str, limit: int) -> str:
    """The text with an ellipsis for what follows after `limit` characters, and `contained`."""
    return contained(text if len(text) <= limit else f"{text[:limit]}…")


def contained(text: str) -> str:
    """The text with every isolate of writing direction closed in the line that opens it.

    Browsers end a ``bdi`` by the same mark that ends an isolate within the text. A text that
    opens more than it closes, or closes more than it opens, would turn around what follows
    it on the page.
    """
    if not _ISOLATES.search(text):
        return text
    return "".join(_balanced(line) for line in _LINES.split(text))


def bare(text: str) -> str:
    """The text on one line without marks of writing direction.

    For places where markup cannot isolate them: tooltips and the window's title.
    """
    return " ".join(_BIDI.sub("", text).split())


def printable(page: str) -> str:
    """The page with the replacement character for what no page may hold.

    Those are control characters, and halves of surrogate pairs, which UTF-8 cannot write.
    """
    if _PRINTABLE.fullmatch(page):
        return page
    return _UNPRINTABLE.sub("\ufffd", page)


def clean(text: str) -> str:
    """`contained` and `printable` at once."""
    return text if text.isprintable() else printable(contained(text))


def alpha_reading(alpha: float) -> str:
    """Krippendorff's alpha in words, to follow "the personas": ``agree well``, ..."""
    return _AGREEMENT[sum(alpha < limit for limit in _ALPHA_LIMITS)]


def tau_reading(tau: float) -> str:
    """Kendall's tau in words, to follow "two personas": ``agree well``, ..."""
    return _AGREEMENT[sum(tau < limit for limit in _TAU_LIMITS)]


def judgement(grade: int | None, *, graded: bool) -> str:
    """What the judges of the collection say of a passage.

    ``relevant`` or, where grades above 1 occur (`graded`), ``relevant (2)``; ``not relevant``,
    ``not judged``.
    """
    if grade is None:
        return "not judged"
    if grade <= 0:
        return "not relevant"
    return f"relevant ({grade})" if graded else "relevant"


def _balanced(line: str) -> str:
    depth = 0

    def close(mark: re.Match[str]) -> str:
        nonlocal depth
        if mark.group() != _POP:
            depth += 1
        elif depth:
            depth -= 1
        else:
            return ""
        return mark.group()

    balanced = _ISOLATES.sub(close, line)
    return balanced + _POP * depth
