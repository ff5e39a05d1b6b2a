"""The small pieces of markup of a report over a data set."""

from __future__ import annotations

from personas.format import signed
from personas.report.markup import change, tersely


def test_differences_have_a_colour() -> None:
    assert change("+0.120") == '<span class="up">+0.120</span>'
    assert change(signed(-0.05)) == f'<span class="down">{signed(-0.05)}</span>'
    assert change("0.000") == "0.000"


def test_terse_text_is_escaped_cut_and_boxed_only_where_it_must_be() -> None:
    assert tersely("a  <b>\n&", 20) == "a &lt;b&gt; &amp;"
    assert tersely("x" * 30, 20) == f"<bdi>{'x' * 20}…</bdi>"
    assert tersely("é", 20) == "<bdi>é</bdi>"
