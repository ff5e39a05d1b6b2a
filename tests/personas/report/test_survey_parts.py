"""How the rows of a report's tables are dealt out to pages, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from personas.report import site
from personas.report.dataset.parts import Part, deal_out
from personas.report.dataset.words import change, count, optional, percent, signed, tersely


def test_rows_are_dealt_out_by_their_bytes() -> None:
    # Frame and spare take 2,000 and 400,000 bytes; 598,000 are left for rows of 200,001 bytes
    # (two bytes a letter) and a line end: two rows a page. Five rows need three pages.
    rows = [Markup("é" * 100_000 + "x") for _ in range(5)]
    seen: list[int] = []

    def frame(parts: Sequence[Part]) -> int:
        seen.append(len(parts))
        return 400_000

    parts = deal_out(site.QUERIES, rows, frame)
    assert [(part.name, part.number, part.first, part.last) for part in parts] == [
        ("queries.html", 1, 1, 2),
        ("queries-2.html", 2, 3, 4),
        ("queries-3.html", 3, 5, 5),
    ]
    assert "\n".join(part.rows for part in parts) == "\n".join(rows)
    assert seen == [1, 3]


def test_pages_of_a_table_are_about_as_long() -> None:
    # 10 rows of 150,001 bytes: six fit, so two pages; five and five rather than six and four.
    parts = deal_out(site.QUERIES, [Markup("x" * 150_000)] * 10, lambda _: 0)
    assert [(part.first, part.last) for part in parts] == [(1, 5), (6, 10)]


def test_no_rows_make_one_part() -> None:
    (part,) = deal_out(site.QUERIES, [], lambda _: 0)
    assert (part.name, part.first, part.last, part.rows) == (site.QUERIES, 0, 0, "")


def test_numbers_in_words() -> None:
    assert [signed(each) for each in (0.1204, -0.0496, 0.0004, -0.0004, 0.0)] == [
        "+0.120",
        "\N{MINUS SIGN}0.050",
        "0.000",
        "0.000",
        "0.000",
    ]
    assert [optional(each, 2) for each in (0.431, -0.2, None)] == ["0.43", "\N{MINUS SIGN}0.20", ""]
    assert [percent(each) for each in (0.618, 0.0, 1.0, None)] == ["62%", "0%", "100%", ""]
    assert change("+0.120") == '<span class="up">+0.120</span>'
    assert change(signed(-0.05)) == f'<span class="down">{signed(-0.05)}</span>'
    assert change("0.000") == "0.000"
    assert [count(each, "query", "queries") for each in (1, 1200)] == ["1 query", "1,200 queries"]


def test_terse_text_is_escaped_cut_and_boxed_only_where_it_must_be() -> None:
    assert tersely("a  <b>\n&", 20) == "a &lt;b&gt; &amp;"
    assert tersely("x" * 30, 20) == f"<bdi>{'x' * 20}…</bdi>"
    assert tersely("é", 20) == "<bdi>é</bdi>"
