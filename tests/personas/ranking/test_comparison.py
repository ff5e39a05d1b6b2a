"""What a comparison of rankings works out: who moved a passage, and what must be known first."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from mcranker import Passage, RankGPTRanker
from personas import Criterion, Member, Persona, Rubric
from personas.errors import SchemaError
from personas.ranking.comparison import ComparedPassage, CriterionChange, compare_rankings
from personas.report.compare.page import render_comparison
from personas.report.compare.sentences import reason
from tests.personas.ranking.test_inspection import FOUR, NAMES, hit, stored
from tests.support.comparing_team import TEAM, by_orders, comparing_team

# By Virologist, Parent, Editor, and their sums. Before, as in FOUR:
#   d1: 5 5 5 = 15,  d2: 9 2 6 = 17,  d3: 1 8 7 = 16,  d4: 4 - 4 = 8 + 4 = 12, so d2, d3, d1, d4
# After, the Virologist gives d1 9 and d2 4:
#   d1: 9 5 5 = 19,  d2: 4 2 6 = 12,  d3 16,  d4 12, so d1, d3, d2, d4 (d2 came before d4)
CHANGED = [
    hit(1, 1, [9, 5, 5]),
    hit(2, 3, [1, 8, 7]),
    hit(3, 2, [4, 2, 6]),
    hit(4, 4, [4, None, 4]),
]


def member(name: str, *weights: float, about: str = "") -> dict[str, Any]:
    criteria = tuple(
        Criterion(name=f"c{place}", weight=each) for place, each in enumerate(weights, start=1)
    )
    rubric = Rubric(criteria=criteria) if criteria else None
    found = Member(persona=Persona(name=name, description=about), rubric=rubric)
    return found.model_dump(mode="json")


def team(*members: dict[str, Any]) -> dict[str, Any]:
    return {"members": list(members)}


def by_id(*pair: dict[str, Any]) -> dict[str, ComparedPassage]:
    return {each.doc_id: each for each in compare_rankings(*pair).passages}


def effects(passage: ComparedPassage) -> dict[str, int]:
    return {each.persona: each.effect for each in passage.causes}


def called(hits: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """The hits with other names of the personas."""
    new = dict(zip(NAMES, names, strict=True))
    return [
        each | {key: {new[name]: value for name, value in each[key].items()} for key in SCORED}
        for each in hits
    ]


SCORED = ("scores", "missing")


def test_the_persona_whose_scores_changed_moved_the_passages() -> None:
    found = compare_rankings(stored(FOUR), stored(CHANGED), grades={"d1": 1, "gone": 0})
    # From 3 to 1 is a change of the discount by 1 - 1/2, and so is from 1 to 3.
    assert [(each.doc_id, each.weight, each.moved, each.grade) for each in found.passages] == [
        ("d1", 0.5, 2, 1),
        ("d2", 0.5, -2, None),
        ("d3", 0, 0, None),
        ("d4", 0, 0, None),
    ]
    assert [each.doc_id for each in found.movers] == ["d1", "d2"]
    (first,) = found.passages[0].causes
    assert (first.persona, first.before, first.after, first.change) == ("Virologist", 5, 9, 4)
    # With the Virologist's scores of before, d1 is third again, and d2 first.
    assert [effects(each) for each in found.movers] == [{"Virologist": 2}, {"Virologist": -2}]
    assert (found.passages[2].causes, found.team, found.settings) == ((), None, ())
    assert found.exact
    assert found.notes == (
        "1 score missing before and 1 score missing after; what was imputed counts in the ranks.",
    )
    # The one relevant passage rose from rank 3 to 1: 1 / log2(4), then 1 / log2(2).
    assert (found.ndcg_before, found.ndcg_after) == (0.5, 1.0)
    data = found.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["before"] == {
        "ranker": "mcranker",
        "models": {},
        "weak_judge": "",
        "personas": list(NAMES),
    }
    hits = {each["doc_id"]: each for each in data["hits"]}
    assert (hits["d1"]["moved"], hits["d1"]["grade"]) == (2, 1)
    assert hits["d1"]["before"]["scores"] == {"Virologist": 5, "Parent": 5, "Editor": 5}
    assert hits["d1"]["causes"][0]["change"] == 4
    assert hits["d4"]["after"]["missing"] == {"Parent": "no number in the answer"}
    assert data["ndcg@10"] == {"before": 0.5, "after": 1.0}
    irrelevant = compare_rankings(stored(FOUR), stored(CHANGED), grades={"d2": 0})
    assert (irrelevant.ndcg_before, irrelevant.ndcg_after) == (None, None)


def test_each_of_two_changes_has_its_part() -> None:
    # The Editor gives d4 10 and the Virologist d1 9: sums d1 19, d2 17, d3 16, d4 4 + 7 + 10 = 21.
    after = [
        hit(1, 4, [4, None, 10]),
        hit(2, 1, [9, 5, 5]),
        hit(3, 2, [9, 2, 6]),
        hit(4, 3, [1, 8, 7]),
    ]
    found = by_id(stored(FOUR), stored(after))
    # Without the Editor's change: d1 19, d2 17, d3 16, d4 12. Without the Virologist's: d4 21,
    # d2 17, d3 16, d1 15. d3 fell from 2 to 4, and neither persona gave it another score.
    assert {doc_id: effects(each) for doc_id, each in found.items()} == {
        "d4": {"Editor": 3},
        "d1": {"Virologist": 2, "Editor": -1},
        "d2": {"Editor": -1, "Virologist": -1},
        "d3": {"Editor": -1, "Virologist": -1},
    }
    assert [each.persona for each in found["d1"].causes] == ["Virologist", "Editor"]
    assert [each.change for each in found["d3"].causes] == [0, 0]


def test_a_persona_that_left_and_one_that_joined() -> None:
    scores = (hit(1, 1, [5, 5, 9]), hit(2, 2, [9, 2, 1]), hit(3, 3, [1, 8, 1]))
    after = called(list(scores), "Virologist", "Parent", "Nurse")
    first = by_id(stored(FOUR[:3]), stored(after))["d1"]
    assert (first.before and first.before.rank, first.after and first.after.rank) == (3, 1)
    nurse, editor = first.causes
    # Without the Nurse: d1 10, d2 11, d3 9. With the Editor as well: d1 24, d2 18, d3 17.
    assert (nurse.persona, nurse.joined, nurse.left, nurse.effect) == ("Nurse", True, False, 1)
    assert (editor.persona, editor.joined, editor.left, editor.effect) == ("Editor", False, True, 0)
    assert (editor.before, editor.after, editor.change) == (5, None, None)
    assert nurse.edited
    assert editor.edited


def test_a_persona_under_another_name_is_the_same_one() -> None:
    about = "Looks at every study of masks, and at how large it was."

    def named(name: str) -> dict[str, Any]:
        members = member("Virologist"), member(name, about=about), member("Editor")
        return {"team": team(*members)}

    renamed = stored(called(CHANGED, "Virologist", "Mother", "Editor"), **named("Mother"))
    found = compare_rankings(stored(FOUR, **named("Parent")), renamed)
    assert found.team
    assert found.team.changed[0].renamed is not None
    (cause,) = found.passages[0].causes
    assert (cause.persona, cause.was, cause.edited) == ("Virologist", "", False)
    assert found.idle == ("Mother",)  # edited, and it gave each passage its score of before


def test_the_criterion_that_changed_and_its_part() -> None:
    scores = {"Virologist": {"c1": 8, "c2": 4}}
    before = stored([hit(1, 1, [6.4], criteria=scores)], team=team(member("Virologist", 60, 40)))
    now = {"Virologist": {"c1": 8, "c2": 9, "c3": 2}}
    after = stored([hit(1, 1, [5.3], criteria=now)], team=team(member("Virologist", 30, 30, 40)))
    found = compare_rankings(before, after)
    (cause,) = found.passages[0].causes
    # The first is 30% of 8 less 60% of 8, the second 30% of 9 less 40% of 4, the third 40% of 2.
    assert cause.criteria == (
        CriterionChange("c1", 8, 8, 60, 30),
        CriterionChange("c2", 4, 9, 40, 30),
        CriterionChange("c3", None, 2, None, 40),
    )
    assert [each.added for each in cause.criteria] == pytest.approx([-2.4, 1.1, 0.8])
    assert cause.change == pytest.approx(-1.1)
    assert (cause.edited, found.idle) == (True, ())
    gone = compare_rankings(after, before).passages[0].causes[0].criteria[-1]
    assert (gone.name, gone.after, gone.weight_after) == ("c3", None, None)
    without = stored([hit(1, 1, [5])], team=team(member("Virologist")))
    (cause,) = compare_rankings(without, after).passages[0].causes
    assert (cause.edited, cause.criteria) == (True, ())
    # Neither score nor weight of the only criterion is another.
    same = compare_rankings(before, before).passages[0].causes
    assert same == ()


def test_another_way_of_combining_is_a_cause_of_its_own() -> None:
    # Ranks by Virologist 2 1 3, Parent 2 3 1, Editor 3 2 1, of d1, d2, d3: the sums of 1 / rank are
    # 4/3, 11/6, 7/3, so d3, d2, d1; by the sum of scores d2, d3, d1.
    other = {"scale": 10, "ensemble": "reciprocal_rank", "missing_policy": "mean_of_team"}
    after = [
        hit(1, 3, [1, 8, 7], score=7 / 3),
        hit(2, 2, [9, 2, 6], score=11 / 6),
        hit(3, 1, [5, 5, 5], score=4 / 3),
    ]
    found = compare_rankings(stored(FOUR[:3]), stored(after, config={**other, "rank_ties": "min"}))
    assert {each.doc_id: each.combining_effect for each in found.passages} == {
        "d3": 1,
        "d2": -1,
        "d1": 0,
    }
    assert all(each.causes == () for each in found.passages)
    assert [(each.name, each.before, each.after) for each in found.settings] == [
        ("ensemble", "sum", "reciprocal_rank"),
        ("rank ties", "", "min"),
    ]


def test_a_relevant_passage_comes_before_those_that_moved_more() -> None:
    # d4 goes from 4 to 1; d3, the relevant one, from 3 to 4: 1 / log2(5) - 1 / log2(4).
    before = [hit(rank, rank, [9 - rank]) for rank in (1, 2, 3, 4)]
    after = [hit(1, 4, [9]), hit(2, 1, [8]), hit(3, 2, [7]), hit(4, 3, [6])]
    pair = stored(before), stored(after)
    assert [each.doc_id for each in compare_rankings(*pair).movers] == ["d4", "d1", "d2", "d3"]
    first = compare_rankings(*pair, grades={"d3": 1}).movers[0]
    assert first.doc_id == "d3"
    assert first.gain == pytest.approx(1 / math.log2(5) - 1 / 2)
    cut = compare_rankings(*pair, grades={"d3": 1}, depth=3, first_stage={"d3": 7})
    assert cut.measure == "nDCG@3"
    assert cut.movers[0].gain == pytest.approx(-1 / 2)
    assert (cut.movers[0].first_stage_rank, cut.movers[1].first_stage_rank) == (7, None)


ONE = stored([hit(1, 1, [5])])
TWO = stored([hit(1, 1, [5]), hit(2, 2, [4])])
OTHERS = stored([hit(1, 1, [1, 1, 1]), hit(2, 2, [0, 0, 0], doc_id="new")])
OF_FOUR = {"scale": 4, "ensemble": "sum"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (ONE, ONE | {"query": {"text": "worst", "id": ""}}, "different queries, so moves may come"),
        (stored(FOUR[:3]), OTHERS, "not of the same passages: 2 only before, 1 only after"),
        (ONE, stored([hit(1, 1, [5], doc_id="x")]), "no passage in common, so nothing can be said"),
        (ONE, stored([hit(1, 1, [1], text="new")]), "1 passage with the same id and another text"),
        (
            TWO,
            stored([hit(1, 1, [5], doc_id="d2"), hit(2, 2, [4], doc_id="d1")]),
            "given in another order, which decides between equal scores",
        ),
        (ONE, ONE | {"config": OF_FOUR}, "from 0 to 10 before and to 4 after"),
        (TWO, stored([hit(1, 1, [], score=None)]), "no scores after, only an order"),
        (
            ONE,
            ONE | {"config": {"scale": 10, "ensemble": "assessor"}},
            "as if scores were added up",
        ),
        (ONE | {"partial": True}, ONE, "before is not complete. The deadline came before all"),
        (ONE, ONE | {"failure": "refused"}, "after is not complete. No passage was judged"),
        (ONE, stored([], failure="refused"), "There is no ranking after: refused"),
    ],
)
def test_what_must_be_known(before: dict[str, Any], after: dict[str, Any], said: str) -> None:
    assert any(said in note for note in compare_rankings(before, after).notes)


def test_equal_rankings_and_empty_ones_need_no_words() -> None:
    same = compare_rankings(stored(FOUR[:3]), stored(FOUR[:3]))
    assert (same.notes, same.movers, same.shared_top(), same.shared_top(2)) == ((), (), 3, 2)
    empty = compare_rankings(stored([]), stored([]))
    assert (empty.passages, empty.shared_top(), empty.notes) == ((), 0, ())


def test_passages_of_one_side_and_those_not_judged_have_no_cause() -> None:
    found = by_id(stored(FOUR[:3]), OTHERS)
    assert (found["new"].moved, found["d3"].after) == (None, None)
    assert found["new"].causes == found["d3"].causes == ()
    # Among the passages of both, of which there is one, nothing can move it.
    assert [each.effect for each in found["d1"].causes] == [0, 0, 0]


def test_scores_of_another_scale_are_stretched_to_find_the_part() -> None:
    # 5 and 4 of 10 become 2 and 1.6 of 4: with them d1 is first again.
    after = stored([hit(1, 2, [3]), hit(2, 1, [1])], config=OF_FOUR)
    assert effects(by_id(TWO, after)["d1"]) == {"Virologist": -1}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"version": 1}, ONE, "this is no ranking"),
        (ONE, ONE | {"version": 2}, "a ranking of version 2"),
        (ONE, stored([hit(1, 1, [5]), hit(2, 2, [4], doc_id="d1")]), "after has the id 'd1' twice"),
    ],
)
def test_what_is_refused(before: dict[str, Any], after: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        compare_rankings(before, after)


def by_team(*orders: str) -> dict[str, Any]:
    """A ranking of a, b and c by a team that put them in these orders."""
    model, _ = comparing_team(by_orders(dict(zip(TEAM, orders, strict=True))))
    ranker = RankGPTRanker(model=model, ledger=None, team_size=3)
    return ranker.rank("best masks", [Passage(name, f"mask {name}") for name in "abc"]).to_dict()


def test_the_persona_whose_order_changed_moved_the_passages() -> None:
    # Reciprocal ranks of a, b, c before: 1/2 + 1/2 + 1/3, 3, 1/3 + 1/3 + 1/2, so b, a, c.
    # After: 1/2 + 1/3 + 1/3, 1 + 1/2 + 1, 1/3 + 1 + 1/2, so b, c, a.
    found = compare_rankings(by_team("bac", "bac", "bca"), by_team("bac", "cba", "bca"))
    assert [each.doc_id for each in found.movers] == ["c", "a"]
    assert (found.exact, found.notes) == (True, ())
    (cause,) = found.movers[0].causes
    assert (cause.persona, cause.rank_before, cause.rank_after) == (TEAM[1], 3, 1)
    # The points are the passages below.
    assert (cause.before, cause.after, cause.effect) == (0, 2, 1)
    assert "rank 3 → rank 1" in render_comparison(found)
    assert "".join(reason(found.movers[0])).startswith("Virologist gave it rank 3 before and rank")


def test_scores_and_ranks_are_told_apart() -> None:
    scores = [hit(1, 1, [5, 5, 5], doc_id="a"), hit(2, 2, [4, 4, 4], doc_id="b")]
    found = compare_rankings(stored(called(scores, *TEAM)), by_team("bac", "bac", "bca"))
    assert any("gave scores before and ranks after" in note for note in found.notes)
    moved = {each.doc_id: each for each in found.passages}["b"]
    assert {(each.before, each.rank_after) for each in moved.causes} == {(4, 1)}


def test_without_scores_no_persona_moved_a_passage() -> None:
    bare = stored([hit(1, 1, [None] * 3, doc_id="b"), hit(2, 2, [None] * 3, doc_id="a")])
    scores = stored([hit(1, 1, [5, 5, 5], doc_id="a"), hit(2, 2, [4, 4, 4], doc_id="b")])
    for pair in ((scores, bare), (bare, scores)):
        found = compare_rankings(*pair)
        assert any(note.startswith("There are no scores") for note in found.notes)
        assert all(not each.causes for each in found.passages)
        assert not any("imputed" in note for note in found.notes)
