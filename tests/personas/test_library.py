"""The library of ready personas and teams."""

from __future__ import annotations

from importlib import resources

import pytest
import yaml

from personas import Member, SchemaError, library

FOLDER = resources.files("personas.library")


def _slug(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def test_there_are_70_members_and_at_least_24_kinds_of_team() -> None:
    members, teams = library.members(), [library.team(name) for name in library.team_names()]
    assert len(members) == 70
    assert len(teams) >= 24
    assert members == tuple(library.member(name) for name in sorted(library.member_names()))
    assert library.team_names() == tuple(sorted(library.team_names()))
    criteria = [each for member in members if member.rubric for each in member.rubric.criteria]
    for texts in (
        [member.name.casefold() for member in members],
        [member.persona.description.casefold() for member in members],
        [each.description.casefold() for each in criteria],
        [frozenset(team.names) for team in teams],
    ):
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", library.member_names())
def test_a_member_is_complete(name: str) -> None:
    member = library.member(name)
    assert _slug(member.name) == name
    assert member.origin == ("fixed" if name == "nlp_scientist" else "library")
    assert member.persona.description
    assert len(member.persona.topics) >= 3
    assert member.rubric is not None
    written = yaml.safe_load((FOLDER / "members" / f"{name}.yaml").read_text(encoding="utf-8"))
    weights = [criterion["weight"] for criterion in written["rubric"]["criteria"]]
    assert len(weights) >= 2
    assert all(type(weight) is int and weight > 0 for weight in weights)
    assert sum(weights) == 100
    assert all(criterion.description.endswith(".") for criterion in member.rubric.criteria)


@pytest.mark.parametrize("name", library.team_names())
def test_a_team_starts_with_the_nlp_scientist(name: str) -> None:
    team = library.team(name)
    assert team.members[0] == library.nlp_scientist()
    assert len(team.members) == 3
    assert _slug(team.name) == name
    assert team.description
    assert not team.locked
    assert set(team.members) <= set(library.members())


def test_the_nlp_scientist_is_fixed() -> None:
    scientist = library.nlp_scientist()
    assert (scientist.name, scientist.origin) == ("NLP scientist", "fixed")
    assert isinstance(scientist, Member)
    assert scientist is library.member(library.NLP_SCIENTIST)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clinican", "the library has no member 'clinican'; did you mean clinician"),
        ("xqzw", "the library has no member 'xqzw'; it has agronomist, "),
        ("../teams/health_questions", "the library has no member"),
        ("", "the library has no member ''"),
        ("Clinician", "did you mean clinician"),
    ],
)
def test_unknown_members_are_refused(name: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        library.member(name)
    assert message in str(caught.value)
    with pytest.raises(SchemaError, match="the library has no team 'clinician'; "):
        library.team("clinician")
