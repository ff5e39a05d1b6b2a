"""A comparison of rankings in words: at a terminal and as a page.

Foreign text in sentences is on one line, with unsafe characters as visible escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
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

FIRST = 20
"""Ranks whose moves are drawn on either side of a page."""
_FINE = 3.0  # higher scores have two decimals
_MOST_PERSONAS = 4  # named in a sentence
_NAME, _LONGEST_ID, _LONGEST = 80, 24, 600  # characters at a terminal
_LABEL = 360  # characters of a text looked at for a label
_MARKS = {"+": "green", "-": "red", "~": ""}
_TONES = {"▲": "green", "+": "green", "▼": "red", "\N{MINUS SIGN}": "red"}
_EXPLAINED = 150  # passages of a page
_ROW = 1.875  # rem, as in comparison.css


def summary(comparison: RankingComparison) -> list[str]:
    """Sentences on how much changed, by whom, and if it is better, without the notes."""
    count, total = len(comparison.movers), counted(len(comparison.passages), "passage")
    shares = [f"{plain(name, _NAME)} {percent(of)}" for name, of in comparison.shares.items()]
    found = [f"No passage moved{', though scores changed' * bool(shares)}; {total} compared."]
    if count:
        depth = min(10, len(comparison.before.hits), len(comparison.after.hits))
        shared = comparison.shared_top(depth)
        top = f"same top {depth}" if shared == depth else f"{shared} of the top {depth} stay"
        found = [f"{count:,} of {total} moved; {top}."]
    if shares:
        found.append(f"Share of the changes in scores: {_listed(shares)}.")
    before, after = comparison.ndcg_before, comparison.ndcg_after
    if before is None or after is None:
        if comparison.after.grades is not None:
            found.append("No passage is judged relevant to this query, so there is no nDCG.")
        return found
    change, verb = signed(after - before), "rises" if after > before else "falls"
    moves = f"{verb} from {before:.3f} to {after:.3f} ({change})"
    if change == "0.000":
        moves = f"stays at {after:.3f}"
    sentence = f"{comparison.measure} {moves}; this is one query."
    return [sentence, *found] if after < before else [*found, sentence]


def _listed(said: Sequence[str]) -> str:
    more = [f"{len(said) - _MOST_PERSONAS} more"] * (len(said) > _MOST_PERSONAS)
    return ", ".join([*said[:_MOST_PERSONAS], *more])


def whose(passage: ComparedPassage) -> str:
    """Personas that changed the passage's mean score, with their scores of it and their parts."""
    return _listed(
        [
            f"{plain(each.persona, _NAME)} {given(each)} ({signed(each.part)})"
            for each in passage.causes
        ]
    )


def sides(comparison: RankingComparison) -> dict[str, str]:
    """Label -> the ranker, its personas and its judge; one entry if both sides have the same."""
    said = []
    for side in (comparison.before, comparison.after):
        team = counted(len(side.personas), "persona") if side.personas else ""
        judge = f"judged by {side.models['scoring']}" if side.models.get("scoring") else ""
        said.append(", ".join(filter(None, (side.ranker, team, judge))))
    names = ("Both",) if said[0] == said[1] else ("Before", "After")
    return dict(zip(names, said, strict=False))


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
    known = [hit.relevance for hit in (each.before, each.after) if hit]
    values = [fixed(relevance, 3) for relevance in known if relevance is not None]
    return " → ".join(dict.fromkeys(values)) if len(values) > 1 else ""


def show_comparison(console: Console, found: Compared, *, top: int = 10) -> None:
    """Print how much changed, what was changed, and the passages that moved, with the reasons."""
    screen = Screen(console)
    if isinstance(found, RankingComparison):
        _show_query(screen, found, top, sides(found), found.settings)
        return
    screen.words(clipped(found.title, _LONGEST), "bold")
    _show(screen, [f"{name}: {said}" for name, said in found.facts.items()])
    _show(screen, found.notes, "yellow")
    _show(screen, found.verdict)
    _show_changes(screen, found.settings)
    rows = [["moved", found.measure, "after", "change", "query"]]
    for row in found.rows:
        values = optional(row["before"]), optional(row["after"])
        text = clipped(f"{row['query_id']} {row['text']}".strip(), _LONGEST)
        change = signed(row["after"] - row["before"])
        rows.append([f"{row['moved']}/{row['passages']}", *values, change, text])
    if found.rows:
        _show_table(screen, rows)
    for each in found.comparisons:
        screen.line()
        _show_query(screen, each, top, {}, ())


