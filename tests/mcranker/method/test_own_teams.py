"""Teams that people own: mixed with recruits, or with personas required."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mcranker import (
    ChatReply,
    ChatRequest,
    ConfigError,
    MCRanker,
    Persona,
    ReplyError,
    ScriptedChat,
    Team,
)
from personas import library, save
from tests.support.scripted import scripted

DOCS = {"p1": "one", "p2": "two", "p3": "three", "p4": "four", "p5": "five"}
SCIENTIST = "NLP scientist"
NEIGHBOUR = Persona(name="My neighbour", description="Asks bluntly.")
MIXED = ("Clinician", "My neighbour", "Virologist", "Worried parent")


class Recorded:
    """The scripted model, which keeps every request."""

    def __init__(self, recruit: str | list[str] | None = None, **options: Any) -> None:
        replies = [recruit] if isinstance(recruit, str) else list(recruit or [])
        plain = scripted(**options)
        self.requests: list[ChatRequest] = []

        async def answer(request: ChatRequest) -> ChatReply | str:
            self.requests.append(request)
            if request.tag.stage == "recruit" and replies:
                return replies.pop(0) if len(replies) > 1 else replies[0]
            return await plain.complete(request)

        self.model = ScriptedChat(answer, capabilities=plain.capabilities)

    def prompts(self, stage: str) -> list[str]:
        return [each.messages[-1].content for each in self.requests if each.tag.stage == stage]


def naming(*names: str) -> str:
    return json.dumps({"Identities": names, "Reason": "They differ."})


def test_recruits_join_the_members_given() -> None:
    kept = Recorded()
    ranking = MCRanker(team=["clinician", NEIGHBOUR], team_size=4, model=kept.model).rank("q", DOCS)

    assert ranking.personas == MIXED
    assert ranking.team is not None
    assert ranking.team.names == MIXED
    assert ranking.team.query == "q"
    assert [each.origin for each in ranking.team.members] == [
        "library",
        "human",
        "recruited",
        "recruited",
    ]
    assert ranking.team.members[0] == library.member("clinician")
    # One call recruits two; three rubrics are written, the library's is kept; 4 x 5 scores.
    assert ranking.usage.calls == 1 + 3 + 4 * 5
    assert {name: ranking.calls.by("persona")[name].calls for name in MIXED} == {
        "Clinician": 5,
        "My neighbour": 1 + 5,
        "Virologist": 1 + 5,
        "Worried parent": 1 + 5,
    }
    (prompt,) = kept.prompts("recruit")
    assert "Name at most 2 of them" in prompt
    assert "on the team already, so name none of them: Clinician; My neighbour." in prompt


@pytest.mark.parametrize("as_file", [False, True])
def test_a_team_that_grows_keeps_its_name_but_not_its_query(tmp_path: Path, as_file: bool) -> None:
    team = Team(
        members=(library.member("clinician"),), name="Mine", description="For health.", query="old"
    )
    save(team, tmp_path / "team.yaml")
    given = tmp_path / "team.yaml" if as_file else team
    grown = MCRanker(team=given, team_size=2, model=scripted()).rank("new", DOCS).team
    assert grown is not None
    assert (grown.names, grown.query) == (("Clinician", "Virologist"), "new")
    assert (grown.name, grown.description, grown.locked) == ("Mine", "For health.", False)

    as_it_is = MCRanker(team=given, model=scripted()).rank("new", DOCS)
    assert as_it_is.team == team
    assert as_it_is.usage.calls == 5


def test_a_team_whose_rubric_is_written_for_a_query_names_it() -> None:
    ranker = MCRanker(team=["clinician", NEIGHBOUR], model=scripted())
    assert ranker.recruit_team("q").query == "q"
    kept = MCRanker(team=ranker.recruit_team("q").lock(), model=scripted()).recruit_team("other")
    assert (kept.query, kept.locked) == ("q", True)
    of_dataset = MCRanker(
        team=[NEIGHBOUR], model=scripted(), criteria="dataset", dataset="medical questions"
    )
    assert of_dataset.recruit_team("q").query == ""


@pytest.mark.parametrize(
    ("team", "options", "message"),
    [
        (["clinician", "patient"], {"team_size": 1}, "team_size=1, but the team given has 2"),
        (
            Team(members=(library.member("clinician"),)).lock(),
            {"team_size": 3},
            "team_size=3, but the team given is locked and has 1 member, so no one can join it",
        ),
        (
            Team(members=(library.member("clinician"),)).lock(),
            {"require": ("Patient",)},
            "'Patient' is required, but the team given is locked",
        ),
        (
            ["clinician", "patient"],
            {"require": ("lawyer",)},
            "team_size=2 is too small for 1 required and 2 on the team already; use team_size=3",
        ),
        (
            None,
            {"require": ("clinician", "patient", "A vet")},
            "team_size=3 is too small for 3 required and 1 on the team already; use team_size=4",
        ),
        (None, {"require": ("",)}, "give names that are not empty, each once"),
        (None, {"require": ("a  b", "A_b")}, "give names that are not empty, each once"),
        (None, {"require": ("x" * 201,)}, "give one of 1 to 200 characters"),
        (["clinician", "team.yaml"], {}, "'team.yaml' is a team among personas"),
        (["clinician", "health_questions"], {}, "'health_questions' is a team among personas"),
        (["clinician", "CLINICIAN"], {}, "persona 'CLINICIAN' occurs twice"),
        (["clinician", " "], {}, "' ' cannot be a persona's name"),
    ],
)
def test_what_cannot_be_is_refused_before_any_call(
    team: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        MCRanker(team=team, model=scripted(), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_all_are_on_the_team_the_recruiter_is_asked_again_and_told_why() -> None:
    kept = Recorded([naming("clinician"), naming("Nurse")])
    options: dict[str, Any] = {"team": ["clinician"], "team_size": 2}
    assert MCRanker(model=kept.model, **options).recruit_team("q").names == ("Clinician", "Nurse")
    said = "it names no one who can join the team (on the team already: 'clinician'). Name others."
    assert said in kept.prompts("recruit")[1]
    stubborn = Recorded(naming("Clinician")).model
    with pytest.raises(ReplyError, match=r"\(on the team already: 'Clinician'\)"):
        MCRanker(model=stubborn, **options).recruit_team("q")


def test_recruits_who_are_on_the_team_already_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "mcranker.method.recruit")
    model = Recorded(naming("my  NEIGHBOUR", "Clinician", "Nurse")).model
    team = MCRanker(team=["clinician", "My_neighbour"], team_size=4, model=model).recruit_team("q")
    assert team.names == ("Clinician", "My_neighbour", "Nurse")
    assert "asked for 2 recruits, got 1" in caplog.text


@pytest.mark.parametrize("name", ["clinician", "Clinician", "CLINICIAN"])
def test_who_is_required_comes_after_the_scientist_and_counts(name: str) -> None:
    kept = Recorded()
    ranker = MCRanker(model=kept.model, require=(name, "A vet"), team_size=4)
    team = ranker.recruit_team("q")
    assert team.names == (SCIENTIST, "Clinician", "A vet", "Virologist")
    assert [each.origin for each in team.members] == ["fixed", "library", "human", "recruited"]
    # As of any recruit, their rubrics are written; only criteria="library" takes the library's.
    assert len(kept.prompts("criteria")) == 4
    assert "name none of them: NLP scientist; Clinician; A vet." in kept.prompts("recruit")[0]
    kept.requests.clear()
    ranker = MCRanker(model=kept.model, require=(name, "A vet"), team_size=4, criteria="library")
    assert ranker.recruit_team("q").members[1] == library.member("clinician")
    assert [each.tag.persona for each in kept.requests if each.tag.stage == "criteria"] == [
        "A vet",
        "Virologist",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"team": ["clinician", "A vet"], "team_size": 4},
        {"require": ("A vet",)},
        {"team": ["clinician"], "team_size": 3, "recruiting": "library"},
    ],
)
def test_an_estimate_counts_the_recruiting_of_the_rest(options: dict[str, Any]) -> None:
    reply = naming("Lawyer", "Pharmacist", "Student")
    ranker = MCRanker(model=Recorded(reply).model, **options)
    estimate = ranker.estimate("q", DOCS)
    assert estimate.table.by("stage")["recruit"].calls == 1
    assert estimate.calls == ranker.rank("q", DOCS).usage.calls


def test_a_query_too_long_for_a_team_is_ranked_all_the_same() -> None:
    team = MCRanker(team_size=1, model=scripted()).rank(" x" * 20_000, ["a"]).team
    assert team is not None
    assert len(team.query) <= 20_000
    assert Team.model_validate(team.model_dump()) == team
