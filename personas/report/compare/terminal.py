"""A comparison of two rankings of a query for people at a terminal: what its page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from personas.console import moved
from personas.ranking.comparison import ComparedPassage, RankingComparison
from personas.report.compare.sentences import Name, Sentence, reason, verdict
from personas.report.compare.slope import label_of
from personas.report.diff_lines import diff_lines
from personas.report.terminal.screen import NOTE, Column, Screen, clipped
from personas.words import counted

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"+": "green", "-": "red", "~": "", ">": NOTE}
_LONGEST_ID = 24
_LONGEST = 400  # characters of a text looked at
_MOST_LINES = 40
_MOST_SETTINGS = 12


def show_comparison(console: Console, comparison: RankingComparison, *, top: int = 10) -> None:
    """Print what was changed, and the first `top` passages that moved, each with the reason.

    Args:
        console: where to. Nothing is said by colour alone.
        comparison: the two rankings.
        top: passages listed, at least 1.
    """
    screen = Screen(console)
    screen.words(clipped(comparison.after.query.text, _LONGEST) or "(empty query)", "bold")
    for note in comparison.notes:
        screen.words(clipped(note, 600), "yellow", hang=2)
    for sentence in verdict(comparison):
        screen.words(_said(sentence), hang=2)
    _show_changes(screen, comparison)
    _show_movers(screen, comparison, top)


def _show_changes(screen: Screen, comparison: RankingComparison) -> None:
    lines = list(diff_lines(comparison.team)) if comparison.team else []
    if not lines and not comparison.settings:
        return
    screen.line()
    screen.line("What was changed", "bold")
    for line in lines[:_MOST_LINES]:
        style = f"{'bold ' if line.heads else ''}{_STYLES[line.mark]}"
        said = f"{line.mark} {clipped(line.said, _LONGEST)}"
        screen.words(said, style.strip(), indent=2 * line.level, hang=2)
    if len(lines) > _MOST_LINES:
        more = counted(len(lines) - _MOST_LINES, "more line")
        screen.words(f"{more}; 'personas diff BEFORE AFTER' shows all", NOTE)
    for each in comparison.settings[:_MOST_SETTINGS]:
        said = f"{each.name}: {each.before or '-'} → {each.after or '-'}"
        screen.words(f"~ {clipped(said, _LONGEST)}", hang=2)
    if len(comparison.settings) > _MOST_SETTINGS:
        more = counted(len(comparison.settings) - _MOST_SETTINGS, "more setting")
        screen.words(f"{more} differ; --output json lists all", NOTE)


def _show_movers(screen: Screen, comparison: RankingComparison, top: int) -> None:
    movers = comparison.movers[: max(1, top)]
    if not movers:
        return
    screen.line()
    screen.line("What moved, and why", "bold")
    judged = comparison.after.grades is not None
    columns = [
        Column(("before",), [Text(_rank(each, before=True)) for each in movers]),
        Column(("after",), [Text(_rank(each, before=False)) for each in movers]),
        Column(("moved",), [_moved(each) for each in movers]),
    ]
    if judged:
        grades = [Text("-" if each.grade is None else str(each.grade)) for each in movers]
        columns.append(Column(("judged",), grades))
    ids = [Text(clipped(each.doc_id, _LONGEST_ID)) for each in movers]
    columns.append(Column(("id",), ids, right=False))
    room = max(10, screen.width - sum(column.width + 2 for column in columns))
    labels = [Text(clipped(label_of(each), 4 * room)) for each in movers]
    columns.append(Column(("passage",), labels, right=False, fixed_width=room))
    screen.cells(columns, 2)
    screen.line()
    for each in movers:
        why = _said(reason(each))
        if why:
            name = clipped(each.doc_id, _LONGEST_ID)
            screen.words(
                f"{name} ({_rank(each, before=True)} → {_rank(each, before=False)}): {why}", hang=2
            )
    rest = len(comparison.movers) - len(movers)
    if rest:
        screen.words(
            f"{counted(rest, 'more passage')} moved; --top {len(comparison.movers)} shows all", NOTE
        )


def _rank(each: ComparedPassage, *, before: bool) -> str:
    hit = each.before if before else each.after
    return str(hit.rank) if hit else "-"


def _moved(each: ComparedPassage) -> Text:
    if each.moved is None:
        return Text("new" if each.before is None else "gone")
    return moved(each.moved)


def _said(sentence: Sentence) -> str:
    return "".join(clipped(part, 200) if isinstance(part, Name) else part for part in sentence)
