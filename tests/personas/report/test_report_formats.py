"""Texts and small pieces of markup of the reports."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from personas.report import formats
from personas.report.formats import bar, iso, part


def test_marks_of_direction_end_where_the_text_ends() -> None:
    assert formats.contained("a \u2066 b \u2067 c") == "a \u2066 b \u2067 c\u2069\u2069"
    assert formats.contained("a \u2069 b") == "a  b"
    assert formats.contained("\u2067 a\nb \u2069") == "\u2067 a\u2069\nb "
    assert formats.contained("\u2067 fine \u2069") == "\u2067 fine \u2069"


@given(st.text(alphabet="ab\n\u2029\u202e\u2066\u2067\u2068\u2069"))
def test_isolates_are_balanced_in_every_line(text: str) -> None:
    for line in re.split("[\n\u2029]", formats.contained(text)):
        depth = 0
        for mark in line:
            depth += (mark in "\u2066\u2067\u2068") - (mark == "\u2069")
            assert depth >= 0
        assert depth == 0


def test_pieces_of_markup_escape_what_they_hold() -> None:
    assert iso("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert iso("abcdef", 3) == "<bdi>abc…</bdi>"
    assert "&lt;i&gt;" in part("<i>", 10)
    assert "(4 more characters)" in part("abcdefg", 3)
    assert 'width="33.33%"' in bar(100 / 3)
