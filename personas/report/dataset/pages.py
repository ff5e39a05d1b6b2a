"""The pages of a report over a data set, apart from those of its queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from markupsafe import Markup

from personas.report import site
from personas.report.dataset.cases import fitting, kinds
from personas.report.dataset.overview import (
    contests,
    effectiveness,
    model_names,
    most_disputed,
    recruitment,
    worths,
)
from personas.report.dataset.parts import Finder, Part, deal_out, size
from personas.report.dataset.rows import (
    common_personas,
    criterion_row,
    pair_row,
    persona_row,
    query_columns,
    query_rows,
)
from personas.report.dataset.tables import (
    criteria_finder,
    pairs_finder,
    personas_finder,
    queries_finder,
)
from personas.report.dataset.words import change, count, optional, signed
from personas.report.formats import alpha_reading, tau_reading, value
from personas.report.page import render_page
from personas.survey.model import Survey

__all__ = ["survey_pages"]

_SITE = (
    (site.OVERVIEW, "Overview"),
    (site.QUERIES, "Queries"),
    (site.PERSONAS, "Personas"),
    (site.CRITERIA, "Criteria"),
    (site.CASES, "Cases"),
)
_Entries: TypeAlias = Sequence[tuple[str, str]]
_TEASERS = 2


@dataclass(frozen=True, slots=True)
class _Listing:
    """A table that may take several pages.

    Attributes:
        survey: what it is from.
        entries: links to the pages of the report.
        name: of its first page.
        template: of each page.
        table: what a reader can do with it.
        values: what the template shows besides.
    """

    survey: Survey
    entries: _Entries
    name: str
    template: str
    table: Finder
    values: dict[str, Any]

    def parts(self, rows: Sequence[Markup]) -> tuple[Part, ...]:
        """The rows, dealt out to pages."""

        def frame(parts: Sequence[Part]) -> int:
            empty = (replace(part, rows=Markup("")) for part in (parts[0], parts[-1]))
            return max(size(self.page(part, parts)) for part in empty)

        return deal_out(self.name, rows, frame)

    def page(self, part: Part, parts: Sequence[Part]) -> str:
        """The page of one part."""
        values = {"table": self.table, "part": part, "parts": parts, **self.values}
        return _page(self.survey, self.entries, self.name, self.template, values)


def survey_pages(survey: Survey, *, runs: str = "") -> Iterator[tuple[str, str]]:
    """(name, HTML) of every page, the overview first; each is below `site.PAGE_BYTES` in UTF-8.

    Names are those of `personas.report.site`. The pages link to each other, and to the page of
    every query: `query_page(place)`, with ``#passage-N`` for the passage of rank N. The same
    survey gives the same pages, byte for byte. They work without scripts.

    Args:
        survey: what to show.
        runs: where the list of several reports stands, for a link to it; empty for none.
    """
    entries = ((runs, "All runs"), *_SITE) if runs else _SITE
    survey = replace(
        survey,
        title=_named(survey.title, "Unnamed run"),
        first_stage=_named(survey.first_stage, "first stage"),
        other=survey.other and _named(survey.other, "the other ranker"),
    )
    texts = {query.place: query.query for query in survey.queries}
    personas = _personas(survey, entries)
    people = personas.parts(
        [persona_row(number, each, texts) for number, each in enumerate(survey.personas, start=1)]
    )
    yield site.OVERVIEW, _overview(survey, entries, people)
    queries = _queries(survey, entries)
    rows = query_rows(survey, query_columns(survey))
    criteria = _criteria(survey, entries)
    for listing, parts in (
        (queries, queries.parts(rows)),
        (personas, people),
        (criteria, criteria.parts([criterion_row(each, texts) for each in survey.criteria])),
    ):
        for part in parts:
            yield part.name, listing.page(part, parts)
    yield (
        site.CASES,
        fitting(
            survey,
            lambda shown: _page(survey, entries, site.CASES, "cases.html", {"kinds": shown}),
        ),
    )


def _named(name: str, otherwise: str) -> str:
    return name if name.strip() else otherwise


def _page(
    survey: Survey, entries: _Entries, here: str, template: str, values: dict[str, Any]
) -> str:
    return render_page(
        f"survey/{template}", assets=("survey",), survey=survey, here=here, site=entries, **values
    )


def _overview(survey: Survey, entries: _Entries, people: Sequence[Part]) -> str:
    left_out = worths(survey)
    values = {
        "effects": effectiveness(survey),
        "alpha_reading": alpha_reading,
        "tau_reading": tau_reading,
        "counted": sum(query.ndcg is not None for query in survey.queries),
        "chart": recruitment(survey),
        "worths": left_out,
        "worths_exact": all(each.without.exact for _, each in left_out if each.without),
        "contests": contests(survey),
        "disputed": most_disputed(survey),
        "teasers": kinds(survey, _TEASERS),
        "any_case": any(survey.cases.values()),
        "models": model_names(survey),
        "settings": [
            (name.replace("_", " "), value(each)) for name, each in survey.settings.items()
        ],
        "persona_page": {
            number: f"{part.name}#persona-{number}"
            for part in people
            for number in range(part.first, part.last + 1)
        },
        "queries_page": site.QUERIES,
        "personas_page": site.PERSONAS,
        "cases_page": site.CASES,
        "query_page": site.query_page,
        "count": count,
        "signed": signed,
        "optional": optional,
        "change": change,
    }
    return _page(survey, entries, site.OVERVIEW, "index.html", values)


def _queries(survey: Survey, entries: _Entries) -> _Listing:
    columns = query_columns(survey)
    keys = {each.column.key for each in columns}
    common = common_personas(survey.queries)
    values = {
        "common": common,
        "same_team": bool(common) and "personas" not in keys,
        "keys": keys,
        "css": "queries named" if "personas" in keys else "queries",
    }
    table = queries_finder(survey, columns)
    return _Listing(survey, entries, site.QUERIES, "queries.html", table, values)


def _personas(survey: Survey, entries: _Entries) -> _Listing:
    rows = [pair_row(pair) for pair in survey.pairs]
    values = {
        "pairs": pairs_finder() if rows else None,
        "pairs_part": Part(site.PERSONAS, 1, min(1, len(rows)), len(rows), Markup("\n").join(rows)),
        "worths": any(each.without for each in survey.personas),
        "count": count,
    }
    return _Listing(
        survey, entries, site.PERSONAS, "personas.html", personas_finder(survey), values
    )


def _criteria(survey: Survey, entries: _Entries) -> _Listing:
    return _Listing(
        survey, entries, site.CRITERIA, "criteria.html", criteria_finder(survey), {"count": count}
    )
