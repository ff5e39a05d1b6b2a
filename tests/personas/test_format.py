"""Numbers as people read them, in one wording for all packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from personas import format as texts

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (texts.whole, {12345: "12,345"}),
        (
            texts.seconds,
            {
                0: "0.00 s",
                0.4249: "0.42 s",
                12.34: "12.3 s",
                99.96: "100.0 s",
                185: "3 min 05 s",
                3599.7: "1 h 00 min",
                4000: "1 h 06 min",
                7440: "2 h 04 min",
                3_600_000: "1,000 h 00 min",
            },
        ),
        (
            texts.dollars,
            {
                None: "price not known",
                0: "$0",
                12.4: "$12.40",
                1234.5: "$1,234.50",
                0.031: "$0.031",
                0.00042: "$0.00042",
            },
        ),
        (texts.file_size, {None: "?", 12: "12 B", 98_362_432: "98 MB", 4_683_074_240: "4.7 GB"}),
        (texts.weight, {35.0: "35%", 100 / 3: "33.3%", 0.0: "0%"}),
        (texts.percent, {0.618: "62%", 0.0: "0%", 1.0: "100%", None: ""}),
        (
            texts.signed,
            {0.1204: "+0.120", -0.0496: f"{MINUS}0.050", 0.0004: "0.000", -0.0004: "0.000"},
        ),
        (lambda each: texts.optional(each, 2), {0.431: "0.43", -0.2: f"{MINUS}0.20", None: ""}),
        (lambda each: texts.fixed(each, 2), {-0.001: "0.00"}),
        (texts.exact, {1 / 3: "0.333333"}),
        (
            lambda each: texts.counted(each, "query", "queries"),
            {0: "0 queries", 1: "1 query", 1234: "1,234 queries"},
        ),
        (
            texts.decimals,
            {(1.0, 10.0): 0, (22.5, 3.0): 1, (6.35, 1.0): 2, (20 / 3,): 2, (1 / 3,): 3, (): 0},
        ),
    ],
)
def test_numbers_as_people_read_them(
    function: Callable[[Any], object], said: dict[Any, object]
) -> None:
    assert {number: function(number) for number in said} == said
