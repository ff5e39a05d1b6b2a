"""What a reader can do with the tables of a report over a data set: search, restrict, order."""

from __future__ import annotations

from collections.abc import Sequence

from personas.report.dataset.parts import Column, Finder
from personas.report.dataset.rows import (
    CRITERION_COLUMNS,
    PAIR_COLUMNS,
    PERSONA_COLUMNS,
    QueryColumn,
    common_personas,
)
from personas.report.formats import cut
from personas.survey.model import Survey

__all__ = ["criteria_finder", "pairs_finder", "personas_finder", "queries_finder"]

_NAME = 40
_MOST_EVERYWHERE = 2_000


def queries_finder(survey: Survey, columns: Sequence[QueryColumn]) -> Finder:
    """Of the table of queries with these columns after number and query."""
    first_stage, other = survey.first_stage, survey.other
    orders = (
        ("-disagreement", "largest disagreement first"),
        ("-gain", f"largest gain over {cut(first_stage, _NAME)} first"),
        ("gain", f"largest loss to {cut(first_stage, _NAME)} first"),
        ("-other", f"largest gain over {cut(other, _NAME)} first"),
        ("other", f"largest loss to {cut(other, _NAME)} first"),
        ("ndcg", "lowest NDCG@10 first"),
        ("alpha", "lowest alpha first"),
    )
    totals, keys = survey.totals, {each.column.key for each in columns}
    shows = (
        ("failed", "only failed ones", totals.failed),
        ("missing", "only with missing scores", totals.missing),
        ("human", "only with parts by a person", totals.human),
    )
    everywhere = " \N{MIDDLE DOT} ".join(common_personas(survey.queries))
    return Finder(
        key="queries",
        caption="Queries",
        one="query",
        many="queries",
        columns=(
            Column("number", "No.", "ascending"),
            Column("query", "Query", "ascending", words=True),
            *(each.column for each in columns),
        ),
        searched="query, id or persona" if "personas" in keys else "query or id",
        shows=tuple((key, words) for key, words, found in shows if found),
        orders=tuple(each for each in orders if each[0].lstrip("-") in keys),
        everywhere=everywhere[:_MOST_EVERYWHERE],
    )


def personas_finder(survey: Survey) -> Finder:
    """Of the table of personas."""
    shows = (
        ("missing", "only with missing scores", any(each.missing for each in survey.personas)),
        ("human", "only with parts by a person", any(each.human for each in survey.personas)),
    )
    worth = any(each.without for each in survey.personas)
    return Finder(
        key="personas",
        caption="Personas",
        one="persona",
        many="personas",
        columns=PERSONA_COLUMNS,
        searched="persona",
        shows=tuple((key, words) for key, words, found in shows if found),
        orders=(("-worth", "highest worth first"), ("worth", "lowest worth first")) * worth
        + (("-tau", "highest tau first"), ("tau", "lowest tau first")),
    )


def pairs_finder() -> Finder:
    """Of the table of pairs of personas; it shares its page with the table of personas."""
    return Finder(
        key="pairs",
        caption="Pairs of personas",
        one="pair",
        many="pairs",
        columns=PAIR_COLUMNS,
        searched="persona",
        orders=(("-tau", "highest tau first"), ("tau", "lowest tau first")),
        prefix="pairs-",
    )


def criteria_finder(survey: Survey) -> Finder:
    """Of the table of criteria."""
    human = any(each.human for each in survey.criteria)
    return Finder(
        key="criteria",
        caption="Criteria",
        one="criterion",
        many="criteria",
        columns=CRITERION_COLUMNS,
        searched="criterion",
        shows=(("human", "only with parts by a person"),) if human else (),
        orders=(("-weight", "highest weight first"), ("weight", "lowest weight first")),
    )
