"""The pages of one query within a report: links, and parts where one page would be too large."""

from __future__ import annotations

import re
from itertools import chain, pairwise
from typing import Any

import pytest

from personas.ranking.record import RankingRecord
from personas.report.inspection import inspection_pages
from personas.report.page import PageContext
from tests.support.inspection_report import Page, data_of

NOTHING = {"calls": 0, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "cost": 0.0}


def large(
    *, passages: int, personas: int, text: str, name: str = "Persona ", criteria: int = 0
) -> dict[str, Any]:
    """A ranking of that size, with the text wherever much of it can stand."""
    names = [f"{name}{number}" for number in range(personas)]
    rubric = [
        {"name": f"{name}criterion {number}", "description": text[:20_000], "weight": 10}
        for number in range(criteria)
    ]
    members = [
        {
            "persona": {"name": each, "description": text[:20_000], "reason": text[:20_000]},
            "rubric": {"criteria": rubric, "reason": text[:20_000]} if rubric else None,
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
                "criteria": {
                    each: {f"{name}criterion {number}": 5.0 for number in range(criteria)}
                    for each, score in scores.items()
                    if score is not None and criteria
                },
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


def pages_of(data: dict[str, Any], *, title: str = "Run", place: int = 12) -> list[str]:
    return inspection_pages(RankingRecord.of(data), PageContext(title, place, 300))


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
    (made,) = pages_of(data_of(), title="A <b>run</b>")
    page = Page(made)
    assert navigation(page, "site") == {
        "../index.html": "",
        "../index.html#queries": "",
        "../query/000011.html": "prev",
        "../query/000013.html": "next",
    }
    assert "A <b>run</b>" in page.text
    assert "Query 12 of 300" in page.text
    assert "Part 1" not in page.text
    (first,) = inspection_pages(RankingRecord.of(data_of()), PageContext("Run", 1, 1))
    assert set(navigation(Page(first), "site")) == {"../index.html", "../index.html#queries"}


@pytest.mark.parametrize(
    ("text", "name", "passages", "personas", "criteria", "rows"),
    [
        ("word " * 5_000, "Persona ", 300, 3, 0, 100),
        # 600 columns of personas on a page: 30 passages with 20 of them.
        ("Some words. ", "Persona ", 1_000, 20, 4, 30),
        ("<&\"'" * 250_000, "<&\"'" * 40, 60, 20, 4, 30),
        ("\x00\ud800\u2067" * 100_000, "\x01" * 180, 60, 3, 0, 100),
        # With very many there are ten still.
        ("<&\"'" * 5_000, "<" * 180, 15, 100, 20, 10),
    ],
    ids=["words", "most", "markup", "controls", "team"],
)
def test_a_page_has_so_many_passages(
    text: str, name: str, passages: int, personas: int, criteria: int, rows: int
) -> None:
    data = large(passages=passages, personas=personas, text=text, name=name, criteria=criteria)
    for part in ("team", "models"):  # a team refuses halves of surrogate pairs by itself
        data[part] = _without_surrogates(data[part])
    pages = pages_of(data)
    ranks = [re.findall(r'id="passage-(\d+)"', page) for page in pages]
    assert [len(each) for each in ranks] == [
        min(rows, passages - first) for first in range(0, passages, rows)
    ]
    assert list(chain(*ranks)) == [str(rank) for rank in range(1, passages + 1)]
    # Text of 400,000 characters a page at most, and of hostile ones six bytes each; a team of a
    # hundred personas takes as much again.
    largest = max(len(page.encode()) for page in pages)
    assert largest < (8_000_000 if "<" in text or "\0" in text else 1_000_000)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(each) for key, each in value.items()}
    return [_without_surrogates(each) for each in value] if isinstance(value, list) else value


def test_parts_lead_to_each_other_and_to_the_team() -> None:
    data = large(passages=240, personas=3, text="word " * 5_000)
    made = pages_of(data)
    names = ["000012.html", *(f"000012-{part}.html" for part in range(2, len(made) + 1))]
    pages = dict(zip(names, map(Page, made), strict=True))
    assert len(pages) > 2
    for name, page in pages.items():
        assert set(navigation(page, "parts")) == set(names) - {name}
        assert f"Part {names.index(name) + 1} of {len(names)}" in page.text
        for target in page.attributes("href"):
            if target.startswith("../"):
                continue
            file, _, mark = target.partition("#")
            assert not mark or mark in pages[file or name].attributes("id"), (name, target)
        assert ("team" in page.attributes("id")) == (name == names[0])
        assert len(page.attributes("id")) == len(set(page.attributes("id")))
    first = pages[names[0]]
    # The passages stand in reverse: rank 1 climbed most from 240, and rank 240 fell most.
    assert f"{names[-1]}#passage-240" in first.attributes("href")
    ranges = [
        (int(found["data-first"]), int(found["data-last"]))
        for _, found in first.tags
        if "data-first" in found and "data-last" in found
    ]
    assert ranges[-1][1] == 240
    assert all(one[1] + 1 == other[0] for one, other in pairwise(ranges))


def test_long_texts_share_what_short_ones_leave() -> None:
    data = large(passages=50, personas=1, text="x" * 30_000)
    for hit in data["hits"][:10]:
        hit["text"] = "short"
    # 400,000 less 10 of 5 characters are 9,998 for each of the other 40.
    (page,) = pages_of(data)
    assert "x" * 9_998 in page
    assert "x" * 9_999 not in page
