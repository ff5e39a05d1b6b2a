"""The playground in Chromium, against a service on the loopback, and its routes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from mcranker import ChatRequest
from mcranker.serve import RankerSettings, Settings, hash_key
from tests.support.browser_measures import readings, sticking_out
from tests.support.browser_support import browser, expect, texts
from tests.support.comparing import comparing
from tests.support.playing import PASSAGES, VISIBLE, Seen, fill, opened, rank
from tests.support.serving import KEY, by_place, model, serving, settings

if TYPE_CHECKING:
    from tests.support.browser_support import Windows

__all__ = ["browser"]

pytestmark = pytest.mark.browser


def by_weight(request: ChatRequest) -> str:
    """The later a passage was given, the better; for the virologist only if he weighs it so."""
    text = "\n".join(message.content for message in request.messages)
    place = int(request.tag.doc_id)
    down = request.tag.persona == "Virologist" and "Early passages" in text
    return json.dumps({"Score": 9 - 4 * place if down else place + 1})


class Held:
    """A model that scores by place, and waits while it is held."""

    def __init__(self) -> None:
        self.waits, self.now = threading.Event(), False

    async def score(self, request: ChatRequest) -> str:
        while self.now:
            self.waits.set()
            await anyio.sleep(0.01)
        return by_place(request)


def test_rank_disagree_and_rank_again(browser: Windows, tmp_path: Path) -> None:
    with opened(browser, score=by_weight) as seen:
        page = seen.page
        rank(page)
        assert texts(page, VISIBLE) == PASSAGES.split("\n")[::-1]
        assert texts(page, "#members h3") == ["NLP scientist", "Virologist", "Worried parent"]
        assert texts(page, "#heat tbody tr:first-child td") == ["3", "3", "3", "9", "0.30", "3 ▲2"]
        page.get_by_role("button", name="Edit Virologist").click()
        page.locator(".member input[type=number]").first.fill("155")
        expect(page.locator(".sum")).to_have_text("weights add up to 180%; they are scaled to 100%")
        page.get_by_label("Criterion").first.fill("Early passages")
        page.get_by_role("button", name="Remove Worried parent").click()
        again = page.get_by_role("button", name="Rank again with this team")
        expect(again).to_be_in_viewport()
        again.click()
        expect(page.locator("#heat thead")).to_contain_text("Moved")
        # By place: 1 + 9, 2 + 5, 3 + 1.
        assert texts(page, VISIBLE) == PASSAGES.split("\n")
        assert texts(page, "#heat tbody tr:first-child td") == ["1", "9", "10", "0.50", "▲2"]
        expect(page.locator("#verdict")).to_contain_text("2 passages moved")
        page.get_by_role("button", name="Soap is for hands.").click()
        assert texts(page, ".details li") == [
            "NLP scientist: 1",
            "Virologist: 9 (1 before)",
            "Worried parent is no longer there (1)",
        ]

        for name, button in (
            ("team.json", "Save team"),
            ("ranking.html", "Save page"),
            ("ranking.json", "Save JSON"),
        ):
            with page.expect_download() as download:
                page.get_by_role("button", name=button).click()
            assert download.value.suggested_filename == name
            download.value.save_as(tmp_path / name)
        team = json.loads((tmp_path / "team.json").read_text())
        (first, second) = team["members"][1]["rubric"]["criteria"]
        assert (first["name"], first["weight"]) == (
            "Early passages",
            pytest.approx(100 * 155 / 180),
        )
        assert second["weight"] == pytest.approx(100 * 25 / 180)
        ranking = json.loads((tmp_path / "ranking.json").read_text())
        assert [hit["doc_id"] for hit in ranking["hits"]] == ["0", "1", "2"]
        assert "Soap is for hands." in (tmp_path / "ranking.html").read_text()
        assert seen.complaints == []


def test_a_ranking_is_begun_and_cancelled_by_keys(browser: Windows) -> None:
    held = Held()
    held.now = True
    with opened(browser, score=held.score) as seen:
        page = seen.page
        fill(page)
        page.keyboard.press("Control+Enter")
        assert held.waits.wait(60)
        expect(page.get_by_role("button", name="Cancel")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("status")).to_contain_text("Cancelled")
        expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        held.now = False
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("status")).to_contain_text("Done in")
        page.locator("#heat tbody button").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".details")).to_be_visible()
        expect(page.locator("#heat tbody button").first).to_be_focused()
        assert seen.complaints == []


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ("one\nstill one\n\ntwo", "2 passages"),
        ('{"_id": "a", "text": "one"}\n{"_id": "b", "text": "two"}', "2 passages"),
        ('["one", {"text": "two", "title": "Two"}]', "2 passages"),
        ('id,title,text\na,T,"one, ""quoted""\nover lines"\nb,,two\n', "2 passages"),
        ("docno\ttext\na\tone", "1 passage"),
        ('{"_id": "a", "text": "one"}\n{"_id":', "line 2 is not JSON"),
        ('[{"title": "no text"}]', 'passage 1 has no text; give it a field "text"'),
        ('[{"id": 1, "text": "a"}, {"id": "1", "text": "b"}]', 'two passages have the id "1"'),
    ],
)
def test_passages_are_read_in_several_forms(ready: Seen, given: str, count: str) -> None:
    ready.page.locator("#many").evaluate("many => { many.open = true; }")
    ready.page.get_by_label("Passages", exact=True).fill(given)
    expect(ready.page.locator("#read")).to_have_text(count)


@pytest.fixture(scope="module")
def ready(browser: Windows) -> Iterator[Seen]:
    with opened(browser) as seen:
        yield seen
        assert seen.complaints == []


def test_an_example_comes_first_and_is_measured(browser: Windows) -> None:
    with opened(browser, score=lambda _: '{"Score": 5}') as seen:
        page = seen.page
        expect(page.locator("#count")).to_have_text("12 passages")
        assert page.get_by_label("Query", exact=True).input_value()
        page.get_by_role("button", name="Rank", exact=True).click()
        # All scores are equal, so that the order is the one that was given.
        expect(page.locator("#verdict")).to_contain_text("nDCG@10 is 0.")
        judge, *_, measured = texts(page, "#verdict li")
        assert judge == "Judged by scripted:tests."
        assert f"as given {measured.split('nDCG@10 is ')[1][:5]}" in measured
        assert texts(page, "#heat tbody tr:first-child td") == [*"555", "15", "0.50", "1"]
        # The judgements of a ranking stay when another example is taken.
        page.get_by_label("Example").select_option(index=2)
        page.locator("#heat tbody button").first.click()
        assert texts(page, "#verdict li")[-1] == measured
        assert seen.complaints == []


def test_texts_are_never_markup(browser: Windows) -> None:
    with opened(browser) as seen:
        page = seen.page
        rank(page, "<img src=x onerror=alert(1)>\n<script>alert(2)</script>")
        page.locator("#heat tbody button").first.click()
        assert min(texts(page, VISIBLE)) == "<img src=x onerror=alert(1)>"
        assert page.locator("#heat img, #heat script").count() == 0
        assert seen.complaints == []


LETTERS = "mask a\nmask b\nmask c"


def every() -> Settings:
    """Rankers of each kind: scores of a team, and an order."""
    order, _ = comparing(lambda _: "[3] > [1] > [2]")
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("mcranker", {"model": model()}),
        ("rankgpt", {"model": order}),
    )
    rankers = tuple(
        RankerSettings(name=name, ranker=kind, options={**options, "ledger": None}, per_request=may)
        for name, (kind, options), may in zip(
            ("team", "order"), kinds, (("team",), ()), strict=True
        )
    )
    return Settings(rankers=rankers, port=0)


def test_an_order_has_no_columns_of_scores(browser: Windows) -> None:
    with opened(browser, every()) as seen:
        page = seen.page
        page.get_by_label("Ranker").select_option("order")
        rank(page, LETTERS)
        assert texts(page, "#heat thead th") == ["Passage", "Given at"]
        assert texts(page, "#heat tbody tr:first-child td") == ["3 ▲2"]
        assert seen.complaints == []


def test_all_can_be_read_in_both_schemes(browser: Windows) -> None:
    with opened(browser, every(), width=390) as seen:
        page = seen.page
        for ranker in ("order", "team"):
            page.get_by_label("Ranker").select_option(ranker)
            rank(page, f"{LETTERS}\n{'W' * 300}" if ranker == "team" else LETTERS)
            page.locator("#heat tbody button").first.click()
        page.get_by_role("button", name="Edit Virologist").click()
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


def test_its_routes_are_guarded() -> None:
    with serving(settings(port=0, keys={"a": hash_key(KEY)})) as address:
        refused = httpx.get(address)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"].startswith("Basic")
        page = httpx.get(address, auth=("any", KEY))
        assert page.status_code == 200
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "<script>" not in page.text
    assert " style=" not in page.text
