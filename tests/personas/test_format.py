"""Numbers as people read them, in one wording for all packages."""

from __future__ import annotations

import pytest

from personas import format as texts

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("numbers", "places"),
    [([1.0, 10.0], 0), ([22.5, 3.0], 1), ([6.35, 1.0], 2), ([20 / 3], 2), ([1 / 3], 3), ([], 0)],
)
def test_columns_have_as_many_decimals_as_they_need(numbers: list[float], places: int) -> None:
    assert texts.decimals(numbers) == places


def test_columns_of_scores() -> None:
    assert texts.score_column([3.0, None, 12.0]) == ["3", "-", "12"]
    assert texts.score_column([0.5, 0.3333]) == ["0.500", "0.333"]
    assert texts.score_column([10.0, 2.5]) == ["10.0", "2.5"]
    assert texts.score_column([None]) == ["-"]


def test_counts() -> None:
    assert texts.whole(12345) == "12,345"
    assert [texts.counted(n, "query", "queries") for n in (0, 1, 1234)] == [
        "0 queries",
        "1 query",
        "1,234 queries",
    ]


def test_durations() -> None:
    times = (0, 0.4249, 12.34, 99.96, 185, 3599.7, 4000, 7440, 3_600_000)
    assert [texts.seconds(each) for each in times] == [
        "0.00 s",
        "0.42 s",
        "12.3 s",
        "100.0 s",
        "3 min 05 s",
        "1 h 00 min",
        "1 h 06 min",
        "2 h 04 min",
        "1,000 h 00 min",
    ]


def test_costs() -> None:
    costs = (None, 0, 12.4, 1234.5, 0.031, 0.00042)
    assert [texts.dollars(each) for each in costs] == [
        "price not known",
        "$0",
        "$12.40",
        "$1,234.50",
        "$0.031",
        "$0.00042",
    ]


def test_sizes_of_files() -> None:
    assert [texts.file_size(each) for each in (None, 12, 98_362_432, 4_683_074_240)] == [
        "?",
        "12 B",
        "98 MB",
        "4.7 GB",
    ]


def test_shares_and_differences() -> None:
    assert [texts.weight(each) for each in (35.0, 100 / 3, 0.0)] == ["35%", "33.3%", "0%"]
    assert [texts.percent(each) for each in (0.618, 0.0, 1.0, None)] == [
        "62%",
        "0%",
        "100%",
        "",
    ]
    assert [texts.signed(each) for each in (0.1204, -0.0496, 0.0004, -0.0004, 0.0)] == [
        "+0.120",
        f"{MINUS}0.050",
        "0.000",
        "0.000",
        "0.000",
    ]
    assert [texts.optional(each, 2) for each in (0.431, -0.2, None)] == [
        "0.43",
        f"{MINUS}0.20",
        "",
    ]
    assert texts.fixed(-0.001, 2) == "0.00"
    assert texts.exact(1 / 3) == "0.333333"
