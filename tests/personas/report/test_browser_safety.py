"""Whatever stands in a query, a passage or a model's reply: no page asks for or runs anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord
from personas.report.inspection import inspection_page
from personas.report.page import PageContext
from tests.support.browser_measures import open_all
from tests.support.browser_pages import write_query, write_survey
from tests.support.browser_support import Visit, browser, visit
from tests.support.inspection_report import infested
from tests.support.survey_support import make_survey

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "visit"]

pytestmark = pytest.mark.browser

AWAY = "http://127.0.0.1:9/"
"""Nobody answers there, and nothing may be asked there."""
LOADS = (
    f"<img src={AWAY}image srcset={AWAY}set><video src={AWAY}film autoplay></video>"
    f"<link rel=stylesheet href={AWAY}style><object data={AWAY}object></object>",
    f"<style>@import url({AWAY}import); * {{ background: url({AWAY}paper) !important }}</style>"
    f"<p style='background: url({AWAY}paper)'>styled</p>",
    f"<iframe src={AWAY}frame></iframe><script src={AWAY}script></script>",
    "<script>alert(1); window.owned = 1</script><img src=x onerror='window.owned = 1'>",
)
"""What a policy can stop even if it got into the page as markup."""
PAYLOADS = (
    *LOADS,
    "</title></style></script></bdi></table></details><script>alert(1); window.owned = 1</script>",
    f"<base href={AWAY}><meta http-equiv=refresh content='0; url={AWAY}refresh'>",
    f"\"' autofocus onfocus='alert(1)' onmouseover='alert(1)' style='background:url({AWAY})' x=\"",
    f"<form action={AWAY}><input autofocus onfocus=alert(1)></form><svg onload=alert(1)></svg>",
    f"javascript:alert(1) {AWAY} url({AWAY}css) #passage-1",
    "<!-- <!--rows--> <!--details--> ]]> {{ 7 * 7 }} &lt;script&gt;alert(1)&lt;/script&gt;",
)
STRANGE = r"""() => [
  ...[...document.querySelectorAll(
    "img, video, audio, iframe, frame, object, embed, link, base, form, foreignObject"
  )].map((each) => each.localName),
  ...[...document.querySelectorAll("*")].flatMap((each) => [...each.attributes]
    .filter(({ name }) => name.startsWith("on") || ["style", "src", "autofocus"].includes(name))
    .map(({ name }) => `${each.localName} ${name}`)),
  ...[...document.links].map((each) => each.href)
    .filter((href) => !/^(file:|data:text\/yaml;base64,[\w+/=]+$)/.test(href)),
  ...document.scripts.length === 1 ? [] : ["scripts"],
  ...document.querySelectorAll("style").length === 1 ? [] : ["styles"],
  ...document.querySelectorAll("meta[http-equiv]").length === 1 ? [] : ["policies"],
  ...window.owned === undefined ? [] : ["owned"],
]"""


def poke(page: Page, typed: str) -> None:
    """Do what a reader could do."""
    open_all(page)
    for box in page.locator("input[type=checkbox]:visible").all():
        box.check()
    page.mouse.move(300, 300)
    for field in page.locator("input:visible:not([type=checkbox])").all():
        field.fill(typed)
        field.fill("")
    for button in page.locator("thead button").all()[:3]:
        button.press("Enter")
    page.emulate_media(media="print")
    page.emulate_media(media="screen")


def in_report(data: dict[str, Any], text: str) -> str:
    """The page of the ranking in a report, with the text in what is not in the ranking, too."""
    places = {hit["doc_id"]: OtherPlace(place, 1.0) for place, hit in enumerate(data["hits"], 1)}
    inspection = RankingRecord.of(data).beside(
        grades={data["hits"][0]["doc_id"]: 1, text: 1}, other=OtherRanking(text, 10.0, places)
    )
    return inspection_page(inspection, PageContext(text, 2, 3))


def test_text_in_the_page_of_a_query_does_nothing(tmp_path: Path, visit: Visit) -> None:
    page, asked = visit(write_query(tmp_path)), [(tmp_path / "query.html").as_uri()]
    for place, payload in enumerate(PAYLOADS):
        path = tmp_path / f"{place}.html"
        path.write_text(in_report(infested(payload), payload), encoding="utf-8")
        page.goto(path.as_uri())
        asked.append(path.as_uri())
        poke(page, payload)
        assert page.evaluate(STRANGE) == []
        assert page.locator("h1").inner_text().strip() == " ".join(payload.split())
    assert visit.requests == asked


def test_text_in_the_page_of_a_survey_does_nothing(tmp_path: Path, visit: Visit) -> None:
    (path,) = write_survey(tmp_path, make_survey(30, texts=PAYLOADS))
    page = visit(path)
    poke(page, PAYLOADS[0])
    assert page.evaluate(STRANGE) == []
    assert visit.requests == [path.as_uri()]


@pytest.mark.parametrize("name", ["query.html", "index.html"])
def test_the_policy_stops_what_would_get_into_a_page_as_markup(
    tmp_path: Path, visit: Visit, name: str
) -> None:
    write_query(tmp_path)
    write_survey(tmp_path, make_survey(3))
    path = tmp_path / name
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<main>", f"<main>{''.join(LOADS)}"), encoding="utf-8")

    page = visit(path)

    assert page.evaluate("window.owned") is None
    styled = page.locator("p", has_text="styled")
    assert styled.evaluate("each => getComputedStyle(each).backgroundImage") == "none"
    # Each was refused before anything was asked, by the policy and not for want of a network.
    assert visit.requests[0] == path.as_uri()
    stopped = {each for each in visit.complaints if each.startswith("failed: ")}
    assert stopped == {f"failed: {each}, csp" for each in visit.requests[1:]}
    said = " ".join(each for each in visit.complaints if each.startswith("console: "))
    kinds = (
        "'img-src'",
        "'media-src'",
        "'object-src'",
        "'frame-src'",
        "'style-src'",
        "'script-src",
    )
    for what in (*kinds, "inline style", "inline script", "inline event handler"):
        assert what in said, what
    # Our own style and script were not.
    assert page.locator("button:visible").count() > 3
    visit.complaints.clear()


def test_what_these_tests_watch_for_is_seen(tmp_path: Path, visit: Visit) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        f"<!DOCTYPE html><img src={AWAY}image><style>p {{ background: url({AWAY}paper) }}</style>"
        "<script>alert('here'); console.log('said'); open('about:blank'); nothing();</script>"
        "<p style='color: red'>text",
        encoding="utf-8",
    )
    page = visit(path)
    assert set(page.evaluate(STRANGE)) == {"img", "img src", "p style", "policies"}
    kinds = {each.partition(":")[0] for each in visit.complaints}
    assert kinds == {"request", "failed", "dialog", "console", "window", "error"}
    assert f"request: {AWAY}paper" in visit.complaints
    visit.complaints.clear()
