"""A comparison of two runs as people and programs read it: in a terminal, as Markdown, as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from beir_eval.compare.phrases import (
    about,
    headings,
    notes,
    passage_cells,
    pulls,
    reasons,
    run_lines,
    score_rows,
    sections,
    signed,
    teams,
    title,
    values_line,
    verdict,
)
from personas.plain import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beir_eval.compare.model import ChangedQuery, RunComparison

NOTHING = "No query differs."
LONGEST_ID = 24  # columns
LONGEST_NAME = 30  # columns
WIDEST = 300  # characters of a passage in a terminal, at most
EXCERPT = 120  # characters of a passage in Markdown
INDENT = 5  # columns before what is said of a passage
TONES = {-1: "red", 0: "", 1: "green"}

_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$&!])")
_LINKS = re.compile(r"(://|www\.)", re.IGNORECASE)


def as_dict(comparison: RunComparison) -> dict[str, Any]:
    """Everything, as plain values that JSON can hold; texts as they are."""
    return asdict(comparison)


def show_comparison(console: Console, comparison: RunComparison) -> None:
    """Print how much the runs differ, on which queries, and why, for a person."""
    from rich.text import Text

    heading = Text(plain(comparison.dataset), style="bold")
    console.print(heading.append(f": {title(comparison)}"))
    console.print(_run_table(comparison))
    console.print(Text(verdict(comparison)))
    for line in notes(comparison):
        console.print(Text(line, style="dim"))
    parts = sections(comparison)
    for part in parts:
        console.print()
        tone = "red" if part.worse else "green"
        console.rule(Text(part.title, style=f"bold {tone}"), align="left", style="dim")
        for query in part.queries:
            _show_query(console, comparison, query, tone)
    if not parts:
        console.print(Text(NOTHING))


def as_markdown(comparison: RunComparison) -> str:
    """The comparison as a page of Markdown, as GitHub reads it."""
    lines = [f"# {_md(plain(comparison.dataset))}: {_md(title(comparison))}", ""]
    lines += _md_table(
        ["", "run", comparison.measure, "models"],
        [[run.letter, run.label, run.mean, run.models] for run in run_lines(comparison)],
        texts=(0, 1, 3),
    )
    lines += ["", _md(verdict(comparison))]
    lines += ["", *(f"- {_md(line)}" for line in notes(comparison))]
    parts = sections(comparison)
    for part in parts:
        lines += ["", f"## {_md(part.title)}"]
        for query in part.queries:
            lines += _md_query(comparison, query)
    if not parts:
        lines += ["", NOTHING]
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _run_table(comparison: RunComparison) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", style="bold cyan")
    table.add_column("run", header_style="dim")
    table.add_column(Text(comparison.measure), header_style="dim", justify="right", no_wrap=True)
    table.add_column("", style="dim")
    for run in run_lines(comparison):
        table.add_row(run.letter, Text(run.label), run.mean, Text(run.models))
    return table


def _show_query(
    console: Console, comparison: RunComparison, query: ChangedQuery, tone: str
) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print()
    line = Text.assemble(
        (f"{signed(query.difference, 3)}  ", f"bold {tone}"),
        (plain(query.text) or "(no text)", "bold"),
    )
    console.print(line)
    console.print(Text(values_line(comparison, query), style="dim"))
    if not query.passages:
        console.print(Text("No passage moved within what the measure looks at."))
        return
    _show_passages(console, comparison, query)
    if any(each.a.scores or each.b.scores for each in query.passages):
        console.print(Padding(_score_table(query), (1, 0, 0, 2)))
    for said in reasons(query):
        console.print(Padding(Text(said, style="yellow"), (0, 0, 0, 2)))
    for name, members in teams(query):
        for member in (f"  {name}", *(f"    {each}" for each in members)):
            console.print(Text(member, style="dim"), no_wrap=True, overflow="ellipsis")


def _show_passages(console: Console, comparison: RunComparison, query: ChangedQuery) -> None:
    from rich.padding import Padding
    from rich.text import Text

    heads = headings(comparison)
    cells = [
        passage_cells(comparison, number, passage)
        for number, passage in enumerate(query.passages, start=1)
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    widths[1] = min(widths[1], LONGEST_ID)
    console.print(_row(heads, widths, "dim"), no_wrap=True, overflow="ellipsis")
    for row, passage in zip(cells, query.passages, strict=True):
        effect = 0 if not passage.effect else -1 if passage.effect < 0 else 1
        relevant = passage.grade is not None and passage.grade > 0
        line = _row(row[:-1], widths, "" if relevant else "dim")
        line.append(row[-1].rjust(widths[-1] + 2), style=TONES[effect])
        console.print(line, no_wrap=True, overflow="ellipsis")
        words = about(passage, WIDEST)
        if words:
            excerpt = Text(" " * INDENT + words, style="italic")
            console.print(excerpt, no_wrap=True, overflow="ellipsis")
        for pull in pulls(passage):
            console.print(Padding(Text(pull), (0, 0, 0, INDENT)))


def _row(cells: Sequence[str], widths: Sequence[int], style: str) -> Text:
    """Cells in columns of `widths`, the id's to the left, all others to the right."""
    from rich.cells import cell_len
    from rich.text import Text

    line = Text(style=style)
    for place, (cell, width) in enumerate(zip(cells, widths, strict=False)):
        shown = Text(cell)
        shown.truncate(width, overflow="ellipsis")
        room = " " * (width - cell_len(shown.plain))
        line.append("  ")
        line.append(f"{shown.plain}{room}" if place <= 1 else f"{room}{shown.plain}")
    return line


