"""The tables of a report over a data set: their rows, and what a reader can do with them.

Rows are terse markup: thousands fit into a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from personas.provenance import ORIGINS
from personas.report.formats import cut
from personas.report.markup import EMPTY_QUERY, bar, tersely
from personas.report.site import query_page
from personas.survey.model import (
    CriterionFigures,
    PairFigures,
    PersonaFigures,
    QueryFigures,
    Survey,
    Without,
)
from personas.words import optional, percent, signed, weight, whole

_QUERY, _NAME, _ID, _REASON = 160, 40, 40, 240
_PERSONA = 120
_NAMES, _USERS = 8, 4
_LEVELS = 10
_EXAMPLE_TEXTS, _EXAMPLES = 2, 10
_EXAMPLE = 45

_CELL = Markup("<td>{}</td>")
_WORDS = Markup("<td class=words>{}</td>")
_MUTED = Markup('<span class="also">{}</span>')
_LINK = Markup("<a href={}>{}</a>")
_LINE = Markup("<a class=line href={}>{}</a>")
_LEVEL = Markup('<td class="cell h{}">{}</td>')
_PERSONA_ROW = Markup("<tr id=persona-{}><th scope=row>{}</th>{}</tr>")
_NAMED_ROW = Markup("<tr><th scope=row>{}</th>{}</tr>")
_COMMA = Markup(", ")
_MOST_EVERYWHERE = 2_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that can be sorted.

    Attributes:
        key: name in the page's address, of letters.
        title: heading; may hold untrusted text, as markup.
        first: direction of the first sort; empty if sorting by it says nothing.
        words: whether it holds words, to be compared as such.
    """

    key: str
    title: str | Markup
    first: Literal["ascending", "descending", ""] = "descending"
    words: bool = False


@dataclass(frozen=True, slots=True)
class Finder:
    """What a reader can do with a table.

    Attributes:
        key: id of the table.
        caption: what it shows.
        one: what a row is, e.g. ``"query"``.
        many: the plural.
        columns: in order.
        searched: what a search looks at, in words.
        shows: (key, words) of what the rows can be restricted to: those that are failed, or
            that have something in the column of that key.
        orders: (address, words) of orders worth offering, e.g. ``("-alpha", "Highest alpha")``.
        everywhere: a search for any of this finds every row that is not failed.
        prefix: stands before this table's state in the page's address.
    """

    key: str
    caption: str
    one: str
    many: str
    columns: tuple[Column, ...]
    searched: str
    shows: tuple[tuple[str, str], ...] = ()
    orders: tuple[tuple[str, str], ...] = ()
    everywhere: str = ""
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column of the table of queries.

    Attributes:
        column: its heading.
        cell: what stands in it for a query that was ranked: markup, with all text from outside
            escaped, but plain text to Python. Of a page's rows it is most, and must be fast.
    """

    column: Column
    cell: Callable[[QueryFigures], str]


def common_personas(queries: Iterable[QueryFigures]) -> tuple[str, ...]:
    """Who judged every ranked query, by name without regard to case; in the first one's order.

    Empty where fewer than two queries were ranked.
    """
    ranked = [query for query in queries if not query.error]
    if len(ranked) < 2:
        return ()
    common = {name.casefold() for name in ranked[0].personas}
    for query in ranked:
        common.intersection_update(name.casefold() for name in query.personas)
    return tuple(name for name in ranked[0].personas if name.casefold() in common)


def query_columns(survey: Survey) -> tuple[QueryColumn, ...]:
    """The columns of figures that have something to say about these queries."""
    queries = survey.queries
    common = {name.casefold() for name in common_personas(queries)}

    def names(query: QueryFigures) -> str:
        others = [name for name in query.personas if name.casefold() not in common]
        shown = ", ".join(_outside(name, _NAME) for name in others[:_NAMES])
        more = len(others) - _NAMES
        return shown if more <= 0 else shown + f" and {more:,} more"

    columns: list[QueryColumn] = []

    def add(key: str, title: str | Markup, cell: Callable[[QueryFigures], str]) -> None:
        columns.append(QueryColumn(Column(key, title), cell))

    if any(query.ndcg is not None for query in queries):
        add("ndcg", "nDCG@10", lambda query: optional(query.ndcg))
    if any(query.gain is not None for query in queries):
        title = Markup("Gain over {}").format(tersely(survey.first_stage, 40))
        add("gain", title, lambda query: _gain(query.gain))
    if any(query.gain_over_other is not None for query in queries):
        title = Markup("Gain over {}").format(tersely(survey.other, 40))
        add("other", title, lambda query: _gain(query.gain_over_other))
    if any(query.disagreement is not None for query in queries):
        title = Markup("Dis&shy;agree&shy;ment")
        add("disagreement", title, lambda query: optional(query.disagreement))
    if any(query.alpha is not None for query in queries):
        add("alpha", "Alpha", lambda query: optional(query.alpha, 2))
    add("missing", "Missing scores", lambda query: whole(query.missing))
    if any(query.human for query in queries):
        mark = Column("human", "By a person", "ascending", words=True)
        columns.append(QueryColumn(mark, lambda query: "in part" if query.human else ""))
    if any(len(query.personas) > len(common) for query in queries):
        heading = "Other personas" if common else "Personas"
        columns.append(QueryColumn(Column("personas", heading, "ascending", words=True), names))
    return tuple(columns)


def query_rows(survey: Survey, columns: Sequence[QueryColumn]) -> list[Markup]:
    """One row a query: number, text and id, and these columns; a failed one says why."""
    return [_query_row(query, columns) for query in survey.queries]


def _query_row(query: QueryFigures, columns: Sequence[QueryColumn]) -> Markup:
    text = _outside(query.query, _QUERY) or EMPTY_QUERY
    name = f"<i>{_outside(query.query_id, _ID)}</i>" if query.query_id.strip() else ""
    # A query that failed has no page.
    linked = text if query.error else f"<a href={query_page(query.place)}>{text}</a>"
    head = f"<td>{query.place:,}</td><th scope=row>{linked}{name}</th>"
    # Every text in it is escaped; formatting by Markup would do the same, five times slower.
    if query.error:
        reason = f"<td colspan={len(columns)}>Failed: {_outside(query.error, _REASON)}</td>"
        return Markup(f"<tr class=f>{head}{reason}</tr>")  # noqa: S704
    cells = "".join([f"<td>{each.cell(query)}</td>" for each in columns])
    return Markup(f"<tr>{head}{cells}</tr>")  # noqa: S704


def _person(name: str, limit: int, links: Mapping[str, str]) -> Markup:
    """A persona's name, with a link to its row if it has one."""
    shown, where = tersely(name, limit), links.get(name.casefold())
    return _LINK.format(where, shown) if where else shown


