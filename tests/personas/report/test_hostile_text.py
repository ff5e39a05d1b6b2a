"""Text from outside is shown, and does nothing else: in a page by itself and in a report's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord
from personas.ranking.suspicions import Suspicion, SuspicionDetector
from personas.report import formats, render_inspection
from personas.report.inspection import TEXT_LIMIT, inspection_page
from personas.report.page import PageContext
from tests.support.inspection_report import Page, data_of, infested
from tests.support.survey_support import HOSTILE as TEXTS

HOSTILE = (*TEXTS, "<&\"'" * 20_000, "\u2067<b>" * 5_000)


BESIDES = {("h1", ("dir", "class")), ("h3", ("dir",)), ("p", ("class",)), ("span", ("class",))}


def made_of(text: str) -> str:
    """A report's page with the text wherever text from outside can stand."""
    data = infested(text)
    grades = {hit["doc_id"]: place for place, hit in enumerate(data["hits"][:3])}
    places = {hit["doc_id"]: OtherPlace(place + 1, 1.0) for place, hit in enumerate(data["hits"])}
    with pytest.MonkeyPatch.context() as patch:
        # Else some texts would be flagged and others not.
        patch.setattr(SuspicionDetector, "suspicions", lambda *_: (Suspicion("keywords", text),))
        inspection = RankingRecord.of(data).beside(
            grades={**grades, text: 1}, other=OtherRanking(text, None, places)
        )
        return inspection_page(inspection, PageContext(text, 2, 3))


def shape(page: Page) -> list[tuple[str, tuple[str, ...]]]:
    """Every tag with the names of its attributes, but for ``bdi`` around what is no ASCII.

    A plain ``b`` is a word of the query within a passage.
    """
    return [
        (tag, tuple(found))
        for tag, found in page.tags
        if tag != "bdi" and (tag, found) != ("b", {})
    ]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return data_of()


@pytest.fixture(scope="module")
def harmless() -> Page:
    return Page(made_of("harmless"))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_outside_stays_text(text: str, harmless: Page) -> None:
    made = made_of(text)
    made.encode()  # writes
    page = Page(made)
    # No text adds a tag or an attribute. Long ones bring our own notes of what is left out.
    if len(text) < 100 and text.strip():
        assert shape(page) == shape(harmless)
    else:
        assert set(shape(page)) <= set(shape(harmless)) | BESIDES
    leads = (
        r"(\.\./)?[a-z]+\.html(#queries)?|\.\./query/\d{6}\.html|#[a-z]+(-\d+)?"
        r"|data:text/yaml;base64,[\w+/=]+"
    )
    assert all(re.fullmatch(leads, target) for target in page.attributes("href"))
    classes = {name for found in page.attributes("class") for name in found.split()}
    assert classes <= {name for found in harmless.attributes("class") for name in found.split()} | {
        "long",
        "more",
        "none",
        "note",
    }
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)?(-\d+)?", each) for each in page.attributes("id"))
    assert page.raw["script"] == harmless.raw["script"]
    assert page.raw["style"] == harmless.raw["style"]
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", made)
    shown = formats.printable(formats.contained(text))
    if len(text) < 100 and shown.strip():
        assert shown in page.text


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_gives_a_well_formed_page(found: dict[str, Any], text: str) -> None:
    data = {**found, "query": {"text": text, "id": text}}
    data["hits"] = [{**hit, "title": text, "text": text} for hit in found["hits"]]
    Page(render_inspection(data)).text.encode()


def test_a_long_passage_is_cut_with_a_note() -> None:
    data = data_of()
    data["hits"][0]["text"] = "x" * 1_000_000
    made = render_inspection(data)
    assert "x" * TEXT_LIMIT in made
    assert "x" * (TEXT_LIMIT + 1) not in made
    assert f"Cut here: {1_000_000 - TEXT_LIMIT:,} more characters" in made
    assert len(made) < 200_000
