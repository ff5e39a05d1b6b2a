"""Foreign text made safe for a terminal: passages, model output, file names, messages.

What is returned can be shown and nothing else: it moves no cursor, changes no colour, and
reorders no neighbouring text.

| function | for | white space | unsafe characters |
|---|---|---|---|
| `plain` | a cell of a table, a part of a line | collapsed | escaped as in Python |
| `one_line` | a message | collapsed, lines joined by semicolons | escaped as in Python |
| `shown` | a whole file | as it is | escaped as in Python |
| `json_text`, `safe_json` | JSON, wherever it goes | as it is | escaped as in JSON |
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

# Control characters, invisible formatting (bidirectional marks and tags among them), lone
# surrogates, line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINERS = "\u200c\u200d"  # scripts and emoji are spelled with them
_KEPT = frozenset(f"{_JOINERS}\n\t")
_REMEMBERED = 1 << 16


def plain(text: str, limit: int | None = None) -> str:
    """`text` with white space collapsed and unsafe characters as visible escapes."""
    line = " ".join((text if limit is None else text[:limit]).split())
    return line if line.isprintable() else line.translate(_VISIBLE)


def one_line(message: str) -> str:
    """A message of one or more lines as one safe line, its parts joined by semicolons."""
    return "; ".join(filter(None, map(plain, message.splitlines())))


def shown(text: str) -> str:
    """`text` on as many lines as it has, with unsafe characters as visible escapes."""
    return text.translate(_VISIBLE)


def can_be_encoded(text: str) -> bool:
    """True if `text` can be written as UTF-8: it holds no half of a pair of surrogates."""
    return text.isascii() or not _SURROGATE.search(text)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON in which unsafe characters stand as escapes; reads back as the same value."""
    return safe_json(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent))


def safe_json(text: str) -> str:
    """JSON text with unsafe characters as escapes; reads back as the same value."""
    return text.translate(_IN_JSON)


class _Escapes(dict[int, str]):
    """For `str.translate`: remembers the substitute of each character, of some 65,000 at most."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        safe = char in _KEPT or unicodedata.category(char) not in _UNSAFE
        instead = char if safe else self.escape(char)
        if len(self) < _REMEMBERED:
            self[code] = instead
        return instead

    def escape(self, char: str) -> str:
        return char.encode("unicode_escape").decode("ascii")


class _JsonEscapes(_Escapes):
    def escape(self, char: str) -> str:
        return json.dumps(char)[1:-1]


_VISIBLE, _IN_JSON = _Escapes(), _JsonEscapes()
