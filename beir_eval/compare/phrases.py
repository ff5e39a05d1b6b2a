"""What a comparison of two runs says, as short texts that terminals and Markdown share.

Queries, passages and everything that a model wrote are foreign text; `plain` has taken their
control characters and line ends from all that is returned here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beir_eval.compare.sources import FIRST_STAGE_NAME
from personas.plain import plain
from personas.words import counted

if TYPE_CHECKING:
    from beir_eval.compare.model import (
        ChangedQuery,
        MovedPassage,
        PersonaScore,
        Place,
        RunComparison,
        TeamMember,
    )

NONE = "-"  # where a run has no such rank, score or grade
SETTINGS = 8  # settings that differ, at most
CRITERIA = 5  # criteria of a persona, at most
REASONS = 3  # missing scores explained for a query


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run, as the head of the page lists it."""

    letter: str
    label: str
    mean: str
    models: str


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A line of the table of scores.

    Attributes:
        name: a persona, or what else the line shows.
        mean: over all passages of the query; empty where that says nothing.
        cells: (text, -1, 0 or 1 for below, at or above the mean), a passage each.
        heads: whether it begins the lines of a run.
    """

    name: str
    mean: str
    cells: tuple[tuple[str, int], ...]
    heads: bool = False


@dataclass(frozen=True, slots=True)
class ChangedQueries:
    """Queries that changed in one direction."""

    title: str
    queries: tuple[ChangedQuery, ...]
    worse: bool


def title(comparison: RunComparison) -> str:
    """What was compared."""
    return f"{comparison.measure} of {counted(comparison.queries, 'query', 'queries')}, A to B"


def run_lines(comparison: RunComparison) -> list[RunLine]:
    """Both runs; with their names as given, where their labels are the same."""
    sides = (comparison.a, comparison.b)
    same = comparison.a.label == comparison.b.label
    return [
        RunLine(
            letter,
            plain(f"{side.label} ({side.name})" if same else side.label),
            f"{side.mean:.4f}",
            plain(side.models),
        )
        for letter, side in zip("AB", sides, strict=True)
    ]


def verdict(comparison: RunComparison) -> str:
    """How the runs differ, over all queries."""
    found = comparison.comparison
    return (
        f"B less A: {signed(found.difference, 4)}; better on {found.wins}, equal on {found.ties}, "
        f"worse on {found.losses}; paired t-test: {_p_value(found.p_value)}"
    )


def _p_value(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def notes(comparison: RunComparison) -> list[str]:
    """What else there is to know before the queries, a line each."""
    lines = []
    changes = comparison.settings
    if changes:
        listed = [
            f"{plain(each.name)} {plain(each.a or 'none', 40)} → {plain(each.b or 'none', 40)}"
            for each in changes[:SETTINGS]
        ]
        rest = len(changes) - len(listed)
        listed += [f"and {rest} more"] if rest else []
        lines.append(f"Settings, A → B: {'; '.join(listed)}.")
    lines += [
        f"{letter}: {side.note}."
        for letter, side in (("A", comparison.a), ("B", comparison.b))
        if side.note
    ]
    if comparison.left_out:
        left_out = counted(comparison.left_out, "judged query", "judged queries")
        lines.append(
            f"{left_out} left out, which only one of the runs has or which were judged otherwise."
        )
    if comparison.effect_measure.lower() != comparison.measure.lower():
        lines.append(f"Effects of passages are those on {comparison.effect_measure}.")
    return lines


def sections(comparison: RunComparison) -> list[ChangedQueries]:
    """Losses, then gains; a part without queries is left out."""
    found = comparison.comparison
    parts = (
        ("Worse in B", comparison.losses, found.losses),
        ("Better in B", comparison.gains, found.wins),
    )
    return [
        ChangedQueries(
            f"{name}: {len(queries)} of {counted(total, 'query', 'queries')}",
            queries,
            worse=queries is comparison.losses,
        )
        for name, queries, total in parts
        if queries
    ]


def values_line(comparison: RunComparison, query: ChangedQuery) -> str:
    """A query's id and values."""
    line = f"query {plain(query.query_id)}: {comparison.measure} "
    line += f"{query.a.value:.3f} in A, {query.b.value:.3f} in B"
    for letter, side in (("A", query.a), ("B", query.b)):
        if side.failed:
            line += f"; {letter} did not rank it: {plain(side.failed)}"
    return line


def headings(comparison: RunComparison) -> list[str]:
    """Of the table whose rows are `passage_cells`."""
    first_stage = [plain(comparison.first_stage)] if _shows_first_stage(comparison) else []
    return ["", "passage", "grade", *first_stage, "A", "B", "effect"]