def _score_table(query: ChangedQuery) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("score", max_width=LONGEST_NAME, no_wrap=True, overflow="ellipsis")
    table.add_column("mean", justify="right", no_wrap=True, style="dim")
    for number in range(1, len(query.passages) + 1):
        table.add_column(f"#{number}", justify="right", no_wrap=True)
    for row in score_rows(query):
        name = Text(row.name, style="bold") if row.heads else Text(f"  {row.name}")
        cells = [Text(text, style=TONES[tone]) for text, tone in row.cells]
        table.add_row(name, row.mean, *cells)
    return table


def _md_query(comparison: RunComparison, query: ChangedQuery) -> list[str]:
    shown = _md(plain(query.text)) or "(no text)"
    lines = ["", f"### {signed(query.difference, 3)}: {shown}", ""]
    lines += [_md(values_line(comparison, query)), ""]
    rows = [
        [*passage_cells(comparison, number, passage), about(passage, EXCERPT)]
        for number, passage in enumerate(query.passages, start=1)
    ]
    heads = headings(comparison)
    lines += _md_table([*heads, "text"], rows, texts=(0, 1, len(heads)))
    lines.append("")
    for number, passage in enumerate(query.passages, start=1):
        lines += [f"- \\#{number} in {_md(pull)}" for pull in pulls(passage)]
    if any(each.a.scores or each.b.scores for each in query.passages):
        numbers = [f"#{number}" for number in range(1, len(query.passages) + 1)]
        table = [
            [row.name, row.mean, *(text for text, _ in row.cells)] for row in score_rows(query)
        ]
        lines += ["", *_md_table(["score", "mean", *numbers], table, texts=(0,)), ""]
    lines += [f"- {_md(line)}" for line in reasons(query)]
    for name, members in teams(query):
        lines += [f"- {name}", *(f"  - {_md(member)}" for member in members)]
    return lines


def _md_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, texts: Sequence[int]
) -> list[str]:
    """A table; the columns in `texts` are aligned left, all others right."""
    marks = ["---" if place in texts else "---:" for place in range(len(heads))]
    lines = [[_md(head) for head in heads], marks, *([_md(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _md(text: str) -> str:
    """Text of one line, so that Markdown shows it as it is and makes no link of it."""
    return _LINKS.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", _MARKUP.sub(r"\\\1", text))
