"""The terminal view of a ranking: what it says."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from personas.errors import PersonasError
from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord
from personas.report.terminal import find_hit, show_inspection
from tests.personas.ranking.test_inspection import FOUR, hit, stored

OTHER = OtherRanking("DIRECT(0,10)", 10.0, {"d1": OtherPlace(1, 8.0), "d3": OtherPlace(2, None)})
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
    other: OtherRanking | None = None,
    **options: Any,
) -> str:
    """What is printed, escape sequences and all."""
    wanted = {name: options.pop(name) for name in ("top", "passage") if name in options}
    file = io.StringIO()
    console = Console(file=file, width=width, **options)
    inspection = RankingRecord.of(data).beside(grades=grades, other=other)
    show_inspection(console, inspection, **wanted)
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
    start = found.index("A Virologist recruited by the model")
    assert found[start + 1 : start + 3] == ["A Virologist.", "Why: Why Virologist."]
    # 60% of a bar of 20 columns are 12 of them.
    assert found[start + 3] == f"60% {'━' * 12} Efficacy In full."
    assert found[start + 4] == f"40% {'━' * 8} Safety In full."
    assert "locked" not in "".join(found)


def test_a_locked_team_and_what_a_person_wrote() -> None:
    human = member("Nurse", origin="human", rubric={"criteria": [{"name": "Comfort"}]})
    bare = member("Editor", rubric=None)
    team = {"members": [human, bare, member("Virologist")], "name": "Masks", "locked": True}
    found = lines(page(stored([], team=team), 60))
    assert "Team Masks locked: used as it was" in found
    assert "A Nurse added by a person" in found
    assert "Judges without written criteria." in found


def test_every_number_of_the_ranking_is_there() -> None:
    text = page(four(), 80, grades={"d3": 2, "d1": 0, "gone": 1}, other=OTHER)
    assert "rank id score A B C from ± grade DIRECT passage" in lines(text)
    assert [row[: row.index("Title")] for row in rows(text)] == [
        # d2: the deviation of 9, 2, 6 is the root of 222/27 = 2.87; neither judged nor in DIRECT
        ["1", "d2", "17", "9", "2", "6", "2", "▲1", "2.87"],
        # d3: mean 16/3, squares (13/3)² + (8/3)² + (5/3)² = 258/9, root of 258/27 = 3.09
        ["2", "d3", "16", "1", "8", "7", "3", "▲1", "3.09", "2", "2"],
        ["3", "d1", "15", "5", "5", "5", "1", "▼2", "0.00", "0", "1"],
        ["4", "d4", "12", "4", "(4)", "4", "4", "=", "0.00"],
    ]


def test_what_stands_out() -> None:
    found = lines(page(four(), 110))
    assert "climbed most ▲1, rank 1 from 2: d2 Title 2 Text 2." in found
    assert "fell most ▼2, rank 3 from 1: d1 Title 1 Text 1." in found
    # d3's scores 1, 8, 7 deviate most; they are 7 apart.
    assert "most disputed 7 apart, rank 2 from 3: d3 Title 3 Text 3." in found
    start = found.index("1 score is missing")
    assert found[start + 1] == "rank 4 (d4), Parent: no number in the answer"


def test_agreement() -> None:
    found = lines(page(four(), 110))
    # In the order d2, d3, d1, d4: Virologist 9 1 5 4, Parent 2 8 5 -, Editor 6 7 5 4.
    #   A-B, three passages: 9>1 2<8, 9>5 2<5, 1<5 8>5: all three discordant, -1.
    #   A-C, six pairs: d2-d3 dis, d2-d1 con, d2-d4 con, d3-d1 dis, d3-d4 dis, d1-d4 con: 0.
    #   B-C, three: d2-d3 con, d2-d1 2<5 6>5 dis, d3-d1 con: 1/3.   Mean: (-1 + 0 + 1/3) / 3.
    assert "Kendall's tau-b -0.22, mean of A-B -1.00, A-C 0.00, B-C 0.33" in found
    # Alpha: within the passages m·Σv² - (Σv)² over m - 1: d2 (3·121 - 289)/2 = 37,
    #   d3 (3·114 - 256)/2 = 43, d1 0, d4 0; 80 in all. All 11 scores: Σv² = 121 + 114 + 75 + 32
    #   = 342, Σv = 17 + 16 + 15 + 8 = 56, 11·342 - 56² = 626.  1 - 10·80/626 = -0.28.
    assert any(line.startswith("Krippendorff's alpha -0.28: the personas ") for line in found)


def test_judgements() -> None:
    found = lines(page(four(), 110, grades={"d3": 2, "gone": 1}, other=OTHER))
    start = found.index("Judgements")
    assert found[start + 1] == "2 relevant passages, 1 of them here, at rank 2"
    assert found[start + 2] == "not found by the first stage: gone"
    # Best order: 2/log2(2) + 1/log2(3) = 2.631. d3 second: 2/log2(3) = 1.262, of that 0.480;
    # third in the first stage: 2/log2(4) = 1, 0.380; second by DIRECT.
    assert found[start + 3] == "nDCG@10 0.480, first stage 0.380, DIRECT(0,10) 0.480"
    # d3 is first without Virologist (2/2.631), third without Editor; without Parent it ties with
    # d4 at ranks 3 and 4: (2/log2(4) + 2/log2(5)) / 2 = 0.931, of that 0.354.
    assert found[start + 4] == "nDCG@10 without A 0.760, B 0.354, C 0.380; equal scores by lot"


def test_calls_are_added_up_by_stage() -> None:
    def row(persona: str, **more: Any) -> dict[str, Any]:
        return {
            "stage": "score",
            "persona": persona,
            "model": "openai:m",
            "calls": 3,
            "input_tokens": 1000,
            "cached_input_tokens": 100,
            "output_tokens": 7,
            "cost": 0.25,
            **more,
        }

    usage = {
        "calls": 8,
        "input_tokens": 4000,
        "cached_input_tokens": 400,
        "output_tokens": 28,
        "cost": None,
        "by_stage": [
            row("A"),
            row("B"),
            row("A", stage="criteria", calls=1, cost=None),
            row("B", stage="criteria", calls=1),
        ],
    }
    data = four(usage=usage, seconds={"score": 3.0, "total": 75.0}, models={"scoring": "openai:m"})
    found = lines(page(data, 110))
    assert "score 6 calls, 2,000 tokens in (200 cached), 14 out, $0.50" in found
    assert "criteria 2 calls, 2,000 tokens in (200 cached), 14 out, price not known" in found
    assert "together 8 calls, 4,000 tokens in (400 cached), 28 out, price not known" in found
    assert "time score 3.00 s, total 75.0 s" in found
    assert "model openai:m" in found


def test_no_passages_and_no_team() -> None:
    empty = page(stored([]), 80)
    assert "there was nothing to rank" in empty
    assert "No personas were asked" in empty
    assert "Agreement" not in empty


def test_one_passage_in_detail() -> None:
    hits = [dict(each) for each in FOUR]
    hits[1] |= {"criteria": {"Virologist": {"Efficacy": 1.0, "Safety": 2.0}}, "title": "About d3"}
    found = lines(
        page({**four(), "hits": hits}, 80, passage="d3", grades={"d3": 2, "d1": 0}, other=OTHER)
    )
    assert found[3:6] == ["Rank 2 of 4: d3", "About d3", "Text 3."]
    assert "first stage rank 3; moved ▲1" in found
    assert "judgement relevant (2)" in found
    assert "DIRECT(0,10) rank 2" in found
    start = found.index("Scores, 0 to 10")
    assert found[start + 1 :] == [
        "1 ━ Virologist rank 1 without: sank it 1",
        "1 ━ 60% Efficacy",
        "2 ━━ 40% Safety",
        "8 ━━━━━━━━ Parent rank 3 without: raised it 1",
        "7 ━━━━━━━ Editor rank 3 without: raised it 1",
        "Parent and Editor raised it most: without either, it would be at rank 3, not 2.",
        "Virologist sank it most: without, it would be at rank 1, not 2.",
    ]


def test_a_missing_score_in_detail() -> None:
    found = lines(page(four(), 80, passage=4))
    assert "missing Parent rank 4 without" in found
    assert "No score by Parent (4 is imputed): no number in the answer" in found
    assert any(line.startswith("No persona moved it") for line in found)


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


def test_the_text_is_cut_and_says_so() -> None:
    long = hit(1, 1, [5.0, 6.0], text="First.\n\n" + "word " * 2000)
    text = page(stored([long]), 80, passage=1)
    # 8 + 5 · 2000 = 10,008 characters, 4,000 of them shown
    assert "Cut here: 6,008 more characters of 10,008 are not shown." in text
    assert "First." in lines(text)
    assert text.count("word") < 800


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
