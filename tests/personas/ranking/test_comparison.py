"""What a comparison of rankings works out: who moved a passage, and what must be known first."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from personas import Criterion, Member, Persona, Rubric, Team
from personas.errors import SchemaError
from personas.ranking.comparison import (
    ComparedPassage,
    CriterionChange,
    RankingComparison,
    compare_rankings,
)
from tests.personas.ranking.test_inspection import FOUR, hit, stored

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


def by_id(comparison: RankingComparison) -> dict[str, ComparedPassage]:
    return {each.doc_id: each for each in comparison.passages}


def test_the_persona_whose_scores_changed_moved_the_passages() -> None:
    found = compare_rankings(stored(FOUR), stored(CHANGED))
    # From 3 to 1 is a change of the discount by 1 - 1/2, and so is from 1 to 3.
    assert [each.doc_id for each in found.passages] == ["d1", "d2", "d3", "d4"]
    assert [each.weight for each in found.passages] == [0.5, 0.5, 0, 0]
    assert [each.moved for each in found.passages] == [2, -2, 0, 0]
    assert [each.doc_id for each in found.movers] == ["d1", "d2"]
    (first,) = found.passages[0].causes
    assert (first.persona, first.before, first.after, first.change) == ("Virologist", 5, 9, 4)
    # With the Virologist's scores of before, d1 stands third again, and d2 first.
    assert first.effect == 2
    assert found.passages[1].causes[0].effect == -2
    assert by_id(found)["d3"].causes == ()
    assert found.exact
    assert found.notes == (
        "1 score missing before and 1 score missing after; what was imputed counts in the ranks.",
    )
    assert found.team is None
    assert found.settings == ()


def test_each_of_two_changes_has_its_part() -> None:
    # The Editor gives d4 10 and the Virologist d1 9: sums d1 19, d2 17, d3 16, d4 4 + 7 + 10 = 21.
    after = [
        hit(1, 4, [4, None, 10]),
        hit(2, 1, [9, 5, 5]),
        hit(3, 2, [9, 2, 6]),
        hit(4, 3, [1, 8, 7]),
    ]
    found = by_id(compare_rankings(stored(FOUR), stored(after)))
    effects = {
        doc_id: {each.persona: each.effect for each in found[doc_id].causes} for doc_id in found
    }
    # Without the Editor's change: d1 19, d2 17, d3 16, d4 12. Without the Virologist's: d4 21,
    # d2 17, d3 16, d1 15.
    assert effects["d4"] == {"Editor": 3}
    assert effects["d1"] == {"Virologist": 2, "Editor": -1}
    assert effects["d2"] == {"Editor": -1, "Virologist": -1}
    assert found["d2"].causes[0].change is not None
    assert effects["d3"] == {"Editor": -1, "Virologist": -1}
    # d3 fell from 2 to 4: neither persona gave it another score.
    assert [each.change for each in found["d3"].causes] == [0, 0]


def test_a_persona_that_left_and_one_that_joined() -> None:
    after = [
        {**each, "scores": dict(zip(("Virologist", "Parent", "Nurse"), scores, strict=True))}
        for each, scores in (
            (hit(1, 1, [5, 5, 9]), [5, 5, 9]),
            (hit(2, 2, [9, 2, 1]), [9, 2, 1]),
            (hit(3, 3, [1, 8, 1]), [1, 8, 1]),
        )
    ]
    found = compare_rankings(stored(FOUR[:3]), stored(after))
    first = by_id(found)["d1"]
    assert (first.before.rank, first.after.rank) == (3, 1)  # type: ignore[union-attr]  # in both
    causes = {each.persona: each for each in first.causes}
    # Without the Nurse: d1 10, d2 11, d3 9. With the Editor as well: d1 24, d2 18, d3 17.
    assert causes["Nurse"].joined
    assert causes["Nurse"].effect == 1
    assert causes["Editor"].left
    assert (causes["Editor"].before, causes["Editor"].after) == (5, None)
    assert causes["Editor"].effect == 0
    assert [each.persona for each in first.causes] == ["Nurse", "Editor"]


def test_a_persona_under_another_name_is_the_same_one() -> None:
    about = "Looks at every study of masks, and at how large it was."
    one = stored(
        FOUR,
        team=team(
            *(
                member(name, about=about * (name == "Parent"))
                for name in ("Virologist", "Parent", "Editor")
            )
        ),
    )
    renamed = [
        {
            **each,
            "scores": {
                ("Mother" if name == "Parent" else name): score
                for name, score in each["scores"].items()
            },
            "missing": {
                ("Mother" if name == "Parent" else name): why
                for name, why in each["missing"].items()
            },
        }
        for each in CHANGED
    ]
    two = stored(
        renamed, team=team(member("Virologist"), member("Mother", about=about), member("Editor"))
    )
    found = compare_rankings(one, two)
    assert found.team
    assert found.team.changed[0].renamed is not None
    assert [each.persona for each in found.passages[0].causes] == ["Virologist"]
    assert not found.passages[0].causes[0].edited


def test_the_criterion_that_changed_and_its_part() -> None:
    scores = {"Virologist": {"c1": 8, "c2": 4}}
    before = stored([hit(1, 1, [6.4], criteria=scores)], team=team(member("Virologist", 60, 40)))
    now = {"Virologist": {"c1": 8, "c2": 9, "c3": 2}}
    after = stored([hit(1, 1, [5.3], criteria=now)], team=team(member("Virologist", 30, 30, 40)))
    (cause,) = compare_rankings(before, after).passages[0].causes
    # The first is 30% of 8 less 60% of 8, the second 30% of 9 less 40% of 4, the third 40% of 2.
    assert cause.criteria == (
        CriterionChange("c1", 8, 8, 60, 30),
        CriterionChange("c2", 4, 9, 40, 30),
        CriterionChange("c3", None, 2, None, 40),
    )
    assert [each.added for each in cause.criteria] == pytest.approx([-2.4, 1.1, 0.8])
    assert cause.change == pytest.approx(-1.1)
    assert cause.edited
    gone = compare_rankings(after, before).passages[0].causes[0].criteria[-1]
    assert (gone.name, gone.after, gone.weight_after) == ("c3", None, None)


def test_another_way_of_combining_is_a_cause_of_its_own() -> None:
    # Ranks by Virologist 2 1 3, Parent 2 3 1, Editor 3 2 1, of d1, d2, d3: the sums of 1 / rank are
    # 4/3, 11/6, 7/3, so d3, d2, d1; by the sum of scores d2, d3, d1.
    other = {"scale": 10, "ensemble": "reciprocal_rank", "missing": "mean_of_team"}
    after = [
        hit(1, 3, [1, 8, 7], score=7 / 3),
        hit(2, 2, [9, 2, 6], score=11 / 6),
        hit(3, 1, [5, 5, 5], score=4 / 3),
    ]
    found = compare_rankings(stored(FOUR[:3]), stored(after, config={**other, "rank_ties": "min"}))
    effects = {each.doc_id: each.combining_effect for each in found.passages}
    assert effects == {"d3": 1, "d2": -1, "d1": 0}
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
    assert compare_rankings(*pair).movers[0].doc_id == "d4"
    first = compare_rankings(*pair, grades={"d3": 1}).movers[0]
    assert first.doc_id == "d3"
    assert first.gain == pytest.approx(1 / math.log2(5) - 1 / 2)
    cut = compare_rankings(*pair, grades={"d3": 1}, depth=3)
    assert cut.measure == "nDCG@3"
    assert cut.movers[0].gain == pytest.approx(-1 / 2)


def test_judgements() -> None:
    found = compare_rankings(stored(FOUR), stored(CHANGED), grades={"d2": 1, "gone": 0})
    # The one relevant passage fell from rank 1 to 3: 1 / log2(2), then 1 / log2(4).
    assert (found.ndcg_before, found.ndcg_after) == (1.0, 0.5)
    assert by_id(found)["d2"].grade == 1
    none = compare_rankings(stored(FOUR), stored(CHANGED), grades={"d2": 0})
    assert (none.ndcg_before, none.ndcg_after) == (None, None)


def _different_query() -> tuple[dict[str, Any], dict[str, Any]]:
    return stored(FOUR), stored(FOUR, query={"text": "worst masks", "id": "q2"})


def _other_passages() -> tuple[dict[str, Any], dict[str, Any]]:
    return stored(FOUR[:3]), stored([hit(1, 1, [1, 1, 1]), hit(2, 2, [0, 0, 0], doc_id="new")])


def _nothing_shared() -> tuple[dict[str, Any], dict[str, Any]]:
    return stored([hit(1, 1, [1, 1, 1])]), stored([hit(1, 1, [1, 1, 1], doc_id="x")])


def _other_text() -> tuple[dict[str, Any], dict[str, Any]]:
    return stored([hit(1, 1, [1])]), stored([hit(1, 1, [1], text="rewritten")])


def _other_order() -> tuple[dict[str, Any], dict[str, Any]]:
    swapped = [hit(1, 1, [5], doc_id="d2"), hit(2, 2, [4], doc_id="d1")]
    return stored([hit(1, 1, [5]), hit(2, 2, [4])]), stored(swapped)


def _other_scale() -> tuple[dict[str, Any], dict[str, Any]]:
    config = {"scale": 4, "ensemble": "sum"}
    return stored([hit(1, 1, [8])]), stored([hit(1, 1, [3])], config=config)


def _no_scores() -> tuple[dict[str, Any], dict[str, Any]]:
    bare = [hit(1, 1, [], score=None), hit(2, 2, [], score=None)]
    return stored([hit(1, 1, [5]), hit(2, 2, [4])]), stored(bare, ranker="rankgpt")


def _assessed() -> tuple[dict[str, Any], dict[str, Any]]:
    config = {"scale": 10, "ensemble": "assessor"}
    return stored([hit(1, 1, [5])]), stored([hit(1, 1, [5])], config=config)


def _late() -> tuple[dict[str, Any], dict[str, Any]]:
    return stored([hit(1, 1, [5])], partial=True), stored([hit(1, 1, [5])], failure="refused")


def _top_k() -> tuple[dict[str, Any], dict[str, Any]]:
    part = hit(2, 2, [4.0, None], score=None, missing={}, skipped=["Parent"], at_most=14.0)
    return stored([hit(1, 1, [9, 9]), part]), stored([hit(1, 1, [9, 9]), hit(2, 2, [4, 4])])


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (_different_query(), "different queries, so moves may come from the query: “best masks”"),
        (_other_passages(), "not of the same passages: 2 only before, 1 only after"),
        (_nothing_shared(), "no passage in common, so nothing can be said to have moved"),
        (_other_text(), "1 passage with the same id and another text"),
        (_other_order(), "given in another order, which decides between equal scores"),
        (_other_scale(), "from 0 to 10 before and to 4 after"),
        (_no_scores(), "no scores after, only an order"),
        (_assessed(), "worked out as if scores were added up"),
        (_late(), "The ranking before is not complete. The deadline came before all scores."),
        (_late(), "The ranking after is not complete. No passage was judged"),
        (_top_k(), "1 passage not scored by all before"),
    ],
)
def test_what_must_be_known_is_told(pair: tuple[dict[str, Any], dict[str, Any]], said: str) -> None:
    assert any(said in note for note in compare_rankings(*pair).notes)


def test_equal_rankings_need_no_words() -> None:
    same = compare_rankings(stored(FOUR[:3]), stored(FOUR[:3]))
    assert same.notes == ()
    assert same.movers == ()
    assert same.shared_top() == 3


def test_passages_of_one_side_and_those_not_judged_have_no_cause() -> None:
    found = by_id(compare_rankings(*_other_passages()))
    assert found["new"].moved is None
    assert found["d3"].after is None
    assert found["new"].causes == found["d3"].causes == ()
    # Among the passages of both, of which there is one, nothing can move it.
    assert [each.effect for each in found["d1"].causes] == [0, 0, 0]
    part = by_id(compare_rankings(*_top_k()))["d2"]
    assert part.causes == ()


def test_scores_of_another_scale_are_stretched_to_find_the_part() -> None:
    # 5 and 4 of 10 become 2 and 1.6 of 4: with them d1 stands first again.
    config = {"scale": 4, "ensemble": "sum"}
    after = stored([hit(1, 2, [3]), hit(2, 1, [1])], config=config)
    found = by_id(compare_rankings(stored([hit(1, 1, [5]), hit(2, 2, [4])]), after))
    assert [each.effect for each in found["d1"].causes] == [-1]


def test_what_is_refused() -> None:
    with pytest.raises(SchemaError, match="this is no ranking"):
        compare_rankings({"version": 1}, stored(FOUR))
    with pytest.raises(SchemaError, match="a ranking of version 2"):
        compare_rankings(stored(FOUR), stored(FOUR, version=2))
    twice = [hit(1, 1, [5]), hit(2, 2, [4], doc_id="d1")]
    with pytest.raises(SchemaError, match="the ranking after has the id 'd1' twice"):
        compare_rankings(stored([hit(1, 1, [5])]), stored(twice))


def test_no_passages_at_all() -> None:
    empty = compare_rankings(stored([]), stored([]))
    assert empty.passages == ()
    assert empty.shared_top() == 0


def test_as_plain_values() -> None:
    data = compare_rankings(stored(FOUR), stored(CHANGED), grades={"d1": 1}).to_dict()
    assert json.loads(json.dumps(data)) == data
    first = data["hits"][0]
    assert (first["doc_id"], first["moved"], first["grade"]) == ("d1", 2, 1)
    assert first["before"]["scores"] == {"Virologist": 5, "Parent": 5, "Editor": 5}
    assert first["causes"][0]["change"] == 4
    assert data["ndcg@10"] == {"before": pytest.approx(1 / math.log2(4)), "after": 1.0}


def test_a_team_without_criteria_and_one_that_has_some() -> None:
    one = stored([hit(1, 1, [5])], team=team(member("Virologist")))
    two = stored([hit(1, 1, [6])], team=team(member("Virologist", 70, 30)))
    found = compare_rankings(one, two)
    assert found.team
    (cause,) = found.passages[0].causes
    assert cause.edited
    assert cause.criteria == ()
    assert Team.model_validate(two["team"]).members[0].rubric is not None
