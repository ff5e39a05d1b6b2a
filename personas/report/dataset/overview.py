"""The lists of the overview of a report over a data set, picked from the survey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from personas.format import optional, signed
from personas.report.dataset.verdict import findings
from personas.report.formats import alpha_reading, tau_reading, value
from personas.survey.model import QueryFigures, Survey

TOP = 10
WORTHS = 15


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


def overview(survey: Survey) -> dict[str, Any]:
    """The values of the overview's template, besides those that all pages have."""
    models = tuple(survey.models.items())
    if len(set(survey.models.values())) == 1:
        models = (("", models[0][1]),)
    personas = survey.personas
    chart = [(each, each.recruited) for each in personas if each.recruited]
    left_out = [(each, each.without) for each in personas if each.without][:WORTHS]
    worths = [each for each in left_out if signed(each[1].worth) != "0.000"]
    return {
        "headline": _headline(survey),
        "verdict": findings(survey),
        "alpha_reading": alpha_reading,
        "tau_reading": tau_reading,
        "counted": sum(query.ndcg is not None for query in survey.queries),
        # As in Fig. 7; all judges where none was recruited.
        "recruited": bool(chart),
        "chart": sorted(
            chart or [(each, each.queries) for each in personas],
            key=lambda each: -each[1],
        ),
        "not_recruited": [
            (each, queries)
            for each in personas
            if chart and (queries := each.queries - each.recruited)
        ],
        "worths": worths,
        "without_worth": len(left_out) - len(worths),
        "contests": [
            found
            for found in (
                _contest(survey, "gain", survey.first_stage, "gain", "first_stage_ndcg"),
                _contest(survey, "other", survey.other, "gain_over_other", "other_ndcg"),
            )
            if found.better + found.equal + found.worse
        ],
        "disputed": Listing(
            "Largest disagreement",
            ("Disagreement", "Alpha"),
            tuple(
                (query, optional(query.disagreement), (optional(query.alpha, 2),))
                for query in _first(survey.queries, attrgetter("disagreement"), -1)
            ),
            "-disagreement",
        ),
        "models": models,
        "settings": [
            (name.replace("_", " "), value(each)) for name, each in survey.settings.items()
        ],
    }


def _headline(survey: Survey) -> str:
    """The report's subject in words: ``How a team of 3 ranked mini``."""
    sizes = {len(query.personas) for query in survey.queries if not query.error}
    who = survey.title
    if sizes and min(sizes) > 0:
        least, most = min(sizes), max(sizes)
        who = f"a team of {most}" if least == most else f"teams of {least} to {most}"
    return f"How {who} ranked {survey.collection or 'these queries'}"


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
    """The `TOP` queries with the lowest (sign 1, below 0) or highest (-1, above 0) value."""
    found = [
        (sign * each, query.place, query)
        for query in queries
        if (each := of(query)) is not None and sign * each < 0 and signed(each) != "0.000"
    ]
    return [query for _, _, query in sorted(found, key=lambda entry: entry[:2])[:TOP]]
