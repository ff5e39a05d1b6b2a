"""Rankings in the playground: of every ranker, of other passages, and with a changed team."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from mcranker import ChatRequest, DirectRanker, RankGPTRanker
from mcranker.serve import RankerSettings, Settings
from tests.support.browser_measures import readings, sticking_out
from tests.support.browser_support import browser, expect, texts
from tests.support.comparing import comparing
from tests.support.comparing_team import TEAM, by_orders, comparing_team
from tests.support.playing import PASSAGES, VISIBLE, opened, rank
from tests.support.rebel import rebel_model
from tests.support.serving import by_place, model

if TYPE_CHECKING:
    from tests.support.browser_support import Windows

__all__ = ["browser"]

pytestmark = pytest.mark.browser
LETTERS = "mask a\nmask b\nmask c"


def one(name: str, ranker: str, **options: Any) -> RankerSettings:
    return RankerSettings(name, ranker, options)


def every() -> Settings:
    """Rankers of each kind: scores of a team, an order, orders of a team, composites, a fusion."""
    team, _ = comparing_team(by_orders(dict(zip(TEAM, ("bac", "bac", "bca"), strict=True))))
    order, _ = comparing(lambda _: "[3] > [1] > [2]")
    rebel, _ = rebel_model()
    members = [RankGPTRanker(model=order, ledger=None), DirectRanker(model=model(), ledger=None)]
    rankers = (
        RankerSettings(
            "team", "mcranker", {"model": model(), "ledger": None}, per_request=("team",)
        ),
        one("order", "rankgpt", model=order, ledger=None),
        one("orders", "rankgpt", model=team, ledger=None, team_size=3),
        one("rebel", "rebel", model=rebel, ledger=None),
        one("fused", "fused", members=members),
    )
    return Settings(rankers=rankers, port=0)


def test_every_ranker_has_columns_of_its_own(browser: Windows) -> None:
    with opened(browser, every()) as seen:
        page = seen.page
        page.get_by_label("Ranker").select_option("orders")
        rank(page, LETTERS)
        assert texts(page, "#heat thead th") == ["Passage", *TEAM, "Score", "Given at"]
        assert texts(page, VISIBLE) == ["mask b", "mask a", "mask c"]
        # 1 / (60 + rank): 1/62 + 1/62 + 1/63.
        second = texts(page, "#heat tbody tr:nth-child(2) td")
        assert second == ["#2", "#2", "#3", "0.04813", "1 ▼1"]
        best = page.locator("#heat tbody tr:first-child td.cell").first
        last = page.locator("#heat tbody tr:last-child td.cell").first
        assert best.get_attribute("class") == "cell h10"
        assert last.get_attribute("class") == "cell h0"
        assert texts(page, ".ramp")[0].split() == ["#3", "#1"]
        page.get_by_role("button", name="mask c").click()
        assert texts(page, ".details li") == [f"{TEAM[0]}: #3", f"{TEAM[1]}: #3", f"{TEAM[2]}: #2"]

        page.get_by_label("Ranker").select_option("order")
        rank(page, LETTERS)
        assert texts(page, "#heat thead th") == ["Passage", "Moved"]
        assert texts(page, "#heat tbody tr:first-child td") == ["▲2"]
        expect(page.locator(".ramp")).to_be_hidden()

        page.get_by_label("Ranker").select_option("fused")
        rank(page, LETTERS)
        assert texts(page, "#heat thead th") == ["Passage", "rankgpt", "direct", "Score", "Moved"]
        # Twice 1/61; 1/62 + 1/63.
        assert texts(page, "#heat tbody tr:first-child td") == [
            "#1",
            "#1",
            "0.03279",
            "\N{EN DASH}",
        ]
        assert texts(page, "#heat tbody tr:nth-child(2) td:nth-of-type(3)") == ["0.03200"]

        page.get_by_label("Ranker").select_option("rebel")
        rank(page, "passage a: 9 4 4 4 4 4\npassage b: 2\npassage c: 8 1 1 1 1 1")
        assert "22.5" in texts(page, ".ramp")[0]
        dropped = page.locator("#heat tbody tr:last-child td.cell")
        expect(dropped).to_have_attribute("title", "dropped, its relevance is 2")
        assert seen.complaints == []


def test_other_passages_of_the_same_places_have_not_moved(browser: Windows) -> None:
    with opened(browser) as seen:
        rank(seen.page)
        rank(seen.page, "Gloves.\nGowns.\nGoggles.")
        expect(seen.page.locator("#heat thead")).to_contain_text("Given at")
        rank(seen.page)
        expect(seen.page.locator("#verdict")).to_contain_text("Nothing moved")


def test_a_cancelled_ranking_leaves_the_edited_team(browser: Windows) -> None:
    waits, held = threading.Event(), [False]

    async def score(request: ChatRequest) -> str:
        while held[0]:
            waits.set()
            await anyio.sleep(0.01)
        return by_place(request)

    with opened(browser, score=score) as seen:
        page = seen.page
        rank(page)
        page.get_by_role("button", name=f"Remove {TEAM[2]}").click()
        held[0] = True
        page.get_by_role("button", name="Rank again with this team").click()
        assert waits.wait(60)
        expect(page.locator("#members h3")).to_have_text(list(TEAM[:2]))
        page.keyboard.press("Escape")
        expect(page.get_by_role("status")).to_contain_text("Cancelled")
        waits.clear()
        page.get_by_role("button", name="Recruit again").click()
        assert waits.wait(60)
        expect(page.locator("#members h3")).to_have_text(list(TEAM))
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("status")).to_contain_text("Cancelled")
        assert texts(page, "#members h3") == list(TEAM[:2])
        expect(page.locator("#team-state")).to_contain_text("changed")
        held[0] = False


def test_an_editor_keeps_the_focus(browser: Windows) -> None:
    with opened(browser) as seen:
        page = seen.page
        rank(page)
        page.get_by_role("button", name=f"Edit {TEAM[1]}").press("Enter")
        expect(page.get_by_label("Name", exact=True)).to_be_focused()
        page.get_by_role("button", name="Add a criterion").press("Enter")
        expect(page.get_by_label("Criterion", exact=True).last).to_be_focused()
        page.get_by_role("button", name="Remove the criterion").last.press("Enter")
        expect(page.get_by_role("button", name="Add a criterion")).to_be_focused()
        for field in page.locator(".member input[type=number]").all():
            field.fill("0")
        expect(page.locator(".sum")).to_have_text("criteria without a weight are left out")
        page.get_by_role("button", name="Done", exact=True).press("Enter")
        expect(page.get_by_role("button", name=f"Edit {TEAM[1]}")).to_be_focused()
        assert seen.complaints == []


def test_texts_from_right_to_left_begin_beside_their_rank(browser: Windows) -> None:
    with opened(browser) as seen:
        rank(seen.page, f"{PASSAGES}\n\N{ARABIC LETTER ALEF}\N{ARABIC LETTER LAM}")
        heads = seen.page.locator(VISIBLE)
        aligned = heads.evaluate_all("all => all.map((each) => getComputedStyle(each).textAlign)")
        assert set(aligned) == {"left"}


@pytest.mark.parametrize("width", [1440, 390])
def test_all_can_be_read_in_both_schemes(browser: Windows, width: int) -> None:
    with opened(browser, every(), width=width) as seen:
        page = seen.page
        for ranker in ("orders", "fused", "team"):
            page.get_by_label("Ranker").select_option(ranker)
            rank(page, LETTERS)
            page.locator("#heat tbody button").first.click()
        page.get_by_role("button", name=f"Edit {TEAM[1]}").click()
        page.locator("#members summary").first.click()
        page.locator("#many > summary").click()
        page.get_by_label("Passages", exact=True).fill('{"text": "a"}\n{')
        page.get_by_label("Query", exact=True).fill("")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("alert")).to_have_text("Write a query first.")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert [each for each in readings(page) if each.contrast < 4.5] == []
            assert sticking_out(page) == []
