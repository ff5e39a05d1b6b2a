"""Who wrote which part of a member: a model, the library or a person."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given

from personas import Criterion, Member, Persona, Rubric, SchemaError, Team, dumps, library, loads
from personas.provenance import Hand, Provenance, provenance, sealed, written
from tests.personas.test_schema import FORMATS, members

EFFECT = Criterion(name="Effect", description="It says how well a mask filters.", weight=50)
SAFETY = Criterion(name="Safety", description="It says what may go wrong.", weight=30)
COST = Criterion(name="Cost", description="It names a price.", weight=20)
VIROLOGIST = Persona(name="Virologist", description="Knows how viruses spread.", reason="masks")


def _recruit(*criteria: Criterion) -> Member:
    rubric = Rubric(criteria=criteria) if criteria else None
    return Member(persona=VIROLOGIST, rubric=rubric, origin="recruited")


RECRUIT = sealed(_recruit(EFFECT, SAFETY, COST), persona=True, rubric=True)
ALL_MODEL = Provenance("model", ("model", "model", "model"), "model", edited=False)


def _with(member: Member, *criteria: Criterion) -> Member:
    return member.model_copy(update={"rubric": Rubric(criteria=criteria)})


def _renamed(member: Member, **changed: str) -> Member:
    return member.model_copy(update={"persona": member.persona.model_copy(update=changed)})


def _changed(criterion: Criterion, **changed: object) -> Criterion:
    return criterion.model_copy(update=changed)


def _weighing(*weights: float) -> Member:
    pairs = zip((EFFECT, SAFETY, COST), weights, strict=True)
    return _with(RECRUIT, *(_changed(each, weight=weight) for each, weight in pairs))


M: Hand = "model"
H: Hand = "human"
COMFORT = Criterion(name="Comfort", weight=25)
BARE = Member(persona=VIROLOGIST)


@pytest.mark.parametrize(
    ("member", "persona", "criteria", "weights", "edited"),
    [
        (RECRUIT, M, [M, M, M], M, False),
        (RECRUIT.model_copy(update={"rubric": None}), M, [], None, True),
        (_renamed(RECRUIT, name="Epidemiologist"), H, [M, M, M], M, True),
        (_renamed(RECRUIT, description="Knows flu."), H, [M, M, M], M, True),
        (_renamed(RECRUIT, reason="another"), M, [M, M, M], M, False),
        (_with(RECRUIT, _changed(EFFECT, name="Other"), SAFETY, COST), M, [H, M, M], M, True),
        (_with(RECRUIT, EFFECT, SAFETY, _changed(COST, description="O")), M, [M, M, H], M, True),
        (_with(RECRUIT, EFFECT, SAFETY, COST, COMFORT), M, [M, M, M, H], H, True),
        (
            _with(RECRUIT, EFFECT, SAFETY, COST, _changed(COMFORT, weight=0.0)),
            *(M, [M, M, M, H], H, True),
        ),
        (_with(RECRUIT, EFFECT, COST), M, [M, M], H, True),
        (_weighing(30, 50, 20), M, [M, M, M], H, True),
        (_weighing(50, 30, 21), M, [M, M, M], H, True),
        # Texts that are exchanged exchange their weights.
        (
            _with(RECRUIT, _changed(SAFETY, weight=50), _changed(EFFECT, weight=30), COST),
            *(M, [M, M, M], H, True),
        ),
        *(
            (_with(RECRUIT, *order), M, [M, M, M], M, False)
            for order in permutations((EFFECT, SAFETY, COST))
        ),
        # Without seals, as in older files, a recruit is the model's.
        (_recruit(EFFECT, SAFETY, COST), M, [M, M, M], M, False),
        (_recruit(), M, [], None, False),
        (_with(BARE, EFFECT, COST), H, [H, H], H, False),
        (BARE, H, [], None, False),
    ],
)
def test_who_wrote_which_part(
    member: Member, persona: Hand, criteria: list[Hand], weights: Hand | None, edited: bool
) -> None:
    found = provenance(member)
    assert found == Provenance(persona, tuple(criteria), weights, edited=edited)
    assert found.by_human == (H in (persona, weights, *criteria))


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (RECRUIT, "recruited by the model"),
        (
            _with(_renamed(RECRUIT, name="E"), EFFECT, COST),
            "recruited by the model; a person wrote its name and description and the weights",
        ),
        (RECRUIT.model_copy(update={"rubric": None}), "recruited by the model; edited by a person"),
        (
            sealed(_with(library.member("clinician"), EFFECT, COST), persona=False, rubric=True),
            "from the library; a model wrote its criteria and the weights",
        ),
        (
            _with(RECRUIT, COMFORT, _changed(SAFETY, weight=25)),  # equal weights say nothing
            "recruited by the model; a person wrote 1 of its 2 criteria",
        ),
        (_with(BARE, EFFECT, COST), "added by a person"),
    ],
)
def test_who_wrote_it_in_a_sentence(member: Member, said: str) -> None:
    assert written(member, provenance(member)) == said


def _hands(hand: Hand, count: int) -> tuple[Hand, ...]:
    return (hand,) * count


@pytest.mark.parametrize("name", library.member_names())
def test_a_member_of_the_library_is_the_librarys(name: str) -> None:
    member = library.member(name)
    assert member.rubric is not None
    expected = Provenance(
        "library", _hands("library", len(member.rubric.criteria)), "library", edited=False
    )
    assert provenance(member) == expected
    assert provenance(loads(Member, dumps(member))) == expected


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
by_model: [%s]
"""


