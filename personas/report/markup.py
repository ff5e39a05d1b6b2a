"""The small pieces of markup that stand around untrusted text, as template filters.

Untrusted text stands in a box of its own, where its marks of writing direction end; what the
page says about it stands outside of that box. Whatever is made into `Markup` here was escaped by
`escaped` right before.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape

import markupsafe
from markupsafe import Markup

from personas.report.formats import clean, cut
from personas.words import whole

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
_MOST_GROWTH = 6
"""Bytes that a character takes at most, once escaped: a quotation mark, an isolate closed."""
_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\r"))
"""Of one byte each, they become the replacement character, which has three."""
_GROWING = (
    (b"&", 4),
    (b"<", 3),
    (b">", 3),
    (b'"', 5),
    (b"'", 5),
    (b"\xc2", 1),  # begins the control characters of two bytes
    (b"\xe2\x81", 3),  # begins the isolates, each of which may have to be closed
)
"""Beginning of a character -> by how many bytes it grows."""


def escaped(text: str, limit: int) -> str:
    """Untrusted text, cut to `limit` characters, as markup to be put between tags.

    What is returned is plain text to Python, for pages that are put together by hand: never
    escape it again, and never put anything else there.
    """
    return escape(clean(text if len(text) <= limit else f"{text[:limit]}…"))


def shortened(text: str, room: int) -> tuple[str, int]:
    """`escaped` text of up to `room` bytes in UTF-8, and how many characters are left out."""
    kept = fitting(text, room)
    # Between tags quotation marks are nothing else.
    return escape(clean(text[:kept]), quote=False), len(text) - kept


def fitting(text: str, room: int) -> int:
    """How many characters, from the first, take up to `room` bytes once they are `escaped`."""
    if _MOST_GROWTH * len(text) <= room:
        return len(text)
    kept = min(len(text), room)
    if page_bytes(text[:kept]) <= room:
        return kept
    fits = 0
    while fits + 1 < kept:
        middle = (fits + kept) // 2
        if page_bytes(text[:middle]) <= room:
            fits = middle
        else:
            kept = middle
    return fits


def page_bytes(text: str) -> int:
    """Bytes in UTF-8 that the `escaped` text takes, or some more: it is not put together."""
    data = text.encode(errors="surrogatepass")
    size = len(data) + sum(more * data.count(mark) for mark, more in _GROWING)
    return size + 2 * (len(data) - len(data.translate(None, _CONTROLS)))


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
    """How many ranks a passage rose or fell, with an arrow and words for screen readers."""
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
    """What `signed` made, in the colour of a rise or a fall; other text as it is."""
    kind = {"+": "up", "\N{MINUS SIGN}": "down"}.get(text[:1])
    return _CHANGE.format(kind, text) if kind else text


def tersely(text: str, limit: int) -> Markup:
    """Untrusted text on one line, cut to `limit` characters, in as few bytes as is safe.

    Text in ASCII has no marks of writing direction, so it needs no box of its own.
    """
    line = clean(cut(" ".join(text[: 4 * limit].split()), limit))
    return markupsafe.escape(line) if line.isascii() else Markup("<bdi>{}</bdi>").format(line)
