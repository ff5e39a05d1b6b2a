"""The team in the terminal view: its members and their criteria."""

from __future__ import annotations

from rich.text import Text

from personas.console import letter
from personas.format import weight
from personas.provenance import edited, origin
from personas.ranking.record import RankingRecord
from personas.report.terminal.screen import NOTE, Screen, clipped
from personas.schema import Member, Rubric, Team

_INDENT = 3
_MOST_WORDS = 400
_MOST_CRITERIA = 20
_MOST_NAME = 40  # columns
_ROOM_FOR_DESCRIPTION = 40


def show_team(screen: Screen, inspection: RankingRecord) -> None:
    """Every member with its letter in the table, and its rubric."""
    team = inspection.team
    screen.line()
    if team is None:
        screen.words("No personas were asked: this ranker judges by itself.", NOTE)
        return
    title = Text("Team", style="bold")
    title.append(f"  {clipped(team.name, 200)}" if team.name else "")
    title.append("  locked: used as it was" if team.locked else "", style="yellow")
    screen.words(title)
    if team.description:
        screen.words(clipped(team.description, _MOST_WORDS), NOTE)
    for place, member in enumerate(team.members):
        _show_member(screen, letter(place), member, team)


def _show_member(screen: Screen, mark: str, member: Member, team: Team) -> None:
    share = team.shares.get(member.name)
    head = Text(f"{mark:<{_INDENT}}", style="bold")
    head.append(clipped(member.name, 200), style="bold cyan")
    if share is not None:
        head.append(f"  counts {weight(share)}", style="not bold")
    style = "not bold yellow" if member.origin == "human" or edited(member) else "not bold"
    head.append(f"  {origin(member)}", style=style)
    screen.words(head, hang=_INDENT)
    notes = [
        ("", member.persona.description),
        ("Why: ", member.persona.reason),
        ("Criteria written beside those of: ", ", ".join(member.rubric_examples)),
        ("", "" if member.rubric else "Judges without written criteria."),
    ]
    for intro, said in notes:
        if said:
            screen.words(f"{intro}{clipped(said, _MOST_WORDS)}", NOTE, indent=_INDENT)
    if member.rubric:
        _show_criteria(screen, member.rubric)


def _show_criteria(screen: Screen, rubric: Rubric) -> None:
    length = 20 if screen.width >= 70 else 10
    listed = rubric.criteria[:_MOST_CRITERIA]
    names = [Text(clipped(each.name, 200)) for each in listed]
    longest = min(max(name.cell_len for name in names), _MOST_NAME) + 2
    room = screen.width - _INDENT - 6 - length - 2 - longest
    for criterion, name in zip(listed, names, strict=True):
        line = Text(f"{'':{_INDENT}}{weight(criterion.weight):>5} ")
        line.append_text(screen.bar(criterion.weight / 100, length)).append(" ").append_text(name)
        if room >= _ROOM_FOR_DESCRIPTION and criterion.description:
            line.append(" " * max(2, longest - name.cell_len))
            line.append(clipped(criterion.description, 4 * room), style=NOTE)
        screen.line(line)
    if rest := len(rubric.criteria) - len(listed):
        screen.words(f"and {rest} more", NOTE, indent=_INDENT)
