"""The tables of a report over a data set: columns, searches, orders, and pages of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from personas.provenance import ORIGINS
from personas.report import site
from personas.report.formats import cut
from personas.survey.model import PersonaFigures, QueryFigures, Survey

ROWS = 1_000
"""Rows on a page; the script shows 50 of them at a time. Rows of queries are short."""
_NAME = 40
_MOST_EVERYWHERE = 2_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column that can be sorted."""

    key: str  # name in the page's address, of letters
    title: str  # heading; may hold untrusted text
    # Direction of the first sort; empty for a column that cannot be sorted.
    first: Literal["ascending", "descending", ""] = "descending"
    words: bool = False  # cells hold words, and are compared as such
    there: bool = True  # False where no row has anything to say; the column is left out


def _words(key: str, title: str, *, there: bool = True) -> Column:
    return Column(key, title, "ascending", words=True, there=there)


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be searched, restricted and sorted, and may take several pages."""

    name: str  # of its first page
    one: str  # name of a row, e.g. ``"query"``
    key: str  # the plural, and id of the table
    caption: str  # title
    offered: tuple[Column, ...]  # columns, in order
    rows: Sequence[Any]  # figures, one a row
    searched: str  # what a search looks at, in words
    # (address, words) of orders worth offering, e.g. ``("-alpha", "highest alpha")``.
    sorts: tuple[tuple[str, str], ...] = ()
    failed: bool = False  # rows can be restricted to those that failed
    most: int = ROWS  # rows on a page
    everywhere: str = ""  # a search for any of this finds every row that has not failed
    prefix: str = ""  # precedes this table's state in the page's address

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that are `there`."""
        return tuple(column for column in self.offered if column.there)

    @property
    def orders(self) -> tuple[tuple[str, str], ...]:
        """The `sorts` by a column that is there."""
        return tuple(each for each in self.sorts if each[0].lstrip("-") in self.keys)

    @property
    def shows(self) -> tuple[tuple[str, str], ...]:
        """(Key, words) of what the rows can be restricted to."""
        offered = {
            "failed": self.failed and "only failed ones",
            "missing": "missing" in self.keys and "only with missing scores",
            "human": "human" in self.keys and "only with parts by a person",
        }
        return tuple((key, words) for key, words in offered.items() if words)

    @property
    def keys(self) -> frozenset[str]:
        """Of the columns."""
        return frozenset(column.key for column in self.columns)

    @property
    def pages(self) -> tuple[site.Page, ...]:
        """At least one."""
        ends = [*range(self.most, len(self.rows), self.most), len(self.rows)]
        return site.pages_of([site.numbered(self.name, n) for n in range(1, len(ends) + 1)], ends)


def common_personas(queries: Iterable[QueryFigures]) -> tuple[str, ...]:
    """The judges of every ranked query, in the order of the first."""
    ranked = [query for query in queries if not query.error]
    if len(ranked) < 2:
        return ()
    common = {name.casefold() for name in ranked[0].personas}
    for query in ranked:
        common.intersection_update(name.casefold() for name in query.personas)
    return tuple(name for name in ranked[0].personas if name.casefold() in common)


def queries_table(survey: Survey) -> Table:
    """One row a query: number, text and id, and figures."""
    queries, totals = survey.queries, survey.totals
    first_stage, other = cut(survey.first_stage, _NAME), cut(survey.other, _NAME)
    common = common_personas(queries)

    def known(name: str) -> bool:
        return any(getattr(query, name) is not None for query in queries)

    several = any(len(query.personas) > len(common) for query in queries)
    return Table(
        site.QUERIES,
        "query",
        "queries",
        "Queries",
        (
            Column("number", "No.", "ascending"),
            _words("query", "Query"),
            Column("ndcg", "nDCG@10", there=known("ndcg")),
            Column("gain", f"Gain over {first_stage}", there=known("gain")),
            Column("other", f"Gain over {other}", there=known("gain_over_other")),
            Column("disagreement", "Dis\u00adagree\u00adment", there=known("disagreement")),
            Column("alpha", "Alpha", there=known("alpha")),
            Column("missing", "Missing scores", there=totals.missing > 0),
            _words("human", "By a person", there=totals.human > 0),
            _words("personas", "Other personas" if common else "Personas", there=several),
        ),
        queries,
        "query, id or persona" if several else "query or id",
        sorts=(
            ("-disagreement", "largest disagreement first"),
            ("-gain", f"largest gain over {first_stage} first"),
            ("gain", f"largest loss to {first_stage} first"),
            ("-other", f"largest gain over {other} first"),
            ("other", f"largest loss to {other} first"),
            ("ndcg", "lowest nDCG@10 first"),
            ("alpha", "lowest alpha first"),
        ),
        failed=totals.failed > 0,
        most=2 * ROWS,
        everywhere=" \N{MIDDLE DOT} ".join(common)[:_MOST_EVERYWHERE],
    )


def personas_table(survey: Survey) -> Table:
    """One row a persona."""
    rows = survey.personas
    return Table(
        site.PERSONAS,
        "persona",
        "personas",
        "Personas",
        (
            _words("name", "Persona"),
            Column("queries", "Queries"),
            _words("origin", "Where from"),
            Column("score", "Mean score", there=any(each.mean_score is not None for each in rows)),
            Column("tau", "Tau with mates", there=any(each.tau is not None for each in rows)),
            Column("worth", "Worth in nDCG@10", there=any(each.without for each in rows)),
            Column("missing", "Missing scores", there=any(each.missing for each in rows)),
            Column("human", "By a person", there=any(each.human for each in rows)),
            Column("examples", "Example queries", ""),
        ),
        rows,
        "persona",
        sorts=(
            ("-worth", "highest worth first"),
            ("worth", "lowest worth first"),
            ("-tau", "highest tau first"),
            ("tau", "lowest tau first"),
        ),
    )


def pairs_table(survey: Survey) -> Table:
    """One row a pair of personas; on the first page of the table of personas."""
    return Table(
        site.PERSONAS,
        "pair",
        "pairs",
        "Pairs of personas",
        (
            _words("first", "Persona"),
            _words("second", "Team mate"),
            Column("queries", "Queries"),
            Column("tau", "Tau"),
        ),
        survey.pairs,
        "persona",
        sorts=(("-tau", "highest tau first"), ("tau", "lowest tau first")),
        prefix="pairs-",
    )


def criteria_table(survey: Survey) -> Table:
    """One row a criterion; lowest and highest weights where any criterion has several."""
    rows = survey.criteria
    ends = any(each.least_weight < each.most_weight for each in rows)
    return Table(
        site.CRITERIA,
        "criterion",
        "criteria",
        "Criteria",
        (
            _words("name", "Criterion"),
            Column("rubrics", "Rubrics"),
            Column("weight", "Mean weight" if ends else "Weight"),
            Column("least", "Lowest", there=ends),
            Column("most", "Highest", there=ends),
            _words("personas", "Personas"),
            Column("human", "By a person", there=any(each.human for each in rows)),
            Column("examples", "Example queries", ""),
        ),
        rows,
        "criterion",
        sorts=(("-weight", "highest weight first"), ("weight", "lowest weight first")),
    )


def origins(persona: PersonaFigures) -> str:
    """Where a persona is from, in words; with numbers of queries where that differs."""
    known = [(ORIGINS[origin], queries) for origin, queries in persona.origins.items()]
    if len(known) == 1:
        return known[0][0]
    return ", ".join(f"{words} in {queries:,}" for words, queries in known)
