"""Numbers and texts as the reports print them. Pure; nothing is computed here."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = [
    "bare",
    "cut",
    "decimals",
    "exact",
    "fixed",
    "money",
    "printable",
    "seconds",
    "value",
    "weight",
    "whole",
]

_SMALL = 3.0
_MINUTE = 60.0
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def decimals(numbers: Sequence[float]) -> int:
    """With how many decimals a column is printed: none for integers, else 2, or 3 up to 3.0."""
    if all(number == int(number) for number in numbers):
        return 0
    return 3 if max(abs(number) for number in numbers) <= _SMALL else 2


def fixed(number: float, places: int) -> str:
    """``7``, ``6.35``; never ``-0``."""
    text = f"{number:.{places}f}"
    return text.lstrip("-") if not text.strip("-0.") else text


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
    """The text, after `limit` characters replaced by a note of how many there are more."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({whole(len(text) - limit)} more characters)"


def bare(text: str) -> str:
    """The text on one line without marks of writing direction.

    For places where markup cannot isolate them: tooltips and the window's title.
    """
    return " ".join(_BIDI.sub("", text).split())


def printable(page: str) -> str:
    """The page with the replacement character for what no page may hold.

    Those are control characters, and halves of surrogate pairs, which UTF-8 cannot write.
    """
    return _UNPRINTABLE.sub("\ufffd", page)
