"""What differs between teams, members and rubrics."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given, settings

from personas import Criterion, Member, Persona, Rubric, Team, diff_teams, dumps, library, loads
from personas.team_diff import (
    Changed,
    CriterionDiff,
    MemberDiff,
    RubricDiff,
    TeamDiff,
    diff_members,
    diff_rubrics,
)
from tests.personas.test_schema import teams

EFFECT = Criterion(name="Effect", description="It says how well a mask filters.", weight=50)
SAFETY = Criterion(name="Safety", description="It says what may go wrong.", weight=30)
COST = Criterion(name="Cost", description="It names a price.", weight=20)
RUBRIC = Rubric(criteria=(EFFECT, SAFETY, COST), reason="what matters")
NURSE = Member(persona=Persona(name="Nurse", description="Wears masks all day."), rubric=RUBRIC)
PARENT = Member(persona=Persona(name="Parent", description="Buys masks for children."))
CHEMIST = Member(persona=Persona(name="Chemist", description="Knows how filters are made."))
DOCTOR = Member(persona=Persona(name="Doctor", description="Treats those who fell ill."))


def _team(*who: Member, name: str = "", description: str = "", query: str = "") -> Team:
    return Team(members=who, name=name, description=description, query=query)


def _rubric(*criteria: Criterion) -> Rubric:
    return Rubric(criteria=criteria, reason=RUBRIC.reason)


def _is(criterion: Criterion, **changed: object) -> Criterion:
    return criterion.model_copy(update=changed)


def _persona(member: Member, **changed: object) -> Member:
    return member.model_copy(update={"persona": member.persona.model_copy(update=changed)})


def _said(diff: TeamDiff | MemberDiff | RubricDiff | CriterionDiff) -> dict[str, object]:
    """What differs, by field."""
    values = {field.name: getattr(diff, field.name) for field in fields(diff)}
    said = {name: value for name, value in values.items() if value and name != "name"}
    assert bool(diff) == bool(said)
    return said


@given(team=teams)
def test_a_team_does_not_differ_from_itself(team: Team) -> None:
    assert _said(diff_teams(team, loads(Team, dumps(team)))) == {}


@settings(max_examples=50)
@given(before=teams, after=teams)
def test_teams_that_differ_give_a_difference(before: Team, after: Team) -> None:
    found = diff_teams(before, after)
    stayed = len(after.members) - len(found.added)
    assert stayed == len(before.members) - len(found.removed)
    assert bool(found) == bool(diff_teams(after, before))
    if not found:  # but for digits of weights that do not count
        assert before.names == after.names


BARE = NURSE.model_copy(update={"rubric": None})
RECRUITED = NURSE.model_copy(update={"origin": "recruited"})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (NURSE, NURSE, {}),
        (
            NURSE,
            _persona(NURSE, description="Works.", topics=("masks",), reason="asked"),
            {
                "description": Changed("Wears masks all day.", "Works."),
                "topics": Changed((), ("masks",)),
                "reason": Changed("", "asked"),
            },
        ),
        (NURSE, _persona(NURSE, name="NURSE"), {"renamed": Changed("Nurse", "NURSE")}),
        (NURSE, _persona(NURSE, name="Ward nurse"), {"renamed": Changed("Nurse", "Ward nurse")}),
        (NURSE, RECRUITED, {"origin": Changed("human", "recruited")}),
        (BARE, NURSE, {"whole_rubric": Changed(None, RUBRIC)}),
        (NURSE, BARE, {"whole_rubric": Changed(RUBRIC, None)}),
        (BARE, BARE, {}),
    ],
)
def test_what_differs_in_a_member(before: Member, after: Member, said: dict[str, object]) -> None:
    found = diff_members(before, after)
    assert _said(found) == said
    # In a team it is the same member, however it is called.
    in_team = diff_teams(_team(PARENT, before), _team(PARENT, after))
    assert _said(in_team) == ({"changed": (found,)} if said else {})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            _team(NURSE, PARENT),
            _team(CHEMIST, NURSE, DOCTOR),
            {"added": (CHEMIST, DOCTOR), "removed": (PARENT,)},
        ),
        (_team(NURSE, PARENT, DOCTOR), _team(PARENT, DOCTOR), {"removed": (NURSE,)}),
        (
            _team(NURSE, name="Masks", query="best masks"),
            _team(NURSE, name="Mask team", description="for shops").lock(),
            {
                "title": Changed("Masks", "Mask team"),
                "description": Changed("", "for shops"),
                "query": Changed("best masks", ""),
                "locked": Changed(before=False, after=True),
            },
        ),
    ],
)
def test_what_differs_in_a_team(before: Team, after: Team, said: dict[str, object]) -> None:
    assert _said(diff_teams(before, after)) == said


def _weighed(*weights: float) -> Rubric:
    pairs = zip("abc", weights, strict=True)
    return _rubric(*(Criterion(name=name, weight=weight) for name, weight in pairs))


COMFORT = Criterion(name="Comfort", weight=50)
SHORT = [Criterion(name=name, description="see above") for name in ("Depth", "Breadth")]
EMPTY = [Criterion(name=name) for name in ("Depth", "Breadth")]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            RUBRIC,
            _rubric(COMFORT, _is(EFFECT, weight=50.0)),
            {"added": (COMFORT,), "removed": (SAFETY, COST)},
        ),
        (
            RUBRIC,
            _rubric(_is(EFFECT, weight=30.0), _is(SAFETY, weight=50.0, description="Risks."), COST),
            {
                "changed": (
                    CriterionDiff("Effect", None, None, Changed(50.0, 30.0)),
                    CriterionDiff(
                        "Safety",
                        None,
                        Changed("It says what may go wrong.", "Risks."),
                        Changed(30.0, 50.0),
                    ),
                )
            },
        ),
        (RUBRIC, Rubric(criteria=RUBRIC.criteria), {"reason": Changed("what matters", "")}),
        (RUBRIC, _rubric(COST, EFFECT, SAFETY), {}),
        # Digits that normalising changes are no difference.
        (_weighed(*[100 / 3] * 3), _weighed(33.3333333, 33.3333333, 33.3333334), {}),
        # Two empty or short descriptions do not make criteria the same.
        *(
            (_rubric(one), _rubric(other), {"added": (other,), "removed": (one,)})
            for one, other in (EMPTY, SHORT)
        ),
    ],
)
def test_what_differs_in_a_rubric(before: Rubric, after: Rubric, said: dict[str, object]) -> None:
    assert _said(diff_rubrics(before, after)) == said
    # 100 / 3 = 33.33... against 33, 33 and 34
    assert len(diff_rubrics(_weighed(*[100 / 3] * 3), _weighed(33, 33, 34)).changed) == 3


@pytest.mark.parametrize(
    ("name", "description", "same"),
    [
        # The same description under another name.
        ("Dangers", SAFETY.description, True),
        ("Dangers", "it says what may go  WRONG.", True),
        ("Dangers", "It says what may go badly awry.", False),
        ("Dangers", "", False),
        ("Safety first", "", False),
    ],
)
def test_a_renamed_criterion_is_known_by_its_text(name: str, description: str, same: bool) -> None:
    other = _is(SAFETY, name=name, description=description)
    found = diff_rubrics(RUBRIC, _rubric(EFFECT, other, COST))
    assert (found.added, found.removed) == (((), ()) if same else ((other,), (SAFETY,)))
    assert [each.renamed for each in found.changed] == [Changed("Safety", name)] * same


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


def test_members_of_the_library_are_never_taken_for_each_other() -> None:
    everybody = library.members()
    half = len(everybody) // 2
    before, after = _team(*everybody[:half]), _team(*everybody[half:])
    found = diff_teams(before, after)
    assert (found.added, found.removed) == (after.members, before.members)
