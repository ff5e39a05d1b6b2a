"""What the overview of a report over a data set shows, picked from the survey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from personas.survey.model import PersonaFigures, QueryFigures, Survey
from personas.words import optional, p_text, signed

TOP = 10
BARS = 20
WORTHS = 15


@dataclass(frozen=True, slots=True)
class Effect:
    """One ranker's nDCG@10, and what the team has over it; empty for the team itself.

    Attributes:
        name: of the ranker.
        ndcg: its mean.
        difference: what the team has over it.
        interval: of the difference; empty where it is not known.
        p_value: likewise.
    """

    name: str
    ndcg: str
    difference: str
    interval: str = ""
    p_value: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One persona of the chart.

    Attributes:
        number: in the list of all personas, from 1.
        persona: who.
        queries: in how many queries it was recruited.
        share: of the ranked queries, in percent.
        length: of the bar, in percent of the longest.
    """

    number: int
    persona: PersonaFigures
    queries: int
    share: float
    length: float


@dataclass(frozen=True, slots=True)
class Recruitment:
    """The paper's Fig. 7: who was recruited how often, most often first.

    Attributes:
        bars: the first ones.
        recruited: whether a recruiter chose them for their queries; else it chose nobody, and
            these are all who judged.
        different: how many personas were; those not in the survey's list are not counted.
        others: (persona, in how many queries) of those who came to the team in another way.
    """

    bars: tuple[Bar, ...]
    recruited: bool
    different: int
    others: tuple[tuple[PersonaFigures, int], ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """A query in a list of the overview: what it is there for, and figures besides."""

    query: QueryFigures
    value: str
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A list of queries: its title, the headings of its figures, and its column's key."""

    title: str
    headings: tuple[str, ...]
    queries: tuple[Listed, ...]
    order: str


@dataclass(frozen=True, slots=True)
class Contest:
    """How the queries went against another order: where the team did better, and where worse.

    Attributes:
        key: names its part of the page.
        against: what it is compared with.
        better: queries in which the team has the higher nDCG@10.
        equal: in which it is the same.
        worse: in which it is lower.
        gains: the largest, largest first.
        losses: likewise.
    """

    key: str
    against: str
    better: int
    equal: int
    worse: int
    gains: Ranked
    losses: Ranked


def effectiveness(survey: Survey) -> tuple[Effect, ...]:
    """nDCG@10 of the team, of the first stage and of the other ranker; empty if not known.

    Ties are drawn by lot; of a run that is not finished, values are as ranked and not tested.
    """
    totals = survey.totals
    if survey.differences:
        return (
            Effect(survey.title, optional(survey.differences[0].ours), ""),
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
        Effect(survey.title, optional(totals.ndcg), ""),
        *(
            Effect(name, optional(ndcg), signed(totals.ndcg - ndcg))
            for name, ndcg in others
            if ndcg is not None
        ),
    )


def headline(survey: Survey) -> str:
    """What the report is about, in words: ``How a team of 3 ranked mini``."""
    sizes = {len(query.personas) for query in survey.queries if not query.error}
    who = survey.title
    if sizes and min(sizes) > 0:
        least, most = min(sizes), max(sizes)
        who = f"a team of {most}" if least == most else f"teams of {least} to {most}"
    return f"How {who} ranked {survey.collection or 'these queries'}"


def model_names(survey: Survey) -> tuple[tuple[str, str], ...]:
    """(role, model), as one where all roles have the same."""
    if len(set(survey.models.values())) == 1:
        return (("", next(iter(survey.models.values()))),)
    return tuple(survey.models.items())


def recruitment(survey: Survey) -> Recruitment:
    """Who was recruited how often; if nobody was, who judged how often."""
    numbered = list(enumerate(survey.personas, start=1))
    recruited = [(number, each, each.recruited) for number, each in numbered if each.recruited]
    found = recruited or [(number, each, each.queries) for number, each in numbered]
    # Sorting is stable: equally frequent ones stay in the order of the list.
    found.sort(key=lambda entry: -entry[2])
    ranked = survey.totals.queries - survey.totals.failed
    longest = found[0][2] if found else 0
    others = [(each, each.queries - each.recruited) for each in survey.personas]
    return Recruitment(
        tuple(
            Bar(number, each, queries, 100 * queries / max(ranked, 1), 100 * queries / longest)
            for number, each, queries in found[:BARS]
        ),
        bool(recruited),
        len(found),
        tuple((each, queries) for each, queries in others if queries) if recruited else (),
    )


def worths(survey: Survey) -> tuple[tuple[tuple[int, PersonaFigures], ...], int]:
    """(Number in the list, persona) of those who change nDCG@10, and how many do not.

    Of the most frequent ones that were left out in turn.
    """
    found = [
        (number, each, each.without.worth)
        for number, each in enumerate(survey.personas, start=1)
        if each.without is not None
    ][:WORTHS]
    shown = tuple((number, each) for number, each, worth in found if signed(worth) != "0.000")
    return shown, len(found) - len(shown)


def most_disputed(survey: Survey) -> Ranked:
    """The queries in which the personas disagree most; none where they never do."""
    return Ranked(
        "Largest disagreement",
        ("Disagreement", "Alpha"),
        tuple(
            Listed(query, optional(query.disagreement), (optional(query.alpha, 2),))
            for query in _first(survey.queries, attrgetter("disagreement"), -1)
        ),
        "-disagreement",
    )


def contests(survey: Survey) -> tuple[Contest, ...]:
    """Gains and losses against the first stage and against the other ranker, where known."""
    return tuple(
        _contest(survey, *each)
        for each in (
            ("gain", survey.first_stage, attrgetter("gain")),
            ("other", survey.other, attrgetter("gain_over_other")),
        )
        if any(each[2](query) is not None for query in survey.queries)
    )


def _contest(
    survey: Survey, key: str, against: str, of: Callable[[QueryFigures], float | None]
) -> Contest:
    differences = [each for query in survey.queries if (each := of(query)) is not None]
    theirs = attrgetter("first_stage_ndcg" if key == "gain" else "other_ndcg")

    def ranked(title: str, sign: int, order: str) -> Ranked:
        return Ranked(
            title,
            ("Difference", "nDCG@10", against),
            tuple(
                Listed(
                    query,
                    signed(of(query) or 0.0),
                    (optional(query.ndcg), optional(theirs(query))),
                )
                for query in _first(survey.queries, of, sign)
            ),
            order,
        )

    return Contest(
        key,
        against,
        sum(each > 0 for each in differences),
        sum(each == 0 for each in differences),
        sum(each < 0 for each in differences),
        ranked("Largest gains", -1, f"-{key}"),
        ranked("Largest losses", 1, key),
    )


def _first(
    queries: Sequence[QueryFigures], of: Callable[[QueryFigures], float | None], sign: int
) -> list[QueryFigures]:
    """The `TOP` queries with the lowest (sign 1, below 0) or highest (-1, above 0) value."""
    found = [
        (sign * each, query.place, query)
        for query in queries
        if (each := of(query)) is not None and sign * each < 0
    ]
    return [query for _, _, query in sorted(found, key=lambda entry: entry[:2])[:TOP]]