def _outside(text: str, limit: int) -> str:
    return str(tersely(text, limit))


PERSONA_COLUMNS = (
    Column("name", "Persona", "ascending", words=True),
    Column("queries", "Queries"),
    Column("origin", "Where from", "ascending", words=True),
    Column("score", "Mean score"),
    Column("tau", "Tau with mates"),
    Column("worth", "Worth in nDCG@10"),
    Column("missing", "Missing scores"),
    Column("human", "By a person"),
    Column("examples", "Example queries", ""),
)


def persona_row(number: int, persona: PersonaFigures, texts: Mapping[int, str]) -> Markup:
    """The row of the persona that is `number` in the list, from 1.

    Args:
        number: names the row.
        persona: its figures.
        texts: place -> text of the queries.
    """
    score = persona.mean_score
    cells = (
        _CELL.format(whole(persona.queries)),
        _WORDS.format(_origins(persona)),
        _CELL.format("")
        if score is None
        else _LEVEL.format(min(_LEVELS, max(0, round(_LEVELS * score))), percent(score)),
        _CELL.format("" if persona.tau is None else optional(persona.tau, 2)),
        _CELL.format("" if persona.without is None else _worth(persona.without)),
        _CELL.format(whole(persona.missing)),
        _CELL.format(whole(persona.human)),
        _WORDS.format(_examples(persona.examples, texts)),
    )
    name = tersely(persona.name, _PERSONA)
    return _PERSONA_ROW.format(number, name, Markup("").join(cells))


PAIR_COLUMNS = (
    Column("first", "Persona", "ascending", words=True),
    Column("second", "Team mate", "ascending", words=True),
    Column("queries", "Queries"),
    Column("tau", "Tau"),
)


