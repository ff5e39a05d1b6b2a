"""The pages of a report over a data set: whole, linked, small enough, and safe."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from personas.report import formats, site
from personas.report.dataset.pages import survey_pages
from personas.survey.model import Survey
from tests.support.inspection_report import Page
from tests.support.survey_support import HOSTILE, make_survey

FIRST = [site.OVERVIEW, site.QUERIES]
LOADING = {"src", "srcset", "action", "formaction", "data", "poster", "background", "ping"}
QUERY = re.compile(r"query/(\d{6})\.html(#passage-[1-9]\d*)?")
SURVEYS: dict[str, dict[str, Any]] = {
    "usual": {},
    "hostile": {"queries": 60, "texts": HOSTILE},
    "no queries": {"queries": 0},
    "all failed": {"queries": 3, "failed_every": 1},
    "no judgements": {"judged": False},
    "no other ranker": {"other": ""},
    "one persona": {"recruits": 0},
    "one query": {"queries": 1},
}


def pages_of(survey: Survey) -> dict[str, str]:
    pages = list(survey_pages(survey))
    found = dict(pages)
    assert len(found) == len(pages)
    return found


def rows_of(text: str) -> list[str]:
    """The rows of the first table that can be searched."""
    body = re.search(r'<table id="\w+" class="paged.*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert body is not None
    return re.findall(r"<tr.*?</tr>", body.group(1), re.DOTALL)


@pytest.fixture(params=SURVEYS, ids=list(SURVEYS), scope="module")
def survey(request: pytest.FixtureRequest) -> Survey:
    return make_survey(**SURVEYS[request.param])


@pytest.fixture(scope="module")
def pages(survey: Survey) -> dict[str, str]:
    return pages_of(survey)


def test_without_a_team_there_are_queries_alone() -> None:
    survey = make_survey(4, other="")
    none: dict[str, Any] = {"alpha": None, "tau": None, "disagreement": None}
    bare = replace(
        survey,
        title="DIRECT",
        totals=replace(survey.totals, locked=0, **none),
        queries=tuple(replace(each, personas=(), **none) for each in survey.queries),
        personas=(),
        recruits=None,
    )
    pages = pages_of(bare)
    assert [*pages] == FIRST
    for text in pages.values():
        nav = text.partition('<nav class="site"')[2].partition("</nav>")[0]
        assert re.findall(r'href="([^"]+)"', nav) == FIRST
        assert not re.search(
            "team|persona", Page(text).text.partition("Settings")[0], re.IGNORECASE
        )


def test_every_page_is_whole_and_stands_by_itself(pages: dict[str, str]) -> None:
    for text in pages.values():
        page = Page(text)
        tags = {tag for tag, _ in page.tags}
        assert {"main", "h1", "nav"} <= tags
        (policy,) = [found["content"] for _, found in page.tags if "http-equiv" in found]
        assert "unsafe" not in policy
        for tag in ("style", "script"):
            digest = hashlib.sha256("".join(page.raw[tag]).encode()).digest()
            assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
        assert not LOADING & {name for _, found in page.tags for name in found}
        assert not {name for _, found in page.tags for name in found if name.startswith("on")}
        assert page.attributes("style") == []
        ids = page.attributes("id")
        assert len(ids) == len(set(ids))
        for name in ("aria-labelledby", "for"):
            assert set(page.attributes(name)) <= set(ids)
        assert set(page.attributes("data-for")) <= set(ids)


def test_every_link_leads_to_a_page_that_there_is(survey: Survey, pages: dict[str, str]) -> None:
    parsed = {name: Page(text) for name, text in pages.items()}
    places = {query.place for query in survey.queries}
    orders = {key for page in parsed.values() for key in page.attributes("data-key")}
    for page in parsed.values():
        for target in page.attributes("href"):
            if query := QUERY.fullmatch(target):
                assert int(query.group(1)) in places
                continue
            name, _, fragment = target.partition("#")
            assert name in pages
            if fragment.startswith("sort="):
                assert fragment.removeprefix("sort=").lstrip("-") in orders
            elif fragment:
                assert fragment in parsed[name].attributes("id")


def test_headings_are_in_order_and_tables_have_captions_and_scopes(pages: dict[str, str]) -> None:
    for text in pages.values():
        page = Page(text)
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        tags = [tag for tag, _ in page.tags]
        assert tags.count("table") == tags.count("caption")
        assert all("scope" in found for tag, found in page.tags if tag == "th")


def test_a_page_of_the_navigation_knows_itself(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        nav = text.partition('<nav class="site"')[2].partition("</nav>")[0]
        assert re.findall(r'href="([^"]+)"', nav) == FIRST
        assert re.findall(r'href="([^"]+)" aria-current="page"', nav) == [re.sub(r"-\d+", "", name)]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_outside_stays_text(text: str) -> None:
    harmless = {name: Page(page) for name, page in pages_of(make_survey(texts=("plain",))).items()}
    for name, made in pages_of(make_survey(texts=(text,))).items():
        made.encode()  # writes
        page, plain = Page(made), harmless[name]
        assert {tag for tag, _ in page.tags} <= {tag for tag, _ in plain.tags} | {"bdi"}
        assert {each for _, found in page.tags for each in found} <= {
            each for _, found in plain.tags for each in found
        }
        assert page.attributes("href") == plain.attributes("href")
        assert page.attributes("id") == plain.attributes("id")
        assert page.raw["script"] == plain.raw["script"]
        assert page.raw["style"] == plain.raw["style"]
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", made)
        shown = " ".join(formats.printable(formats.contained(text)).split())
        if name == site.QUERIES and shown and len(text) < 30:
            assert shown in page.text


def test_a_title_carries_no_marks_of_direction() -> None:
    survey = replace(make_survey(2), title="\u202eevil\u2066 title", notes=("\u202eevil",))
    for text in pages_of(survey).values():
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", "".join(Page(text).raw["title"]))


@pytest.mark.parametrize("texts", [(), HOSTILE], ids=["plain", "hostile"])
def test_pages_stay_below_the_limit_and_no_query_is_lost(texts: tuple[str, ...]) -> None:
    survey = make_survey(12_000, texts=texts, most_personas=5_000)
    pages = pages_of(survey)
    assert all(len(text.encode()) < site.PAGE_BYTES for text in pages.values())
    parts = [text for name, text in pages.items() if name.startswith("queries")]
    assert len(parts) > 2
    assert [name for name in pages if name.startswith("queries")] == [
        site.numbered(site.QUERIES, part) for part in range(1, len(parts) + 1)
    ]
    links = [
        re.search(r"<th scope=row><a href=(\S+?)>", row) for part in parts for row in rows_of(part)
    ]
    assert [link.group(1) for link in links if link] == [
        site.query_page(query.place) for query in survey.queries if not query.error
    ]
    assert len(links) == 12_000
    for number, part in enumerate(parts, start=1):
        assert f"This is part {number} of {len(parts)}" in part
        others = re.findall(r'<a data-part href="([^"]+)"', part)
        assert len(others) == len(parts) - 1
        assert set(others) <= set(pages)