def _show(screen: Screen, lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        screen.words(clipped(line, _LONGEST), style, hang=2)


def _show_query(
    screen: Screen,
    found: RankingComparison,
    top: int,
    facts: Mapping[str, str],
    settings: Sequence[SettingChange],
) -> None:
    screen.words(clipped(found.after.query.text, _LONGEST) or "(empty query)", "bold")
    _show(screen, [f"{name}: {said}" for name, said in facts.items()], NOTE)
    _show(screen, found.notes, "yellow")
    _show(screen, summary(found))
    lines = found.team.lines if found.team else ()
    if lines or settings:
        screen.line()
        screen.words("What was changed", "bold")
    for line in lines:
        style = f"{'bold ' if line.heads else ''}{_MARKS[line.mark]}".strip()
        said = f"{line.mark} {clipped(line.said, _LONGEST)}"
        screen.words(said, style, indent=2 * line.level, hang=2)
    _show_changes(screen, settings)
    if not (movers := found.movers[: max(1, top)]):
        return
    screen.line()
    screen.words("What moved", "bold")
    judged = found.after.grades is not None
    measured = ["judged", found.measure] if judged else []
    rows, scores = [["before", "after", "moved", *measured, "passage"]], []
    for each in movers:
        name = clipped(each.doc_id, _LONGEST_ID)
        before, after = (str(hit.rank) if hit else "-" for hit in (each.before, each.after))
        grade = "-" if each.grade is None else str(each.grade)
        joined = "new" if each.before is None else "gone"
        move = joined if each.moved is None else moved(each.moved).plain
        gain = [grade, signed(each.gain) if each.gain else ""] if judged else []
        rows.append([before, after, move, *gain, f"{name}  {clipped(label_of(each), 120)}"])
        if each.causes:
            relevance = f"relevance {level(each)}; " if level(each) else ""
            scores.append(f"{name} ({before} → {after}): {relevance}{whose(each)}")
    _show_table(screen, rows)
    _show(screen, scores)
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


def _show_changes(screen: Screen, settings: Sequence[SettingChange]) -> None:
    _show(screen, [f"~ {of.name}: {of.before or '-'} → {of.after or '-'}" for of in settings])


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
    share = min(max(_EXPLAINED // max(1, len(comparisons)), 5), 50)
    teams = [(each.before.team, each.after.team) for each in comparisons]
    return render_page(
        "comparison.html",
        assets=("comparison",),
        queries=[_drawn(place, each, share) for place, each in enumerate(comparisons, start=1)],
        runs=runs,
        facts=runs.facts if runs else sides(comparisons[0]),
        settings=runs.settings if runs else comparisons[0].settings,
        one_team=runs is None or (len(teams) > 1 and teams.count(teams[0]) == len(teams)),
        names=runs.names if runs else (before, after),
        first=FIRST,
        footer=footer,
        **{each.__name__: each for each in (summary, whose, label_of, given, level, judgement)},
    )


def _drawn(number: int, comparison: RankingComparison, share: int) -> dict[str, Any]:
    """A comparison and what is drawn of it."""
    near = [
        each
        for each in comparison.movers
        if any(hit is not None and hit.rank <= FIRST for hit in (each.before, each.after))
    ]
    left, right = (
        sorted((each for each in near if getattr(each, side)), key=attrgetter(f"{side}.rank"))
        for side in ("before", "after")
    )
    explained = comparison.movers[:share]
    return {
        "number": number,
        "comparison": comparison,
        "explained": explained,
        "anchors": {each.doc_id: f"q{number}-p{n}" for n, each in enumerate(explained, 1)},
        "kept": [each for each in comparison.passages if each.moved == 0],
        "left": left,
        "right": right,
        # Those that moved most are drawn last, above all others.
        "drawn": [
            (
                "up" if each.moved > 0 else "down",
                *(_ROW * (side.index(each) + 0.5) for side in (left, right)),
                1.5 + 3.5 * min(1.0, 2 * each.weight),
            )
            for each in sorted(near, key=attrgetter("weight"))
            if each.moved
        ],
    }
