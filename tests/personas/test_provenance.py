"""Members that a person edited."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given

from personas import Criterion, Member, Persona, Rubric, SchemaError, Team, dumps, library, loads
from personas.provenance import edited, origin, sealed
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
    assert origin(_with(RECRUIT, EFFECT)) == "recruited by the model; edited by a person"
    assert origin(_with(BARE, EFFECT)) == "added by a person"


@pytest.mark.parametrize("name", library.member_names())
def test_a_member_of_the_library_is_not_edited(name: str) -> None:
    member = library.member(name)
    assert not edited(member)
    assert not edited(loads(Member, dumps(member)))
    assert not edited(member.model_copy(update={"rubric": None}))


EDITED_BY_HAND = """\
persona:
  description: >
    Knows how
    viruses   spread.


  name: "Virologist "
rubric:
  criteria:
  - weight: 0.2
    name: Cost
    description: |
      It names
      a price.
  - {name: Effect, description: It says how well a mask filters., weight: 0.5}
  - {name: Safety, description: It says what may go wrong.}
origin: recruited
seal: '%s'
"""


def test_another_way_of_writing_yaml_or_accents_is_no_edit() -> None:
    member = loads(Member, EDITED_BY_HAND % RECRUIT.seal)
    assert not edited(member)
    cafe = Member(persona=Persona(name="Caf\u00e9 owner"), origin="recruited")
    assert not edited(_renamed(sealed(cafe), name="Cafe\u0301 owner"))


@pytest.mark.parametrize("weights", [("30", "70"), ("30%", "70%"), (3, 7), (0.3, 0.7), (1.2, 2.8)])
def test_weights_in_any_form_have_the_same_digest(weights: tuple[object, object]) -> None:
    data = [{"name": name, "weight": weight} for name, weight in zip("ab", weights, strict=True)]
    plain = Rubric(criteria=(Criterion(name="a", weight=30), Criterion(name="b", weight=70)))
    member = sealed(Member(persona=VIROLOGIST, rubric=plain, origin="recruited"))
    again = member.model_copy(update={"rubric": Rubric.model_validate({"criteria": data})})
    assert not edited(again)


@pytest.mark.parametrize("name", ["clinician", "nlp_scientist"])
def test_changes_to_a_member_of_the_library_are_seen(name: str) -> None:
    member = library.member(name)
    assert member.rubric is not None
    first, second, *rest = member.rubric.criteria
    assert edited(_renamed(member, name="Country doctor"))
    assert edited(_with(member, _changed(first, name="Other"), second, *rest))
    swapped = (_changed(first, weight=second.weight), _changed(second, weight=first.weight))
    assert edited(_with(member, *swapped, *rest))
    assert not edited(_with(member, second, first, *rest))


@pytest.mark.parametrize("format", FORMATS)
@given(member=members)
def test_seals_outlive_a_file(format: str, member: Member) -> None:  # noqa: A002
    kept = sealed(member)
    again = loads(Member, dumps(kept, format=format), format=format)
    assert again == kept
    assert not edited(again)


@pytest.mark.parametrize("seal", ["x", "0123456789a", "0123456789ABC", "0123456789ab\\n"])
def test_a_seal_that_is_none_is_refused(seal: str) -> None:
    text = f'{{"persona": {{"name": "A"}},\n"seal": "{seal}"}}'
    with pytest.raises(SchemaError, match=r"^t\.json:2: seal: String should match"):
        loads(Member, text, format="json", source="t.json")


def test_a_team_is_locked_and_unlocked_as_a_copy() -> None:
    team = Team(members=(RECRUIT,), name="Masks")
    locked = team.lock()
    assert locked == Team(members=(RECRUIT,), name="Masks", locked=True)
    assert not team.locked
    assert locked.lock() == locked
    assert locked.unlock() == team
    assert loads(Team, dumps(locked)).locked
