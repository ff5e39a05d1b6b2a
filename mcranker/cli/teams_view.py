"""Teams, personas and rubrics as people read them in a terminal.

All text of theirs goes through `plain` and into `Text` objects, which know no markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from personas.format import counted, weight
from personas.provenance import HANDS, provenance, written
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from personas import Member, Persona, Rubric, Team
    from personas.provenance import Provenance

BAR = 16  # columns of a weight of 100%
_EIGHTHS = " ▏▎▍▌▋▊▉"


def show_team(console: Console, team: Team) -> None:
    """Show the team's purpose, and every member in full."""
    if team.name:
        line(console, Text(plain(team.name), style="bold"))
    if team.query:
        line(console, Text(plain(team.query), style="bold"), wrap=True)
    if team.description:
        line(console, Text(plain(team.description)), wrap=True)
    locked = ", locked: nothing is recruited or rewritten" if team.locked else ""
    line(console, Text(f"{counted(len(team.members), 'member')}{locked}", style="dim"))
    for member in team.members:
        console.print()
        show_member(console, member)


def show_member(console: Console, member: Member) -> None:
    """Show a member, the authors of its parts, and its criteria with their weights as bars."""
    found = provenance(member)
    title = Text(plain(member.name), style="bold cyan")
    style = "not bold yellow" if found.edited else "not bold dim"
    title.append(f"  {written(member, found)}", style=style)
    line(console, title, wrap=True)
    _show_about(console, member.persona)
    if member.rubric is None:
        line(console, Text("no criteria", style="dim"))
        return
    show_rubric(console, member.rubric, found)


def show_persona(console: Console, persona: Persona) -> None:
    """Show a persona."""
    line(console, Text(plain(persona.name), style="bold cyan"))
    _show_about(console, persona)


def show_rubric(console: Console, rubric: Rubric, found: Provenance | None = None) -> None:
    """The criteria with their weights as bars; with `found`, who wrote each if not all one."""
    if rubric.reason:
        line(console, Text(plain(rubric.reason)), wrap=True)
    mixed = found is not None and len(set(found.criteria)) > 1
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="cyan", width=BAR)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    if mixed:
        table.add_column(no_wrap=True)
    for place, criterion in enumerate(rubric.criteria):
        text = Text(plain(criterion.name), style="bold")
        if criterion.description:
            text.append(f"\n{plain(criterion.description)}", style="not bold")
        row = [Text(_bar(criterion.weight)), Text(weight(criterion.weight)), text]
        if mixed and found is not None:
            hand = found.criteria[place]
            row.append(Text(HANDS[hand], style="yellow" if hand == "human" else "dim"))
        table.add_row(*row)
    console.print(table)


def line(console: Console, text: Text, *, wrap: bool = False) -> None:
    """Print one line, cut where the terminal ends, or as many as it takes."""
    if wrap:
        console.print(text)
    else:
        console.print(text, no_wrap=True, overflow="ellipsis")


def _show_about(console: Console, persona: Persona) -> None:
    if persona.description:
        line(console, Text(plain(persona.description)), wrap=True)
    if persona.reason:
        line(console, _labelled("why", persona.reason), wrap=True)
    if persona.topics:
        line(console, _labelled("topics", ", ".join(persona.topics)), wrap=True)


def _labelled(label: str, said: str) -> Text:
    text = Text(f"{label}: ", style="dim")
    text.append(plain(said), style="not dim")
    return text


def _bar(weight: float) -> str:
    eighths = round(weight / 100 * BAR * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