def pair_row(pair: PairFigures, links: Mapping[str, str]) -> Markup:
    """The row of two personas who judged together.

    Args:
        pair: their figures.
        links: persona, in lower case -> where its row is.
    """
    tau = "" if pair.tau is None else optional(pair.tau, 2)
    cells = (
        _WORDS.format(_person(pair.second, _PERSONA, links)),
        _CELL.format(whole(pair.queries)),
        _CELL.format(tau),
    )
    return _NAMED_ROW.format(_person(pair.first, _PERSONA, links), Markup("").join(cells))


def weights_differ(survey: Survey) -> bool:
    """Whether any criterion has another weight in another rubric."""
    return any(each.least_weight < each.most_weight for each in survey.criteria)


def criterion_row(
    criterion: CriterionFigures,
    texts: Mapping[int, str],
    links: Mapping[str, str],
    *,
    ends: bool,
) -> Markup:
    """The row of a criterion.

    Args:
        criterion: its figures.
        texts: place -> text of the queries.
        links: persona, in lower case -> where its row is.
        ends: with the lowest and the highest weight.
    """
    mean = weight(criterion.mean_weight)
    shown = list(criterion.personas.items())[:_USERS]
    names = _COMMA.join(_person(name, _NAME, links) + f" ({rubrics:,})" for name, rubrics in shown)
    more = len(criterion.personas) - len(shown)
    cells = (
        _CELL.format(whole(criterion.rubrics)),
        _CELL.format(mean + bar(criterion.mean_weight)),
        *([_CELL.format(weight(criterion.least_weight))] * ends),
        *([_CELL.format(weight(criterion.most_weight))] * ends),
        _WORDS.format(names if not more else names + f" and {more:,} more"),
        _CELL.format(whole(criterion.human)),
        _WORDS.format(_examples(criterion.examples, texts)),
    )
    return _NAMED_ROW.format(tersely(criterion.name, _PERSONA), Markup("").join(cells))


def queries_finder(survey: Survey, columns: Sequence[QueryColumn]) -> Finder:
    """Of the table of queries with these columns after number and query."""
    first_stage, other = survey.first_stage, survey.other
    orders = (
        ("-disagreement", "largest disagreement first"),
        ("-gain", f"largest gain over {cut(first_stage, _NAME)} first"),
        ("gain", f"largest loss to {cut(first_stage, _NAME)} first"),
        ("-other", f"largest gain over {cut(other, _NAME)} first"),
        ("other", f"largest loss to {cut(other, _NAME)} first"),
        ("ndcg", "lowest nDCG@10 first"),
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
    ends = weights_differ(survey)
    return Finder(
        key="criteria",
        caption="Criteria",
        one="criterion",
        many="criteria",
        columns=(
            Column("name", "Criterion", "ascending", words=True),
            Column("rubrics", "Rubrics"),
            Column("weight", "Mean weight" if ends else "Weight"),
            *((Column("least", "Lowest"), Column("most", "Highest")) * ends),
            Column("personas", "Personas", "ascending", words=True),
            Column("human", "By a person"),
            Column("examples", "Example queries", ""),
        ),
        searched="criterion",
        shows=(("human", "only with parts by a person"),) if human else (),
        orders=(("-weight", "highest weight first"), ("weight", "lowest weight first")),
    )


def _gain(gain: float | None) -> str:
    return "" if gain is None else signed(gain)


def _origins(persona: PersonaFigures) -> str:
    known = [(ORIGINS[origin], queries) for origin, queries in persona.origins.items()]
    if len(known) == 1:
        return known[0][0]
    return ", ".join(f"{words} in {queries:,}" for words, queries in known)


def _worth(without: Without) -> Markup:
    said = f"{without.with_all:.3f} with, {without.without:.3f} without, "
    said += f"{whole(without.queries)} judged" + ("" if without.exact else ", by the sum")
    return Markup("{}{}").format(signed(without.worth), _MUTED.format(said))


def _examples(places: Sequence[int], texts: Mapping[int, str]) -> Markup:
    """Links to some queries: the first by their texts, more by their numbers."""
    lines = [
        _LINE.format(query_page(place), tersely(texts[place], _EXAMPLE) or EMPTY_QUERY)
        for place in places[:_EXAMPLE_TEXTS]
    ]
    numbers = [
        _LINK.format(query_page(place), whole(place)) for place in places[_EXAMPLE_TEXTS:_EXAMPLES]
    ]
    found = Markup("").join(lines)
    return found + (_MUTED.format("also " + _COMMA.join(numbers)) if numbers else "")
