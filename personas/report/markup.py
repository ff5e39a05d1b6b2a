"""The small pieces of markup around untrusted text, as template filters.

Untrusted text is in a box of its own, where its marks of writing direction end; what the
page says about it stands outside of that box. Whatever is made into `Markup` here was escaped by
`escaped` right before.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape

import markupsafe
from markupsafe import Markup

from personas.format import whole
from personas.report.formats import bare, clean, cut

EMPTY_QUERY = "(empty query)"

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
