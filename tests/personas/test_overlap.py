"""Criteria of different personas that ask for the same thing."""

from __future__ import annotations

from personas import Criterion, Member, Persona, Rubric, library
from personas.overlap import ALIKE, overlaps


def member(name: str, *criteria: tuple[str, str]) -> Member:
    listed = tuple(Criterion(name=one, description=two, weight=1) for one, two in criteria)
    return Member(persona=Persona(name=name), rubric=Rubric(criteria=listed))


VIROLOGIST = member(
    "Virologist",
    ("Filtration efficiency", "Measured filtration efficiency of the mask against particles."),
    ("Trials", "It cites clinical trials of masks."),
)
ENGINEER = member(
    "Mask engineer",
    ("Filtration performance", "How efficient the masks filter particles, as measured."),
    ("Price", "What it costs to buy and to keep."),
)


def test_criteria_that_share_most_of_their_telling_words() -> None:
    (found,) = overlaps((VIROLOGIST, ENGINEER))
    assert (found.first, found.first_criterion) == ("Virologist", "Filtration efficiency")
    assert (found.second, found.second_criterion) == ("Mask engineer", "Filtration performance")
    assert ALIKE <= found.share <= 1
    assert {"filtration", "particles"} <= {word.casefold() for word in found.words}


def test_equal_criteria_overlap_wholly() -> None:
    twin = VIROLOGIST.model_copy(update={"persona": Persona(name="Twin")})
    assert [each.share for each in overlaps((VIROLOGIST, twin))] == [1.0, 1.0]


def test_the_criteria_of_one_persona_are_not_compared() -> None:
    twice = member(
        "Nurse", ("Fit of masks", "How masks fit."), ("Masks that fit", "How masks fit.")
    )
    assert overlaps((twice,)) == ()


def test_one_word_is_no_overlap_and_no_rubric_has_none() -> None:
    one, other = member("A", ("Masks", "")), member("B", ("Masks", ""))
    assert overlaps((one, other)) == ()
    assert overlaps((Member(persona=Persona(name="A")), VIROLOGIST)) == ()
    assert overlaps(()) == ()


def test_personas_written_to_differ_rarely_overlap() -> None:
    members = library.members()
    criteria = [len(each.rubric.criteria) for each in members if each.rubric]
    pairs = (sum(criteria) ** 2 - sum(each**2 for each in criteria)) // 2
    assert len(overlaps(members)) < pairs / 1000
