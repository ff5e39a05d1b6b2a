"""What differs between teams, members and rubrics."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from personas import Criterion, Member, Persona, Rubric, Team, diff_teams, dumps, library, loads
from personas.provenance import sealed
from personas.team_diff import (
    Changed,
    CriterionDiff,
    MemberDiff,
    Moved,
    RubricDiff,
    TeamDiff,
    diff_members,
    diff_rubrics,
)
from tests.personas.test_schema import members, rubrics, teams

EFFECT = Criterion(name="Effect", description="It says how well a mask filters.", weight=50)
SAFETY = Criterion(name="Safety", description="It says what may go wrong.", weight=30)
COST = Criterion(name="Cost", description="It names a price.", weight=20)
RUBRIC = Rubric(criteria=(EFFECT, SAFETY, COST), reason="what matters")
NURSE = Member(persona=Persona(name="Nurse", description="Wears masks all day."), rubric=RUBRIC)
PARENT = Member(persona=Persona(name="Parent", description="Buys masks for children."))
CHEMIST = Member(persona=Persona(name="Chemist", description="Knows how filters are made."))
DOCTOR = Member(persona=Persona(name="Doctor", description="Treats those who fell ill."))

NO_CRITERION = CriterionDiff("", None, None, None)
NO_RUBRIC = RubricDiff((), (), (), (), None)
NO_MEMBER = MemberDiff("Nurse", None, None, None, None, None, None, None, None)
NOTHING = TeamDiff((), (), (), (), None, None, None, None)


def _team(*who: Member, name: str = "", description: str = "", query: str = "") -> Team:
    return Team(members=who, name=name, description=description, query=query)


def _rubric(*criteria: Criterion) -> Rubric:
    return Rubric(criteria=criteria, reason=RUBRIC.reason)


def _is(criterion: Criterion, **changed: object) -> Criterion:
    return criterion.model_copy(update=changed)


def _persona(member: Member, **changed: object) -> Member:
    return member.model_copy(update={"persona": member.persona.model_copy(update=changed)})


@given(team=teams)
def test_a_team_does_not_differ_from_itself(team: Team) -> None:
    found = diff_teams(team, loads(Team, dumps(team)))
    assert found == NOTHING
    assert not found


@settings(max_examples=50)
@given(before=teams, after=teams)
def test_teams_that_differ_give_a_difference(before: Team, after: Team) -> None:
    found = diff_teams(before, after)
    stayed = len(after.members) - len(found.added)
    assert stayed == len(before.members) - len(found.removed)
    assert bool(found) == (diff_teams(after, before) != NOTHING)
    if not found:  # but for digits of weights that do not count
        assert before.names == after.names


@settings(max_examples=50)
@given(before=members, after=members)
def test_a_member_differs_both_ways_or_not_at_all(before: Member, after: Member) -> None:
    assert bool(diff_members(before, after)) == bool(diff_members(after, before))


@settings(max_examples=50)
@given(before=rubrics, after=rubrics)
def test_every_criterion_is_accounted_for(before: Rubric, after: Rubric) -> None:
    found = diff_rubrics(before, after)
    stayed = len(after.criteria) - len(found.added)
    assert stayed == len(before.criteria) - len(found.removed)
    assert {each.name for each in found.changed} <= {each.name for each in after.criteria}


def test_members_are_added_and_removed() -> None:
    found = diff_teams(_team(NURSE, PARENT), _team(CHEMIST, NURSE, DOCTOR))
    assert (found.added, found.removed) == ((CHEMIST, DOCTOR), (PARENT,))
    assert (found.changed, found.moved) == ((), ())
    assert found


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        ([NURSE, PARENT, CHEMIST, DOCTOR], []),
        ([DOCTOR, NURSE, PARENT, CHEMIST], [Moved("Doctor", 4, 1)]),
        ([PARENT, CHEMIST, DOCTOR, NURSE], [Moved("Nurse", 1, 4)]),
        ([NURSE, CHEMIST, PARENT, DOCTOR], [Moved("Chemist", 3, 2)]),
    ],
)
def test_as_few_as_possible_have_moved(order: list[Member], moved: list[Moved]) -> None:
    found = diff_teams(_team(NURSE, PARENT, CHEMIST, DOCTOR), _team(*order))
    assert list(found.moved) == moved
    assert (found.added, found.removed, found.changed) == ((), (), ())


def test_a_member_with_another_name_and_description_is_known_by_its_criteria() -> None:
    # Two of three criteria are the same: "Effect" and "Cost".
    rewritten = _is(SAFETY, name="Risk", description="Anything else altogether.")
    renamed = _persona(NURSE, name="Ward sister", description="Trains new staff on a ward.")
    renamed = renamed.model_copy(update={"rubric": _rubric(EFFECT, rewritten, COST)})
    found = diff_teams(_team(NURSE, PARENT), _team(renamed, PARENT))
    assert (found.added, found.removed) == ((), ())
    assert found.changed[0].renamed == Changed("Nurse", "Ward sister")
    other = renamed.model_copy(update={"rubric": _rubric(EFFECT, rewritten)})
    assert diff_teams(_team(NURSE), _team(other)).added == (other,)


def test_who_is_behind_somebody_removed_has_not_moved() -> None:
    assert diff_teams(_team(NURSE, PARENT, DOCTOR), _team(PARENT, DOCTOR)).moved == ()


def test_what_is_said_about_the_team() -> None:
    before = _team(NURSE, name="Masks", query="best masks")
    after = _team(NURSE, name="Mask team", description="for shops").lock()
    assert diff_teams(before, after) == TeamDiff(
        (),
        (),
        (),
        (),
        title=Changed("Masks", "Mask team"),
        description=Changed("", "for shops"),
        query=Changed("best masks", ""),
        locked=Changed(before=False, after=True),
    )


def test_what_is_said_about_a_member() -> None:
    after = _persona(NURSE, description="Works.", topics=("masks",), reason="asked")
    after = after.model_copy(update={"origin": "recruited"})
    assert diff_members(NURSE, after) == MemberDiff(
        "Nurse",
        renamed=None,
        description=Changed("Wears masks all day.", "Works."),
        topics=Changed((), ("masks",)),
        reason=Changed("", "asked"),
        origin=Changed("human", "recruited"),
        whole_rubric=None,
        rubric=None,
        by_model=None,
    )
    assert not diff_members(NURSE, NURSE)


def test_a_rubric_is_added_or_removed_as_a_whole() -> None:
    bare = NURSE.model_copy(update={"rubric": None})
    assert diff_members(bare, NURSE).whole_rubric == Changed(None, RUBRIC)
    assert diff_members(NURSE, bare).whole_rubric == Changed(RUBRIC, None)
    assert diff_members(bare, bare) == NO_MEMBER


def test_notes_on_what_a_model_wrote_count() -> None:
    noted = sealed(NURSE, persona=True, rubric=True)
    found = diff_members(NURSE, noted)
    assert found.by_model == Changed((), noted.by_model)
    assert diff_teams(_team(NURSE), _team(noted)).changed == (found,)


def test_a_member_is_the_same_in_another_case() -> None:
    found = diff_teams(_team(NURSE), _team(_persona(NURSE, name="NURSE")))
    assert (found.added, found.removed) == ((), ())
    assert found.changed[0].renamed == Changed("Nurse", "NURSE")


def test_a_renamed_member_is_known_by_what_it_looks_for() -> None:
    renamed = _persona(NURSE, name="Hospital nurse", reason="asked")
    found = diff_teams(_team(PARENT, NURSE), _team(PARENT, renamed))
    assert (found.added, found.removed) == ((), ())
    assert [each.name for each in found.changed] == ["Hospital nurse"]
    assert found.changed[0].renamed == Changed("Nurse", "Hospital nurse")
    assert found.changed[0].reason == Changed("", "asked")


def test_members_of_the_library_are_never_taken_for_each_other() -> None:
    everybody = library.members()
    half = len(everybody) // 2
    before, after = _team(*everybody[:half]), _team(*everybody[half:])
    found = diff_teams(before, after)
    assert (found.added, found.removed) == (after.members, before.members)


def test_criteria_added_and_removed() -> None:
    comfort = Criterion(name="Comfort", weight=50)
    found = diff_rubrics(_rubric(EFFECT, SAFETY, COST), _rubric(comfort, _is(EFFECT, weight=50.0)))
    assert (found.added, found.removed) == ((comfort,), (SAFETY, COST))
    assert (found.changed, found.moved, found.reason) == ((), (), None)


def test_changed_texts_and_weights() -> None:
    after = _rubric(_is(EFFECT, weight=30.0), _is(SAFETY, weight=50.0, description="Risks."), COST)
    assert diff_rubrics(RUBRIC, after).changed == (
        CriterionDiff("Effect", None, None, Changed(50.0, 30.0)),
        CriterionDiff(
            "Safety", None, Changed("It says what may go wrong.", "Risks."), Changed(30.0, 50.0)
        ),
    )


def test_digits_that_normalising_changes_are_no_difference() -> None:
    third = [Criterion(name=name, weight=100 / 3) for name in "abc"]
    weights = (33.3333333, 33.3333333, 33.3333334)
    written = [
        Criterion(name=name, weight=weight) for name, weight in zip("abc", weights, strict=True)
    ]
    assert diff_rubrics(_rubric(*third), _rubric(*written)) == NO_RUBRIC
    off = [
        Criterion(name=name, weight=weight)
        for name, weight in zip("abc", (33, 33, 34), strict=True)
    ]
    # 100 / 3 = 33.33... against 33, 33 and 34
    assert len(diff_rubrics(_rubric(*third), _rubric(*off)).changed) == 3


def test_criteria_that_moved() -> None:
    assert diff_rubrics(RUBRIC, _rubric(COST, EFFECT, SAFETY)).moved == (Moved("Cost", 3, 1),)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        # The same description under another name.
        ("Dangers", SAFETY.description),
        # 6 words in common of 7 before and 8 after: 2 * 6 / 15 = 0.8.
        ("Safety first", "It says what may go awry."),
        ("Dangers", "it says what may go  WRONG."),
    ],
)
def test_a_renamed_criterion_is_known_by_its_text(name: str, description: str) -> None:
    found = diff_rubrics(
        RUBRIC, _rubric(EFFECT, _is(SAFETY, name=name, description=description), COST)
    )
    assert (found.added, found.removed) == ((), ())
    assert found.changed[0].name == name
    assert found.changed[0].renamed == Changed("Safety", name)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        # 5 words in common of 7 before and 8 after: 2 * 5 / 15 = 0.67.
        ("Dangers", "It says what may go badly awry."),
        ("Dangers", ""),
        ("Safety first", ""),
    ],
)
def test_another_criterion_is_not_a_renamed_one(name: str, description: str) -> None:
    other = _is(SAFETY, name=name, description=description)
    found = diff_rubrics(RUBRIC, _rubric(EFFECT, other, COST))
    assert (found.added, found.removed, found.changed) == ((other,), (SAFETY,), ())


def test_two_empty_or_short_descriptions_do_not_make_criteria_the_same() -> None:
    for description in ("", "see above"):
        before = Criterion(name="Depth", description=description)
        after = Criterion(name="Breadth", description=description)
        found = diff_rubrics(_rubric(before), _rubric(after))
        assert (found.added, found.removed) == ((after,), (before,))


def test_the_most_alike_are_taken_for_each_other() -> None:
    long = "It says in numbers how well a mask filters the air that is breathed in"
    before = _rubric(
        _is(EFFECT, name="A", description=f"{long} slowly", weight=50.0),
        _is(EFFECT, name="B", description=f"{long} fast", weight=50.0),
    )
    after = _rubric(_is(EFFECT, name="C", description=f"{long} fast", weight=100.0))
    found = diff_rubrics(before, after)
    assert [each.renamed for each in found.changed] == [Changed("B", "C")]
    assert [each.name for each in found.removed] == ["A"]


def test_every_field_counts() -> None:
    for nothing in (NO_CRITERION, NO_RUBRIC, NO_MEMBER, NOTHING):
        assert not nothing
    assert CriterionDiff("a", Changed("b", "a"), None, None)
    assert RubricDiff((), (), (), (Moved("a", 1, 2),), None)
    assert RubricDiff((), (), (), (), Changed("", "a"))
