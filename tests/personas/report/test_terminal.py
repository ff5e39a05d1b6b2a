"""The terminal view of a ranking: what it says."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from personas.errors import PersonasError
from personas.ranking.record import RankingRecord
from personas.report.terminal import find_hit, show_passage, show_ranking
from tests.personas.ranking.test_inspection import FOUR, hit, stored

CRITERIA = [("Efficacy", 60.0), ("Safety", 40.0)]


def member(name: str, **more: Any) -> dict[str, Any]:
    criteria = [
        {"name": each, "weight": weight, "description": "In full."} for each, weight in CRITERIA
    ]
    persona = {"name": name, "description": f"A {name}.", "reason": f"Why {name}."}
    return {"persona": persona, "rubric": {"criteria": criteria}, "origin": "recruited", **more}


def four(**more: Any) -> dict[str, Any]:
    """d2 17, d3 16, d1 15, d4 12 by a team, as `test_inspection` works them out."""
    team = {"members": [member(name) for name in ("Virologist", "Parent", "Editor")]}
    return stored(FOUR, team=team, **more)


def page(
    data: Mapping[str, Any],
    width: int = 110,
    *,
    grades: Mapping[str, int] | None = None,
    **options: Any,
) -> str:
    """What is printed, escape sequences and all."""
    passage = options.pop("passage", None)
    file = io.StringIO()
    console = Console(file=file, width=width, **options)
    inspection = RankingRecord.of(data).beside(grades=grades)
    if passage is None:
        show_ranking(console, inspection, inspection.hits, 20)
    else:
        show_passage(console, inspection, find_hit(inspection, passage))
    return file.getvalue()


def lines(text: str) -> list[str]:
    """Its lines without blanks at either end, and with single blanks inside."""
    return [" ".join(line.split()) for line in text.splitlines()]


def rows(text: str) -> list[list[str]]:
    """The words of the rows of the heat map."""
    return [line.split() for line in text.splitlines() if re.match(r" *\d+ +d\d", line)]


def test_query_and_team() -> None:
    found = lines(page(four(), 110))
    assert found[:2] == ["best masks", "query q1, 4 passages, ranked by mcranker, ensemble sum"]
    assert found[2:4] == ["A Virologist: Why Virologist.", "Efficacy 60%, Safety 40%"]
    assert "locked" not in "".join(found)


def test_a_locked_team_and_what_a_person_wrote() -> None:
    human = member("Nurse", origin="human", rubric={"criteria": [{"name": "Comfort"}]})
    bare = member("Editor", rubric=None)
    team = {"members": [human, bare, member("Virologist")], "name": "Masks", "locked": True}
    found = lines(page(stored([], team=team), 60))
    assert "team Masks, locked: used as it was" in found
    assert "A Nurse, added by hand: Why Nurse." in found
    assert "judges without written criteria" in found


def test_every_number_of_the_ranking_is_there() -> None:
    text = page(four(), 80, grades={"d3": 2, "d1": 0, "gone": 1})
    assert "rank id score A B C from ± grade passage" in lines(text)
    assert [row[: row.index("Title")] for row in rows(text)] == [
        # d2: the deviation of 9, 2, 6 is the root of 222/27 = 2.87, and not judged
        ["1", "d2", "17", "9", "2", "6", "2", "▲1", "2.87"],
        # d3: mean 16/3, squares (13/3)² + (8/3)² + (5/3)² = 258/9, root of 258/27 = 3.09
        ["2", "d3", "16", "1", "8", "7", "3", "▲1", "3.09", "2"],
        ["3", "d1", "15", "5", "5", "5", "1", "▼2", "0.00", "0"],
        ["4", "d4", "12", "4", "(4)", "4", "4", "=", "0.00"],
    ]


def test_no_passages_and_no_team() -> None:
    empty = page(stored([]), 80)
    assert "there was nothing to rank" in empty
    assert "No personas were asked" in empty
    assert "Agreement" not in empty


def test_one_passage_in_detail() -> None:
    hits = [dict(each) for each in FOUR]
    hits[1] |= {"criteria": {"Virologist": {"Efficacy": 1.0, "Safety": 2.0}}, "title": "About d3"}
    found = lines(page({**four(), "hits": hits}, 80, passage="d3", grades={"d3": 2, "d1": 0}))
    assert found[3:6] == ["Rank 2 of 4: d3", "About d3", "Text 3."]
    assert "first stage rank 3; moved ▲1" in found
    assert "judgement relevant (2)" in found
    start = found.index("Scores, 0 to 10")
    assert found[start + 1 :] == [
        "1 ━ Virologist rank 1 without: sank it 1",
        "1 Efficacy",
        "2 Safety",
        "8 ━━━━━━━━ Parent rank 3 without: raised it 1",
        "7 ━━━━━━━ Editor rank 3 without: raised it 1",
    ]


def test_a_missing_score_in_detail() -> None:
    found = lines(page(four(), 80, passage=4))
    assert "missing Parent rank 4 without" in found
    assert "missing Parent (4 is imputed): no number in the answer" in found


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        # 8 + 7 and their mean are 22.5.
        ({}, "(7.5)"),
        ({"missing_policy": "lowest"}, "(0)"),
        ({"missing_policy": "constant", "missing_constant": 5.0}, "(5)"),
        ({"ensemble": "of another package"}, "-"),
        # The assessor was shown that there is none.
        ({"ensemble": "assessor"}, "-"),
    ],
)
def test_what_stood_in_for_a_missing_score(config: dict[str, object], shown: str) -> None:
    text = page(stored([hit(1, 1, [8.0, 7.0, None])], config={"scale": 10, **config}), 110)
    assert rows(text)[0][3:6] == ["8", "7", shown]


@pytest.mark.parametrize(("key", "doc_id"), [(1, "3"), ("3", "3"), ("2", "b"), (3, "1")])
def test_ids_come_before_ranks(key: int | str, doc_id: str) -> None:
    ids = ["3", "b", "1"]
    hits = [hit(place, place, [5.0, 5.0], doc_id=each) for place, each in enumerate(ids, start=1)]
    assert find_hit(RankingRecord.of(stored(hits)), key).doc_id == doc_id


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (0, "no passage 0; give an id, or a rank from 1 to 4"),
        (5, "no passage 5; give an id, or a rank from 1 to 4"),
        ("d44", "no passage 'd44'; give an id, or a rank from 1 to 4; did you mean 'd4'?"),
        ("²", "no passage '²'; give an id, or a rank from 1 to 4"),
    ],
)
def test_a_passage_that_is_not_there(key: int | str, message: str) -> None:
    with pytest.raises(PersonasError) as caught:
        find_hit(RankingRecord.of(four()), key)
    assert str(caught.value) == message
    with pytest.raises(PersonasError, match="no passages were ranked"):
        find_hit(RankingRecord.of(stored([])), key)
