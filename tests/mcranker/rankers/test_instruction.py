"""An instruction for one ranking: one more criterion for every judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest, ConfigError, MCRanker, Ranking
from mcranker.rankers import RANKERS
from mcranker.rankers.direct import RerankRanker
from personas import Criterion, Member, Persona, Rubric, Team
from tests.support.comparing import best, comparing, in_order
from tests.support.loopback import Body, clean_environment, serve_in_thread
from tests.support.scripted import scripted

DOCS = {"a": "cloth 1", "b": "surgical 2", "c": "N95 3"}
RECENT = "Prefer trials of the last two years"


def team(*criteria: Criterion, **more: Any) -> Team:
    rubric = Rubric(criteria=criteria) if criteria else None
    return Team(members=(Member(persona=Persona(name="Nurse"), rubric=rubric),), **more)


def weights(ranking: Ranking, member: int = 0) -> dict[str, float]:
    assert ranking.team is not None
    rubric = ranking.team.members[member].rubric
    assert rubric is not None
    return {each.name: each.weight for each in rubric.criteria}


def prompts(asked: list[ChatRequest], stage: str = "score") -> list[str]:
    """The texts of the requests of a stage."""
    chosen = [each for each in asked if each.tag.stage == stage]
    return ["\n".join(turn.content for turn in each.messages) for each in chosen]


def test_each_rubric_gets_it_with_three_tenths_of_the_weight() -> None:
    asked: list[ChatRequest] = []

    def score(request: ChatRequest) -> str:
        asked.append(request)
        return '{"Score": 5}'

    ranker = MCRanker(model=scripted(score), ledger=None)
    plain = ranker.rank("masks", DOCS)
    found = ranker.rank("masks", DOCS, instruction=f"  {RECENT}\n")
    # 75% and 25% of the other 70% are 52.5 and 17.5.
    expected = {"Answers the question": 52.5, "Names a source": 17.5, RECENT: 30.0}
    assert found.team is not None
    for member in range(len(found.team.members)):
        assert weights(found, member) == pytest.approx(expected)
    told = prompts(asked)
    assert not any(RECENT in each for each in told[:9])
    assert all(f"3. {RECENT} (weight 30%)" in each for each in told[9:])
    assert len(told) == 18
    # It is no part of what is recruited or written: nothing else was asked.
    assert found.usage.calls == plain.usage.calls
    assert found.config["instruction"] == RECENT
    assert "instruction" not in plain.config


def test_it_counts_by_its_weight() -> None:
    """Of 10: 2 and 4 by the rubric, 9 by the instruction: 0.7 * (0.75*2 + 0.25*4) + 0.3*9."""

    def score(request: ChatRequest) -> str:
        count = request.messages[-1].content.count("(weight ")
        return json.dumps({"Scores": [2, 4, 9][:count]})

    ranker = MCRanker(
        model=scripted(score),
        ledger=None,
        scoring="per_criterion",
        team_size=1,
    )
    assert ranker.rank("masks", ["a"])[0].score == pytest.approx(2.5)
    found = ranker.rank("masks", ["a"], instruction=RECENT)
    assert found[0].score == pytest.approx(4.45)
    assert found[0].criteria["NLP scientist"][RECENT] == 9


def test_only_scores_are_asked_for_again(tmp_path: Path) -> None:
    ranker = MCRanker(model=scripted(), ledger=tmp_path / "ledger")
    ranker.rank("masks", DOCS)
    estimate = ranker.estimate("masks", DOCS, instruction=RECENT)
    found = ranker.rank("masks", DOCS, instruction=RECENT)
    # Three passages by three personas; the recruiter and three rubrics are there.
    assert (estimate.calls, estimate.reused) == (found.usage.calls, found.reused.calls) == (9, 4)
    assert ranker.rank("masks", DOCS, instruction=RECENT).usage.calls == 0


def test_who_has_no_criteria_judges_by_relevance_and_by_it() -> None:
    ranker = MCRanker(model=scripted(), ledger=None, criteria="none", team=team())
    assert weights(ranker.rank("q", ["a"], instruction=RECENT)) == {
        "Relevance to the query": 70.0,
        RECENT: 30.0,
    }


@pytest.mark.parametrize("name", ["rankgpt", "setwise"])
def test_rankers_that_compare_are_told_it(name: str) -> None:
    model, seen = comparing(best if name == "setwise" else in_order)
    RANKERS.get(name)(model=model, ledger=None).rank("q", DOCS, instruction=RECENT)
    assert all(f"2. {RECENT} (weight 30%)" in each for each in prompts(seen))
    assert seen


def test_a_rerank_service_gets_it_where_its_protocol_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clean_environment(monkeypatch)

    def service(body: Body) -> Body:
        return {"results": [{"index": 0, "relevance_score": 0.5}]}

    with serve_in_thread(service) as server:
        with RerankRanker(model="rerank:m", base_url=server.root, ledger=None) as ranker:
            ranker.rank("q", ["a"], instruction=RECENT)
            ranker.rank("q", ["a"])
        assert [body.get("instruction") for body in server.bodies] == [RECENT, None]
        with (
            RerankRanker(model="rerank-tei:m", base_url=server.root, ledger=None) as ranker,
            pytest.raises(ConfigError, match="takes none"),
        ):
            ranker.rank("q", ["a"], instruction=RECENT)
        assert len(server.bodies) == 2
