"""The pages of a report over a data set, apart from those of its queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from personas.format import counted, score_column
from personas.report import site
from personas.report.dataset.overview import (
    contests,
    effectiveness,
    headline,
    most_disputed,
    recruitment,
    worths,
)
from personas.report.dataset.tables import (
    common_personas,
    criteria_table,
    origins,
    pairs_table,
    personas_table,
    queries_table,
)
from personas.report.dataset.verdict import findings
from personas.report.formats import alpha_reading, judgement, tau_reading, value
from personas.report.page import render_page
from personas.report.site import NOBODY, Made
from personas.sanitize import plain
from personas.survey.model import CASE_KINDS, Case, CaseKind, Difference, Survey, Totals

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
    survey: Survey, *, runs: str = "", figures: str = "", made: Made = NOBODY
) -> Iterator[tuple[str, str]]:
    """(name, HTML) of every page, the overview first.

    Names are those of `personas.report.site`. The pages link to each other, and to the page of
    every query: `query_page(place)`, with ``#passage-N`` for the passage of rank N. The same
    survey gives the same pages, byte for byte. They work without scripts.

    Args:
        survey: to show.
        runs: page of the list of several reports, for a link to it; empty for none.
        figures: the file beside them that holds the survey as JSON; empty for none.
        made: the pages' last line.
    """
    survey = replace(
        survey,
        title=survey.title if survey.title.strip() else "Unnamed run",
        first_stage=survey.first_stage if survey.first_stage.strip() else "first stage",
        other=survey.other if not survey.other or survey.other.strip() else "the other ranker",
    )
    queries, personas = queries_table(survey), personas_table(survey)
    persona_page = {
        number: f"{page.name}#persona-{number}"
        for page in personas.pages
        for number in range(page.first, page.last + 1)
    }
    cases = _case_pages(survey)
    common = common_personas(survey.queries)
    everywhere = {name.casefold() for name in common}
    values: dict[str, Any] = {
        "survey": survey,
        "site": ((runs, "All runs"), *_SITE) if runs else _SITE,
        "made": made,
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
    yield (
        site.OVERVIEW,
        render_page(
            "survey/index.html",
            assets=("survey",),
            here=site.OVERVIEW,
            figures=figures,
            **_overview(survey),
            **values,
        ),
    )
    more: dict[str, dict[str, Any]] = {
        queries.key: {
            "common": common,
            "others": lambda query: [
                name for name in query.personas if name.casefold() not in everywhere
            ],
        },
        personas.key: {"pairs": pairs_table(survey), "origins": origins},
    }
    for table in (queries, personas, criteria_table(survey)):
        for page in table.pages:
            rows = table.rows[page.first - 1 : page.last]
            yield (
                page.name,
                render_page(
                    f"survey/{table.name}",
                    assets=("survey",),
                    here=table.name,
                    table=table,
                    part=page,
                    rows=rows,
                    **more.get(table.key, {}),
                    **values,
                ),
            )
    for number, shown in enumerate(cases or [None]):
        yield (
            shown.name if shown else site.CASES,
            render_page(
                "survey/cases.html",
                assets=("survey",),
                here=site.CASES,
                shown=shown,
                onward=cases[number + 1] if number + 1 < len(cases) else None,
                **values,
            ),
        )


def _overview(survey: Survey) -> dict[str, Any]:
    left_out, without_worth = worths(survey)
    models = tuple(survey.models.items())
    if len(set(survey.models.values())) == 1:
        models = (("", models[0][1]),)
    recruited = any(each.recruited for each in survey.personas)
    return {
        "headline": headline(survey),
        "verdict": findings(survey),
        "effects": effectiveness(survey),
        "alpha_reading": alpha_reading,
        "tau_reading": tau_reading,
        "counted": sum(query.ndcg is not None for query in survey.queries),
        "chart": recruitment(survey),
        "recruited": recruited,
        "not_recruited": [
            (each, queries)
            for each in survey.personas
            if recruited and (queries := each.queries - each.recruited)
        ],
        "worths": left_out,
        "without_worth": without_worth,
        "worths_exact": all(each.without.exact for _, each in left_out if each.without),
        "contests": contests(survey),
        "disputed": most_disputed(survey),
        "models": models,
        "settings": [
            (name.replace("_", " "), value(each)) for name, each in survey.settings.items()
        ],
    }


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
    """One run of a report.

    Attributes:
        page: path of its overview below the report's folder.
        title: of the run.
        dataset: what was ranked, in a few words.
        first_stage: its name.
        other: name of the ranker compared with; empty if there is none.
        personas: number of different ones that judged.
        totals: over all its queries.
        finished: every query was tried; else the figures are of those that were.
        differences: over the first stage and the other ranker.
        judge: a sentence about a weak judge; empty for others.
    """

    page: str
    title: str
    dataset: str
    first_stage: str
    other: str
    personas: int
    totals: Totals
    finished: bool = True
    differences: tuple[Difference, ...] = ()
    judge: str = ""


def render_runs(entries: Sequence[RunEntry], made: Made = NOBODY) -> str:
    """The list of runs; those over the same data are together, in the order given."""

    def shared(names: set[str]) -> str:
        return names.pop() if len(names) == 1 else ""

    groups = []
    for dataset in dict.fromkeys(entry.dataset for entry in entries):
        its = [entry for entry in entries if entry.dataset == dataset]
        first_stage = shared({entry.first_stage for entry in its})
        groups.append((dataset, its, first_stage, shared({entry.other for entry in its})))
    judges = dict.fromkeys(entry.judge for entry in entries if entry.judge)
    return render_page(
        "runs.html",
        assets=("survey",),
        groups=groups,
        runs=len(entries),
        judges=[plain(each) for each in judges],
        made=made,
    )
