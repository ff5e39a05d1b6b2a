"""A comparison of rankings in words: at a terminal, as a page and as JSON.

Foreign text in sentences is on one line, with unsafe characters as visible escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.text import Text

from personas.console import moved
from personas.format import counted, exact, fixed, optional, percent, signed
from personas.ranking.comparison import (
    ComparedPassage,
    ComparedRuns,
    PersonaChange,
    RankingComparison,
    SettingChange,
)
from personas.report.formats import judgement
from personas.report.page import NO_FOOTER, ReportFooter, render_page
from personas.report.screen import NOTE, Column, Screen, clipped
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

Compared: TypeAlias = RankingComparison | ComparedRuns
"""Two rankings of a query, or of several."""

_NAME = 80
_FINE = 3.0  # higher scores have two decimals
_MOST_SHARES = 4  # personas named in a sentence
_LABEL = 360  # characters of a text looked at for a label
_MARKS = {"+": "green", "-": "red", "~": ""}
_LONGEST_ID = 24
_LONGEST = 400  # characters of a text looked at
_MOST_LINES, _MOST_SETTINGS, _MOST_QUERIES = 40, 12, 20
_TONES = {"▲": "green", "+": "green", "▼": "red", "\N{MINUS SIGN}": "red"}

FIRST = 20
"""Ranks whose moves are drawn on either side of a page."""
_EXPLAINED = 150  # passages on a page, shared among its queries
_LEAST_EXPLAINED, _MOST_EXPLAINED = 5, 50  # of one query
_BOUNDS = {"causes": 12, "settings": 60, "notes": 12, "rows": 1000, "kept": 200, "lines": 200}
_ROW = 1.875  # rem, as in comparison.css


def summary(comparison: RankingComparison) -> list[str]:
    """Sentences on how much changed, by whom, and if it is better, without the notes."""
    found: list[str] = []
    count, total = len(comparison.movers), len(comparison.passages)
    depth = min(10, len(comparison.before.hits), len(comparison.after.hits))
    shares = list(comparison.shares.items())
    if count:
        shared = comparison.shared_top(depth)
        top = f"same top {depth}" if shared == depth else f"{shared} of the top {depth} stay"
        found.append(f"{count:,} of {counted(total, 'passage')} moved; {top}.")
    else:
        but = ", though scores changed" if shares else ""
        found.append(f"No passage moved{but}; {counted(total, 'passage')} compared.")
    if shares:
        said = ", ".join(
            f"{plain(name, _NAME)} {percent(of)}" for name, of in shares[:_MOST_SHARES]
        )
        more = f", {len(shares) - _MOST_SHARES} more" if len(shares) > _MOST_SHARES else ""
        found.append(f"Share of the changes in scores: {said}{more}.")
    if comparison.team is not None and not comparison.team:
        cause = "the settings below" if comparison.settings else "the model's own variation"
        found.append(f"Same team{f', so moves come from {cause}' if count else ''}.")
    worse = (comparison.ndcg_after or 0) < (comparison.ndcg_before or 0)
    if said := _ndcg(comparison):
        found.insert(0 if worse else len(found), said)
    return found


def reason(passage: ComparedPassage) -> str:
    """Why a passage moved, by the persona that moved it most; empty where that is not known."""
    if passage.moved is None:
        return "Only before." if passage.after is None else "Only after."
    assert passage.before is not None
    assert passage.after is not None
    if not passage.causes:
        same = passage.before.known_scores == passage.after.known_scores != ()
        return "Its scores are as before; others passed it." * bool(passage.moved and same)
    first, sign = passage.causes[0], 1 if passage.moved >= 0 else -1
    if passage.moved and sign * first.part <= 0:
        return f"Its scores went the other way; others changed more. {_gave(first)}."
    total = sum(abs(each.part) for each in passage.causes)
    share = (
        f" ({percent(abs(first.part) / total)} of the change)" if len(passage.causes) > 1 else ""
    )
    return f"{_gave(first)}{share}."


def sides(comparison: RankingComparison) -> list[tuple[str, str]]:
    """Label -> the ranker, models and personas of both rankings; one entry if they are the same."""
    said = []
    for side in (comparison.before, comparison.after):
        judge = side.models.get("scoring", "")
        others = [name for name in dict.fromkeys(side.models.values()) if name != judge]
        parts = (
            side.ranker,
            counted(len(side.personas), "persona") if side.personas else "",
            f"judged by {judge}" if judge else "",
            f"also asked: {', '.join(others)}" if others else "",
        )
        said.append(", ".join(filter(None, parts)))
    if said[0] == said[1]:
        return [("Both", said[0])]
    return [("Before", said[0]), ("After", said[1])]


def label_of(each: ComparedPassage) -> str:
    """Title, or beginning of the text, or id."""
    return each.title.strip() or " ".join(each.text[:_LABEL].split()) or each.doc_id


def given(cause: PersonaChange) -> str:
    """The persona's scores of the passage: ``8.1 → 7.45``; once if it stayed."""
    one, two = (
        "-" if score is None else exact(round(score, 2 if abs(score) > _FINE else 3))
        for score in (cause.before, cause.after)
    )
    return one if one == two else f"{one} → {two}"


