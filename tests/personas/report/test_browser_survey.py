"""The table of queries of a report in a browser: sorting, search, pages, addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from personas.survey import QueryFigures, Survey
from tests.support.browser_pages import write_survey
from tests.support.browser_support import Visit, browser, texts, visit
from tests.support.survey_support import make_survey

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser

Value: TypeAlias = Callable[[Any], Any]

SIZE = 50
OPPOSITE = {"ascending": "descending", "descending": "ascending"}


def shown(number: float | None, places: int) -> float | None:
    """The number as the table has it: it is what tables are sorted by."""
    return None if number is None else float(f"{number:.{places}f}")


def ranked(value: Value) -> Value:
    """Of queries that did not fail, `value`; the others have nothing."""
    return lambda query: None if query.error else value(query)


COLUMNS: dict[str, tuple[str, Value]] = {
    "number": ("ascending", lambda each: each.place),
    "query": ("ascending", lambda each: (each.query.strip(), int(each.query_id))),
    "ndcg": ("descending", ranked(lambda each: shown(each.ndcg, 3))),
    "gain": ("descending", ranked(lambda each: shown(each.gain, 3))),
    "other": ("descending", ranked(lambda each: shown(each.gain_over_other, 3))),
    "disagreement": ("descending", ranked(lambda each: shown(each.disagreement, 3))),
    "alpha": ("descending", ranked(lambda each: shown(each.alpha, 2))),
    "missing": ("descending", ranked(lambda each: each.missing)),
    "personas": ("ascending", ranked(lambda each: ", ".join(each.personas[1:]).casefold())),
}
"""Column -> direction of the first sort, and what is sorted by."""


@pytest.fixture(scope="module")
def survey() -> Survey:
    return make_survey(130)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, survey: Survey) -> Path:
    folder = tmp_path_factory.mktemp("survey")
    write_survey(folder, survey)
    return folder


def ordered(rows: Sequence[Any], value: Value, direction: str) -> list[Any]:
    """The rows in that order: missing values last, equal ones as they were."""
    there = [row for row in rows if value(row) is not None]

    def key(row: Any) -> Any:
        found = value(row)
        return found.casefold() if isinstance(found, str) else found

    # Sorting backwards keeps equal ones in their order.
    there.sort(key=key, reverse=direction == "descending")
    return there + [row for row in rows if value(row) is None]


def heads(page: Page) -> list[str]:
    """What stands in the first cells of the rows on show, without what is added to a query."""
    found: list[str] = page.eval_on_selector_all(
        "#queries tbody tr",
        "all => all.map((row) => [...row.cells].slice(0, 2).map((cell) => "
        "(cell.querySelector('i')?.previousSibling ?? cell).textContent).join('|'))",
    )
    return found


def head(row: QueryFigures) -> str:
    """What `heads` has for a row of the survey."""
    return f"{row.place}|{row.query.strip()}"


def sorted_by(page: Page) -> dict[str, str]:
    """Key -> direction, of the columns that say they are sorted."""
    found: dict[str, str] = page.eval_on_selector_all(
        "#queries th[aria-sort]",
        "all => Object.fromEntries(all.filter((each) => each.ariaSort !== 'none')"
        ".map((each) => [each.dataset.key, each.ariaSort]))",
    )
    return found


def turn(page: Page, words: str) -> str:
    """Turn the pages of the table; where that leads."""
    pager = page.locator('.pager[data-for="queries"]')
    pager.get_by_role("button", name=words, exact=True).press("Enter")
    return pager.locator("span").text_content() or ""


def found(page: Page) -> str:
    return page.locator("#queries-found").text_content() or ""


def test_every_column_sorts_all_rows_and_sorts_back(
    folder: Path, survey: Survey, visit: Visit
) -> None:
    rows = survey.queries
    last = SIZE * ((len(rows) - 1) // SIZE)
    page = visit(folder / "index.html")
    assert heads(page) == [head(row) for row in rows[:SIZE]]
    sortable: list[str] = page.eval_on_selector_all(
        "#queries th[aria-sort]", "all => all.map((each) => each.dataset.key)"
    )
    assert set(COLUMNS) <= set(sortable)

    for place, (column, (first, value)) in enumerate(COLUMNS.items()):
        button = page.locator(f"#queries th[data-key={column}] button")
        # The table of queries comes sorted by number.
        begin = OPPOSITE[first] if column == "number" else first
        for direction in (begin, OPPOSITE[begin]):
            if direction == begin:
                button.click()
            else:
                button.press("Enter" if place % 2 else "Space")
            assert sorted_by(page) == {column: direction}
            wanted = [head(row) for row in ordered(rows, value, direction)]
            assert heads(page) == wanted[:SIZE], (column, direction)
            if last and direction != begin:
                turn(page, "Last")
                assert heads(page) == wanted[last:], (column, direction)


def test_pages_turn(folder: Path, survey: Survey, visit: Visit) -> None:
    page = visit(folder / "index.html")
    wanted = [head(row) for row in survey.queries]
    pager = page.locator('.pager[data-for="queries"]')
    assert texts(page, ".pager") == ["FirstPreviousPage 1 of 3NextLast"]
    assert found(page) == "130 queries, here 1 to 50"

    for words, number, idle in (
        ("Next", 2, []),
        ("Next", 3, ["Next", "Last"]),
        ("Next", 3, ["Next", "Last"]),
        ("Previous", 2, []),
        ("First", 1, ["First", "Previous"]),
        ("Previous", 1, ["First", "Previous"]),
        ("Last", 3, ["Next", "Last"]),
    ):
        # A button that leads nowhere says so, and keeps the focus: it is not disabled.
        pager.get_by_role("button", name=words, exact=True).press("Enter")
        assert pager.locator("span").text_content() == f"Page {number} of 3"
        first, last = SIZE * (number - 1), min(SIZE * number, 130)
        assert heads(page) == wanted[first:last]
        assert found(page) == f"130 queries, here {first + 1} to {last}"
        assert texts(page, '.pager [aria-disabled="true"]') == idle
        assert page.evaluate("document.activeElement.textContent") == words


def test_a_search_looks_at_words_in_any_column(folder: Path, survey: Survey, visit: Visit) -> None:
    page = visit(folder / "index.html")
    field = page.get_by_label("Search")
    every = survey.queries
    for typed, rows in {
        "virologist": [each for each in every if "Virologist" in str(each.personas)],
        "COFFEE  virologist": [
            each for each in every if "coffee" in each.query and "Virologist" in str(each.personas)
        ],
        "croRna": [each for each in every if "microRNA" in each.query],
        survey.queries[99].query_id: [survey.queries[99]],
        # On every team that there is, and named above the table, not in it.
        "nlp scientist": [each for each in every if not each.error],
        ".*": [],
        "<b>": [],
        "100%": [],
        "\\": [],
    }.items():
        field.clear()
        assert found(page) == "130 queries, here 1 to 50"
        turn(page, "Last")
        field.fill(typed)
        wanted = [head(row) for row in rows]
        assert heads(page) == wanted[:SIZE], typed
        words = f"{len(rows)} of 130 queries" if rows else "None of 130 queries is like that."
        if len(rows) > SIZE:  # on the first page again
            words += f", here 1 to {SIZE}"
        assert found(page) == words
        assert page.locator(".pager").is_visible() == (len(rows) > SIZE)
    field.clear()
    assert heads(page) == [head(row) for row in every[:SIZE]]


def test_lists_restrict_and_order(folder: Path, survey: Survey, visit: Visit) -> None:
    page = visit(folder / "index.html")
    show, order = page.get_by_label("Show"), page.get_by_label("Order")
    kinds: dict[str, Callable[[QueryFigures], object]] = {
        "only failed ones": lambda each: each.error,
        "only with missing scores": lambda each: each.missing and not each.error,
        "all queries": lambda each: True,
    }
    for words, holds in kinds.items():
        show.select_option(words)
        wanted = [head(row) for row in survey.queries if holds(row)]
        assert heads(page) == wanted[:SIZE]
    order.select_option("lowest alpha first")
    assert sorted_by(page) == {"alpha": "ascending"}
    value = COLUMNS["alpha"][1]
    assert heads(page)[0] == head(ordered(survey.queries, value, "ascending")[0])
    # An order that the list does not offer is one by a column.
    page.locator("th[data-key=missing] button").click()
    assert order.locator("option:checked").text_content() == "by a column"


def test_what_is_on_show_stands_in_the_address(folder: Path, survey: Survey, visit: Visit) -> None:
    page = visit(folder / "index.html", "find=virologist&show=missing&sort=-alpha&page=2")
    value = COLUMNS["alpha"][1]
    rows = [each for each in survey.queries if "Virologist" in str(each.personas) and each.missing]
    assert rows
    wanted = [head(row) for row in ordered(rows, value, "descending")]
    assert heads(page) == wanted[:SIZE]  # there is no second page
    assert page.get_by_label("Search").input_value() == "virologist"
    assert page.get_by_label("Show").input_value() == "missing"
    assert page.get_by_label("Order").input_value() == "?"
    assert sorted_by(page) == {"alpha": "descending"}


def test_links_above_the_table_sort_it(folder: Path, survey: Survey, visit: Visit) -> None:
    page = visit(folder / "index.html")
    page.get_by_role("link", name="Largest losses").first.click()
    wanted = ordered(survey.queries, COLUMNS["gain"][1], "ascending")
    page.wait_for_function("document.querySelector('[data-key=gain]').ariaSort === 'ascending'")
    assert heads(page) == [head(row) for row in wanted[:SIZE]]
