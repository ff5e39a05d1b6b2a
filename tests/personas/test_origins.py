"""Members that a person edited."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given

from personas import Criterion, Member, Persona, Rubric, dumps, library, loads
from personas.origins import edited, origin, sealed
from tests.personas.test_schema import FORMATS, members

EFFECT = Criterion(name="Effect", description="It says how well a mask filters.", weight=50)
SAFETY = Criterion(name="Safety", description="It says what may go wrong.", weight=30)
COST = Criterion(name="Cost", description="It names a price.", weight=20)
VIROLOGIST = Persona(name="Virologist", description="Knows how viruses spread.", reason="masks")


def _recruit(*criteria: Criterion) -> Member:
    rubric = Rubric(criteria=criteria) if criteria else None
    return Member(persona=VIROLOGIST, rubric=rubric, origin="recruited")


RECRUIT = sealed(_recruit(EFFECT, SAFETY, COST))


def _with(member: Member, *criteria: Criterion) -> Member:
    return member.model_copy(update={"rubric": Rubric(criteria=criteria)})


def _renamed(member: Member, **changed: str) -> Member:
    return member.model_copy(update={"persona": member.persona.model_copy(update=changed)})


def _changed(criterion: Criterion, **changed: object) -> Criterion:
    return criterion.model_copy(update=changed)


def _weighing(*weights: float) -> Member:
    pairs = zip((EFFECT, SAFETY, COST), weights, strict=True)
    return _with(RECRUIT, *(_changed(each, weight=weight) for each, weight in pairs))


COMFORT = Criterion(name="Comfort", weight=25)
BARE = Member(persona=VIROLOGIST)


@pytest.mark.parametrize(
    ("member", "changed"),
    [
        (RECRUIT, False),
        (RECRUIT.model_copy(update={"rubric": None}), True),
        (_renamed(RECRUIT, name="Epidemiologist"), True),
        (_renamed(RECRUIT, description="Knows flu."), True),
        (_renamed(RECRUIT, reason="another"), False),
        (_with(RECRUIT, _changed(EFFECT, name="Other"), SAFETY, COST), True),
        (_with(RECRUIT, EFFECT, SAFETY, _changed(COST, description="O")), True),
        (_with(RECRUIT, EFFECT, SAFETY, COST, COMFORT), True),
        (_with(RECRUIT, EFFECT, COST), True),
        (_weighing(30, 50, 20), True),
        (_weighing(50, 30, 21), True),
        *((_with(RECRUIT, *order), False) for order in permutations((EFFECT, SAFETY, COST))),
        # Without a seal a recruit is the model's.
        (_recruit(EFFECT, SAFETY, COST), False),
        (_recruit(), False),
        (_with(BARE, EFFECT, COST), False),
    ],
)
def test_what_is_edited(member: Member, changed: bool) -> None:
    assert edited(member) is changed


def test_origin_in_words() -> None:
    assert origin(RECRUIT) == "recruited by the model"
    assert origin(_with(RECRUIT, EFFECT)) == "recruited by the model; edited by hand"
    assert origin(_with(BARE, EFFECT)) == "added by hand"


@pytest.mark.parametrize("name", library.member_names())
def test_a_member_of_the_library_is_not_edited(name: str) -> None:
    member = library.member(name)
    assert not edited(member)
    assert not edited(loads(Member, dumps(member)))
    assert not edited(member.model_copy(update={"rubric": None}))


@pytest.mark.parametrize("format", FORMATS)
@given(member=members)
def test_seals_outlive_a_file(format: str, member: Member) -> None:  # noqa: A002
    kept = sealed(member)
    again = loads(Member, dumps(kept, format=format), format=format)
    assert again == kept
    assert not edited(again)
