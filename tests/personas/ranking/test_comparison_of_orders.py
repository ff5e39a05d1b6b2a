"""Comparisons of rankings by personas who compared passages, or who gave no score at all."""

from __future__ import annotations

from typing import Any

from mcranker import Passage, RankGPTRanker
from personas.ranking.comparison import compare_rankings
from personas.report.compare.page import render_comparison
from personas.report.compare.sentences import reason, summary
from tests.personas.ranking.test_inspection import hit, stored
from tests.support.comparing_team import TEAM, by_orders, comparing_team

DOCS = [Passage(name, f"mask {name}") for name in "abc"]


def ranked(*orders: str) -> dict[str, Any]:
    model, _ = comparing_team(by_orders(dict(zip(TEAM, orders, strict=True))))
    ranker = RankGPTRanker(model=model, ledger=None, team_size=3)
    return ranker.rank("best masks", DOCS).to_dict()


def test_the_persona_whose_order_changed_moved_the_passages() -> None:
    # Reciprocal ranks of a, b, c before: 1/2 + 1/2 + 1/3, 3, 1/3 + 1/3 + 1/2, so b, a, c.
    # After: 1/2 + 1/3 + 1/3, 1 + 1/2 + 1, 1/3 + 1 + 1/2, so b, c, a.
    found = compare_rankings(ranked("bac", "bac", "bca"), ranked("bac", "cba", "bca"))
    assert [each.doc_id for each in found.movers] == ["c", "a"]
    assert found.exact
    assert found.notes == ()
    (cause,) = found.movers[0].causes
    assert (cause.persona, cause.rank_before, cause.rank_after) == (TEAM[1], 3, 1)
    # The points are the passages that stand below.
    assert (cause.before, cause.after, cause.effect) == (0, 2, 1)
    assert "".join(reason(found.movers[0])) == (
        "Virologist gave it rank 3 before and rank 1 now; with its ranks of before the passage "
        "would be at rank 3."
    )
    said = ["".join(each) for each in summary(found)]
    assert "Most moves come from the scores of Virologist: 2 of 2." in said
    assert "rank 3 → rank 1" in render_comparison(found)


def test_scores_and_ranks_are_told_apart() -> None:
    scores = [
        hit(1, 1, [5, 5, 5], doc_id="a") | {"scores": dict.fromkeys(TEAM, 5.0)},
        hit(2, 2, [4, 4, 4], doc_id="b") | {"scores": dict.fromkeys(TEAM, 4.0)},
    ]
    before = stored(scores)
    found = compare_rankings(before, ranked("bac", "bac", "bca"))
    assert any("gave scores before and ranks after" in note for note in found.notes)
    moved = {each.doc_id: each for each in found.passages}["b"]
    assert {(each.before, each.rank_after) for each in moved.causes} == {(4, 1)}


def test_without_scores_nobody_is_said_to_have_moved_a_passage() -> None:
    bare = [hit(1, 1, [None] * 3, doc_id="b"), hit(2, 2, [None] * 3, doc_id="a")]
    scores = [hit(1, 1, [5, 5, 5], doc_id="a"), hit(2, 2, [4, 4, 4], doc_id="b")]
    sides = stored(scores), stored(bare)
    for pair in (sides, sides[::-1]):
        found = compare_rankings(*pair)
        assert any(note.startswith("There are no scores") for note in found.notes)
        assert all(not each.causes for each in found.passages)
        assert not any("imputed" in note for note in found.notes)
