"""What a comparison of rankings works out: who moved a passage, and what must be known first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from personas import Criterion, Member, Persona, Rubric
from personas.errors import SchemaError
from personas.ranking.comparison import ComparedPassage, RankingComparison
from personas.report.comparison import whose
from tests.personas.ranking.test_inspection import FOUR, NAMES, hit, stored

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
    return {each.doc_id: each for each in RankingComparison.of(*pair).passages}


def parts(passage: ComparedPassage) -> dict[str, float]:
    """What each persona added to the mean score, in thirtieths: points of a team of three."""
    return {each.persona: round(30 * each.part, 6) for each in passage.causes}


def called(hits: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """The hits with other names of the personas."""
    new = dict(zip(NAMES, names, strict=True))
    return [
        each | {key: {new[name]: value for name, value in each[key].items()} for key in SCORED}
        for each in hits
    ]


SCORED = ("scores", "missing")


def test_the_persona_whose_scores_changed_moved_the_passages() -> None:
    found = RankingComparison.of(stored(FOUR), stored(CHANGED), grades={"d1": 1, "gone": 0})
    # From 3 to 1 is a change of the discount by 1 - 1/2, and so is from 1 to 3.
    assert [(each.doc_id, each.weight, each.moved, each.grade) for each in found.passages] == [
        ("d1", 0.5, 2, 1),
        ("d2", 0.5, -2, None),
        ("d3", 0, 0, None),
        ("d4", 0, 0, None),
    ]
    assert [each.doc_id for each in found.movers] == ["d1", "d2"]
    (first,) = found.passages[0].causes
    assert (first.persona, first.before, first.after) == ("Virologist", 5, 9)
    # Four points of 30 more for d1, and five less for d2.
    assert [parts(each) for each in found.movers] == [{"Virologist": 4}, {"Virologist": -5}]
    assert found.shares == {"Virologist": 1}
    assert (found.passages[2].causes, found.team, found.settings) == ((), None, ())
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
    (cause,) = hits["d1"]["causes"]
    assert (cause["persona"], cause["part"]) == ("Virologist", pytest.approx(4 / 30))
    assert hits["d4"]["after"]["missing"] == {"Parent": "no number in the answer"}
    assert data["ndcg@10"] == {"before": 0.5, "after": 1.0}
    irrelevant = RankingComparison.of(stored(FOUR), stored(CHANGED), grades={"d2": 0})
    assert (irrelevant.ndcg_before, irrelevant.ndcg_after) == (None, None)


def test_a_persona_that_left_and_one_that_joined() -> None:
    scores = (hit(1, 1, [5, 5, 9]), hit(2, 2, [9, 2, 1]), hit(3, 3, [1, 8, 1]))
    after = called(list(scores), "Virologist", "Parent", "Nurse")
    found = RankingComparison.of(stored(FOUR[:3]), stored(after))
    first = {each.doc_id: each for each in found.passages}["d1"]
    assert (first.before and first.before.rank, first.after and first.after.rank) == (3, 1)
    nurse, editor, *rest = first.causes
    # The means are 15 and 19 of 30, and 17 between them: 9 is 10/3 above a third of that, and the 5
    # that left 2/3 below it.
    assert (nurse.persona, nurse.joined, nurse.left) == ("Nurse", True, False)
    assert 30 * nurse.part == pytest.approx(9 - 17 / 3)
    assert (editor.persona, editor.joined, editor.left) == ("Editor", False, True)
    assert 30 * editor.part == pytest.approx(17 / 3 - 5)
    assert rest == []
    assert (editor.before, editor.after) == (5, None)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert whose(first) == "Nurse - → 9 (+0.111), Editor 5 → - (+0.022)"


def test_teams_of_other_sizes_are_compared_by_their_means() -> None:
    # Sums of three less sums of two would all fall; the means are 5 and 6, 4 and 3 of 10.
    three = stored([hit(1, 1, [6, 5, 4]), hit(2, 2, [4, 4, 4])])
    two = stored([hit(1, 1, [7, 5]), hit(2, 2, [3, 3])])
    first, second = RankingComparison.of(three, two).passages
    assert sum(each.part for each in first.causes) == pytest.approx(0.1)
    assert sum(each.part for each in second.causes) == pytest.approx(-0.1)


def test_a_persona_under_another_name_is_the_same_one() -> None:
    about = "Looks at every study of masks, and at how large it was."

    def named(name: str) -> dict[str, Any]:
        members = member("Virologist"), member(name, about=about), member("Editor")
        return {"team": team(*members)}

    renamed = stored(called(CHANGED, "Virologist", "Mother", "Editor"), **named("Mother"))
    found = RankingComparison.of(stored(FOUR, **named("Parent")), renamed)
    assert found.team
    assert found.team.renamed == {"Mother": "Parent"}
    (cause,) = found.passages[0].causes
    assert cause.persona == "Virologist"


def test_settings_that_differ() -> None:
    other = {"scale": 10, "ensemble": "reciprocal_rank", "missing_policy": "mean_of_team"}
    after = stored(FOUR[:3], config=other)
    found = RankingComparison.of(stored(FOUR[:3]), after)
    assert all(each.causes == () for each in found.passages)
    assert [(each.name, each.before, each.after) for each in found.settings] == [
        ("ensemble", "sum", "reciprocal_rank"),
    ]


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
        (ONE | {"partial": True}, ONE, "before is not complete. The deadline came before all"),
        (ONE, ONE | {"failure": "refused"}, "after is not complete. No passage was judged"),
        (ONE, stored([], failure="refused"), "There is no ranking after: refused"),
    ],
)
def test_what_must_be_known(before: dict[str, Any], after: dict[str, Any], said: str) -> None:
    assert any(said in note for note in RankingComparison.of(before, after).notes)


def test_scores_of_another_scale_are_compared_by_their_share_of_it() -> None:
    # d1 goes from 5 of 10 to 1 of 4, d2 from 4 of 10 to 3 of 4.
    after = stored([hit(1, 2, [3]), hit(2, 1, [1])], config=OF_FOUR)
    found = by_id(TWO, after)
    assert [found[each].causes[0].part for each in ("d1", "d2")] == pytest.approx([-0.25, 0.35])


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
        RankingComparison.of(before, after)


def test_without_scores_no_persona_moved_a_passage() -> None:
    bare = stored([hit(1, 1, [None] * 3, doc_id="b"), hit(2, 2, [None] * 3, doc_id="a")])
    scores = stored([hit(1, 1, [5, 5, 5], doc_id="a"), hit(2, 2, [4, 4, 4], doc_id="b")])
    for pair in ((scores, bare), (bare, scores)):
        found = RankingComparison.of(*pair)
        assert any(note.startswith("There are no scores") for note in found.notes)
        assert all(not each.causes for each in found.passages)
        assert not any("imputed" in note for note in found.notes)
