"""The small pieces of markup that stand around untrusted text, as template filters.

Untrusted text stands in a box of its own, where its marks of writing direction end; what the
page says about it stands outside of that box.
"""

from __future__ import annotations

from functools import lru_cache

from markupsafe import Markup

from personas.report.formats import cut, whole

__all__ = ["bar", "iso", "moved", "part"]

_BDI, _BDI_END = Markup("<bdi>"), Markup("</bdi>")
_PART = Markup('<span class="iso">{}</span>')
_MORE = Markup('<span class="iso">{}</span> <span class="more">({} more characters)</span>')
_UP = Markup(
    '<span class="up"><span aria-hidden="true">▲</span><span class="sr">up </span>{}</span>'
)
_DOWN = Markup(
    '<span class="down"><span aria-hidden="true">▼</span><span class="sr">down </span>{}</span>'
)
_SAME = Markup(
    '<span class="same"><span aria-hidden="true">=</span><span class="sr">not moved</span></span>'
)
_BAR = Markup(
    '<svg class="bar" width="100%" height="6" aria-hidden="true" focusable="false">'
    '<rect class="track" width="100%" height="6" rx="3"/>'
    '<rect class="fill" width="{}%" height="6" rx="3"/></svg>'
)


def iso(text: str, limit: int = 300) -> Markup:
    """Text within a line, cut to `limit` characters."""
    return _BDI + cut(text, limit) + _BDI_END


def part(text: str, limit: int) -> Markup:
    """Text of a block, cut to `limit` characters, with a note of how much is left out."""
    if len(text) <= limit:
        return _PART.format(cut(text, limit))
    return _MORE.format(cut(text, limit), whole(len(text) - limit))


@lru_cache(maxsize=1024)
def moved(ranks: int) -> Markup:
    """How many ranks a passage rose or fell, with an arrow and words for screen readers."""
    if not ranks:
        return _SAME
    return _UP.format(ranks) if ranks > 0 else _DOWN.format(-ranks)


def bar(percent: float) -> Markup:
    """A horizontal bar, 0 to 100 percent of its width."""
    return _BAR.format(f"{percent:.2f}")