def level(each: ComparedPassage) -> str:
    """Relevance before and after: ``0.681 → 0.702``; empty unless both are known."""
    values = [hit.relevance if hit else None for hit in (each.before, each.after)]
    one, two = ("" if value is None else fixed(value, 3) for value in values)
    return "" if not (one and two) else one if one == two else f"{one} → {two}"


def _ndcg(comparison: RankingComparison) -> str:
    before, after = comparison.ndcg_before, comparison.ndcg_after
    if before is None or after is None:
        known = comparison.after.grades is not None
        return "No passage is judged relevant to this query, so there is no nDCG." if known else ""
    change = signed(after - before)
    if change == "0.000":
        return f"{comparison.measure} stays at {after:.3f}; this is one query."
    verb = "rises" if after > before else "falls"
    values = f"from {before:.3f} to {after:.3f} ({change})"
    return f"{comparison.measure} {verb} {values}; this is one query."


def _gave(cause: PersonaChange) -> str:
    name, scores = plain(cause.persona, _NAME), given(cause).split(" → ")
    if cause.joined:
        return f"{name} joined the team and gave it {scores[-1]}"
    if cause.left:
        return f"{name} left the team; it had given {scores[0]}"
    if cause.before is None or cause.after is None:
        if cause.before == cause.after:
            return f"{name} gave it no score"
        if cause.before is None:
            return f"{name} gave it {scores[-1]}; its score before is missing"
        return f"{name} gave it {scores[0]}; its score now is missing"
    if len(scores) == 1:
        return f"{name} gave it {scores[0]}, as before, and counts differently now"
    verb = "rose" if cause.after > cause.before else "fell"
    return f"{name} {verb} from {scores[0]} to {scores[1]}"


def as_dict(found: Compared) -> dict[str, Any]:
    """Everything, as plain values that JSON can hold; what differs in a team as lines."""
    if isinstance(found, ComparedRuns):
        return {**found.to_dict(), "comparisons": [as_dict(each) for each in found.comparisons]}
    lines = found.team.lines if found.team else ()
    return {**found.to_dict(), "team": [asdict(line) for line in lines]}


def show_comparison(console: Console, found: Compared, *, top: int = 10) -> None:
    """Print how much changed, what was changed, and the passages that moved, with the reasons."""
    screen = Screen(console)
    if isinstance(found, RankingComparison):
        screen.words(clipped(found.after.query.text, _LONGEST) or "(empty query)", "bold")
        for name, said in sides(found):
            screen.words(clipped(f"{name}: {said}", _LONGEST), NOTE, hang=2)
        _show_query(screen, found, top, found.settings)
        return
    screen.words(clipped(found.title, _LONGEST), "bold")
    for name, said in found.facts:
        screen.words(clipped(f"{name}: {said}", _LONGEST), hang=2)
    for note in found.notes:
        screen.words(clipped(note, 600), "yellow", hang=2)
    for sentence in found.verdict:
        screen.words(clipped(sentence, 600), hang=2)
    _show_settings(screen, found.settings)
    rows = [["moved", *([found.measure, "after", "change"] if found.measure else []), "query"]]
    for row in found.rows[:_MOST_QUERIES]:
        known = row.before is not None and row.after is not None
        change = signed(row.after - row.before) if known else ""  # type: ignore[operator] # known
        measured = [optional(row.before), optional(row.after), change] if found.measure else []
        text = clipped(" ".join(filter(None, [row.query_id, row.text])), _LONGEST)
        rows.append([f"{row.moved}/{row.passages}", *measured, text])
    if found.rows:
        _show_table(screen, rows)
    if len(found.rows) > _MOST_QUERIES:
        more = counted(len(found.rows) - _MOST_QUERIES, "more query", "more queries")
        screen.words(f"{more}; --output json lists all", NOTE)
    for each in found.comparisons:
        screen.line()
        screen.words(clipped(each.after.query.text, _LONGEST) or "(empty query)", "bold")
        _show_query(screen, each, top, ())


