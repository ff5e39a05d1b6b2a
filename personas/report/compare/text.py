"""A comparison as text, for people at a terminal and as Markdown, and as plain values for JSON.

Both texts are made of the same parts. All foreign text goes through `clipped`, which takes control
characters and line ends from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rich.text import Text

from personas.console import moved
from personas.format import counted, optional, signed
from personas.ranking.comparison import ComparedRuns, RankingComparison, SettingChange
from personas.report.compare.sentences import Name, Sentence, label_of, reason, sides, summary
from personas.report.diff_lines import diff_lines
from personas.report.terminal.screen import NOTE, Column, Screen, clipped

if TYPE_CHECKING:
    from rich.console import Console

Compared: TypeAlias = RankingComparison | ComparedRuns
"""Two rankings of a query, or of several."""

_Kind = Literal["title", "heading", "part", "warning", "words", "note", "+", "-", "~"]
_STYLES = {"title": "bold", "heading": "bold", "part": "bold", "warning": "yellow", "note": NOTE}
_MARKS = {"+": "green", "-": "red", "~": ""}
_LONGEST_ID = 24
_LONGEST = 400  # characters of a text looked at
_LABEL = 120  # characters of a passage in Markdown
_MOST_LINES, _MOST_SETTINGS, _MOST_QUERIES = 40, 12, 20
_NONE = "-"
_TONES = {"▲": "green", "+": "green", "▼": "red", "\N{MINUS SIGN}": "red"}
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$&!])")
_LINKS = re.compile(r"(://|www\.)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Part:
    """A paragraph, a heading, or a line of a list, which has a mark as its kind."""

    kind: _Kind
    said: str
    level: int = 0
    heads: bool = False


@dataclass(frozen=True, slots=True)
class _Grid:
    """A table; its last column is text, and takes what room is left."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def as_dict(found: Compared) -> dict[str, Any]:
    """Everything, as plain values that JSON can hold; what differs in a team as lines."""
    if isinstance(found, ComparedRuns):
        return {**found.to_dict(), "comparisons": [as_dict(each) for each in found.comparisons]}
    lines = diff_lines(found.team) if found.team else ()
    return {**found.to_dict(), "team": [asdict(line) for line in lines]}


def show_comparison(console: Console, found: Compared, *, top: int = 10) -> None:
    """Print how much changed, what was changed, and the passages that moved, with the reasons."""
    screen = Screen(console)
    for part in _parts(found, top):
        if isinstance(part, _Grid):
            _show_grid(screen, part)
            continue
        if part.kind in {"heading", "part"}:
            screen.line()
        style = f"{'bold ' if part.heads else ''}{ {**_STYLES, **_MARKS}.get(part.kind, '') }"
        mark = f"{part.kind} " if part.kind in _MARKS else ""
        screen.words(f"{mark}{part.said}", style.strip(), indent=2 * part.level, hang=2)


def as_markdown(found: Compared, *, top: int = 10) -> str:
    """The same as Markdown, as GitHub reads it."""
    lines: list[str] = []
    listed = False
    for part in _parts(found, top):
        if isinstance(part, _Grid):
            last = len(part.heads) - 1
            marks = ["---" if place == last else "---:" for place in range(last + 1)]
            rows = [map(_md, part.heads), marks, *(map(_md, row) for row in part.rows)]
            lines += ["", *(f"| {' | '.join(row)} |" for row in rows)]
        elif part.kind in _MARKS:
            lines += [] if listed else [""]
            lines.append(f"{'  ' * part.level}- {_md(f'{part.kind} {part.said}')}")
        else:
            sign = {"title": "# ", "heading": "## ", "part": "### ", "warning": "**Note:** "}.get(
                part.kind, ""
            )
            lines += ["", f"{sign}{_md(part.said)}"]
        listed = isinstance(part, _Part) and part.kind in _MARKS
    return "\n".join(lines).strip() + "\n"


def _md(text: str) -> str:
    """Text of one line, so that Markdown shows it as it is and makes no link of it."""
    return _LINKS.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", _MARKUP.sub(r"\\\1", text))


