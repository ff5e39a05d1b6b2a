"""The team in the terminal view: who judged, by what, and who wrote that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from personas.console import letter
from personas.provenance import HANDS, ORIGINS, Hand, Provenance, provenance
from personas.ranking.record import RankingRecord
from personas.report.terminal.screen import NOTE, Screen, clipped
from personas.schema import Criterion, Member
from personas.words import weight

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
    if team.name:
        title.append(f"  {clipped(team.name, 200)}")
    if team.locked:
        title.append("  locked: used as it was", style="yellow")
    screen.words(title)
    if team.description:
        screen.words(clipped(team.description, _MOST_WORDS), NOTE)
    for place, member in enumerate(team.members):
        _show_member(screen, letter(place), member)


def _show_member(screen: Screen, mark: str, member: Member) -> None:
    hands = provenance(member)
    head = Text(f"{mark:<{_INDENT}}", style="bold")
    head.append(clipped(member.name, 200), style="bold cyan")
    head.append(f"  {ORIGINS[member.origin]}; ", style="not bold")
    head.append(_written(hands), style="not bold yellow" if hands.by_human else "not bold")
    screen.words(head, hang=_INDENT)
    for intro, said in (("", member.persona.description), ("Why: ", member.persona.reason)):
        if said:
            screen.words(f"{intro}{clipped(said, _MOST_WORDS)}", NOTE, indent=_INDENT)
    if member.rubric_examples:
        seen = clipped(", ".join(member.rubric_examples), _MOST_WORDS)
        screen.words(f"Criteria written beside those of: {seen}", NOTE, indent=_INDENT)
    if member.rubric is None:
        screen.words("Judges without written criteria.", NOTE, indent=_INDENT)
    else:
        _show_criteria(screen, member.rubric.criteria, hands)


def _show_criteria(screen: Screen, criteria: Sequence[Criterion], hands: Provenance) -> None:
    length = 20 if screen.width >= 70 else 10
    listed = list(zip(criteria, hands.criteria, strict=True))[:_MOST_CRITERIA]
    names = [_named(criterion.name, hand) for criterion, hand in listed]
    longest = min(max(name.cell_len for name in names), _MOST_NAME) + 2
    room = screen.width - _INDENT - 6 - length - 2 - longest
    for (criterion, _), name in zip(listed, names, strict=True):
        line = Text(f"{'':{_INDENT}}{weight(criterion.weight):>5} ")
        line.append_text(screen.bar(criterion.weight / 100, length))
        line.append(" ")
        line.append_text(name)
        if room >= _ROOM_FOR_DESCRIPTION and criterion.description:
            line.append(" " * max(2, longest - name.cell_len))
            line.append(clipped(criterion.description, 4 * room), style=NOTE)
        screen.line(line)
    rest = len(criteria) - _MOST_CRITERIA
    if rest > 0:
        screen.words(f"and {rest} more", NOTE, indent=_INDENT)


def _named(criterion: str, hand: Hand) -> Text:
    name = Text(clipped(criterion, 200))
    if hand == "human":
        name.append(" (by a person)", style="yellow")
    return name


def _written(hands: Provenance) -> str:
    """Describe the authors in a line."""
    parts = {hands.persona, *hands.criteria}
    if hands.weights is not None:
        parts.add(hands.weights)
    if len(parts) == 1:
        said = f"written by {HANDS[hands.persona]}"
    else:
        said = f"persona by {HANDS[hands.persona]}"
        counts = Counter(hands.criteria)
        if len(counts) == 1:
            said += f", criteria by {HANDS[hands.criteria[0]]}"
        elif counts:
            shares = [f"{count} by {HANDS[hand]}" for hand, count in counts.most_common()]
            said += f", criteria: {' and '.join(shares)}"
        if hands.weights is not None:
            said += f", weights by {HANDS[hands.weights]}"
    return f"{said}, edited by a person" if hands.edited else said
