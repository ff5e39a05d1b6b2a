"""Pages with judgements and with another ranker's places, and what they say of agreement."""

from __future__ import annotations

import re
from typing import Any

from personas.ranking.record import OtherPlace, OtherRanking
from personas.report import render_inspection
from tests.support.inspection_report import Page, data_of

MINUS = "\N{MINUS SIGN}"


def seen(data: dict[str, Any], **more: Any) -> Page:
    return Page(render_inspection(data, **more))


def rows_of(page: Page) -> list[list[str]]:
    """The rows of the table, best first, a text a cell."""
    return [row for row in page.rows if row and re.match(r"\d+[^\n]*\nd\d", row[0])]


def row_of(page: Page, doc_id: str) -> list[str]:
    """The passage's row of the heat map, a text a cell."""
    return next(row for row in page.rows if row and row[0].split("\n")[1:2] == [doc_id])


def test_judgements_stand_in_the_heat_map_and_in_the_details() -> None:
    page = seen(data_of(), grades={"a": 2, "b": 0, "c": -1, "gone": 1, "lost": 2})
    # Columns: passage, final score, three personas, disagreement, first stage, judgement.
    judged = {doc_id: row_of(page, doc_id)[7] for doc_id in "abcd"}
    assert judged == {"a": "✓\N{THIN SPACE}2", "b": "✗", "c": "✗", "d": ""}
    # In words among the facts.
    assert page.text.count("relevant (2)") == 1
    assert page.text.count("not relevant") == 2 + 1  # and in the legend
    assert page.text.count("not judged") == 1 + 1  # and in the legend
    assert (
        "Of 3 passages judged relevant, 1 is among these 4; 2 were not found by the first stage."
    ) in page.text


def test_ndcg_of_the_ranking_the_first_stage_and_the_other_ranker() -> None:
    data = data_of()
    order = [hit["doc_id"] for hit in sorted(data["hits"], key=lambda hit: int(hit["rank"]))]
    # Gain 2 at rank 2 and 1 at rank 3, where the best order has them at 1 and 2. With the
    # discounts log2(2) = 1, log2(3) = 1.584963 and log2(4) = 2 that is
    # 2/1.584963 + 1/2 = 1.761860 of 2/1 + 1/1.584963 = 2.630930, or 0.669672.
    grades = {order[1]: 2, order[2]: 1}
    # The other ranker has them at 3 and 1: 2/2 + 1/1 = 2 of the same, or 0.760187.
    places = {order[2]: OtherPlace(1, 7.0), "x": OtherPlace(2, 6.0), order[1]: OtherPlace(3, None)}
    page = seen(data, grades=grades, other=OtherRanking("DIRECT(0,10)", 10.0, places))
    # The first stage has them at 1 and 4: 2/1 + 1/log2(5) = 2 + 1/2.321928 = 2.430677, or 0.923885.
    assert order[1:3] == ["a", "d"]
    assert "0.670 first stage 0.924" in page.text
    assert "DIRECT(0,10) 0.760" in page.text


def with_scores(scores: list[list[float | None]]) -> dict[str, Any]:
    """A ranking by as many personas as a passage has scores."""
    data = data_of()
    names = [f"P{number}" for number in range(1, len(scores[0]) + 1)]
    data.update(team=None, personas=names)
    data["hits"] = [
        {
            **data["hits"][0],
            "rank": place,
            "first_stage_rank": place,
            "doc_id": f"d{place}",
            "score": 0.0,
            "scores": dict(zip(names, row, strict=True)),
            "missing": {},
            "criteria": {},
        }
        for place, row in enumerate(scores, start=1)
    ]
    return data


def test_who_raised_and_who_sank_a_passage_is_a_sentence() -> None:
    # Sums: d1 9 + 0 + 3 = 12, d2 0 + 6 + 3 = 9, d3 4 + 4 + 0 = 8, so d1 d2 d3.
    # Without P1: 3, 9, 4 -> d2 d3 d1; without P2: 12, 3, 4 -> d1 d3 d2;
    # without P3: 9, 6, 8 -> d1 d3 d2.
    page = seen(with_scores([[9, 0, 3], [0, 6, 3], [4, 4, 0]]))
    assert "Without P1 it would be at rank 3: this persona raised it by 2." in page.text
    assert (
        "Without P2 or without P3 it would be at rank 3: each of them raised it by 1. "
        "Without P1 it would be at rank 1: this persona sank it by 1."
    ) in page.text
    # Arrows are the style's: score, and by how many ranks, of those who moved it most.
    assert [row[2:5] for row in rows_of(page)] == [
        ["92", "0", "3"],
        ["01", "61", "31"],
        ["41", "41", "01"],
    ]
    hints = [found["class"] for tag, found in page.tags if tag == "small" and found]
    assert hints == ["up", "down", "up", "up", "down", "down", "down"]