def _show_query(
    screen: Screen, found: RankingComparison, top: int, settings: Sequence[SettingChange]
) -> None:
    for note in found.notes:
        screen.words(clipped(note, 600), "yellow", hang=2)
    for sentence in summary(found):
        screen.words(sentence, hang=2)
    lines = found.team.lines if found.team else ()
    if lines or settings:
        screen.line()
        screen.words("What was changed", "bold")
    for line in lines[:_MOST_LINES]:
        style = f"{'bold ' if line.heads else ''}{_MARKS[line.mark]}".strip()
        said = f"{line.mark} {clipped(line.said, _LONGEST)}"
        screen.words(said, style, indent=2 * line.level, hang=2)
    if len(lines) > _MOST_LINES:
        more = counted(len(lines) - _MOST_LINES, "more line")
        screen.words(f"{more}; personas.diff_teams gives all", NOTE)
    _show_settings(screen, settings)
    if not (movers := found.movers[: max(1, top)]):
        return
    screen.line()
    screen.words("What moved", "bold")
    judged = found.after.grades is not None
    measured = ["judged", found.measure] if judged else []
    rows, reasons = [["given", "before", "after", "moved", *measured, "passage"]], []
    for each in movers:
        name = clipped(each.doc_id, _LONGEST_ID)
        before, after = (str(hit.rank) if hit else "-" for hit in (each.before, each.after))
        first, grade = ("-" if n is None else str(n) for n in (each.first_stage_rank, each.grade))
        joined = "new" if each.before is None else "gone"
        move = joined if each.moved is None else moved(each.moved).plain
        gain = [grade, signed(each.gain) if each.gain else ""] if judged else []
        rows.append([first, before, after, move, *gain, f"{name}  {clipped(label_of(each), 120)}"])
        if why := reason(each):
            relevance = f"relevance {level(each)}. " if level(each) else ""
            reasons.append(f"{name} ({before} → {after}): {relevance}{why}")
    _show_table(screen, rows)
    for why in reasons:
        screen.words(why, hang=2)
    if rest := len(found.movers) - len(movers):
        screen.words(f"{counted(rest, 'more passage')} moved and not listed", NOTE)


def _show_table(screen: Screen, rows: Sequence[Sequence[str]]) -> None:
    """A table with its headings first; the last column is text, and takes what room is left."""
    heads, *body = rows
    *columns, last = (
        Column((head,), [Text(row[at], _TONES.get(row[at][:1], "")) for row in body])
        for at, head in enumerate(heads)
    )
    screen.line()
    screen.cells(columns, rest=replace(last, right=False))
    screen.line()


def _show_settings(screen: Screen, settings: Sequence[SettingChange]) -> None:
    for each in settings[:_MOST_SETTINGS]:
        said = f"~ {each.name}: {each.before or '-'} → {each.after or '-'}"
        screen.words(clipped(said, _LONGEST), hang=2)
    if len(settings) > _MOST_SETTINGS:
        more = counted(len(settings) - _MOST_SETTINGS, "more setting")
        screen.words(f"{more} differ; --output json lists all", NOTE)


def render_comparison(
    found: Compared,
    *,
    before: str = "before",
    after: str = "after",
    footer: ReportFooter = NO_FOOTER,
) -> str:
    """The comparison as one HTML page that needs nothing else."""
    runs = found if isinstance(found, ComparedRuns) else None
    comparisons = [found] if isinstance(found, RankingComparison) else found.comparisons
    share = _EXPLAINED // max(1, len(comparisons))
    share = min(max(share, _LEAST_EXPLAINED), _MOST_EXPLAINED)
    teams = [(each.before.team, each.after.team) for each in comparisons]
    return render_page(
        "comparison.html",
        assets=("comparison",),
        queries=[_drawn(place, each, share) for place, each in enumerate(comparisons, start=1)],
        runs=runs,
        sides=[] if runs else sides(comparisons[0]),
        one_team=runs is None or (len(teams) > 1 and teams.count(teams[0]) == len(teams)),
        names=(before, after),
        first=FIRST,
        bounds=_BOUNDS,
        footer=footer,
        **{each.__name__: each for each in (summary, reason, label_of, given, level, judgement)},
    )


def _drawn(number: int, comparison: RankingComparison, share: int) -> dict[str, Any]:
    """A comparison and what is drawn of it."""
    near = [
        each
        for each in comparison.movers
        if any(hit is not None and hit.rank <= FIRST for hit in (each.before, each.after))
    ]
    left = sorted((each.before.rank, each.doc_id) for each in near if each.before)
    right = sorted((each.after.rank, each.doc_id) for each in near if each.after)
    rows = [{doc_id: row for row, (_, doc_id) in enumerate(side)} for side in (left, right)]
    by_id = {each.doc_id: each for each in near}
    explained = comparison.movers[:share]
    return {
        "number": number,
        "comparison": comparison,
        "lines": comparison.team.lines if comparison.team else (),
        "explained": explained,
        "anchors": {each.doc_id: f"q{number}-p{n}" for n, each in enumerate(explained, 1)},
        "kept": [each for each in comparison.passages if each.moved == 0],
        "left": [by_id[doc_id] for _, doc_id in left],
        "right": [by_id[doc_id] for _, doc_id in right],
        # Those that moved most are drawn last, above all others.
        "drawn": [
            (
                "up" if (each.moved or 0) > 0 else "down",
                *(_ROW * (side[each.doc_id] + 0.5) for side in rows),
                1.5 + 3.5 * min(1.0, 2 * each.weight),
            )
            for each in sorted(near, key=lambda each: each.weight)
            if each.moved
        ],
    }