def _parts(found: Compared, top: int) -> Iterator[_Part | _Grid]:
    if isinstance(found, RankingComparison):
        yield from _query(found, top, "title")
        return
    yield _Part("title", clipped(found.title, _LONGEST))
    for name, said in found.facts:
        yield _Part("words", clipped(f"{name}: {said}", _LONGEST))
    yield from (_Part("warning", clipped(note, 600)) for note in found.notes)
    yield from (_Part("words", clipped(sentence, 600)) for sentence in found.verdict)
    yield from _settings(found.settings)
    rows = []
    for row in found.rows[:_MOST_QUERIES]:
        known = row.before is not None and row.after is not None
        change = signed(row.after - row.before) if known else ""  # type: ignore[operator] # known
        measured = [optional(row.before), optional(row.after), change] if found.measure else []
        text = clipped(" ".join(filter(None, [row.query_id, row.text])), _LONGEST)
        rows.append([f"{row.moved}/{row.passages}", *measured, text])
    if rows:
        measured = [found.measure, "after", "change"] if found.measure else []
        yield _Grid(["moved", *measured, "query"], rows)
    if len(found.rows) > _MOST_QUERIES:
        more = counted(len(found.rows) - _MOST_QUERIES, "more query", "more queries")
        yield _Part("note", f"{more}; --output json lists all")
    for each in found.comparisons:
        yield from _query(each, top, "heading", in_runs=True)


def _query(
    found: RankingComparison, top: int, kind: _Kind, *, in_runs: bool = False
) -> Iterator[_Part | _Grid]:
    yield _Part(kind, clipped(found.after.query.text, _LONGEST) or "(empty query)")
    if not in_runs:
        for name, said in sides(found):
            yield _Part("note", clipped(f"{name}: {said}", _LONGEST))
    yield from (_Part("warning", clipped(note, 600)) for note in found.notes)
    yield from (_Part("words", _said(sentence)) for sentence in summary(found))
    lines = list(diff_lines(found.team)) if found.team else []
    if lines or (found.settings and not in_runs):
        yield _Part("part", "What was changed")
    for line in lines[:_MOST_LINES]:
        yield _Part(line.mark, clipped(line.said, _LONGEST), line.level, line.heads)
    if len(lines) > _MOST_LINES:
        more = counted(len(lines) - _MOST_LINES, "more line")
        yield _Part("note", f"{more}; personas.diff_teams gives all")
    if not in_runs:
        yield from _settings(found.settings)
    yield from _movers(found, max(1, top))


def _settings(settings: Sequence[SettingChange]) -> Iterator[_Part]:
    for each in settings[:_MOST_SETTINGS]:
        said = f"{each.name}: {each.before or _NONE} → {each.after or _NONE}"
        yield _Part("~", clipped(said, _LONGEST))
    if len(settings) > _MOST_SETTINGS:
        more = counted(len(settings) - _MOST_SETTINGS, "more setting")
        yield _Part("note", f"{more} differ; --output json lists all")


def _movers(found: RankingComparison, top: int) -> Iterator[_Part | _Grid]:
    movers = found.movers[:top]
    if not movers:
        return
    yield _Part("part", "What moved, and why")
    judged = found.after.grades is not None
    rows, reasons = [], []
    for each in movers:
        name = clipped(each.doc_id, _LONGEST_ID)
        before, after = (str(hit.rank) if hit else _NONE for hit in (each.before, each.after))
        given, grade = (_NONE if n is None else str(n) for n in (each.first_stage_rank, each.grade))
        joined = "new" if each.before is None else "gone"
        move = joined if each.moved is None else moved(each.moved).plain
        gain = [grade, signed(each.gain) if each.gain else ""] if judged else []
        label = clipped(label_of(each), _LABEL)
        rows.append([given, before, after, move, *gain, f"{name}  {label}"])
        if why := _said(reason(each)):
            reasons.append(_Part("words", f"{name} ({before} → {after}): {why}"))
    measured = ["judged", found.measure] if judged else []
    yield _Grid(["given", "before", "after", "moved", *measured, "passage"], rows)
    yield from reasons
    if rest := len(found.movers) - len(movers):
        yield _Part("note", f"{counted(rest, 'more passage')} moved and not listed")


def _show_grid(screen: Screen, grid: _Grid) -> None:
    *columns, last = (
        Column((head,), [Text(row[place], _TONES.get(row[place][:1], "")) for row in grid.rows])
        for place, head in enumerate(grid.heads)
    )
    screen.line()
    screen.cells(columns, rest=replace(last, right=False))
    screen.line()


def _said(sentence: Sentence) -> str:
    return "".join(clipped(part, 200) if isinstance(part, Name) else part for part in sentence)
