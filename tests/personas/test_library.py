"""The library of ready personas and teams."""

from __future__ import annotations

from importlib import resources

import pytest

from personas import Member, SchemaError, Team, library

FOLDER = resources.files("personas.library")


def _slug(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def test_there_are_70_members_and_at_least_24_kinds_of_team() -> None:
    assert len(library.member_names()) == 70
    assert len(library.team_names()) >= 24
    assert library.member_names() == tuple(sorted(library.member_names()))
    assert library.team_names() == tuple(sorted(library.team_names()))
    assert len({member.name.casefold() for member in library.members()}) == 70


def test_members_are_listed_in_the_order_of_their_names() -> None:
    assert library.members() == tuple(library.member(name) for name in library.member_names())


@pytest.mark.parametrize("name", library.member_names())
def test_a_member_is_complete(name: str) -> None:
    member = library.member(name)
    assert _slug(member.name) == name
    assert member.origin == ("fixed" if name == "nlp_scientist" else "library")
    assert member.persona.description
    assert len(member.persona.topics) >= 3
    assert member.rubric is not None
    weights = [criterion.weight for criterion in member.rubric.criteria]
    assert len(weights) >= 2
    assert all(weight > 0 and weight == int(weight) for weight in weights)
    assert sum(weights) == 100
    assert all(criterion.description.endswith(".") for criterion in member.rubric.criteria)


def test_weights_sum_to_100_as_written() -> None:
    import yaml

    for name in library.member_names():
        text = (FOLDER / "members" / f"{name}.yaml").read_text(encoding="utf-8")
        criteria = yaml.safe_load(text)["rubric"]["criteria"]
        weights = [criterion["weight"] for criterion in criteria]
        assert all(type(weight) is int for weight in weights), name
        assert sum(weights) == 100, name


def test_no_criterion_stands_there_twice() -> None:
    criteria = [
        (member.name, criterion)
        for member in library.members()
        if member.rubric
        for criterion in member.rubric.criteria
    ]
    descriptions = [criterion.description.casefold() for _, criterion in criteria]
    assert len(set(descriptions)) == len(descriptions)


def test_descriptions_of_members_are_distinct() -> None:
    descriptions = [member.persona.description.casefold() for member in library.members()]
    assert len(set(descriptions)) == len(descriptions)


@pytest.mark.parametrize("name", library.team_names())
def test_a_team_starts_with_the_nlp_scientist(name: str) -> None:
    team = library.team(name)
    assert team.members[0] == library.nlp_scientist()
    assert len(team.members) == 3
    assert _slug(team.name) == name
    assert team.description
    assert not team.locked
    assert set(team.members) <= set(library.members())


def test_teams_differ() -> None:
    teams = [frozenset(library.team(name).names) for name in library.team_names()]
    assert len(set(teams)) == len(teams)


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


def test_unknown_teams_are_refused() -> None:
    with pytest.raises(SchemaError, match="the library has no team 'health'; "):
        library.team("health")
    with pytest.raises(SchemaError, match="no team 'clinician'"):
        library.team("clinician")


def test_all_names_of_the_module_are_there() -> None:
    assert all(hasattr(library, name) for name in library.__all__)
    assert isinstance(library.team("health_questions"), Team)
