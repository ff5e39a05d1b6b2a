"""Ranking: a sequence of hits that can be written, read back, and handed to TREC's tools."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker import DirectRanker, ScriptedChat
from mcranker.errors import InputError
from mcranker.llm.chat import Capabilities
from mcranker.ranking import Ranking, in_order
from personas import Criterion, Member, Persona, Rubric, Team
from personas.ranking.hit import Hit
from personas.ranking.types import MissingScore, Passage, Query, Score
from personas.ranking.usage import Usage, UsageTable

RUBRIC = Rubric(criteria=(Criterion(name="On topic", weight=75), Criterion(name="New", weight=25)))
TEAM = Team(
    members=(
        Member(persona=Persona(name="Nurse"), rubric=RUBRIC, origin="recruited"),
        Member(persona=Persona(name="Virologist")),
    ),
    query="masks",
)


PASSAGES = (
    Passage("a", "text a", "Title", 3.5),
    Passage("b", "text b"),
    Passage("c", "text c", score=1.0),
    Passage("d", "text d"),
)
NURSE = [Score(4.0, criteria=(5.0, 1.0)), Score(7.0, criteria=(8.0, 4.0)), Score(10.0), None]
VIROLOGIST = [Score(3.0), Score(None, "the answer was no number"), Score(9.5), None]


def _hits(final: Sequence[float | None], passages: Sequence[Passage] = PASSAGES) -> tuple[Hit, ...]:
    """The passages with these final scores; what judges gave to the four of this file."""
    relevances = dict(zip("abcd", (0.35, 0.35, 0.975, None), strict=True))
    hits = [
        Hit.of(
            each,
            place,
            dict(zip(TEAM.names, given, strict=True)),
            TEAM.members,
            missing={"(assessor)": "declined"} if each.id == "b" else {},
        )
        for place, (each, *given) in enumerate(
            zip(passages, *(each + [None] * 30 for each in (NURSE, VIROLOGIST)), strict=False)
        )
    ]
    return in_order(hits, final, [relevances.get(each.id) for each in passages])


def _ranking(**changed: Any) -> Ranking:
    """Four passages: c wins, a and b tie, d lies beyond the depth; one score is missing."""
    calls = UsageTable()
    calls.add("score", "Nurse", "scripted:function", Usage(3, 300, 100, 9))
    calls.add("score", "Nurse", "scripted:function", Usage(1, 100, 0, 3))
    calls.add("recruit", "", "scripted:function", Usage(1, 50, 0, 20))
    parts: dict[str, Any] = {
        "query": Query("masks <&> 'é'", "q1"),
        "hits": _hits([7.0, 7.0, 19.5, None]),
        "personas": ("Nurse", "Virologist"),
        "team": TEAM,
        "ranker": "mcranker",
        "config": {"scale": 10, "labels": ["No", "Yes"], "depth": 3},
        "models": {"scoring": "scripted:function"},
        "prompt_hashes": {"score": "ab" * 32},
        "calls": calls,
        "seconds": {"score": 1.5, "total": 2.0},
        "absolute": True,
    }
    return Ranking(**{**parts, **changed})


def test_it_is_a_sequence_of_hits() -> None:
    ranking = _ranking()
    assert len(ranking) == 4
    assert ranking.ids == [hit.doc_id for hit in ranking] == ["c", "a", "b", "d"]
    assert next(reversed(ranking)).doc_id == "d"
    assert ranking[0].doc_id == ranking[-4].doc_id == "c"
    assert ranking.index(ranking[2]) == 2
    for place in (4, -5):
        with pytest.raises(IndexError, match=f"there is no hit {place}; the ranking has 4"):
            ranking[place]


def test_what_it_took_and_what_is_missing() -> None:
    ranking = _ranking()
    assert ranking.missing == [
        MissingScore("b", "Virologist", "the answer was no number"),
        MissingScore("b", "(assessor)", "declined"),
    ]
    assert ranking.usage == Usage(5, 450, 100, 32)
    assert repr(ranking) == (
        "<Ranking of 4 passages for \"masks <&> 'é'\" by mcranker, 2 scores missing>"
    )
    assert repr(_empty()) == "<Ranking of 0 passages for 'masks' by direct>"


def _empty() -> Ranking:
    query = Query("masks", "q1")
    return _ranking(query=query, hits=(), team=None, ranker="direct", calls=UsageTable())


@pytest.mark.parametrize("ranking", [_ranking(), _empty()])
def test_a_ranking_reads_back_as_it_was(ranking: Ranking) -> None:
    again = Ranking.from_dict(json.loads(ranking.to_json(indent=2)))
    assert again.to_dict() == ranking.to_dict()
    assert (again.hits, again.team) == (ranking.hits, ranking.team)
    assert dict(again.calls) == dict(ranking.calls)


@pytest.mark.parametrize("data", [{}, {"version": "1" * 1000}, [], None, "text", b"[]", 7])
def test_other_things_are_not_a_ranking(data: Any) -> None:
    with pytest.raises(InputError, match=r"no ranking as Ranking|not JSON|version '11") as caught:
        Ranking.from_dict(data)
    assert len(str(caught.value)) < 300


LATER = {"partial", "failure", "criteria_used"}
"""Fields that a stored ranking may lack."""


@pytest.mark.parametrize("key", sorted(set(_ranking().to_dict()) - {"version", *LATER}))
def test_a_ranking_that_lacks_something_is_refused(key: str) -> None:
    data = _ranking().to_dict()
    del data[key]
    with pytest.raises(InputError, match=f"version 1; {key} is missing"):
        Ranking.from_dict(data)


def _run(ranking: Ranking) -> list[tuple[str, str, str, int, float, str]]:
    lines = ranking.to_trec().splitlines()
    parts = [line.split(" ") for line in lines]
    return [(q, q0, doc, int(rank), float(score), tag) for q, q0, doc, rank, score, tag in parts]


def test_a_trec_run() -> None:
    ranking = _ranking(hits=_hits([7.0, 7.0, 19.12345678901234, None]))
    rows = _run(ranking)
    placed = list(zip("cabd", range(1, 5), strict=True))
    assert [row[:4] for row in rows] == [("q1", "Q0", *each) for each in placed]
    values = [row[4] for row in rows]
    assert values[:2] == [19.12345678901234, 7.0]
    # set apart from 7 by the least that a 32-bit float can hold: 2^-21
    assert values[2] == pytest.approx(7 - 2**-21, abs=1e-7)
    assert values[3] == 6.0
    assert {row[5] for row in rows} == {"mcranker"}
    assert _ranking().to_trec("mine").splitlines()[0] == "q1 Q0 c 1 19.5 mine"
    assert ranking.to_trec().endswith("\n")
    assert _empty().to_trec() == ""


finals = st.floats(-1e6, 1e6, width=64) | st.sampled_from(
    [0.0, -0.0, 25.0, 25.0 + 1e-9, 1e-45, 0.1]
)


@given(st.lists(finals | st.just(math.nan), max_size=30))
def test_trec_scores_fall_even_as_32_bit_floats(values: list[float]) -> None:
    known = sorted((value for value in values if not math.isnan(value)), reverse=True)
    values = known + [value for value in values if math.isnan(value)]
    rows = _run(
        _ranking(
            # ids that rise, so that ties broken by id would come out in another order
            hits=_hits(
                [None if math.isnan(value) else value for value in values],
                [Passage(f"{place:03}", "text") for place in range(len(values))],
            )
        )
    )
    for parse in (float, np.float32):
        parsed = [parse(row[4]) for row in rows]
        assert all(high > low for high, low in itertools.pairwise(parsed))
    for row, value in zip(rows, known, strict=False):
        assert row[4] == pytest.approx(value, rel=1e-5, abs=1e-5)


def test_a_weak_judge_is_kept_with_the_ranking() -> None:
    for capabilities, weak in ((Capabilities(reasons=False), "encoder"), (Capabilities(), "")):
        model = ScriptedChat(lambda _: '{"Score": 3}', capabilities=capabilities)
        with DirectRanker(model=model) as ranker:
            ranking = ranker.rank("masks", ["one", "two"])
        assert ranking.weak_judge == capabilities.weak_judge == weak
        stored = ranking.to_dict()
        assert ("weak_judge" in stored) == bool(weak)
        assert Ranking.from_dict(stored).to_dict() == stored
    assert Capabilities(prompts=False).weak_judge == ""