def passage_cells(comparison: RunComparison, number: int, passage: MovedPassage) -> list[str]:
    """Number, id, grade, ranks and effect of a passage."""
    ranks = [passage.first_stage_rank] if _shows_first_stage(comparison) else []
    ranks += [passage.a.rank, passage.b.rank]
    return [
        f"#{number}",
        plain(passage.doc_id),
        NONE if passage.grade is None else str(passage.grade),
        *(NONE if rank is None else str(rank) for rank in ranks),
        signed(passage.effect, 3) if passage.effect else "",
    ]


def about(passage: MovedPassage, limit: int) -> str:
    """Title and first words, at most `limit` characters of each, on one line."""
    title = plain(passage.title, limit)
    if title and title[-1] not in ".:?!":
        title += "."
    words = f"{title} {plain(passage.text, limit)}".strip()
    return words if len(words) <= limit else f"{words[:limit].rstrip()}…"


def _shows_first_stage(comparison: RunComparison) -> bool:
    """Whether it has a column of its own: not beside itself."""
    sides = (comparison.a, comparison.b)
    return bool(comparison.first_stage) and all(side.name != FIRST_STAGE_NAME for side in sides)


def pulls(passage: MovedPassage) -> list[str]:
    """Who pulled the passage most in each run, in words."""
    found = []
    for letter, place in (("A", passage.a), ("B", passage.b)):
        if place.pull is not None:
            found.append(f"{letter}: {_pull(place.pull)}")
    return found


def _pull(pull: PersonaScore) -> str:
    assert pull.score is not None, "only a score can pull"
    assert pull.mean is not None, "a score has a mean"
    verb = "raised" if pull.score > pull.mean else "lowered"
    by = f"{verb} by {plain(pull.persona)} ({_number(pull.score)}; its mean here "
    by += f"{_mean(pull.mean)})"
    if pull.criteria:
        listed = (f"{plain(name)} {_number(score)}" for name, score in pull.criteria.items())
        by += f": {', '.join(listed)}"
    return by


def score_rows(query: ChangedQuery) -> Iterator[ScoreRow]:
    """The final scores and those of each persona, run by run, over the query's passages."""
    for letter in "AB":
        places = [each.a if letter == "A" else each.b for each in query.passages]
        if all(place.rank is None for place in places):
            continue
        final = tuple((_final(place), 0) for place in places)
        yield ScoreRow(f"{letter}, final", "", final, heads=True)
        if any(place.tied for place in places):
            tied = tuple((str(place.tied) if place.tied else "", 0) for place in places)
            yield ScoreRow("others at that score", "", tied)
        by_persona = [{each.persona: each for each in place.scores} for place in places]
        for name in dict.fromkeys(name for of_place in by_persona for name in of_place):
            given = [of_place.get(name) for of_place in by_persona]
            mean = next((each.mean for each in given if each and each.mean is not None), None)
            yield ScoreRow(
                plain(name),
                NONE if mean is None else _mean(mean),
                tuple(("", 0) if each is None else _score(each) for each in given),
            )


def _final(place: Place) -> str:
    if place.rank is None:
        return ""
    if place.at_most is not None:
        return f"≤{_number(place.at_most)}"
    return NONE if place.score is None else _number(place.score)


def _score(given: PersonaScore) -> tuple[str, int]:
    if given.score is None or given.mean is None:
        return given.absent.partition(":")[0], 0
    return _number(given.score), (given.score > given.mean) - (given.score < given.mean)


def reasons(query: ChangedQuery) -> list[str]:
    """Why scores are missing, a line each."""
    found = [
        f"{plain(each.persona)} of #{number} in {letter} is {plain(each.absent)}"
        for number, passage in enumerate(query.passages, start=1)
        for letter, place in (("A", passage.a), ("B", passage.b))
        for each in place.scores
        if each.absent.startswith("missing")
    ]
    rest = len(found) - REASONS
    return [*found[:REASONS], *([f"and {rest} more missing"] if rest > 0 else [])]


def teams(query: ChangedQuery) -> list[tuple[str, list[str]]]:
    """Whose team it is, and its members with what they judged by; one entry if both share it."""
    if query.a.team == query.b.team:
        sides = [("Team of both", query.a)] if query.a.team else []
    else:
        sides = [
            (f"Team of {letter}", side)
            for letter, side in (("A", query.a), ("B", query.b))
            if side.team
        ]
    return [(name, [_member(member) for member in side.team]) for name, side in sides]


def _member(member: TeamMember) -> str:
    heaviest = sorted(member.criteria.items(), key=lambda item: -item[1])
    listed = [f"{plain(name)} {weight:.0f}%" for name, weight in heaviest[:CRITERIA]]
    listed += ["…"] if len(heaviest) > CRITERIA else []
    return f"{plain(member.persona)}: {', '.join(listed) or 'no criteria'}"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _mean(value: float) -> str:
    return f"{value:.1f}" if not value or abs(value) >= 1 else f"{value:.2f}"


def signed(value: float, places: int) -> str:
    """``+0.031``, ``-0.569``."""
    return f"{value:+.{places}f}"
