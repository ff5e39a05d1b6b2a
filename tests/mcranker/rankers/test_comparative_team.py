"""Teams that compare: their orders combined by hand, what fails, and what stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mcranker import (
    ChatRequest,
    ConfigError,
    Passage,
    PersonaOrder,
    RankGPTRanker,
    Ranking,
    ScriptedChat,
)
from mcranker.rankers import RANKERS, Ranker
from personas import Criterion, Member, Persona, Rubric, Team
from tests.support.comparing import TEAM, by_orders, comparing_team

QUERY = "best masks against covid"
DOCS = {name: f"passage {name}" for name in "abcd"}
NAMES = ("rankgpt", "setwise")
ORDERS = dict(zip(TEAM, ("bacd", "bcad", "dbac"), strict=True))
"""1 / rank, by persona: a 1/2 + 1/3 + 1/3, b 1 + 1 + 1/2, c 1/3 + 1/2 + 1/4, d 1/4 + 1/4 + 1."""


def team_of(name: str, model: Any, **options: Any) -> Ranker:
    make: Any = RANKERS.get(name)
    shared = {"ledger": None, "team_size": 3, "ensemble": "reciprocal_rank"}
    ranker: Ranker = make(model=model, **{**shared, **options})
    return ranker


def ranked_by(orders: dict[str, str], name: str = "rankgpt", **options: Any) -> Ranking:
    model, _ = comparing_team(by_orders(orders))
    with team_of(name, model, **options) as ranker:
        docs = [Passage(name, DOCS[name], score=-place) for place, name in enumerate(DOCS)]
        return ranker.rank(QUERY, docs)


def but(persona: str, said: Callable[[], str]) -> Callable[[ChatRequest], str]:
    """All compare by `ORDERS`, but for one persona."""

    def answer(request: ChatRequest) -> str:
        return said() if request.tag.persona == persona else by_orders(ORDERS)(request)

    return answer


# Orders combined


def scores(ranking: Ranking) -> list[float | None]:
    """The final scores in first-stage order."""
    return [hit.score for hit in ranking.as_given]


def ranks(ranking: Ranking) -> list[list[int]]:
    """The ranks of each passage, in first-stage order."""
    return [list(hit.ranks.values()) for hit in ranking.as_given]


@pytest.mark.parametrize("name", NAMES)
def test_the_ensemble_combines_the_orders_by_reciprocal_rank(name: str) -> None:
    ranking = ranked_by(ORDERS, name)
    assert ranking.ids == ["b", "d", "a", "c"]
    found = {hit.doc_id: hit.score for hit in ranking}
    expected = {"a": 7 / 6, "b": 2.5, "c": 13 / 12, "d": 1.5}
    assert found == pytest.approx(expected)
    assert (ranking.absolute, ranking[0].relevance) == (False, None)
    assert tuple(ranking.orders) == TEAM
    assert ranks(ranking) == [[2, 3, 3], [1, 1, 2], [3, 2, 4], [4, 4, 1]]
    assert ranking.left_out == {}
    assert ranking[1].ranks == dict(zip(TEAM, (4, 4, 1), strict=True))
    assert (ranking.personas, ranking.missing, ranking[0].scores) == ((), [], {})
    assert ranking.team is not None
    assert ranking.team.names == TEAM
    assert all(member.rubric is not None for member in ranking.team.members)
    assert ranking.config["ensemble"] == "reciprocal_rank"


def test_reciprocal_rank_fusion_is_the_default_but_of_small_windows() -> None:
    """Ranks of b are 1, 1 and 2, those of d 4, 4 and 1: d is not better than a, 2, 3 and 3."""
    for name in NAMES:
        model, _ = comparing_team(by_orders(ORDERS))
        make: Any = RANKERS.get(name)
        with make(model=model, ledger=None, team_size=3) as ranker:
            assert ranker.config.ensemble == "rrf"
    for window, step in ((10, 5), (20, 11)):
        with RankGPTRanker(model=model, team_size=3, window=window, step=step) as ranker:
            assert ranker.config.ensemble == "reciprocal_rank"
    ranking = ranked_by(ORDERS, ensemble="rrf")
    assert ranking.ids == ["b", "a", "d", "c"]
    expected = [1 / 62 + 2 / 63, 2 / 61 + 1 / 62, 1 / 62 + 1 / 63 + 1 / 64, 2 / 64 + 1 / 61]
    assert scores(ranking) == pytest.approx(expected)
    assert (ranking.absolute, ranking[0].relevance) == (False, None)
    assert scores(ranked_by(ORDERS).reensemble("rrf")) == scores(ranking)


def test_bordas_count_is_the_sum_and_orders_are_combined_again_at_no_call() -> None:
    """Passages below each, of the team: a 2 + 1 + 1, b 3 + 3 + 2, c 1 + 2 + 0, d 0 + 0 + 3."""
    borda = ranked_by(ORDERS, ensemble="sum")
    assert borda.ids == ["b", "a", "c", "d"]
    assert scores(borda) == [4, 8, 3, 3]
    other = ranked_by(ORDERS)
    again = other.reensemble("sum")
    assert again.ids == borda.ids
    assert scores(again) == scores(borda)
    assert scores(again.reensemble("reciprocal_rank")) == scores(other)
    assert again.orders is other.orders
    # Half the first stage's: 1, 2/3, 1/3, 0; half the points from 3 to 8: 1/5, 1, 0, 0.
    shared = scores(again.reensemble(first_stage_weight=0.5))
    assert shared == pytest.approx([0.6, 5 / 6, 1 / 6, 0])
    with pytest.raises(ConfigError, match="asks a model about scores"):
        other.reensemble("assessor")


# What is asked


def test_each_persona_is_asked_by_its_own_rubric() -> None:
    rubric = Rubric(criteria=(Criterion(name="Names trials", description="It cites.", weight=100),))
    team = Team(
        members=(
            Member(persona=Persona(name="Epidemiologist"), rubric=rubric),
            Member(persona=Persona(name="Nurse")),
        )
    )
    model, seen = comparing_team(by_orders({"Epidemiologist": "abcd", "Nurse": "dcba"}))
    with RankGPTRanker(model=model, ledger=None, team=team, team_size=2) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
        assert ranker.estimate(QUERY, DOCS).calls == 3
    asked = {each.tag.persona: each.messages for each in seen if each.tag.stage == "score"}
    first, second = (str(asked[name][-1].content) for name in ("Epidemiologist", "Nurse"))
    assert "Role: you are an Epidemiologist." in first
    assert "1. Names trials (weight 100%): It cites." in first
    assert "Role: you are a Nurse." in second
    assert "1. Answers the question (weight 75%)" in second
    assert "Names trials" not in second
    assert [each.tag.stage for each in seen].count("recruit") == 0
    assert ranking.team is not None
    assert ranking.team.members[1].rubric is not None
    assert ranking.usage.calls == 3
    assert ranking.calls.by("persona").keys() == {"Epidemiologist", "Nurse"}


# What fails


def test_a_persona_that_answers_nothing_is_left_out_and_told() -> None:
    """b and c by two alone: b 1 + 1; a and c 1/2 + 1/3; d 1/4 + 1/4."""
    model, _ = comparing_team(but("Worried parent", lambda: "I would rather not"))
    with team_of("rankgpt", model, repair_attempts=0) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    orders = ranking.orders
    assert ranking.ids == ["b", "a", "c", "d"]
    assert scores(ranking) == pytest.approx([5 / 6, 2, 5 / 6, 1 / 2])
    assert all("Worried parent" not in hit.ranks for hit in ranking)
    assert "no list of numbers" in ranking.left_out["Worried parent"]
    assert orders["Worried parent"].failed == 1
    assert orders["Virologist"] == PersonaOrder(asked=1)
    assert ranking.comparisons is not None
    assert (ranking.comparisons.asked, ranking.comparisons.failed) == (3, 1)
    assert ranking.comparisons.reason == ranking.left_out["Worried parent"]
    assert scores(ranking.reensemble()) == scores(ranking)


@pytest.mark.parametrize("name", NAMES)
def test_at_the_deadline_those_without_an_order_are_left_out(name: str) -> None:
    inner, _ = comparing_team(by_orders(ORDERS))

    async def answer(request: ChatRequest) -> Any:
        if request.tag.persona == "Worried parent" and request.tag.stage == "score":
            await anyio.sleep_forever()
        return await inner.complete(request)

    with team_of(name, ScriptedChat(answer), deadline=1.0) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.partial
    assert ranking.left_out == {"Worried parent": "deadline"}
    assert ranking.ids == ["b", "a", "c", "d"]
    assert scores(ranking) == pytest.approx([5 / 6, 2, 5 / 6, 1 / 2])


# What is shared with the others
