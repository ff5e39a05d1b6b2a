"""Texts and small pieces of markup as the reports print them. Pure; nothing is computed here.

Untrusted text is in a box of its own, where its marks of writing direction end; what the
page says about it stands outside of that box. Whatever is made into `Markup` here was escaped by
`escaped` right before.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from html import escape
from typing import Any

import markupsafe
from markupsafe import Markup

from personas.format import whole

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
_UP = Markup(
    '<span class="up"><span aria-hidden="true">▲</span><span class="sr">up </span>{}</span>'
)
_DOWN = Markup(
    '<span class="down"><span aria-hidden="true">▼</span><span class="sr">down </span>{}</span>'
)
_SAME = Markup(
    '<span class="same"><span aria-hidden="true">=</span><span class="sr">not moved</span></span>'
)
_CHANGE = Markup('<span class="{}">{}</span>')
_TOOLTIP = 200


def value(setting: Any) -> str:
    """A setting as a person would write it: text as it is, the rest as JSON."""
    if isinstance(setting, str):
        return setting or '""'
    return json.dumps(setting, ensure_ascii=False, default=str)


def cut(text: str, limit: int) -> str:
    """The text with an ellipsis for what follows after `limit` characters, and `contained`."""
    return contained(text if len(text) <= limit else f"{text[:limit]}…")


def contained(text: str) -> str:
    """The text with every isolate of writing direction closed in the line that opens it."""
    if not _ISOLATES.search(text):
        return text
    return "".join(_balanced(line) for line in _LINES.split(text))


def bare(text: str) -> str:
    """The text on one line without marks of writing direction."""
    return " ".join(_BIDI.sub("", text).split())


def printable(page: str) -> str:
    """The page with the replacement character for what no page may hold."""
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
    """Describe the collection's judgement of a passage."""
    if grade is None:
        return "not judged"
    if grade <= 0:
        return "not relevant"
    return f"relevant ({grade})" if graded else "relevant"


def place(rank: int, score: float | None, otherwise: str = "") -> str:
    """A rank, and the score there."""
    return f"rank {rank}{otherwise if score is None else f', score {score:.6g}'}"


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


def escaped(text: str, limit: int, *, quote: bool = True) -> Markup:
    """Untrusted text, cut to `limit` characters, as markup."""
    shown = clean(text if len(text) <= limit else f"{text[:limit]}…")
    if quote:
        return markupsafe.escape(shown)
    return Markup(escape(shown, quote=False))  # noqa: S704 - is escaped


def tooltip(text: str) -> str:
    """Untrusted text for a place where markup cannot isolate it."""
    return cut(bare(text[: 4 * _TOOLTIP]), _TOOLTIP)


def iso(text: str, limit: int = 300) -> Markup:
    """Text within a line, cut to `limit` characters."""
    return Markup(f"<bdi>{escaped(text, limit)}</bdi>")  # noqa: S704


def part(text: str, limit: int) -> Markup:
    """Text of a block, cut to `limit` characters, with a note of how much is left out."""
    shown = f'<span class="iso">{escaped(text, limit)}</span>'
    if len(text) > limit:
        shown += f' <span class="more">({whole(len(text) - limit)} more characters)</span>'
    return Markup(shown)  # noqa: S704


@lru_cache(maxsize=1024)
def moved(ranks: int) -> Markup:
    """Ranks a passage rose or fell, with an arrow and words for screen readers."""
    if not ranks:
        return _SAME
    return _UP.format(ranks) if ranks > 0 else _DOWN.format(-ranks)


def bar(percent: float) -> Markup:
    """A horizontal bar, 0 to 100 percent of its width."""
    return Markup(  # noqa: S704
        '<svg class="bar" width="100%" height="6" aria-hidden="true" focusable="false">'
        '<rect class="track" width="100%" height="6" rx="3"/>'
        f'<rect class="fill" width="{percent:.2f}%" height="6" rx="3"/></svg>'
    )


def change(text: str) -> str | Markup:
    """Colour the result of `signed` as a rise or a fall; other text as it is."""
    kind = {"+": "up", "\N{MINUS SIGN}": "down"}.get(text[:1])
    return _CHANGE.format(kind, text) if kind else text


def tersely(text: str, limit: int) -> Markup:
    """Untrusted text on one line, cut to `limit` characters, in as few bytes as is safe."""
    line = clean(cut(" ".join(text[: 4 * limit].split()), limit))
    return markupsafe.escape(line) if line.isascii() else Markup("<bdi>{}</bdi>").format(line)
