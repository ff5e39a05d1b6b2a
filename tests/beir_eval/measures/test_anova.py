"""The analysis of variance: a textbook table, statsmodels' own numbers, and G-RAG's table 2."""

from __future__ import annotations

import csv
import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from beir_eval.errors import DatasetError, SettingError
from beir_eval.measures.anova import AnovaRow, anova, effect, read_table

# Table 2 of arXiv 2506.14516: SS of some terms, their DF, F, p and partial omega squared; the
# residual has an SS of 0.0978 on 77 degrees of freedom, and there are 96 configurations.
PAPER = {
    "augmentation": (0.3193, 2, 125.6920, 0.0000, 0.7571),
    "variants x retrieval": (0.0062, 1, 4.9099, 0.0297, 0.0472),
    "variants": (0.0030, 1, 2.3892, 0.1263, 0.0173),
    "context": (0.0025, 1, 2.0052, 0.1608, 0.0126),
    "answer": (0.0014, 1, 1.1061, 0.2962, 0.0013),
    "context x augmentation": (0.0008, 2, 0.3261, 0.7227, -0.0171),
    "documents": (0.0000, 1, 0.0118, 0.9137, -0.0127),
}
RESIDUAL = AnovaRow("Residual", 0.0978, 77, 0.0978 / 77)


@pytest.mark.parametrize("term", PAPER)
def test_p_and_omega_squared_of_the_paper_follow_from_its_f(term: str) -> None:
    _, df, f, p, omega = PAPER[term]
    row = effect(term, f * df * RESIDUAL.ms, df, RESIDUAL, 96)
    assert row.f == pytest.approx(f)
    assert row.p == pytest.approx(p, abs=1e-4)
    assert row.omega_one_way == pytest.approx(omega, abs=1e-4)


def test_a_table_worked_out_by_hand() -> None:
    # Two by two with two observations a cell; the grand mean is 5. Means of a: 3 and 7, of b: 4
    # and 6, of the cells 2, 4, 6, 8: SS(a) = 8 · 2² = 32, SS(b) = 8 · 1² = 8, the interaction 0,
    # and within the cells each ± 1: 8 · 1² = 8 on 4 degrees of freedom.
    rows = [
        {"a": a, "b": b, "y": 5 + 2 * (2 * a - 1) + (2 * b - 1) + noise}
        for a, b, noise in itertools.product((0, 1), (0, 1), (-1, 1))
    ]
    found = anova(rows, "y ~ C(a)*C(b)")
    table = {row.term: row for row in found.rows}
    assert [row.term for row in found.rows] == ["a", "b", "a:b", "Residual"]
    assert table["a"].ss == pytest.approx(32)
    assert table["a"].f == pytest.approx(16)
    assert table["a"].p == pytest.approx(0.016130, abs=1e-6)  # of F(1, 4)
    assert table["a"].omega == pytest.approx(15 / (15 + 8))
    assert [table["b"].ss, table["b"].f] == pytest.approx([8, 4])
    assert table["a:b"].ss == pytest.approx(0, abs=1e-12)
    assert [table["Residual"].ss, table["Residual"].df] == pytest.approx([8, 4])
    assert (found.observations, found.balanced) == (8, True)
    assert found.means == {"a": {"0": 3, "1": 7}, "b": {"0": 4, "1": 6}}


def test_an_unbalanced_table_gives_the_sums_of_type_two() -> None:
    import pandas
    import statsmodels.formula.api as smf
    from statsmodels.stats.anova import anova_lm

    values = [3.1, 2.9, 4.5, 4.4, 4.6, 5.0, 6.1, 6.3, 5.2, 7.0, 7.4]
    levels = ["xp", "xp", "xq", "xq", "xq", "yp", "yp", "yq", "yp", "yq", "yq"]
    rows = [{"a": each[0], "b": each[1], "y": y} for each, y in zip(levels, values, strict=True)]
    found = anova([*rows, {"a": "x", "b": "p", "y": ""}], "y ~ C(a) + C(b)")
    theirs = anova_lm(smf.ols("y ~ C(a, Sum) + C(b, Sum)", pandas.DataFrame(rows)).fit(), typ=2)
    for row in found.rows[:-1]:
        expected = theirs.loc[f"C({row.term}, Sum)"]
        assert row.ss == pytest.approx(expected["sum_sq"], rel=1e-9)
        assert row.p == pytest.approx(expected["PR(>F)"], rel=1e-9)
    assert (found.balanced, found.observations) == (False, 11)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y", "write one such as"),
        ("y ~ a", "write one such as"),
        ("y ~ C(a) + __import__('os')", "write one such as"),
        ("y ~ C(a) + eval(min(a))", "write one such as"),
        ("y ~ C(a) + exit()", "write one such as"),
        ("y ~ C(a) + I(a)", "write one such as"),
        ("y ~ C(a) - 1", "write one such as"),
        ("y ~ (C(a) + C(b))", "write one such as"),
        ("y ~ C(a) C(b)", "write one such as"),
        ("y ~ C(a) +", "write one such as"),
        ("y ~ C()", "write one such as"),
        ("~ C(a)", "write one such as"),
        ("y ~ C(eval(min(a)))", "write one such as"),
        ("y ~ C(exit())", "no column 'exit()'"),
        ("y ~ C(a, Sum)", "no column 'a, Sum'"),
        ("exit() ~ C(a)", "no column 'exit()'"),
        ("y ~ C(a)\n + C(b) ~ y", "write one such as"),
        ("y ~ C(c)", "no column 'c'"),
        ("z ~ C(a)", "no column 'z'"),
        ("y ~ C(one)", "has 1 level"),
        ("b ~ C(a)", "is no number"),
        ("y ~ C(a)*C(b)", "leaves no residual"),
        ("y ~ C(a) + C(same)", "two factors go together"),
    ],
)
def test_what_cannot_be_analysed_is_refused(formula: str, said: str) -> None:
    rows = [
        {"a": a, "b": b, "one": 1, "same": a.upper(), "y": y}
        for a, b, y in [("x", "p", 1), ("x", "q", 2), ("y", "p", 3), ("y", "q", 5)]
    ]
    with pytest.raises(SettingError, match=re.escape(said)):
        anova(rows, formula)


