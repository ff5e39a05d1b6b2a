"""Differences between teams, as lines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from personas import Criterion, Member, Persona, Rubric, Team, diff_teams, dumps, library, loads
from tests.personas.test_schema import teams

EFFECT = Criterion(name="Effect", description="It says how well a mask filters.", weight=50)
SAFETY = Criterion(name="Safety", description="It says what may go wrong.", weight=30)
COST = Criterion(name="Cost", description="It names a price.", weight=20)
RUBRIC = Rubric(criteria=(EFFECT, SAFETY, COST), reason="what matters")
NURSE = Member(persona=Persona(name="Nurse", description="Wears masks all day."), rubric=RUBRIC)
PARENT = Member(persona=Persona(name="Parent", description="Buys masks for children."))
CHEMIST = Member(persona=Persona(name="Chemist", description="Knows how filters are made."))


def _rubric(*criteria: Criterion) -> Rubric:
    return Rubric(criteria=criteria, reason=RUBRIC.reason)


def _is(criterion: Criterion, **changed: object) -> Criterion:
    return criterion.model_copy(update=changed)


def _with(member: Member, rubric: Rubric | None) -> Member:
    return member.model_copy(update={"rubric": rubric})


def _persona(member: Member, **changed: object) -> Member:
    return member.model_copy(update={"persona": member.persona.model_copy(update=changed)})


def said(before: Team, after: Team) -> list[str]:
    return [f"{each.mark} {each.said}" for each in diff_teams(before, after).lines]


@settings(max_examples=30)
@given(before=teams, after=teams)
def test_teams_differ_unless_they_are_equal(before: Team, after: Team) -> None:
    assert not diff_teams(before, loads(Team, dumps(before)))
    found = diff_teams(before, after)
    assert bool(found) == bool(diff_teams(after, before))
    if not found:  # but for digits of weights that do not count
        assert before.names == after.names


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (NURSE, _persona(NURSE, topics=("masks",), reason="asked"), ["topics: +masks", "why: - →"]),
        (NURSE, _persona(NURSE, name="Ward nurse"), ["Ward nurse, was Nurse"]),
        (NURSE, NURSE.model_copy(update={"origin": "recruited"}), ["recruited by the model"]),
        (_with(NURSE, None), NURSE, ["+ 50% Effect", "+ 30% Safety", "+ 20% Cost"]),
        (NURSE, _with(NURSE, None), ["- 50% Effect"]),
        (NURSE, NURSE.model_copy(update={"weight": 2.0}), ["weight: 1 → 2"]),
        (
            NURSE,
            _with(NURSE, _rubric(_is(EFFECT, weight=30.0), _is(SAFETY, weight=50.0), COST)),
            ["Effect: 50% → 30%", "Safety: 30% → 50%"],
        ),
        (NURSE, _with(NURSE, Rubric(criteria=RUBRIC.criteria)), ["reason: what matters → -"]),
    ],
)
def test_lines_say_what_differs_in_a_member(
    before: Member, after: Member, expected: list[str]
) -> None:
    found = said(Team(members=(PARENT, before)), Team(members=(PARENT, after)))
    assert all(any(each in line for line in found) for each in expected), found
    assert not any("Parent" in line for line in found)


def test_lines_say_what_differs_in_a_team() -> None:
    before = Team(members=(NURSE, PARENT), name="Masks", query="best masks")
    after = Team(members=(CHEMIST, NURSE), name="Mask team").lock()
    assert said(before, after) == [
        "~ name: Masks → Mask team",
        "~ query: best masks → -",
        "~ locked: no → yes",
        "+ Chemist, added by hand",
        "+ Knows how filters are made.",
        "- Parent, added by hand",
        "- Buys masks for children.",
    ]


def test_order_and_lost_digits_are_no_difference() -> None:
    thirds = [Criterion(name=name, weight=100 / 3) for name in "abc"]
    rounded = [Criterion(name=name, weight=33.3333333) for name in "cba"]
    pair = [Team(members=(_with(NURSE, _rubric(*each)),)) for each in (thirds, rounded)]
    assert not diff_teams(*pair)


@pytest.mark.parametrize(
    ("name", "description", "same"),
    [
        ("Dangers", "it says what may go  WRONG.", True),
        ("Dangers", "It says what may go badly awry.", False),
        ("Dangers", "", False),
    ],
)
def test_a_renamed_criterion_is_known_by_its_text(name: str, description: str, same: bool) -> None:
    other = _is(SAFETY, name=name, description=description)
    after = Team(members=(_with(NURSE, _rubric(EFFECT, other, COST)),))
    found = said(Team(members=(NURSE,)), after)
    assert any(f"{name}, was Safety" in line for line in found) == same


def test_a_renamed_member_is_known_by_half_of_its_criteria() -> None:
    rewritten = _is(SAFETY, name="Risk", description="Anything else altogether.")
    ease = _is(SAFETY, name="Ease", description="Put on in a second.")
    renamed = _persona(NURSE, name="Ward sister", description="Trains new staff on a ward.")
    found = diff_teams(
        Team(members=(NURSE, PARENT)),
        Team(members=(_with(renamed, _rubric(EFFECT, rewritten, COST, ease)), PARENT)),
    )
    assert found.renamed == {"Ward sister": "Nurse"}
    other = Team(members=(_with(renamed, _rubric(EFFECT, rewritten)),))
    assert not diff_teams(Team(members=(NURSE,)), other).renamed


def test_members_of_the_library_are_never_taken_for_each_other() -> None:
    everybody = library.members()
    half = len(everybody) // 2
    pair = Team(members=everybody[:half]), Team(members=everybody[half:])
    assert not diff_teams(*pair).renamed
