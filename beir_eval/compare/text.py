"""A comparison of two runs as people and programs read it: in a terminal, as Markdown, as JSON.

Queries, passages and everything that a model wrote are foreign text; `plain` has taken their
control characters and line ends from all that is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from beir_eval.compare.sources import FIRST_STAGE_NAME
from personas.plain import plain
from personas.words import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beir_eval.compare.model import (
        ChangedQuery,
        MovedPassage,
        PersonaScore,
        Place,
        RunComparison,
        TeamMember,
    )


NOTHING = "No query differs."
LONGEST_ID = 24  # columns
LONGEST_NAME = 30  # columns
WIDEST = 300  # characters of a passage in a terminal, at most
EXCERPT = 120  # characters of a passage in Markdown
INDENT = 5  # columns before what is said of a passage
TONES = {-1: "red", 0: "", 1: "green"}

_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$&!])")
_LINKS = re.compile(r"(://|www\.)", re.IGNORECASE)


NONE = "-"  # where a run has no such rank, score or grade
SETTINGS = 8  # settings that differ, at most
CRITERIA = 5  # criteria of a persona, at most
REASONS = 3  # missing scores explained for a query


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


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run, as the head of the page lists it."""

    letter: str
    label: str
    mean: str
    models: str


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A line of the table of scores.

    Attributes:
        name: a persona, or what else the line shows.
        mean: over all passages of the query; empty where that says nothing.
        cells: (text, -1, 0 or 1 for below, at or above the mean), a passage each.
        heads: whether it begins the lines of a run.
    """

    name: str
    mean: str
    cells: tuple[tuple[str, int], ...]
    heads: bool = False


@dataclass(frozen=True, slots=True)
class ChangedQueries:
    """Queries that changed in one direction."""

    title: str
    queries: tuple[ChangedQuery, ...]
    worse: bool


def title(comparison: RunComparison) -> str:
    """What was compared."""
    return f"{comparison.measure} of {counted(comparison.queries, 'query', 'queries')}, A to B"


def run_lines(comparison: RunComparison) -> list[RunLine]:
    """Both runs; with their names as given, where their labels are the same."""
    sides = (comparison.a, comparison.b)
    same = comparison.a.label == comparison.b.label
    return [
        RunLine(
            letter,
            plain(f"{side.label} ({side.name})" if same else side.label),
            f"{side.mean:.4f}",
            plain(side.models),
        )
        for letter, side in zip("AB", sides, strict=True)
    ]


def verdict(comparison: RunComparison) -> str:
    """How the runs differ, over all queries."""
    found = comparison.comparison
    return (
        f"B less A: {signed(found.difference, 4)}; better on {found.wins}, equal on {found.ties}, "
        f"worse on {found.losses}; paired t-test: {_p_value(found.p_value)}; rank-biased overlap "
        f"{comparison.overlap:.3f}"
    )


def _p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def notes(comparison: RunComparison) -> list[str]:
    """What else there is to know before the queries, a line each."""
    lines = []
    changes = comparison.settings
    if changes:
        listed = [
            f"{plain(each.name)} {plain(each.a or 'none', 40)} → {plain(each.b or 'none', 40)}"
            for each in changes[:SETTINGS]
        ]
        rest = len(changes) - len(listed)
        listed += [f"and {rest} more"] if rest else []
        lines.append(f"Settings, A → B: {'; '.join(listed)}.")
    lines += [
        f"{letter}: {side.note}."
        for letter, side in (("A", comparison.a), ("B", comparison.b))
        if side.note
    ]
    lines += [
        f"{letter}: {warning}."
        for letter, side in (("A", comparison.a), ("B", comparison.b))
        for warning in side.warnings
    ]
    if comparison.left_out:
        left_out = counted(comparison.left_out, "judged query", "judged queries")
        lines.append(
            f"{left_out} left out, which only one of the runs has or which were judged otherwise."
        )
    if comparison.effect_measure.lower() != comparison.measure.lower():
        lines.append(f"Effects of passages are those on {comparison.effect_measure}.")
    return lines


def sections(comparison: RunComparison) -> list[ChangedQueries]:
    """Losses, then gains; a part without queries is left out."""
    found = comparison.comparison
    parts = (
        ("Worse in B", comparison.losses, found.losses),
        ("Better in B", comparison.gains, found.wins),
    )
    return [
        ChangedQueries(
            f"{name}: {len(queries)} of {counted(total, 'query', 'queries')}",
            queries,
            worse=queries is comparison.losses,
        )
        for name, queries, total in parts
        if queries
    ]


def values_line(comparison: RunComparison, query: ChangedQuery) -> str:
    """A query's id and values."""
    line = f"query {plain(query.query_id)}: {comparison.measure} "
    line += f"{query.a.value:.3f} in A, {query.b.value:.3f} in B"
    for letter, side in (("A", query.a), ("B", query.b)):
        if side.failed:
            line += f"; {letter} did not rank it: {plain(side.failed)}"
    return line


def headings(comparison: RunComparison) -> list[str]:
    """Of the table whose rows are `passage_cells`."""
    first_stage = [plain(comparison.first_stage)] if _shows_first_stage(comparison) else []
    return ["", "passage", "grade", *first_stage, "A", "B", "effect"]


