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
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from beir_eval.errors import DatasetError, ExtraMissing, SettingError
from personas.format import counted
from personas.io.lines import read_text

MOST_COLUMNS = 2_000
"""Combinations of levels in a model, at most."""

LONGEST_FILE = 50_000_000
"""Bytes of a table."""

_FACTOR = re.compile(r"(?<!\s)\s*+C\(((?:[^()]|\([^()]*\))++)\)\s*([+*:]|\Z)")


@dataclass(frozen=True, slots=True)
class AnovaRow:
    """A term of the model."""

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
    """An analysis."""

    formula: str
    observations: int
    balanced: bool
    rows: tuple[AnovaRow, ...]
    means: Mapping[str, Mapping[str, float]]
    note: str = ""  # what a reader must know before the numbers

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        return asdict(self)


def effect(term: str, ss: float, df: int, residual: AnovaRow, observations: int) -> AnovaRow:
    """Return a term with F, p and effect sizes, from its sum of squares and the residual."""
    from scipy.special import fdtrc

    f = ss / df / residual.ms
    p, above = float(fdtrc(df, residual.df, f)), df * (f - 1)
    omegas = above / (above + observations), above / (above + residual.df + df + 1)
    return AnovaRow(term, ss, df, ss / df, f, p, *omegas)


def anova(table: Sequence[Mapping[str, Any]], formula: str) -> Anova:
    """Analyse the variance of a response by the factors of a formula."""
    response, factors, terms = parsed(formula)
    values = _checked(table, factors, response)
    columns = {f"x{place}": factor for place, factor in enumerate(factors)}
    levels = {name: len({row[name] for row in values}) for name in columns}
    parts = (re.findall(r"x\d+", part) for part in terms.split("+"))
    if (size := sum(math.prod(levels[name] for name in part) for part in parts)) > MOST_COLUMNS:
        raise SettingError(
            f"formula={formula!r}: its factors have {size:,} combinations of levels, and "
            f"{MOST_COLUMNS:,} is the most; leave out the one with most levels, or interactions"
        )
    # Whole rows, so that equal values of different questions are no copies.
    copies = min(Counter(tuple(map(str, row.values())) for row in table).values())
    try:
        import pandas
        import statsmodels.formula.api as smf
        from statsmodels.stats.anova import anova_lm
    except ImportError as missing:
        raise ExtraMissing("statsmodels", "an analysis of variance", extra="anova") from missing
    frame = pandas.DataFrame(values)
    try:
        with warnings.catch_warnings(action="ignore"):  # what they are about is refused below
            model = smf.ols(f"y ~ {terms}", frame).fit()
            apart = model.model.rank == model.model.exog.shape[1]
            tests = anova_lm(model, typ=2) if apart and model.df_resid >= 1 else None
    except Exception as error:
        raise SettingError(f"formula={formula!r} cannot be fitted: {error}") from error
    if not apart:
        raise SettingError(
            "terms cannot be told apart: two factors go together, or combinations of levels have "
            "no row; leave factors or interactions out of the formula"
        )
    if tests is None or tests.at["Residual", "sum_sq"] <= 0:
        raise SettingError(
            "the model leaves no residual to test against; leave interactions out of the formula, "
            "unless no value differs"
        )
    tests = tests.sort_values("F", ascending=False, kind="stable").astype({"df": int})
    used = (re.findall(r"x\d+", term) for term in tests.index)
    tests.index = [":".join(columns[each] for each in term) or "Residual" for term in used]
    *tested, (name, ss, df, *_) = tests.itertuples()
    residual = AnovaRow(name, ss, df, ss / df)

    cells = frame.groupby([*columns]).size()
    return Anova(
        formula=formula,
        observations=len(frame),
        balanced=bool(len(cells) == frame[[*columns]].nunique().prod() and cells.nunique() == 1),
        rows=(
            *(effect(row.Index, row.sum_sq, row.df, residual, len(frame)) for row in tested),
            residual,
        ),
        means={
            factor: {level: fmean(of) for level, of in frame.groupby(column, sort=False)["y"]}
            for column, factor in columns.items()
        },
        note=""
        if copies < 2
        else f"Every row is in the table {copies} times or more: copies are "
        "no further observations, and p-values are too small.",
    )


def parsed(formula: str) -> tuple[str, list[str], str]:
    """Return a formula's response, its factors, and its terms with ``x0``, ``x1``, … for these."""
    response, _, right = formula.partition("~")
    factors, terms, place = list[str](), list[str](), 0
    while response.strip() and (found := _FACTOR.match(right, place)):
        name, sign = found[1].strip(), found[2]
        factors += [name] * (name not in factors)
        terms.append(f"C(x{factors.index(name)}, Sum){sign}")
        if not sign:
            return response.strip(), factors, "".join(terms)
        place = found.end()
    raise SettingError(f"formula={formula!r}: write one such as 'y ~ C(a)*C(b) + C(c)'")


def read_table(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Read a CSV file whose first line names the columns."""
    text = read_text(Path(path), DatasetError, LONGEST_FILE)
    reader = csv.reader(text.splitlines())
    heading: list[str] = []
    rows = []
    try:
        for row in filter(None, reader):
            heading = heading or row
            if len(row) != len(heading):
                raise csv.Error(f"{counted(len(row), 'cell')} instead of {len(heading)}")
            rows.append(dict(zip(heading, row, strict=True)))
    except csv.Error as error:
        raise DatasetError(f"{path}:{reader.line_num}: {error}") from error
    if not heading:
        raise DatasetError(f"{path}: is empty; the first line names the columns")
    ((name, count),) = Counter(heading).most_common(1)
    if count > 1:
        raise DatasetError(f"{path}: two columns have the name {name!r}")
    return rows[1:]


def _checked(
    table: Sequence[Mapping[str, Any]], factors: Sequence[str], response: str
) -> list[dict[str, Any]]:
    """Levels as texts in ``x0``, ``x1``, …, and the response as a number in ``y``."""
    rows: list[dict[str, Any]] = []
    for number, given in enumerate(table, 1):
        for name in (*factors, response):
            if name not in given:
                known = ", ".join(given)
                raise SettingError(f"there is no column {name!r} in the table; it has {known}")
        if given[response] in (None, ""):
            continue
        try:
            value = float(given[response])
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise SettingError(f"row {number}: {response}={given[response]!r} is no number")
        rows.append({f"x{place}": str(given[name]) for place, name in enumerate(factors)})
        rows[-1]["y"] = value
    for place, factor in enumerate(factors):
        if (count := len({row[f"x{place}"] for row in rows})) < 2:
            raise SettingError(
                f"the factor {factor!r} has {counted(count, 'level')}; two are needed"
            )
    return rows
