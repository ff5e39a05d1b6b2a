"""One ranked query for people at a terminal, with all that the page of the query shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from personas.console import letter, print_page
from personas.errors import PersonasError
from personas.format import counted, dollars, seconds, weight
from personas.provenance import edited, origin
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.report.screen import NOTE, Screen, clipped
from personas.report.terminal_passages import show_passage, show_ranking
from personas.report.warnings import judgements, warnings
from personas.schema import Member, Rubric, Team

_LONGEST_ID = 200
_RANK = re.compile("(?<!0)0*+[1-9][0-9]{0,8}")
_CLOSE = 0.75  # how alike ids must be to be suggested, 0 to 1
_MOST_QUERY = 1000
_MOST_MODELS = 20
MARKS = {
    "bad": ("x", "bold red"),
    "warn": ("!", "yellow"),
    "note": ("-", NOTE),
    "good": ("+", "green"),
}
_INDENT = 3
_MOST_WORDS = 400
_MOST_CRITERIA = 20
_MOST_NAME = 40  # columns
_ROOM_FOR_DESCRIPTION = 40


def print_inspection(
    data: RankingRecord | Mapping[str, Any],
    *,
    top: int = 20,
    passage: int | str | None = None,
    grades: Mapping[str, int] | None = None,
    file: TextIO | None = None,
) -> None:
    """Print a ranking: in colour on a terminal, as plain text anywhere else."""
    inspection = RankingRecord.of(data).beside(grades=grades)
    if passage is not None:
        find_hit(inspection, passage)
    print_page(lambda console: show_inspection(console, inspection, top=top, passage=passage), file)


def show_inspection(
    console: Console, inspection: RankingRecord, *, top: int = 20, passage: int | str | None = None
) -> None:
    """Print the query, the team, the ranking and its calls, nothing by colour alone."""
    screen = Screen(console)
    hit = None if passage is None else find_hit(inspection, passage)
    show_head(screen, inspection)
    if hit is not None:
        if inspection.judge_note:
            screen.words(clipped(inspection.judge_note, 300), "yellow")
        show_passage(screen, inspection, hit)
        return
    show_warnings(screen, inspection)
    show_team(screen, inspection)
    show_ranking(screen, inspection, top)
    show_calls(screen, inspection)


def find_hit(inspection: RankingRecord, passage: int | str) -> Hit:
    """The passage of that id, or of that rank if no passage has such an id."""
    hits = inspection.hits
    by_id = next((hit for hit in hits if hit.doc_id == passage), None)
    given = str(passage)[:_LONGEST_ID]
    if by_id is not None:
        return by_id
    if _RANK.fullmatch(given) and int(given) <= len(hits):
        return hits[int(given) - 1]
    shown = repr(given if isinstance(passage, str) else passage)
    if not hits:
        raise PersonasError(f"no passage {shown}: no passages were ranked")
    ids = [hit.doc_id[:_LONGEST_ID] for hit in hits if isinstance(passage, str)]
    close = difflib.get_close_matches(given, ids, n=3, cutoff=_CLOSE)
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise PersonasError(f"no passage {shown}; give an id, or a rank from 1 to {len(hits)}{meant}")


def show_head(screen: Screen, inspection: RankingRecord) -> None:
    """The query, and what ranked how many passages."""
    screen.words(clipped(inspection.query.text, _MOST_QUERY), "bold")
    # Without scores there is no scheme of scoring, and no ensemble.
    settings = ["preset"] if inspection.comparisons else ["preset", "scoring", "ensemble"]
    parts = [f"query {clipped(inspection.query.id, 80)}"] if inspection.query.id else []
    parts += [
        counted(len(inspection.hits), "passage"),
        f"ranked by {clipped(inspection.ranker, 80)}",
        *(
            f"{name} {clipped(str(inspection.config[name]), 40)}"
            for name in settings
            if inspection.config.get(name)
        ),
    ]
    screen.words(", ".join(parts), NOTE)


def show_warnings(screen: Screen, inspection: RankingRecord) -> None:
    """Warnings and notes, as the page has them."""
    if (judged := judgements(inspection)) is not None:
        screen.words(judged.sentence)
    for each in warnings(inspection):
        mark, style = MARKS[each.kind]
        screen.words(f"{mark} {clipped(each.sentence, 800)}", style, hang=2)


def show_calls(screen: Screen, inspection: RankingRecord) -> None:
    """Calls, tokens, cost and time in all; the models."""
    used = inspection.usage
    screen.line()
    screen.line("Calls", "bold")
    cached = f" ({used.cached_input_tokens:,} cached)" if used.cached_input_tokens else ""
    screen.words(
        f"{counted(used.calls, 'call')}, {counted(used.input_tokens, 'token')} in{cached}, "
        f"{used.output_tokens:,} out, {dollars(inspection.cost)}"
        if used.calls
        else "no model was called"
    )
    if reused := inspection.reused.calls:
        screen.words(f"{counted(reused, 'answer')} from the ledger, which took no call")
    if total := inspection.seconds.get("total"):
        screen.words(f"time {seconds(total)}", NOTE)
    for name in list(dict.fromkeys(inspection.models.values()))[:_MOST_MODELS]:
        screen.words(f"model {clipped(name, 120)}", NOTE)


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
