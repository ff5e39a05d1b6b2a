"""The pages of a report over a data set, apart from those of its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from personas.plain import plain
from personas.report import site
from personas.report.dataset.overview import (
    contests,
    effectiveness,
    headline,
    model_names,
    most_disputed,
    recruitment,
    worths,
)
from personas.report.dataset.tables import (
    Finder,
    common_personas,
    criteria_finder,
    criterion_row,
    pair_row,
    pairs_finder,
    persona_row,
    personas_finder,
    queries_finder,
    query_columns,
    query_rows,
    weights_differ,
)
from personas.report.dataset.verdict import findings
from personas.report.formats import alpha_reading, judgement, printable, tau_reading, value
from personas.report.page import render_page
from personas.report.site import NOBODY, PAGE_BYTES, Made, Page, query_page
from personas.survey.model import CASE_KINDS, Case, CaseKind, Difference, Survey, Totals
from personas.words import counted, decimals, fixed

_SITE = (
    (site.OVERVIEW, "Overview"),
    (site.QUERIES, "Queries"),
    (site.PERSONAS, "Personas"),
    (site.CRITERIA, "Criteria"),
    (site.CASES, "Cases"),
)
_TEASERS = 2


_JUDGES = 12
_DECIDING = 3
_LEVELS = 10


@dataclass(frozen=True, slots=True)
class _Around:
    """What is the same on all pages: links to the pages of the report, and the last line."""

    site: tuple[tuple[str, str], ...]
    made: Made


@dataclass(frozen=True, slots=True)
class _Listing:
    """A table that may take several pages.

    Attributes:
        survey: what it is from.
        around: what every page has.
        name: of its first page.
        template: of each page.
        table: what a reader can do with it.
        values: what the template shows besides.
    """

    survey: Survey
    around: _Around
    name: str
    template: str
    table: Finder
    values: dict[str, Any]

    def pages(self, rows: Sequence[Markup]) -> tuple[Page, ...]:
        """As many pages as keep each below `site.PAGE_BYTES`; at least one."""
        empty = site.pages_of([self.name], [0])
        room = site.PAGE_BYTES - site.LINK_BYTES - len(self.render(empty[0], empty, ()).encode())
        sizes = [len(printable(row).encode()) + 1 for row in rows]
        ends = site.ends_of_pages(sizes, room, room)
        names = [site.numbered(self.name, number) for number in range(1, len(ends) + 1)]
        return site.pages_of(names, ends)

    def render(self, page: Page, pages: Sequence[Page], rows: Sequence[Markup]) -> str:
        """The HTML of one page; `rows` are those of all pages."""
        its = Markup("\n").join(rows[page.first - 1 : page.last])
        values = {"table": self.table, "part": page, "parts": pages, "rows": its, **self.values}
        return _page(self.survey, self.around, self.name, self.template, values)


def survey_pages(
    survey: Survey, *, runs: str = "", figures: str = "", made: Made = NOBODY
) -> Iterator[tuple[str, str]]:
    """(name, HTML) of every page, the overview first; each is below `site.PAGE_BYTES` in UTF-8.

    Names are those of `personas.report.site`. The pages link to each other, and to the page of
    every query: `query_page(place)`, with ``#passage-N`` for the passage of rank N. The same
    survey gives the same pages, byte for byte. They work without scripts.

    Args:
        survey: what to show.
        runs: where the list of several reports stands, for a link to it; empty for none.
        figures: the file beside them that holds the survey as JSON; empty for none.
        made: what the pages' last line says.
    """
    around = _Around(((runs, "All runs"), *_SITE) if runs else _SITE, made)
    survey = replace(
        survey,
        title=_named(survey.title, "Unnamed run"),
        first_stage=_named(survey.first_stage, "first stage"),
        other=survey.other and _named(survey.other, "the other ranker"),
    )
    texts = {query.place: query.query for query in survey.queries}
    personas = _personas(survey, around, {})
    people = [persona_row(number, each, texts) for number, each in enumerate(survey.personas, 1)]
    where = {
        number: f"{page.name}#persona-{number}"
        for page in personas.pages(people)
        for number in range(page.first, page.last + 1)
    }
    links = {each.name.casefold(): where[n] for n, each in enumerate(survey.personas, 1)}
    ends = weights_differ(survey)
    yield site.OVERVIEW, _overview(survey, around, where, figures)
    for listing, rows in (
        (_queries(survey, around), query_rows(survey, query_columns(survey))),
        (_personas(survey, around, links), people),
        (
            _criteria(survey, around),
            [criterion_row(each, texts, links, ends=ends) for each in survey.criteria],
        ),
    ):
        pages = listing.pages(rows)
        for page in pages:
            yield page.name, listing.render(page, pages, rows)
    yield (
        site.CASES,
        fitting(
            survey,
            lambda shown: _page(
                survey, around, site.CASES, "cases.html", {"kinds": shown, "persona_page": links}
            ),
        ),
    )


def _named(name: str, otherwise: str) -> str:
    return name if name.strip() else otherwise


def _page(survey: Survey, around: _Around, here: str, template: str, values: dict[str, Any]) -> str:
    return render_page(
        f"survey/{template}",
        assets=("survey",),
        survey=survey,
        here=here,
        site=around.site,
        made=around.made,
        **values,
    )


def _overview(
    survey: Survey, around: _Around, persona_page: Mapping[int, str], figures: str
) -> str:
    left_out, without_worth = worths(survey)
    values = {
        "headline": headline(survey),
        "verdict": findings(survey),
        "figures": figures,
        "effects": effectiveness(survey),
        "alpha_reading": alpha_reading,
        "tau_reading": tau_reading,
        "counted": sum(query.ndcg is not None for query in survey.queries),
        "chart": recruitment(survey),
        "worths": left_out,
        "without_worth": without_worth,
        "worths_exact": all(each.without.exact for _, each in left_out if each.without),
        "contests": contests(survey),
        "disputed": most_disputed(survey),
        "teasers": kinds(survey, _TEASERS),
        "any_case": any(survey.cases.values()),
        "models": model_names(survey),
        "settings": [
            (name.replace("_", " "), value(each)) for name, each in survey.settings.items()
        ],
        "persona_page": persona_page,
        "queries_page": site.QUERIES,
        "personas_page": site.PERSONAS,
        "cases_page": site.CASES,
        "query_page": site.query_page,
    }
    return _page(survey, around, site.OVERVIEW, "index.html", values)


def _queries(survey: Survey, around: _Around) -> _Listing:
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
    return _Listing(survey, around, site.QUERIES, "queries.html", table, values)


def _personas(survey: Survey, around: _Around, links: Mapping[str, str]) -> _Listing:
    rows = [pair_row(pair, links) for pair in survey.pairs]
    values = {
        "pairs": pairs_finder() if rows else None,
        "pairs_page": site.pages_of([site.PERSONAS], [len(rows)])[0],
        "pairs_rows": Markup("\n").join(rows),
        "worths": any(each.without for each in survey.personas),
    }
    return _Listing(survey, around, site.PERSONAS, "personas.html", personas_finder(survey), values)


def _criteria(survey: Survey, around: _Around) -> _Listing:
    return _Listing(survey, around, site.CRITERIA, "criteria.html", criteria_finder(survey), {})


@dataclass(frozen=True, slots=True)
class Judge:
    """One persona of a case.

    Attributes:
        persona: its name.
        score: as it is printed; empty if it is missing.
        level: how strong a colour that gets.
        effect: by how many ranks it raised (positive) or sank the passage; None if that is not
            known.
    """

    persona: str
    score: str
    level: int
    effect: int | None


@dataclass(frozen=True, slots=True)
class Card:
    """One case.

    Attributes:
        key: id of the card.
        case: what it shows.
        page: path of the query's page.
        passage: address of the passage there.
        judgement: in words.
        other_score: as it is printed; empty if there is none.
        judges: the personas, largest effect first, at most `_JUDGES`.
        decided: who decided, in a sentence; empty if that is not known.
        more: how many more there are.
    """

    key: str
    case: Case
    page: str
    passage: str
    judgement: str
    other_score: str
    judges: tuple[Judge, ...]
    decided: str
    more: int


@dataclass(frozen=True, slots=True)
class Kind:
    """The cases of one kind, strongest first.

    Attributes:
        key: id of its part of the page.
        name: what happened in them.
        cards: the cases shown.
        found: how many the survey holds.
    """

    key: str
    name: CaseKind
    cards: tuple[Card, ...]
    found: int


def kinds(survey: Survey, most: int | None = None) -> tuple[Kind, ...]:
    """All four kinds in their fixed order, with at most that many cases each."""
    graded = any((case.grade or 0) > 1 for cases in survey.cases.values() for case in cases)
    return tuple(
        _kind(name, survey.cases.get(name, ()), most, graded=graded) for name in CASE_KINDS
    )


def fitting(survey: Survey, render: Callable[[Sequence[Kind]], str]) -> str:
    """The page with as many cases as fit below `PAGE_BYTES`, strongest ones of each kind first.

    Args:
        survey: what was found.
        render: makes the page of some cases.
    """
    most = max((len(survey.cases.get(name, ())) for name in CASE_KINDS), default=0)
    while True:
        page = render(kinds(survey, most))
        excess = len(page.encode()) - PAGE_BYTES
        if excess < 0 or not most:
            return page
        # At least one fewer of each kind, and as many as the excess makes likely.
        most = min(most - 1, most * PAGE_BYTES // (PAGE_BYTES + excess))


def _kind(name: CaseKind, cases: Sequence[Case], most: int | None, *, graded: bool) -> Kind:
    key = f"cases-{name.replace('_', '-')}"
    cards = tuple(
        _card(f"{key}-{number}", case, graded=graded)
        for number, case in enumerate(cases[:most], start=1)
    )
    return Kind(key, name, cards, len(cases))


def _card(key: str, case: Case, *, graded: bool) -> Card:
    other = case.other_score
    judged = judgement(case.grade, graded=graded)
    page = query_page(case.place)
    known = [score for score in case.scores.values() if score is not None]
    places = decimals(known)
    effects = case.effects
    order = sorted(case.scores, key=lambda name: -abs(effects.get(name, 0)))
    judges = tuple(_judge(case, persona, places) for persona in order[:_JUDGES])
    return Card(
        key,
        case,
        page,
        f"{page}#passage-{case.rank}",
        judged,
        "" if other is None else fixed(other, decimals([other])),
        judges,
        _decided(case),
        len(case.scores) - len(judges),
    )


def _judge(case: Case, persona: str, places: int) -> Judge:
    score = case.scores[persona]
    share = 0.0 if score is None or not case.top else score / case.top
    return Judge(
        persona,
        "" if score is None else fixed(score, places),
        min(_LEVELS, max(0, round(_LEVELS * share))),
        case.effects.get(persona),
    )


def _decided(case: Case) -> str:
    """Whose score did most to put the passage where the other ranker did not have it."""
    if not case.effects:
        return ""
    up = case.rank < case.other_rank
    ranks = max(each if up else -each for each in case.effects.values())
    if ranks <= 0:
        return f"No single persona {'raised' if up else 'sank'} it: the team agreed."
    names = [name for name, each in case.effects.items() if abs(each) == ranks and (each > 0) == up]
    shown, more = names[:_DECIDING], len(names) - _DECIDING
    if more > 0:
        shown = [*shown[:-1], f"{more + 1} others"]
    who = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"{who} {'raised' if up else 'sank'} it most, by {counted(ranks, 'rank')}."


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run of the report.

    Attributes:
        page: path of its overview below the report's folder.
        title: of the run.
        dataset: what was ranked, in a few words.
        first_stage: how the first stage is called.
        other: name of the ranker compared with; empty if there is none.
        personas: how many different ones judged.
        totals: over all its queries.
        finished: whether every query was tried; else these are those that were.
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


@dataclass(frozen=True, slots=True)
class _Group:
    """Runs over the same data; a name is empty where they do not share it."""

    dataset: str
    entries: tuple[RunEntry, ...]
    first_stage: str
    other: str


def render_runs(entries: Sequence[RunEntry], made: Made = NOBODY) -> str:
    """The page; runs over the same data stand together, in the order in which they come."""
    datasets = dict.fromkeys(entry.dataset for entry in entries)
    groups = [
        _group(dataset, tuple(entry for entry in entries if entry.dataset == dataset))
        for dataset in datasets
    ]
    judges = dict.fromkeys(entry.judge for entry in entries if entry.judge)
    return render_page(
        "runs.html",
        assets=("survey",),
        groups=groups,
        runs=len(entries),
        judges=[plain(each) for each in judges],
        made=made,
    )


def _group(dataset: str, entries: tuple[RunEntry, ...]) -> _Group:
    first_stages = {entry.first_stage for entry in entries}
    others = {entry.other for entry in entries}
    return _Group(
        dataset,
        entries,
        first_stages.pop() if len(first_stages) == 1 else "",
        others.pop() if len(others) == 1 else "",
    )
