"""Text to index terms, the way Lucene's English analysis does it.

Words are cut as Unicode's word boundaries (UAX #29) cut them, a possessive ``'s`` is taken
off, letters are lower-cased, Lucene's English stop words are dropped, and the rest is reduced
by Porter's stemmer. Known differences from Lucene: emoji are no terms here, and the Hebrew
rules of UAX #29 are left out.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mcranker.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

STOP_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it"}
    | {"no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these"}
    | {"they", "this", "to", "was", "will", "with"}
)

# Lucene cuts longer words into pieces of this many characters.
_LONGEST_WORD = 255

_IDEOGRAPHS = (
    "\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_HIRAGANA = "\u3041-\u3096\u309d-\u309f"
_KATAKANA = "\u3031-\u3035\u309b\u309c\u30a0-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
UNSPACED = f"{_IDEOGRAPHS}{_HIRAGANA}{_KATAKANA}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Characters of scripts without spaces between words, inside of a character class."""

# Superscripts, fractions and circled numbers: `\w` to Python, but no part of a word to UAX #29.
_NUMBER_SIGNS = (
    "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2079\u2080-\u2089\u2150-\u215f\u2460-\u249b"
)
_CONNECTORS = "_\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f\uff3f"
# Punctuation that does not end a word when it stands between two letters, or two digits.
_INSIDE_BOTH = ".'\u2018\u2019\u2024\ufe52\uff07\uff0e"
_INSIDE_LETTERS = _INSIDE_BOTH + ":\u00b7\u0387\u055f\u05f4\u2027\ufe13\ufe55\uff1a"
_INSIDE_DIGITS = _INSIDE_BOTH + (
    ",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\ufe50\ufe54\uff0c\uff1b"
)
_POSSESSIVES = ("'s", "\u2019s", "\uff07s", "'S", "\u2019S", "\uff07S")
# All assigned combining marks and format characters but the variation selectors of plane 14.
_LAST_MARK = 0x1FFFF


def tokenize(text: str) -> list[str]:
    """Index terms of `text` in their order, repeats included."""
    return [term for word in words(text) if (term := _term(word))]


def words(text: str) -> Iterator[str]:
    """Words of `text` as they stand: neither lower-cased nor stemmed, stop words included."""
    pattern = _ascii_pattern() if text.isascii() else _unicode_pattern()
    for match in pattern.finditer(text):
        word = match.group()
        for start in range(0, len(word), _LONGEST_WORD):
            yield word[start : start + _LONGEST_WORD]


@cache
def _ascii_pattern() -> re.Pattern[str]:
    return re.compile(
        r"(?:(?<!_)_++)?[A-Za-z0-9](?:[A-Za-z0-9_]++|(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.',;](?=[0-9]))*"
    )


@cache
def _unicode_pattern() -> re.Pattern[str]:
    marks = _marks()
    # A negated class keeps the pattern small: all of \w that is nothing else.
    letter = rf"[^\W\d{_CONNECTORS}{_NUMBER_SIGNS}{_IDEOGRAPHS}{_HIRAGANA}{_KATAKANA}]"
    start = rf"(?:{letter}|\d)"
    # A mark belongs to what is before it, so a joiner may follow a mark as well.
    after_letter = rf"(?<![\d{_CONNECTORS}])(?<=[\w{marks}])"
    after_digit = rf"(?<=[\d{marks}])"
    inner = (
        rf"{letter}++|[\d{_CONNECTORS}{marks}]++"
        rf"|{after_letter}[{_INSIDE_LETTERS}](?={letter})"
        rf"|{after_digit}[{_INSIDE_DIGITS}](?=\d)"
    )
    return re.compile(
        rf"(?:(?<![{_CONNECTORS}])[{_CONNECTORS}]++)?{start}(?:{inner})*"
        rf"|[{_KATAKANA}][{_KATAKANA}{_CONNECTORS}{marks}]*"
        rf"|[{_IDEOGRAPHS}{_HIRAGANA}][{marks}]*"
    )


def _marks() -> str:
    """Inside of a character class: combining marks and invisible format characters."""
    codes = [
        code
        for code in range(0x80, _LAST_MARK)
        if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf") and code != 0x200B
    ]
    # Of codes in a row, the difference to their place is the same.
    rows = (list(row) for _, row in groupby(enumerate(codes), lambda each: each[1] - each[0]))
    return "".join(f"{chr(row[0][1])}-{chr(row[-1][1])}" for row in rows)


# Most words of a corpus have come before, and stemming costs more than looking up.
@lru_cache(maxsize=1 << 17)
def _term(word: str) -> str:
    """Index term of a word; empty for a stop word."""
    bare = word[:-2] if word.endswith(_POSSESSIVES) else word
    lower = bare.lower()
    if lower in STOP_WORDS:
        return ""
    # Porter leaves words of one or two letters alone; Snowball would make nothing of an "s".
    if len(lower) <= 2:
        return lower
    stem: str = _stemmer().stemWord(lower)
    return stem


@cache
def _stemmer() -> Any:
    try:
        import Stemmer
    except ImportError as missing:
        raise ConfigError(
            "stemming needs the package 'PyStemmer'; run: pip install 'mcranker[local]'"
        ) from missing
    return Stemmer.Stemmer("porter", 0)  # without its own cache
