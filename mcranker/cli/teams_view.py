"""Teams, personas and rubrics in full, as people read them in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from personas import Member, Persona, Rubric, Team
from personas.format import counted, weight
from personas.provenance import edited, origin
from personas.report.screen import NOTE, Screen
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from personas.records import Record

_BAR = 16  # columns of a weight of 100%


def show_record(console: Console, record: Record) -> None:
    """Show a team, member, persona or rubric, and its criteria."""
    screen = Screen(console)
    if isinstance(record, Team):
        for text in filter(None, (record.name, record.query)):
            screen.words(plain(text), "bold")
        if record.description:
            screen.words(plain(record.description))
        locked = ", locked: nothing is recruited or rewritten" if record.locked else ""
        members = counted(len(record.members), "member")
        screen.words(f"{members}, digest {record.digest}{locked}", NOTE)
        for member in record.members:
            screen.line()
            _show_member(screen, member, record)
    elif isinstance(record, Member):
        _show_member(screen, record)
    elif isinstance(record, Persona):
        screen.words(plain(record.name), "bold cyan")
        _show_about(screen, record)
    else:
        _show_rubric(screen, record)


def _show_member(screen: Screen, member: Member, team: Team | None = None) -> None:
    share = team.shares.get(member.name) if team else None
    title = Text(plain(member.name), style="bold cyan")
    if share is not None:
        title.append(f"  counts {weight(share)}", style="not bold")
    style = "not bold yellow" if edited(member) else "not bold dim"
    screen.words(title.append(f"  {origin(member)}", style=style))
    _show_about(screen, member.persona)
    if member.rubric is None:
        screen.line("no criteria", NOTE)
    else:
        _show_rubric(screen, member.rubric)


def _show_about(screen: Screen, persona: Persona) -> None:
    labelled = (("", persona.description), ("why: ", persona.reason))
    for label, said in (*labelled, ("topics: ", ", ".join(persona.topics))):
        if said:
            screen.words(Text(label, style=NOTE).append(plain(said), style="not dim"))


def _show_rubric(screen: Screen, rubric: Rubric) -> None:
    """The criteria with their weights as bars."""
    if rubric.reason:
        screen.words(plain(rubric.reason))
    for criterion in rubric.criteria:
        line = screen.bar(criterion.weight / 100, _BAR)
        line.append(f" {weight(criterion.weight):>5}  ", style="not cyan")
        line.append(plain(criterion.name), style="bold not cyan")
        screen.words(line, hang=_BAR + 8)
        if criterion.description:
            screen.words(plain(criterion.description), indent=_BAR + 8)