def test_another_way_of_writing_yaml_or_accents_is_no_edit() -> None:
    member = loads(Member, EDITED_BY_HAND % ", ".join(f"'{seal}'" for seal in RECRUIT.by_model))
    assert provenance(member) == ALL_MODEL
    cafe = Member(persona=Persona(name="Caf\u00e9 owner"), origin="recruited")
    cafe = sealed(cafe, persona=True, rubric=True)
    assert provenance(_renamed(cafe, name="Cafe\u0301 owner")).persona == "model"


@pytest.mark.parametrize("weights", [("30", "70"), ("30%", "70%"), (3, 7), (0.3, 0.7), (1.2, 2.8)])
def test_weights_in_any_form_have_the_same_digest(weights: tuple[object, object]) -> None:
    data = [{"name": name, "weight": weight} for name, weight in zip("ab", weights, strict=True)]
    plain = Rubric(criteria=(Criterion(name="a", weight=30), Criterion(name="b", weight=70)))
    member = sealed(
        Member(persona=VIROLOGIST, rubric=plain, origin="recruited"), persona=True, rubric=True
    )
    again = member.model_copy(update={"rubric": Rubric.model_validate({"criteria": data})})
    assert provenance(again).weights == "model"


def test_a_rubric_written_for_a_renamed_recruit_does_not_hide_the_person() -> None:
    renamed = _renamed(sealed(_recruit(), persona=True, rubric=False), name="Epidemiologist")
    written = sealed(_with(renamed, EFFECT, COST), persona=False, rubric=True)
    assert provenance(written) == Provenance("human", ("model", "model"), "model", edited=True)


@pytest.mark.parametrize("name", ["clinician", "nlp_scientist"])
def test_changes_to_a_member_of_the_library_are_seen(name: str) -> None:
    member = library.member(name)
    assert member.rubric is not None
    first, second, *rest = member.rubric.criteria
    kept = _hands("library", len(rest))

    found = provenance(_renamed(member, name="Country doctor"))
    assert found == Provenance("human", ("library", "library", *kept), "library", edited=True)

    found = provenance(_with(member, _changed(first, name="Other"), second, *rest))
    assert found == Provenance("library", ("human", "library", *kept), "library", edited=True)

    swapped = (_changed(first, weight=second.weight), _changed(second, weight=first.weight))
    found = provenance(_with(member, *swapped, *rest))
    assert found == Provenance("library", ("library", "library", *kept), "human", edited=True)

    found = provenance(_with(member, second, first, *rest))
    assert found == Provenance("library", ("library", "library", *kept), "library", edited=False)


def test_what_only_looks_like_the_library_is_the_persons() -> None:
    usual = (40.0, 25.0, 20.0, 15.0)  # as most of the library has them
    own = [_changed(EFFECT, name=f"Own {weight}", weight=weight) for weight in usual]
    stranger = Member(persona=VIROLOGIST, rubric=Rubric(criteria=tuple(own)), origin="library")
    stranger = _renamed(stranger, name="Stranger")
    assert provenance(stranger) == Provenance("human", _hands("human", 4), "human", edited=True)
    unknown = Member(persona=VIROLOGIST, rubric=Rubric(criteria=(EFFECT,)), origin="library")
    assert provenance(unknown) == Provenance("human", ("human",), "human", edited=True)
    taken = library.member("clinician").model_copy(update={"origin": "human"})
    assert provenance(taken).persona == "human"


@pytest.mark.parametrize("format", FORMATS)
@given(member=members)
def test_seals_outlive_a_file(format: str, member: Member) -> None:  # noqa: A002
    kept = sealed(member, persona=True, rubric=True)
    again = loads(Member, dumps(kept, format=format), format=format)
    assert again == kept
    found = provenance(again)
    assert {found.persona, *found.criteria} == {"model"}
    assert found.weights == ("model" if member.rubric else None)
    assert not found.edited


@pytest.mark.parametrize("seal", ["", "x", "0123456789a", "0123456789ABC", "0123456789ab\\n"])
def test_a_seal_that_is_none_is_refused(seal: str) -> None:
    text = f'{{"persona": {{"name": "A"}},\n"by_model": ["{seal}"]}}'
    with pytest.raises(SchemaError, match=r"^t\.json:2: by_model\[0\]: String should match"):
        loads(Member, text, format="json", source="t.json")


def test_a_team_is_locked_and_unlocked_as_a_copy() -> None:
    team = Team(members=(RECRUIT,), name="Masks")
    locked = team.lock()
    assert locked == Team(members=(RECRUIT,), name="Masks", locked=True)
    assert not team.locked
    assert locked.lock() == locked
    assert locked.unlock() == team
    assert loads(Team, dumps(locked)).locked
