"""Table of an analysis of variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from beir_eval.measures.anova import Anova
from beir_eval.report.tables import anova_cells
from personas.console import names, table
from personas.format import counted

if TYPE_CHECKING:
    from rich.console import Console


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
