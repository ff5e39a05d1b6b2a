"""The page of one ranked query: everything is on it, and nothing gets out of it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from mcranker import __version__
from mcranker.errors import InputError
from personas.origins import sealed
from personas.report import render_inspection
from personas.report.page import ReportFooter
from personas.schema import Member
from tests.support.inspection_report import Page, data_of, ranked

LOADING = {"src", "srcset", "action", "formaction", "data", "poster", "background", "ping"}


def seen(data: dict[str, Any], **more: Any) -> Page:
    return Page(render_inspection(data, **more))


def assert_guarded(page: Page) -> None:
    """One policy, which allows the page's own style and script by their digests and no more."""
    (policy,) = (
        found["content"]
        for tag, found in page.tags
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("style", "script"):
        digest = hashlib.sha256("".join(page.raw[tag]).encode()).digest()
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
        assert [name for name, _ in page.tags].count(tag) == 1


def test_the_page_stands_by_itself() -> None:
    text = render_inspection(data_of())
    page = Page(text)
    assert_guarded(page)
    assert all(target.startswith("#") for target in page.attributes("href"))
    assert not LOADING & {name for _, found in page.tags for name in found}
    assert not {name for _, found in page.tags for name in found if name.startswith("on")}
    assert page.attributes("style") == []
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_every_link_leads_somewhere_and_every_id_is_there_once() -> None:
    page = Page(render_inspection(data_of()))
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    places = [target for target in page.attributes("href") if not target.startswith("data:")]
    assert {target.removeprefix("#") for target in places} <= set(ids)
    labels = [found["aria-labelledby"] for _, found in page.tags if "aria-labelledby" in found]
    assert set(labels) <= set(ids)


def test_every_score_is_on_the_page() -> None:
    ranking = ranked()
    page = Page(render_inspection(ranking.to_dict()))
    # A star follows a sum with an imputed score, and the relevance stands below.
    found = (re.fullmatch(r"(\d+(\.\d+)?)\*?( 0\.\d\d)?", cell) for cell in page.cells)
    numbers = {float(each[1]) for each in found if each}
    for hit in ranking:
        assert hit.score is not None
        assert {each for each in hit.scores.values() if each is not None} <= numbers
        assert hit.score in numbers
        assert hit.passage.text in page.text
        assert hit.passage.title in page.text
        assert hit.doc_id in page.text
    # The mean of the two other scores, and why.
    lost = next(cell for cell in page.cells if " is imputed; missing" in cell)
    (hit,) = (each for each in ranking if each.missing)
    others = [each for each in hit.scores.values() if each is not None]
    assert lost.startswith(f"({sum(others) / 2:.4g})")
    assert len(ranking.missing) == 1


def edited(change: str) -> dict[str, Any]:
    """A ranking whose second member was recruited by a model, and then changed by a person."""
    data = data_of()
    made = sealed(Member.model_validate(data["team"]["members"][1])).model_dump(mode="json")
    if change == "criterion":
        made["rubric"]["criteria"][1]["name"] = "Proof"
    elif change == "weights":
        made["rubric"]["criteria"][0]["weight"] = 20
        made["rubric"]["criteria"][1]["weight"] = 80
    elif change == "description":
        made["persona"]["description"] = "Somebody else."
    data["team"]["members"][1] = made
    return data


@pytest.mark.parametrize("change", ["", "criterion", "weights", "description"])
def test_the_page_says_what_a_person_edited(change: str) -> None:
    assert seen(edited(change)).text.count("Edited by hand") == bool(change)


def test_a_missing_score_is_marked_and_explained() -> None:
    text = render_inspection(data_of())
    page = Page(text)
    titles = [each for each in page.attributes("title") if "is imputed; missing:" in each]
    assert titles
    assert all("not</b> say" in each for each in titles)
    assert "No score by Virologist. " in page.text
    assert " is imputed." in page.text
    assert "1 score is missing" in page.text
    assert "<b>not" not in text


def test_a_ranking_without_passages() -> None:
    page = Page(render_inspection(ranked(docs=[]).to_dict()))
    assert "No passages were given" in page.text
    assert "No model was called." in page.text
    assert "table" not in {tag for tag, _ in page.tags}


def test_a_ranking_writes_its_page(tmp_path: Path) -> None:
    ranking, footer = ranked(), ReportFooter(__version__)
    for grades in (None, {"a": 2}):
        ranking.to_html(tmp_path / "why.html", grades=grades)
        written = (tmp_path / "why.html").read_bytes().decode()
        assert written == render_inspection(ranking.to_dict(), grades=grades, footer=footer)
    assert f"by MCRanker {__version__}</footer>" in written


@pytest.mark.parametrize(
    ("grades", "message"),
    [
        ([("a", 1)], "grades is a list; give a mapping"),
        ({7: 1}, "document id 7 is a int; give ids as text"),
        ({"a": "1"}, "the grade of 'a' is '1'; give a whole number"),
        ({"a": True}, "the grade of 'a' is True"),
        ({"a": 0.5}, "the grade of 'a' is 0.5"),
    ],
)
def test_judgements_that_are_none_are_refused(tmp_path: Path, grades: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ranked().to_html(tmp_path / "why.html", grades=grades)
    assert list(tmp_path.iterdir()) == []
