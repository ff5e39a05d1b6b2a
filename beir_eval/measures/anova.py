"""n-way analysis of variance of a table of results, with effect sizes.

The table has a row for each configuration (or each run of one), a column for each factor, and one
for the response, such as a mean relevance. statsmodels fits a linear model with sum contrasts and
tests each term by sums of squares of type II, which for balanced designs are those of types I and
III as well.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from beir_eval.errors import DatasetError, ExtraMissing, SettingError
from beir_eval.measures.significance import f_above
from personas.io.lines import read_text

LONGEST_FILE = 50_000_000
"""Bytes of a table."""

NO_RESIDUAL = "the model leaves no residual to test against; leave interactions out of the formula"

_TERM = re.compile(r"C\(\s*([A-Za-z_]\w*)\s*\)")
_FORMULA = re.compile(r"\A\s*([A-Za-z_]\w*)\s*~\s*([\w\s+*:()-]+)\Z")


@dataclass(frozen=True, slots=True)
class AnovaRow:
    """A term of the model.

    Attributes:
        term: factors joined by ":"; "Residual" for what the model leaves.
        ss: sum of squares.
        df: degrees of freedom.
        ms: `ss` / `df`.
        f: `ms` over that of the residual; None for the residual.
        p: chance of such an F without any effect; None for the residual.
        omega: partial omega squared, df·(F - 1) / (df·(F - 1) + N); None for the residual.
        omega_one_way: the shortcut of one-way designs, with df + residual df + 1 for N, as the
            G-RAG paper (arXiv 2506.14516, table 2) has it.
    """

    term: str
    ss: float
    df: int
    ms: float
    f: float | None = None
    p: float | None = None
    omega: float | None = None
    omega_one_way: float | None = None


@dataclass(frozen=True, slots=True)
class Anova:
    """An analysis.

    Attributes:
        formula: as it was given.
        rows: terms by falling F, and the residual last.
        observations: rows of the table.
        balanced: whether each combination of levels has as many rows.
        means: factor -> level -> mean of the response.
        interactions: two factors of a term -> (level, level) -> mean of the response.
    """

    formula: str
    rows: tuple[AnovaRow, ...]
    observations: int
    balanced: bool
    means: Mapping[str, Mapping[str, float]]
    interactions: Mapping[tuple[str, str], Mapping[tuple[str, ...], float]]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        return {
            "formula": self.formula,
            "observations": self.observations,
            "balanced": self.balanced,
            "rows": [asdict(row) for row in self.rows],
            "means": {factor: dict(levels) for factor, levels in self.means.items()},
            "interactions": {
                ":".join(pair): {" / ".join(levels): mean for levels, mean in cells.items()}
                for pair, cells in self.interactions.items()
            },
        }


def effect(
    ss: float, df: int, residual_ss: float, residual_df: int, observations: int, term: str = ""
) -> AnovaRow:
    """Return a term's F, p and effect sizes from its sum of squares.

    Raises:
        SettingError: the residual has no degree of freedom or no variance.
        ExtraMissing: scipy is not installed.
    """
    if residual_df < 1 or residual_ss <= 0:
        raise SettingError(NO_RESIDUAL)
    f = (ss / df) / (residual_ss / residual_df)
    above = df * (f - 1)
    return AnovaRow(
        term,
        ss,
        df,
        ss / df,
        f,
        f_above(f, df, residual_df),
        above / (above + observations),
        above / (above + residual_df + df + 1),
    )


def anova(
    table: Sequence[Mapping[str, Any]], formula: str, *, response: str | None = None
) -> Anova:
    """Analyse the variance of a response by the factors of a formula.

    Args:
        table: rows of factors and the response; those without a response are left out.
        formula: such as ``"relevance ~ C(query)*C(documents) + C(prompt)"``: ``*`` for two factors
            and their interactions, ``:`` for an interaction alone.
        response: instead of the one before ``~``.

    Raises:
        SettingError: the formula is none, names no column, or has too many terms for the rows; a
            factor has one level; the response is no number.
        ExtraMissing: statsmodels is not installed.
    """
    y, factors, right = parsed(formula)
    y = response or y
    rows = _checked(table, factors, y)
    try:
        import pandas
        import statsmodels.formula.api as smf
        from statsmodels.stats.anova import anova_lm
    except ImportError as missing:
        raise ExtraMissing("statsmodels", "an analysis of variance", extra="anova") from missing
    terms = _TERM.sub(r"C(\1, Sum)", right)
    frame = pandas.DataFrame(rows)
    try:
        model = smf.ols(f"{y} ~ {terms}", frame).fit()
        found = anova_lm(model, typ=2) if model.df_resid >= 1 else None
    except Exception as error:
        raise SettingError(f"formula={formula!r} cannot be fitted: {error}") from error
    if found is None:
        raise SettingError(NO_RESIDUAL)
    residual = found.loc["Residual"]
    tested = [
        effect(
            float(row["sum_sq"]),
            int(row["df"]),
            float(residual["sum_sq"]),
            int(residual["df"]),
            len(rows),
            ":".join(re.findall(r"C\((\w+), Sum\)", str(name))),
        )
        for name, row in found.iterrows()
        if name != "Residual"
    ]
    tested.sort(key=lambda row: -(row.f or 0))
    left = float(residual["sum_sq"]), int(residual["df"])
    tested.append(AnovaRow("Residual", *left, left[0] / left[1]))
    counts = Counter(tuple(row[factor] for factor in factors) for row in rows)
    cells = math.prod(len(_levels(rows, factor)) for factor in factors)
    pairs = [row.term.split(":") for row in tested if row.term.count(":") == 1]
    return Anova(
        formula,
        tuple(tested),
        len(rows),
        len(counts) == cells and len({*counts.values()}) == 1,
        {
            factor: {level: mean for (level,), mean in _means(rows, y, [factor]).items()}
            for factor in factors
        },
        {(a, b): _means(rows, y, [a, b]) for a, b in pairs},
    )


def parsed(formula: str) -> tuple[str, list[str], str]:
    """Return a formula's response, its factors, and what is right of ``~``.

    Raises:
        SettingError: it is no formula.
    """
    said = _FORMULA.match(formula)
    factors = list(dict.fromkeys(_TERM.findall(formula)))
    if said is None or not factors:
        raise SettingError(f"formula={formula!r}: write one such as 'y ~ C(a)*C(b) + C(c)'")
    return said[1], factors, said[2]


def read_table(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Read a CSV file whose first line names the columns.

    Raises:
        DatasetError: it cannot be read, or a line has not as many cells as the first.
    """
    name = os.fspath(path)
    text = read_text(Path(path), DatasetError, LONGEST_FILE)
    reader = csv.reader(text.splitlines())
    try:
        heading = next(reader, None)
        if heading is None:
            raise DatasetError(f"{name}: is empty; the first line names the columns")
        if twice := [each for each, count in Counter(heading).items() if count > 1]:
            raise DatasetError(f"{name}: two columns have the name {twice[0]!r}")
        rows = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(heading):
                place = f"{name}:{reader.line_num}"
                raise DatasetError(f"{place}: {len(row)} cells instead of {len(heading)}")
            rows.append(dict(zip(heading, row, strict=True)))
    except csv.Error as error:
        raise DatasetError(f"{name}:{reader.line_num}: {error}") from error
    return rows


def _checked(
    table: Sequence[Mapping[str, Any]], factors: Sequence[str], response: str
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, given in enumerate(table, 1):
        for name in (*factors, response):
            if name not in given:
                known = ", ".join(map(str, given))
                raise SettingError(f"there is no column {name!r} in the table; it has {known}")
        if given[response] in (None, ""):
            continue
        try:
            value = float(given[response])
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise SettingError(f"row {number}: {response}={given[response]!r} is no number")
        rows.append({**{name: str(given[name]) for name in factors}, response: value})
    for factor in factors:
        if len(levels := _levels(rows, factor)) < 2:
            raise SettingError(f"the factor {factor!r} has {len(levels)} level; two are needed")
    return rows


def _levels(rows: Sequence[Mapping[str, Any]], factor: str) -> list[str]:
    return list(dict.fromkeys(row[factor] for row in rows))


def _means(
    rows: Sequence[Mapping[str, Any]], y: str, factors: Sequence[str]
) -> dict[tuple[str, ...], float]:
    """Mean of the response for each combination of levels."""
    cells: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        cells.setdefault(tuple(row[factor] for factor in factors), []).append(row[y])
    return {cell: math.fsum(values) / len(values) for cell, values in cells.items()}
