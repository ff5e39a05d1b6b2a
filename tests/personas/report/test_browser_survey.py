"""The table of queries of a report in a browser: sorting, search, pages, addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from personas.survey import QueryFigures, Survey
from tests.support.browser_pages import write_survey
from tests.support.browser_support import Visit, browser, visit
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
