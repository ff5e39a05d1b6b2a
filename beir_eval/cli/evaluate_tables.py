"""The tables of ``beir-eval evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from beir_eval.cli.findings import LEVEL, Findings
from personas.plain import plain
from personas.words import counted

if TYPE_CHECKING:
    from rich.console import Console


__all__ = ["show_findings"]

SHOWN_IDS = 5
SMALLEST_P = 0.0001


def show_findings(console: Console, findings: Findings, *, per_query: bool) -> None:
    """Means, then comparisons, then the values of every query."""
    console.print(_means(findings))
    queries = counted(findings.judged, "judged query", "judged queries")
    text = f"Means over {queries}."
    if findings.intervals:
        text += f" In brackets: {LEVEL:.0%} bootstrap intervals of {findings.resamples:,} resamples"
        text += f", seed {findings.seed}."
    console.print(Text(text))
    for name, evaluation in findings.evaluations.items():
        missing = evaluation.missing_queries
        if missing:
            shown = ", ".join(missing[:SHOWN_IDS]) + (", ..." if missing[SHOWN_IDS:] else "")
            count = counted(len(missing), "judged query has", "judged queries have")
            line = f"{name}: {count} no results (taken as an empty list): {shown}"
            console.print(Text(plain(line)), style="yellow", soft_wrap=True)
    for measure in findings.comparisons:
        console.print()
        console.print(_comparisons(findings, measure))
    if per_query:
        for measure in findings.measures:
            console.print()
            console.print(_per_query(findings, measure))


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(Text(plain(first)), overflow="fold")
    for heading in others:
        table.add_column(Text(plain(heading)), justify="right", overflow="fold")
    return table


def _row(name: str, *cells: str) -> list[Text]:
    return [Text(plain(name)), *map(Text, cells)]


def _means(findings: Findings) -> Table:
    with_missing = any(each.missing_queries for each in findings.evaluations.values())
    table = _table("run", *findings.measures, *(["no results"] if with_missing else []))
    for name, evaluation in findings.evaluations.items():
        cells = []
        for measure, mean in evaluation.means.items():
            interval = findings.intervals.get(measure, {}).get(name)
            span = f" [{interval.low:.4f}, {interval.high:.4f}]" if interval else ""
            cells.append(f"{mean:.4f}{span}")
        missing = [str(len(evaluation.missing_queries))] if with_missing else []
        table.add_row(*_row(name, *cells, *missing))
    return table


def _comparisons(findings: Findings, measure: str) -> Table:
    corrected = [] if findings.correction == "none" else [f"p ({findings.correction})"]
    table = _table(
        f"{measure} against {findings.baseline}",
        *("difference", f"p ({findings.test})", *corrected, "better", "equal", "worse"),
    )
    for name, each in findings.comparisons[measure].items():
        p_values = [each.p_value, *([each.p_adjusted] if corrected else [])]
        counts = (each.wins, each.ties, each.losses)
        cells = [f"{each.difference:+.4f}", *map(_p_text, p_values), *map(str, counts)]
        table.add_row(*_row(name, *cells))
    return table


def _p_text(p_value: float) -> str:
    return f"{p_value:.4f}" if p_value >= SMALLEST_P else f"<{SMALLEST_P}"


def _per_query(findings: Findings, measure: str) -> Table:
    table = _table(f"{measure} of query", *findings.evaluations)
    columns = [each.per_query[measure] for each in findings.evaluations.values()]
    for query_id in columns[0]:
        table.add_row(*_row(query_id, *(f"{column[query_id]:.4f}" for column in columns)))
    return table