@pytest.mark.parametrize(
    "name",
    [
        *("two words", "it's", 'a "b"', "a-b", "a+b", "a:b", "size (MB)", "exit()", "{a}", "a\\"),
        *("class", "C", "Q", "y", "x0", "x1", "Sum", "Residual", "Intercept", "np", "1", "`a`"),
    ],
)
def test_a_column_may_have_any_name(name: str) -> None:
    cells = [("p", "r", 1), ("p", "s", 2.5), ("q", "r", 4), ("q", "s", 5)]
    cells += [(a, b, y + 1) for a, b, y in cells]
    plain = anova([{"a": a, "b": b, "z": y} for a, b, y in cells], "z ~ C(a)*C(b)")
    found = anova([{name: a, "b": b, "z": y} for a, b, y in cells], f"z ~ C( {name} )*C(b)")
    terms = {"a": name, "b": "b", "a:b": f"{name}:b", "Residual": "Residual"}
    assert found.rows == tuple(replace(row, term=terms[row.term]) for row in plain.rows)
    assert found.means == {name: plain.means["a"], "b": plain.means["b"]}
    response = anova([{"a": a, "b": b, name: y} for a, b, y in cells], f"{name} ~ C(a)*C(b)")
    assert response.rows == plain.rows


def test_nothing_of_a_formula_or_a_table_is_run(tmp_path: Path) -> None:
    mark, file = tmp_path / "ran", tmp_path / "grid.csv"
    code = f"open({str(mark)!r}, 'w')"
    heading = ["a", "y", code]
    with file.open("w", newline="") as text:
        csv.writer(text).writerows([heading, *[[code, n, n % 2] for n in range(4)]])
    words = (code, "eval(min(a))", "exit()", "C(eval(min(a)))", "C(exit())")
    formulas = [
        *(f"y ~ C({code}) + {word}" for word in words),
        *(f"{word} ~ C(a)" for word in words),
    ]
    for formula in formulas:
        with pytest.raises((DatasetError, SettingError)):
            anova(read_table(file), formula)
    assert not mark.exists()


def test_a_table_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.csv"
    file.write_text("a,b,y\nx,p,1\nx,q,2\ny,p,4\ny,q,5.5\n")
    found = anova(read_table(file), "y ~ C(a) + C(b)")
    assert (found.observations, found.balanced) == (4, True)
    file.write_text("a,b,y\nx,p\n")
    with pytest.raises(DatasetError, match=r"grid\.csv:2: 2 cells instead of 3"):
        read_table(file)


def test_copied_rows_are_said_and_too_many_levels_refused() -> None:
    rows = [
        {"question": n, "a": n % 2, "y": 0.1 * n * (1 + n % 2) + 0.01 * n * n} for n in range(8)
    ]
    assert anova(rows, "y ~ C(a)").note == ""
    assert anova(rows * 50, "y ~ C(a)").note.startswith("Every row is in the table 50 times")
    many = [{"a": n, "b": n % 3, "y": n} for n in range(1500)]
    with pytest.raises(SettingError, match=r"4,500 combinations of levels, and 2,000 is the most"):
        anova(many, "y ~ C(a)*C(b)")


@pytest.mark.parametrize("formula", ["y ~ C(a) - 1", "y ~ 0 + C(a)", "y ~ C(a) + -1"])
def test_a_model_without_an_intercept_is_refused(formula: str) -> None:
    with pytest.raises(SettingError, match="formula="):
        anova([{"a": n % 2, "y": n} for n in range(8)], formula)
