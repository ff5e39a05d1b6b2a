"""Foreign text made safe for a terminal: passages, model output, file names, messages.

What is returned can be shown and nothing else: it moves no cursor, changes no colour,
reorders no neighbouring text and starts no new line.
"""

from __future__ import annotations

import unicodedata

__all__ = ["one_line", "plain"]

# Control characters, invisible formatting (bidirectional marks and tags among them), lone
# surrogates, line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # scripts and emoji are spelled with them


def plain(text: str, limit: int | None = None) -> str:
    """`text` with white space collapsed and unsafe characters as visible escapes.

    Args:
        text: anything.
        limit: look at so many characters of it, at most.
    """
    cut = text if limit is None else text[:limit]
    line = " ".join(cut.split())
    if line.isprintable():
        return line
    return "".join(map(_shown, line))


def one_line(message: str) -> str:
    """A message of one or more lines as one safe line, its parts joined by semicolons."""
    return "; ".join(filter(None, map(plain, message.splitlines())))


def _shown(char: str) -> str:
    if char in _JOINERS or unicodedata.category(char) not in _UNSAFE:
        return char
    return char.encode("unicode_escape").decode("ascii")
