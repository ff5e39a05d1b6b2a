"""The pages of a report over a data set, apart from those of its queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from personas.format import counted, score_column
from personas.report import site
from personas.report.dataset.overview import overview
from personas.report.dataset.tables import (
    common_personas,
    criteria_table,
    origins,
    pairs_table,
    personas_table,
    queries_table,
)
from personas.report.formats import judgement
from personas.report.page import render_page
from personas.report.site import NO_FOOTER, ReportFooter
from personas.sanitize import plain
from personas.survey.model import CASE_KINDS, Case, CaseKind, Survey

_SITE = (
    (site.OVERVIEW, "Overview"),
    (site.QUERIES, "Queries"),
    (site.PERSONAS, "Personas"),
    (site.CRITERIA, "Criteria"),
    (site.CASES, "Cases"),
)
_CASES = 10
_JUDGES = 12
_DECIDING = 3
_LEVELS = 10


class CasePage(NamedTuple):
    """Some cases of one kind, strongest first; the first of them has this number, from 1."""

    name: str
    kind: CaseKind
    first: int
    cases: Sequence[Case]


def survey_pages(
    survey: Survey, *, runs: str = "", figures: str = "", footer: ReportFooter = NO_FOOTER
) -> Iterator[tuple[str, str]]:
    """(name, HTML) of every page, the overview first."""
    survey = replace(
        survey,
        title=survey.title if survey.title.strip() else "Unnamed run",
        first_stage=survey.first_stage if survey.first_stage.strip() else "first stage",
        other=survey.other if not survey.other or survey.other.strip() else "the other ranker",
    )
    teamless = not survey.personas and survey.totals.failed < survey.totals.queries
    queries, personas = queries_table(survey), personas_table(survey)
    persona_page = {
        number: f"{page.name}#persona-{number}"
        for page in personas.pages
        for number in range(page.first, page.last + 1)
    }
    cases = _case_pages(survey)
    lacking = {site.PERSONAS, site.CRITERIA} if teamless else set()
    lacking |= {site.CASES} if teamless and not cases else set()
    places = tuple(each for each in _SITE if each[0] not in lacking)
    common = common_personas(survey.queries)
    everywhere = {name.casefold() for name in common}
    values: dict[str, Any] = {
        "survey": survey,
        "site": ((runs, "All runs"), *places) if runs else places,
        "teamless": teamless,
        "footer": footer,
        "texts": {query.place: query.query for query in survey.queries},
        "query_page": site.query_page,
        "persona_page": persona_page,
        "page_of": {
            each.name.casefold(): persona_page[number]
            for number, each in enumerate(survey.personas, 1)
        },
        "judgement": judgement,
        "score_column": score_column,
        "graded": any(case.grade > 1 for page in cases for case in page.cases),
        "judges_of": _judges,
        "decided": _decided,
        "case_pages": cases,
        "kinds": [(kind, len(survey.cases.get(kind, ()))) for kind in CASE_KINDS],
    }

    def page(template: str, here: str, **more: Any) -> str:
        return render_page(f"survey/{template}", assets=("survey",), here=here, **more, **values)

    yield site.OVERVIEW, page("index.html", site.OVERVIEW, figures=figures, **overview(survey))
    more: dict[str, dict[str, Any]] = {
        queries.key: {
            "common": common,
            "others": lambda query: [
                name for name in query.personas if name.casefold() not in everywhere
            ],
        },
        personas.key: {"pairs": pairs_table(survey), "origins": origins},
    }
    tables = (queries,) if teamless else (queries, personas, criteria_table(survey))
    for table in tables:
        for part in table.pages:
            rows = table.rows[part.first - 1 : part.last]
            values_of = {"table": table, "part": part, "rows": rows, **more.get(table.key, {})}
            yield part.name, page(table.name, table.name, **values_of)
    if site.CASES in lacking:
        return
    for shown, onward in zip_longest(cases or (None,), cases[1:]):
        name = shown.name if shown else site.CASES
        yield name, page("cases.html", site.CASES, shown=shown, onward=onward)


def _case_pages(survey: Survey) -> list[CasePage]:
    """The pages of cases, kind by kind."""
    starts = [
        (kind, start)
        for kind in CASE_KINDS
        for start in range(0, len(survey.cases.get(kind, ())), _CASES)
    ]
    return [
        CasePage(
            site.numbered(site.CASES, number),
            kind,
            start + 1,
            survey.cases[kind][start : start + _CASES],
        )
        for number, (kind, start) in enumerate(starts, start=1)
    ]


def _judges(case: Case) -> list[tuple[str, str, int, int | None]]:
    """Persona, score, strength of its colour and effect; the largest effects first, at most 12."""
    order = sorted(case.scores, key=lambda name: -abs(case.effects.get(name, 0)))[:_JUDGES]
    known = {name: score for name, score in case.scores.items() if score is not None}
    shown = dict(zip(known, score_column(list(known.values())), strict=True))
    return [
        (
            name,
            shown.get(name, ""),
            min(_LEVELS, max(0, round(_LEVELS * known.get(name, 0.0) / (case.top or 1.0)))),
            case.effects.get(name),
        )
        for name in order
    ]


def _decided(case: Case) -> str:
    """The personas whose scores did most to put the passage where the other ranker did not."""
    if not case.effects:
        return ""
    up = case.rank < case.other_rank
    ranks = max(each if up else -each for each in case.effects.values())
    if ranks <= 0:
        return f"No single persona {'raised' if up else 'lowered'} it: the team agreed."
    names = [name for name, each in case.effects.items() if abs(each) == ranks and (each > 0) == up]
    shown, more = names[:_DECIDING], len(names) - _DECIDING
    if more > 0:
        shown = [*shown[:-1], f"{more + 1} others"]
    who = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"{who} {'raised' if up else 'lowered'} it most, by {counted(ranks, 'rank')}."


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run of a report."""

    page: str  # path of its overview below the report's folder
    survey: Survey  # of all its queries; its tables are not shown, and may be empty
    finished: bool = True  # every query was tried; else the figures are of those that were


def render_runs(
    entries: Sequence[RunEntry], left_out: Sequence[str] = (), footer: ReportFooter = NO_FOOTER
) -> str:
    """The list of runs; those over the same data are together, in the order given."""

    def shared(names: set[str]) -> str:
        return names.pop() if len(names) == 1 else ""

    groups = []
    for dataset in dict.fromkeys(entry.survey.dataset for entry in entries):
        its = [entry for entry in entries if entry.survey.dataset == dataset]
        first_stage = shared({entry.survey.first_stage for entry in its})
        other = shared({entry.survey.other for entry in its if entry.survey.other})
        groups.append((dataset, its, first_stage, other))
    judges = dict.fromkeys(entry.survey.judge for entry in entries if entry.survey.judge)
    return render_page(
        "runs.html",
        assets=("survey",),
        groups=groups,
        runs=len(entries),
        judges=[plain(each) for each in judges],
        left_out=left_out,
        footer=footer,
    )
