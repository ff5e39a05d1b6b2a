"""The pages of a report over a data set, apart from those of its queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from personas.report import site
from personas.report.dataset.overview import overview
from personas.report.formats import cut
from personas.report.page import render_page
from personas.report.site import NO_FOOTER, ReportFooter
from personas.sanitize import plain
from personas.survey.model import QueryFigures, Survey

ROWS = 2_000
"""Queries on a page; the script shows 50 of them at a time."""
_NAME = 40
_MOST_EVERYWHERE = 2_000
_SITE = ((site.OVERVIEW, "Overview"), (site.QUERIES, "Queries"))


class Column(NamedTuple):
    """A column that can be sorted."""

    key: str  # name in the page's address, of letters
    title: str  # heading; may hold untrusted text
    first: Literal["ascending", "descending"] = "descending"  # direction of the first sort
    words: bool = False  # cells hold words, and are compared as such


@dataclass(frozen=True, slots=True)
class QueriesTable:
    """The table of all queries: number, text and id, and figures; may take several pages."""

    columns: tuple[Column, ...]
    rows: tuple[QueryFigures, ...]
    searched: str  # what a search looks at, in words
    # (address, words) of orders worth offering, e.g. ``("-alpha", "highest alpha")``.
    orders: tuple[tuple[str, str], ...]
    shows: tuple[tuple[str, str], ...]  # (key, words) of what the rows can be restricted to
    common: tuple[str, ...]  # judges of every query

    @property
    def everywhere(self) -> str:
        """A search for any of this finds every row that has not failed."""
        return " \N{MIDDLE DOT} ".join(self.common)[:_MOST_EVERYWHERE]

    @property
    def keys(self) -> frozenset[str]:
        """Of the columns."""
        return frozenset(column.key for column in self.columns)

    @property
    def pages(self) -> tuple[site.Page, ...]:
        """At least one."""
        ends = [*range(ROWS, len(self.rows), ROWS), len(self.rows)]
        return site.pages_of(
            [site.numbered(site.QUERIES, n) for n in range(1, len(ends) + 1)], ends
        )

    def others(self, query: QueryFigures) -> list[str]:
        """The judges of the query that did not judge every one."""
        common = {name.casefold() for name in self.common}
        return [name for name in query.personas if name.casefold() not in common]

    @classmethod
    def of(cls, survey: Survey) -> QueriesTable:
        """The table; columns where no row has anything to say are left out."""
        queries, totals = survey.queries, survey.totals
        first_stage, other = cut(survey.first_stage, _NAME), cut(survey.other, _NAME)
        common = _common_personas(queries)
        several = any(len(query.personas) > len(common) for query in queries)

        def known(name: str) -> bool:
            return any(getattr(query, name) is not None for query in queries)

        offered = (
            (Column("number", "No.", "ascending"), True),
            (Column("query", "Query", "ascending", words=True), True),
            (Column("ndcg", "nDCG@10"), known("ndcg")),
            (Column("gain", f"Gain over {first_stage}"), known("gain")),
            (Column("other", f"Gain over {other}"), known("gain_over_other")),
            (Column("disagreement", "Dis\u00adagree\u00adment"), known("disagreement")),
            (Column("alpha", "Alpha"), known("alpha")),
            (Column("missing", "Missing scores"), totals.missing > 0),
            (
                Column(
                    "personas", "Other personas" if common else "Personas", "ascending", words=True
                ),
                several,
            ),
        )
        columns = tuple(column for column, there in offered if there)
        keys = {column.key for column in columns}
        orders = (
            ("-disagreement", "largest disagreement first"),
            ("-gain", f"largest gain over {first_stage} first"),
            ("gain", f"largest loss to {first_stage} first"),
            ("-other", f"largest gain over {other} first"),
            ("other", f"largest loss to {other} first"),
            ("ndcg", "lowest nDCG@10 first"),
            ("alpha", "lowest alpha first"),
        )
        shows = {
            "failed": totals.failed > 0 and "only failed ones",
            "missing": "missing" in keys and "only with missing scores",
        }
        return cls(
            columns,
            queries,
            "query, id or persona" if several else "query or id",
            orders=tuple(each for each in orders if each[0].lstrip("-") in keys),
            shows=tuple((key, words) for key, words in shows.items() if words),
            common=common,
        )


def _common_personas(queries: Iterable[QueryFigures]) -> tuple[str, ...]:
    """The judges of every ranked query, in the order of the first."""
    ranked = [query for query in queries if not query.error]
    if len(ranked) < 2:
        return ()
    common = {name.casefold() for name in ranked[0].personas}
    for query in ranked:
        common.intersection_update(name.casefold() for name in query.personas)
    return tuple(name for name in ranked[0].personas if name.casefold() in common)


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
    values: dict[str, Any] = {
        "survey": survey,
        "site": ((runs, "All runs"), *_SITE) if runs else _SITE,
        "teamless": not survey.personas and survey.totals.failed < survey.totals.queries,
        "footer": footer,
        "query_page": site.query_page,
    }

    def page(here: str, **more: Any) -> str:
        return render_page(f"survey/{here}", assets=("survey",), here=here, **more, **values)

    yield site.OVERVIEW, page(site.OVERVIEW, figures=figures, **overview(survey))
    table = QueriesTable.of(survey)
    for part in table.pages:
        rows = table.rows[part.first - 1 : part.last]
        yield part.name, page(site.QUERIES, table=table, part=part, rows=rows)


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
