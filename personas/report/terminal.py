"""One ranked query for people at a terminal, with all that the page of the query shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from personas.console import letter, print_page
from personas.errors import PersonasError
from personas.format import counted, dollars, seconds, weight
from personas.provenance import edited, origin
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.ranking.usage import Calls
from personas.report.formats import alpha_reading
from personas.report.screen import NOTE, Screen, clipped
from personas.report.terminal_passages import show_passage, show_ranking
from personas.report.warnings import warnings
from personas.schema import Member, Rubric, Team
from personas.survey import DEPTH, QueryFindings

_LONGEST_ID = 200
_RANK = re.compile("(?<!0)0*+[1-9][0-9]{0,8}")
_CLOSE = 0.75  # how alike ids must be to be suggested, 0 to 1
_MOST_QUERY = 1000
_MOST_PAIRS = 10
_MOST_STAGES = 20
_MOST_IDS = 5
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
    show_agreement(screen, inspection)
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
    # Without scores there is no scheme of scoring, and of a single order no ensemble.
    settings = ["preset"] if inspection.comparisons else ["preset", "scoring", "ensemble"]
    settings += ["ensemble"] if inspection.by_rank else []
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
    for each in warnings(inspection):
        mark, style = MARKS[each.kind]
        screen.words(f"{mark} {clipped(each.sentence, 800)}", style, hang=2)


def show_agreement(screen: Screen, inspection: RankingRecord) -> None:
    """The agreement of the personas, and the effectiveness where judgements are known."""
    findings = QueryFindings.of(1, inspection)
    if len(findings.figures.personas) > 1 and inspection.hits:
        screen.line()
        _show_agreement(screen, findings, by_rank=inspection.by_rank)
    if inspection.grades is not None:
        screen.line()
        _show_effectiveness(screen, inspection, findings)


def show_calls(screen: Screen, inspection: RankingRecord) -> None:
    """Calls, tokens, cost and time, by stage and in total; the models."""
    screen.line()
    screen.line("Calls", "bold")
    names = list(dict.fromkeys(inspection.models.values()))
    rows: dict[tuple[str, str], Calls] = {}
    for row in inspection.rows_of_calls():
        known = rows.setdefault((row.stage, row.model), row)
        if known is not row:
            costs = (known.cost, row.cost)
            cost = None if None in costs else sum(filter(None, costs))
            usage = known.usage + row.usage
            rows[row.stage, row.model] = Calls.of(row.stage, "", row.model, usage, cost)
    if not inspection.usage.calls:
        screen.words("no model was called")
    for row in islice(rows.values(), _MOST_STAGES):
        by = f" ({clipped(row.model, 80)})" if len(names) > 1 else ""
        screen.words(f"{clipped(row.stage, 40):<9} {_counts(row)}{by}", NOTE, hang=10)
    if len(rows) > 1:
        total = Calls.of("", "", "", inspection.usage, inspection.cost)
        screen.words(f"{'together':<9} {_counts(total)}", hang=10)
    if reused := inspection.reused.calls:
        screen.words(f"{counted(reused, 'answer')} from the ledger, which took no call")
    times = [
        f"{clipped(stage, 40)} {seconds(spent)}"
        for stage, spent in islice(inspection.seconds.items(), _MOST_STAGES)
    ]
    if times:
        screen.words(f"{'time':<9} {', '.join(times)}", NOTE, hang=10)
    for name in names[:_MOST_STAGES]:
        roles = [clipped(role, 40) for role, used in inspection.models.items() if used == name]
        of = f" ({', '.join(roles)})" if len(names) > 1 else ""
        screen.words(f"{'model':<9} {clipped(name, 120)}{of}", NOTE, hang=10)


def _counts(row: Calls) -> str:
    used = row.usage
    cached = f" ({used.cached_input_tokens:,} cached)" if used.cached_input_tokens else ""
    return (
        f"{counted(used.calls, 'call')}, {counted(used.input_tokens, 'token')} in{cached}, "
        f"{used.output_tokens:,} out, {dollars(row.cost)}"
    )


def _show_agreement(screen: Screen, findings: QueryFindings, *, by_rank: bool) -> None:
    tau, alpha = findings.figures.tau, findings.figures.alpha
    screen.line("Agreement", "bold")
    screen.words(
        "Kendall's tau-b is not defined: no two of them scored the same passages apart."
        if tau is None
        else f"Kendall's tau-b {tau:.2f}{_pairs(findings)}"
    )
    screen.words(
        "Krippendorff's alpha is not defined: all scores are equal, or under two passages have two."
        if alpha is None
        else f"Krippendorff's alpha {alpha:.2f}: the personas {alpha_reading(alpha)}"
    )
    if (apart := findings.figures.disagreement) is not None:
        most = "number of ranks" if by_rank else "highest score"
        screen.words(f"mean disagreement {100 * apart:.1f}% of the {most}")
    screen.words(
        "Tau and alpha are 1 for full agreement and about 0 for chance. Tau compares the orders, "
        f"alpha the {'distances of ranks' if by_rank else 'scores'}.",
        NOTE,
    )


def _pairs(findings: QueryFindings) -> str:
    """The taus of every two personas, or their range where there are many."""
    taus, places = findings.taus, {name: at for at, name in enumerate(findings.figures.personas)}
    if len(taus) < 2:
        return ""
    if len(taus) > _MOST_PAIRS:
        known = [tau for tau in taus.values() if tau is not None]
        return f", mean of {len(known)} pairs from {min(known):.2f} to {max(known):.2f}"
    each = [
        f"{letter(places[one])}-{letter(places[other])} "
        f"{'undefined' if tau is None else f'{tau:.2f}'}"
        for (one, other), tau in taus.items()
    ]
    return f", mean of {', '.join(each)}"


def _show_effectiveness(screen: Screen, inspection: RankingRecord, findings: QueryFindings) -> None:
    figures = findings.figures
    relevant = [doc_id for doc_id, grade in (inspection.grades or {}).items() if grade > 0]
    here = {hit.doc_id for hit in inspection.hits}
    ranks = [str(hit.rank) for hit in inspection.hits if (hit.grade or 0) > 0]
    listed = ", ".join(ranks[:DEPTH]) + (", ..." if len(ranks) > DEPTH else "")
    at = f", at {'ranks' if len(ranks) > 1 else 'rank'} {listed}" if ranks else ""
    screen.line("Judgements", "bold")
    screen.words(f"{counted(len(relevant), 'relevant passage')}, {len(ranks)} of them here{at}")
    if lost := [doc_id for doc_id in relevant if doc_id not in here]:
        names = ", ".join(clipped(doc_id, 40) for doc_id in lost[:_MOST_IDS])
        more = f" and {len(lost) - _MOST_IDS} more" if len(lost) > _MOST_IDS else ""
        screen.words(f"not found by the first stage: {names}{more}", NOTE)
    if figures.ndcg is None:
        screen.words("no judgement is known for this query")
        return
    values = Text(f"nDCG@10 {figures.ndcg:.3f}", style="bold")
    other = clipped(inspection.other.name, 40) if inspection.other else ""
    for name, ndcg in (("first stage", figures.first_stage_ndcg), (other, figures.other_ndcg)):
        values.append("" if ndcg is None else f", {name} {ndcg:.3f}", style="not bold")
    screen.words(values)
    without = ", ".join(
        f"{letter(place)} {findings.without[name]:.3f}"
        for place, name in enumerate(figures.personas[:_MOST_PAIRS])
        if name in findings.without
    )
    if without:
        screen.words(f"nDCG@10 without {without}; equal scores by lot", NOTE)


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
