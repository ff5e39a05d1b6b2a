"""The page of one query within a report: links, and what bounds its size."""

from __future__ import annotations

import re
from typing import Any

import pytest

from personas.ranking.record import RankingRecord
from personas.report.inspection import inspection_page
from personas.report.page import PageContext
from tests.support.inspection_report import Page, data_of

NOTHING = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "cost": 0.0}


def large(*, passages: int, personas: int, text: str, name: str = "Persona ") -> dict[str, Any]:
    """A ranking of that size, with the text wherever much of it can stand."""
    names = [f"{name}{number}" for number in range(personas)]
    members = [
        {
            "persona": {"name": each, "description": text[:20_000], "reason": text[:20_000]},
            "origin": "recruited",
        }
        for each in names
    ]
    hits = []
    for place in range(passages):
        scores = {
            each: None if (place + number) % 7 == 0 else float((place * 7 + number * 3) % 11)
            for number, each in enumerate(names)
        }
        hits.append(
            {
                "rank": place + 1,
                "doc_id": f"d{place}",
                "score": float(passages - place),
                "scores": scores,
                "missing": {each: text[:3000] for each, score in scores.items() if score is None},
                "criteria": {},
                "first_stage_rank": passages - place,
                "first_stage_score": None,
                "title": text[:300],
                "text": text,
            }
        )
    rows = [{**NOTHING, "stage": "score", "persona": each, "model": text[:500]} for each in names]
    return {
        "version": 1,
        "query": {"text": text[:5000], "id": "q"},
        "ranker": "mcranker",
        "team": {"members": members, "description": text[:20_000]},
        "personas": names,
        "hits": hits,
        "config": {"scale": 10, "ensemble": "sum", "note": text[:5000]},
        "models": {"scoring": text[:500]},
        "prompt_hashes": {},
        "usage": {**NOTHING, "by_stage": rows},
        "seconds": {},
        "absolute": True,
    }


def page_of(data: dict[str, Any], *, title: str = "Run", place: int = 12) -> str:
    return inspection_page(RankingRecord.of(data), PageContext(title, place, 300))


def navigation(page: Page, name: str) -> dict[str, str]:
    """Address -> relation of the links in the navigation of that class or label."""
    found, inside = {}, False
    for tag, attributes in page.tags:
        if tag == "nav":
            inside = name in (attributes.get("class"), attributes.get("aria-label"))
        elif tag == "a" and inside:
            found[attributes["href"]] = attributes.get("rel", "")
        elif tag in ("main", "p", "h1"):
            inside = False
    return found


def test_a_page_leads_home_and_to_its_neighbours() -> None:
    page = Page(page_of(data_of(), title="A <b>run</b>"))
    assert navigation(page, "site") == {
        "../index.html": "",
        "../index.html#queries": "",
        "../query/000011.html": "prev",
        "../query/000013.html": "next",
    }
    assert "A <b>run</b>" in page.text
    assert "Query 12 of 300" in page.text
    first = inspection_page(RankingRecord.of(data_of()), PageContext("Run", 1, 1))
    assert set(navigation(Page(first), "site")) == {"../index.html", "../index.html#queries"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("word " * 5_000, "Persona "),
        ("<&\"'" * 250_000, "<" * 180),
        ("\x00\ud800\u2067" * 100_000, "p"),
    ],
    ids=["words", "markup", "controls"],
)
def test_a_page_has_every_passage_and_a_bounded_size(text: str, name: str) -> None:
    data = large(passages=150, personas=3, text=text, name=name)
    for part in ("team", "models"):  # a team refuses halves of surrogate pairs by itself
        data[part] = _without_surrogates(data[part])
    page = page_of(data)
    ranks = re.findall(r'id="passage-(\d+)"', page)
    assert ranks == [str(rank) for rank in range(1, 151)]
    assert len(page.encode()) < 4_000_000  # 400,000 characters of texts, six bytes each, and rows


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(each) for key, each in value.items()}
    return [_without_surrogates(each) for each in value] if isinstance(value, list) else value


def test_long_texts_share_what_short_ones_leave() -> None:
    data = large(passages=50, personas=1, text="x" * 30_000)
    for hit in data["hits"][:10]:
        hit["text"] = "short"
    # 400,000 less 10 of 5 characters are 9,998 for each of the other 40.
    page = page_of(data)
    assert "x" * 9_998 in page
    assert "x" * 9_999 not in page
