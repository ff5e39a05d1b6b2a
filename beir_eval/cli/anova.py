"""``beir-eval anova``: which factors of a table matter, and how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from beir_eval.measures.anova import Anova, anova, read_table
from beir_eval.report.numbers import anova_cells
from mcranker.cli.files import Reads
from mcranker.cli.verb import Verb, flag, output_flag, present
from personas.console import names, table
from personas.format import counted

if TYPE_CHECKING:
    from rich.console import Console


def _anova(ctx: click.Context) -> int:
    found = anova(read_table(ctx.params["file"]), ctx.params["formula"])
    return present(ctx, lambda console: show_anova(console, found), anova=found.to_dict())


def show_anova(console: Console, found: Anova) -> None:
    """Print the table of an analysis, and the mean of each level."""
    rows = [(each.term, *anova_cells(each)) for each in found.rows]
    headings = ("SS", "DF", "MS", "F", "p", "partial ω²", "one-way")
    console.print(table([names("term"), *headings], rows))
    shape = "balanced" if found.balanced else "not balanced: sums of squares are of type II"
    line = f"{counted(found.observations, 'observation')}, {shape}. "
    console.print(Text(f"{line}One-way: partial ω² with DF + residual DF + 1 for N."))
    if found.note:
        console.print(Text(found.note), style="yellow", soft_wrap=True)
    for factor, levels in found.means.items():
        means = ", ".join(f"{level} {mean:.4f}" for level, mean in levels.items())
        console.print(Text(f"{factor}: {means}"), soft_wrap=True)


command = Verb(
    "anova",
    _anova,
    params=[
        click.Argument(["file"], type=Reads(), metavar="TABLE.csv"),
        flag(
            "--formula",
            "Response and factors, such as 'y ~ C(a)*C(b) + C(c)': * with interactions, + without.",
            required=True,
        ),
        output_flag("anova"),
    ],
    help="""Analyse the variance of a table's response by its factors.

    \b
      beir-eval anova grid.csv --formula "relevance ~ C(query)*C(documents) + C(prompt)"

    The first line of the file names the columns. Partial omega squared says how much of the
    variance that other factors leave a factor explains.
    """,
)
