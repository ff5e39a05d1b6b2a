"""Pages with judgements and with another ranker's places, and what they say of agreement."""

from __future__ import annotations

import re
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("grades", "words"),
    [
        ({}, "There are no judgements for this query."),
        ({"a": 0}, "No passage is judged relevant to this query, so nDCG@10 is not defined."),
        ({"a": 1}, "The one passage judged relevant is among these 4."),
        ({"x": 1}, "The one passage judged relevant was not found by the first stage."),
        ({"a": 1, "b": 1}, "All 2 passages judged relevant are among these 4."),
        ({"x": 1, "y": 1}, "None of the 2 passages judged relevant was found by the first"),
        (
            {"a": 1, "b": 1, "x": 1},
            "Of 3 passages judged relevant, 2 are among these 4; 1 was not found by the first",
        ),
    ],
)
def test_what_was_judged_and_not_found_is_said(grades: dict[str, int], words: str) -> None:
    page = seen(data_of(), grades=grades)
    assert words in page.text
    assert ("nDCG@10 is not defined" in page.text) == (grades == {"a": 0})
    assert ("first stage 0" in page.text or "first stage 1" in page.text) == (
        max(grades.values(), default=0) > 0
    )
    assert "relevant (" not in page.text  # no grade above 1


def test_the_other_rankers_rank_and_score_are_columns() -> None:
    places = {"a": OtherPlace(3, 7.5), "b": OtherPlace(1, None)}
    page = seen(data_of(), other=OtherRanking("DIRECT(0,10)", 10.0, places))
    assert row_of(page, "a")[-1] == "3 7.5"
    assert row_of(page, "b")[-1] == "1 no score"
    assert row_of(page, "c")[-1] == "not ranked"
    assert page.rows[0][-1] == "DIRECT(0,10)"
    assert "rank 3, score 7.5" in page.text
    assert "rank 1, no score" in page.text


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


def test_the_agreement_of_the_personas_is_told_in_words_and_numbers() -> None:
    # P1 1 2 3, P2 1 2 3, P3 3 2 1: P1 and P2 put the passages in the same order, P3 reverses it.
    # Alpha: within the passages the squared differences are 0 4 4, 0 0 0 and 0 4 4, a mean of
    # 16/9 over 9 pairs. Of all 36 pairs of scores (1 1 1 2 2 2 3 3 3) 9 differ by 2 and 18 by 1,
    # a mean of (9·4 + 18·1) / 36 = 3/2. Alpha is 1 - (16/9) / (3/2) = -5/27 = -0.185.
    page = seen(with_scores([[1, 1, 3], [2, 2, 2], [3, 3, 1]]))
    assert "the personas rather disagree: Krippendorff" in page.text
    assert f"s alpha is {MINUS}0.19." in page.text
    rows = [row for row in page.rows if len(row) == 3 and " and " in row[0]]
    assert rows == [
        ["P1 and P2", "1.00", "agree well"],
        ["P1 and P3", f"{MINUS}1.00", "rather disagree"],
        ["P2 and P3", f"{MINUS}1.00", "rather disagree"],
    ]


def test_agreement_that_is_not_defined_is_said_to_be() -> None:
    page = seen(with_scores([[2, 2], [2, 2]]))
    assert "alpha is not defined for this query" in page.text
    assert ["P1 and P2", "\N{EN DASH}", "not defined"] in page.rows


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
    hints = [found["class"] for tag, found in page.tags if tag == "small"]
    assert hints == ["up", "down", "up", "up", "down", "down", "down"]


def test_colours_span_the_scale_and_a_narrow_range_is_said() -> None:
    def levels(data: dict[str, Any]) -> list[str]:
        return [
            found["class"].removeprefix("cell ")
            for tag, found in seen(data).tags
            if tag == "td" and found.get("class", "").startswith("cell h") and "data-v" in found
        ]

    # Of a scale from 0 to 10 the scores 4 and 5 are the steps 4 and 5, whatever else there is.
    assert levels(with_scores([[4, 5], [7, 4]])) == ["h4", "h5", "h7", "h4"]
    assert levels(with_scores([[4, 5], [10, 0]])) == ["h4", "h5", "h10", "h0"]
    narrow, wide = (seen(with_scores([[4, 5], [high, 4]])) for high in (7, 8))
    assert "Scores lie close together, from 4 to 7 on a scale of 0 to 10." in narrow.text
    assert "close together" not in wide.text
    (table,) = [found for tag, found in narrow.tags if found.get("id") == "heat"]
    ends = [float(table[f"data-{name}"]) for name in ("low", "high", "bottom", "top")]
    assert ends == [4, 7, 0, 10]
