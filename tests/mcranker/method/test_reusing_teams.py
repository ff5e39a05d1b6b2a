"""Teams that are saved, edited, locked and used again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from mcranker import ChatRequest, DirectRanker, MCRanker, ScriptedChat
from mcranker.rankers.judge import PointwiseRanker
from personas import Persona, Team, load, save
from personas.origins import edited as is_edited
from tests.support.scripted import scripted

DOCS = {"p1": "one", "p2": "two"}
NEIGHBOUR = Persona(name="My neighbour", description="Asks bluntly.")


def stages(requests: list[ChatRequest]) -> dict[str, int]:
    return dict(Counter(each.tag.stage for each in requests))


@pytest.fixture
def requests() -> list[ChatRequest]:
    """Every request that `model` gets."""
    return []


@pytest.fixture
def model(requests: list[ChatRequest]) -> ScriptedChat:
    plain = scripted()

    async def answer(request: ChatRequest) -> Any:
        requests.append(request)
        return await plain.complete(request)

    return ScriptedChat(answer)


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A recruited team of three, saved, locked, and given another weight and criterion by hand."""
    team = MCRanker(model=scripted()).recruit_team("masks").lock()
    path = tmp_path / "mine.yaml"
    save(team, path)
    text = path.read_text(encoding="utf-8")
    assert "locked: true" in text
    assert text.count("name: Names a source") == 3
    path.write_text(text.replace("name: Names a source", "name: Is honest", 1), encoding="utf-8")
    return path


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_what_a_model_wrote_is_sealed_and_the_rest_is_not(
    preset: Literal["paper", "reference"], tmp_path: Path
) -> None:
    ranker = MCRanker(team=["clinician", NEIGHBOUR], team_size=3, model=scripted(), preset=preset)
    for team in (ranker.rank("q", DOCS).team, ranker.recruit_team("q")):
        assert team is not None
        save(team, tmp_path / "team.yaml")
        again = load(Team, tmp_path / "team.yaml").members
        assert [bool(each.seal) for each in again] == [False, False, True]
        assert not any(map(is_edited, again))


def test_what_a_person_edits_is_told_from_what_the_model_wrote(edited: Path) -> None:
    ranking = MCRanker(team=edited, model=scripted()).rank("other", DOCS)
    assert ranking.team == load(Team, edited)
    assert list(map(is_edited, ranking.team.members)) == [True, False, False]


@pytest.mark.parametrize("criteria", ["query", "dataset", "library"])
@pytest.mark.parametrize("kind", [MCRanker, DirectRanker])
def test_a_team_used_again_is_neither_recruited_nor_rewritten(
    edited: Path,
    kind: type[MCRanker] | type[DirectRanker],
    criteria: Any,
    model: ScriptedChat,
    requests: list[ChatRequest],
) -> None:
    judges = 3 if kind is MCRanker else 1
    ranker: PointwiseRanker = kind(team=edited, model=model, criteria=criteria, dataset="any")
    ranking = ranker.rank("other", DOCS)
    assert stages(requests) == {"score": judges * 2}
    assert ranking.team == load(Team, edited)
    assert "Is honest" in requests[0].messages[-1].content

    requests.clear()
    for ranked in ranker.rank_many([(f"q{number}", DOCS) for number in range(4)]):
        assert ranked.result().team == load(Team, edited)
    assert stages(requests) == {"score": judges * 2 * 4}
    estimate = ranker.estimate_many([(f"q{number}", DOCS) for number in range(4)])
    assert {stage for stage, _, _ in estimate.table} == {"score"}