def passage_cells(comparison: RunComparison, number: int, passage: MovedPassage) -> list[str]:
    """Number, id, grade, ranks and effect of a passage."""
    ranks = [passage.first_stage_rank] if _shows_first_stage(comparison) else []
    ranks += [passage.a.rank, passage.b.rank]
    return [
        f"#{number}",
        plain(passage.doc_id),
        NONE if passage.grade is None else str(passage.grade),
        *(NONE if rank is None else str(rank) for rank in ranks),
        signed(passage.effect, 3) if passage.effect else "",
    ]


def about(passage: MovedPassage, limit: int) -> str:
    """Title and first words, at most `limit` characters of each, on one line."""
    title = plain(passage.title, limit)
    if title and title[-1] not in ".:?!":
        title += "."
    words = f"{title} {plain(passage.text, limit)}".strip()
    return words if len(words) <= limit else f"{words[:limit].rstrip()}…"


def _shows_first_stage(comparison: RunComparison) -> bool:
    """Whether it has a column of its own: not beside itself."""
    sides = (comparison.a, comparison.b)
    return bool(comparison.first_stage) and all(side.name != FIRST_STAGE_NAME for side in sides)


def pulls(passage: MovedPassage) -> list[str]:
    """Who pulled the passage most in each run, in words."""
    found = []
    for letter, place in (("A", passage.a), ("B", passage.b)):
        if place.pull is not None:
            found.append(f"{letter}: {_pull(place.pull)}")
    return found


def _pull(pull: PersonaScore) -> str:
    assert pull.score is not None, "only a score can pull"
    assert pull.mean is not None, "a score has a mean"
    verb = "raised" if pull.score > pull.mean else "lowered"
    by = f"{verb} by {plain(pull.persona)} ({_number(pull.score)}; its mean here "
    by += f"{_mean(pull.mean)})"
    if pull.criteria:
        listed = (f"{plain(name)} {_number(score)}" for name, score in pull.criteria.items())
        by += f": {', '.join(listed)}"
    return by


def score_rows(query: ChangedQuery) -> Iterator[ScoreRow]:
    """The final scores and those of each persona, run by run, over the query's passages."""
    for letter in "AB":
        places = [each.a if letter == "A" else each.b for each in query.passages]
        if all(place.rank is None for place in places):
            continue
        final = tuple((_final(place), 0) for place in places)
        yield ScoreRow(f"{letter}, final", "", final, heads=True)
        if any(place.tied for place in places):
            tied = tuple((str(place.tied) if place.tied else "", 0) for place in places)
            yield ScoreRow("others at that score", "", tied)
        by_persona = [{each.persona: each for each in place.scores} for place in places]
        for name in dict.fromkeys(name for of_place in by_persona for name in of_place):
            given = [of_place.get(name) for of_place in by_persona]
            mean = next((each.mean for each in given if each and each.mean is not None), None)
            yield ScoreRow(
                plain(name),
                NONE if mean is None else _mean(mean),
                tuple(("", 0) if each is None else _score(each) for each in given),
            )


def _final(place: Place) -> str:
    if place.rank is None:
        return ""
    if place.at_most is not None:
        return f"≤{_number(place.at_most)}"
    return NONE if place.score is None else _number(place.score)


def _score(given: PersonaScore) -> tuple[str, int]:
    if given.score is None or given.mean is None:
        return given.absent.partition(":")[0], 0
    return _number(given.score), (given.score > given.mean) - (given.score < given.mean)


def reasons(query: ChangedQuery) -> list[str]:
    """Why scores are missing, a line each."""
    found = [
        f"{plain(each.persona)} of #{number} in {letter} is {plain(each.absent)}"
        for number, passage in enumerate(query.passages, start=1)
        for letter, place in (("A", passage.a), ("B", passage.b))
        for each in place.scores
        if each.absent.startswith("missing")
    ]
    rest = len(found) - REASONS
    return [*found[:REASONS], *([f"and {rest} more missing"] if rest > 0 else [])]


def teams(query: ChangedQuery) -> list[tuple[str, list[str]]]:
    """Whose team it is, and its members with what they judged by; one entry if both share it."""
    if query.a.team == query.b.team:
        sides = [("Team of both", query.a)] if query.a.team else []
    else:
        sides = [
            (f"Team of {letter}", side)
            for letter, side in (("A", query.a), ("B", query.b))
            if side.team
        ]
    return [(name, [_member(member) for member in side.team]) for name, side in sides]


def _member(member: TeamMember) -> str:
    heaviest = sorted(member.criteria.items(), key=lambda item: -item[1])
    listed = [f"{plain(name)} {weight:.0f}%" for name, weight in heaviest[:CRITERIA]]
    listed += ["…"] if len(heaviest) > CRITERIA else []
    return f"{plain(member.persona)}: {', '.join(listed) or 'no criteria'}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _mean(value: float) -> str:
    return f"{value:.1f}" if not value or abs(value) >= 1 else f"{value:.2f}"


def signed(value: float, places: int) -> str:
    """``+0.031``, ``-0.569``."""
    return f"{value:+.{places}f}"
