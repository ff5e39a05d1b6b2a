"""The lists of the overview of a report over a data set, picked from the survey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from personas.format import optional, p_text, signed
from personas.survey.model import PersonaFigures, QueryFigures, Survey

TOP = 10
BARS = 20
WORTHS = 15


class Effect(NamedTuple):
    """One ranker's nDCG@10, and the team's gain over it; empty where it is not known."""

    name: str
    ndcg: str
    difference: str = ""
    interval: str = ""
    p_value: str = ""


class Bar(NamedTuple):
    """One persona of the chart; its number in the list of all personas is from 1."""

    number: int
    persona: PersonaFigures
    queries: int


class Listing(NamedTuple):
    """Queries with a value and figures beside it, and the order of the page of all queries."""

    title: str
    headings: tuple[str, ...]
    queries: tuple[tuple[QueryFigures, str, tuple[str, ...]], ...]
    order: str


class Contest(NamedTuple):
    """Queries with a higher, the same and a lower nDCG@10 than another order."""

    against: str
    better: int
    equal: int
    worse: int
    gains: Listing
    losses: Listing


def effectiveness(survey: Survey) -> tuple[Effect, ...]:
    """nDCG@10 of the team, of the first stage and of the other ranker; empty if not known.

    Ties are broken at random; a run that is not finished is not tested, its values are as ranked.
    """
    totals = survey.totals
    if survey.differences:
        return (
            Effect(survey.title, optional(survey.differences[0].ours)),
            *(
                Effect(
                    each.against,
                    optional(each.theirs),
                    signed(each.mean),
                    f"{signed(each.low)} to {signed(each.high)}",
                    "not tested" if each.p_value is None else p_text(each.p_value),
                )
                for each in survey.differences
            ),
        )
    if totals.ndcg is None:
        return ()
    others = ((survey.first_stage, totals.first_stage_ndcg), (survey.other, totals.other_ndcg))
    return (
        Effect(survey.title, optional(totals.ndcg)),
        *(
            Effect(name, optional(ndcg), signed(totals.ndcg - ndcg))
            for name, ndcg in others
            if ndcg is not None
        ),
    )


def headline(survey: Survey) -> str:
    """The report's subject in words: ``How a team of 3 ranked mini``."""
    sizes = {len(query.personas) for query in survey.queries if not query.error}
    who = survey.title
    if sizes and min(sizes) > 0:
        least, most = min(sizes), max(sizes)
        who = f"a team of {most}" if least == most else f"teams of {least} to {most}"
    return f"How {who} ranked {survey.collection or 'these queries'}"


def recruitment(survey: Survey) -> list[Bar]:
    """Recruits by their number of queries, as in Fig. 7; all judges where none was recruited."""
    numbered = list(enumerate(survey.personas, start=1))
    bars = [Bar(number, each, each.recruited) for number, each in numbered if each.recruited]
    bars = bars or [Bar(number, each, each.queries) for number, each in numbered]
    return sorted(bars, key=lambda bar: -bar.queries)


def worths(survey: Survey) -> tuple[tuple[tuple[int, PersonaFigures], ...], int]:
    """(Number in the list, persona) of those that change nDCG@10, and the number of others.

    Of the most frequent ones that were left out in turn.
    """
    found = [
        (number, each, each.without.worth)
        for number, each in enumerate(survey.personas, start=1)
        if each.without is not None
    ][:WORTHS]
    shown = tuple((number, each) for number, each, worth in found if signed(worth) != "0.000")
    return shown, len(found) - len(shown)


def most_disputed(survey: Survey) -> Listing:
    """The queries in which the personas disagree most; none where they never do."""
    return Listing(
        "Largest disagreement",
        ("Disagreement", "Alpha"),
        tuple(
            (query, optional(query.disagreement), (optional(query.alpha, 2),))
            for query in _first(survey.queries, attrgetter("disagreement"), -1)
        ),
        "-disagreement",
    )


def contests(survey: Survey) -> tuple[Contest, ...]:
    """Gains and losses against the first stage and against the other ranker, where known."""
    return tuple(
        found
        for found in (
            _contest(survey, "gain", survey.first_stage, "gain", "first_stage_ndcg"),
            _contest(survey, "other", survey.other, "gain_over_other", "other_ndcg"),
        )
        if found.better + found.equal + found.worse
    )


def _contest(survey: Survey, key: str, against: str, gain: str, theirs: str) -> Contest:
    gain_of, theirs_of = attrgetter(gain), attrgetter(theirs)
    known = [each for query in survey.queries if (each := gain_of(query)) is not None]

    def listing(title: str, sign: int, order: str) -> Listing:
        return Listing(
            title,
            ("Difference", "nDCG@10", against),
            tuple(
                (query, signed(gain_of(query)), (optional(query.ndcg), optional(theirs_of(query))))
                for query in _first(survey.queries, gain_of, sign)
            ),
            order,
        )

    return Contest(
        against,
        sum(each > 0 for each in known),
        sum(each == 0 for each in known),
        sum(each < 0 for each in known),
        listing("Largest gains", -1, f"-{key}"),
        listing("Largest losses", 1, key),
    )


def _first(
    queries: Sequence[QueryFigures], of: Callable[[QueryFigures], float | None], sign: int
) -> list[QueryFigures]:
    """The `TOP` queries with the lowest (sign 1, below 0) or highest (-1, above 0) value.

    Values that are printed as 0.000 are left out.
    """
    found = [
        (sign * each, query.place, query)
        for query in queries
        if (each := of(query)) is not None and sign * each < 0 and signed(each) != "0.000"
    ]
    return [query for _, _, query in sorted(found, key=lambda entry: entry[:2])[:TOP]]
