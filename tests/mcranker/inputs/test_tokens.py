"""Text to index terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.inputs.tokens import tokenize, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cats' and the Dog's running", ["cat", "dog", "run"]),
        ("O\u2019Neil\u2019s caf\u00e9", ["o\u2019neil", "caf\u00e9"]),
        ("U.S.A. costs 1,000.50, not 3;4", ["u.s.a", "cost", "1,000.50", "3;4"]),
        ("A:b, C3:4 x_y __ a.1", ["a:b", "c3", "4", "x_y", "1"]),
        ("IL-2 'quoted' don''t", ["il", "2", "quot", "don", "t"]),
        ("s us", ["s", "us"]),  # Porter leaves words of one or two letters alone
        ("generically agreed sky", ["gener", "agre", "sky"]),
        ("10\u00b2 \u00bd \u2014 \u20ac", ["10"]),
        ("cafe\u0301s", ["cafe\u0301"]),  # a combining accent does not end a word
        ("\u6771\u4eac\u30bf\u30ef\u3072", ["\u6771", "\u4eac", "\u30bf\u30ef", "\u3072"]),
        ("\u043c\u0438\u0440 2024", ["\u043c\u0438\u0440", "2024"]),
        ("the of and", []),
        ("", []),
        (" \n\t...", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


@given(st.text(st.sampled_from("aZs09_.:,;' -\n"), max_size=30))
def test_plain_text_is_cut_alike_with_and_without_foreign_letters(text: str) -> None:
    # The sign at the end is no part of a word, but puts the text on the way for all of Unicode.
    assert list(words(text)) == list(words(text + " \u20ac"))
