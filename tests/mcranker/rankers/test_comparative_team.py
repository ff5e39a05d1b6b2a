"""Teams that compare: their orders combined by hand, what fails, and what stays as it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    ChatRequest,
    ConfigError,
    Passage,
    PassagesCompared,
    PersonaOrder,
    RankGPTRanker,
    Ranking,
    ScriptedChat,
)
from mcranker.rankers import RANKERS, Ranker
from personas import Criterion, Member, Persona, Rubric, Team
from tests.support.comparing import comparing
from tests.support.comparing_team import TEAM, by_orders, comparing_team

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


def test_what_a_persona_has_not_sorted_out_shares_the_rank_behind() -> None:
    """The first rank alone: d, c, a. Of four, the others have the mean rank of 2 to 4, 3.

    By 1 / rank: a 1/3 + 1/3 + 1, b 3/3, c 1/3 + 1 + 1/3, d 1 + 1/3 + 1/3.
    A ranking saved with the first of the ranks they share, 2: b 3/2, all others 2.
    """
    firsts = dict(zip(TEAM, ("dabc", "cabd", "abcd"), strict=True))
    ranking = ranked_by(firsts, "setwise", ranks=1)
    assert ranks(ranking) == [[2, 2, 1], [2, 2, 2], [2, 1, 2], [1, 2, 2]]
    assert ranking.ids == ["a", "c", "d", "b"]
    assert scores(ranking) == pytest.approx([5 / 3, 1, 5 / 3, 5 / 3])
    saved = ranking.to_dict()
    saved["config"]["rank_ties"] = "min"
    least = scores(Ranking.from_dict(saved).reensemble(missing_policy="lowest"))
    assert least == pytest.approx([2, 1.5, 2, 2])


@pytest.mark.parametrize("name", NAMES)
def test_equal_passages_share_their_ranks_and_those_beyond_depth_have_none(name: str) -> None:
    docs = {"x": "p a", "y": "p b", "z": "p a", "w": "p c"}
    model, seen = comparing_team(by_orders(dict.fromkeys(TEAM, "bac")))
    with team_of(name, model, depth=3) as ranker:
        ranking = ranker.rank(QUERY, docs)
        again = ranking.reensemble("sum")
    assert ranking.ids == again.ids == ["y", "x", "z", "w"]
    assert ranks(ranking) == [[2] * 3, [1] * 3, [2] * 3, []]
    assert ranking[3].ranks == {}
    assert ranking[3].score is None
    assert scores(again)[:3] == [0, 3, 0]
    assert "p c" not in str([each.messages for each in seen if each.tag.stage == "score"])


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


@pytest.mark.parametrize("name", NAMES)
def test_without_criteria_the_persona_compares_by_its_name(name: str) -> None:
    model, seen = comparing_team(by_orders(ORDERS))
    with team_of(name, model, criteria="none") as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    compared = [each for each in seen if each.tag.stage == "score"]
    assert {each.tag.stage for each in seen} == {"recruit", "score"}
    assert all("ou look for" not in str(each.messages) for each in compared)
    assert any("ou are a Worried parent." in str(each.messages) for each in compared)
    assert f"{name}_by_persona" in ranking.prompt_hashes
    assert "recruit" in ranking.prompt_hashes


@pytest.mark.parametrize(
    ("name", "digest"),
    [("rankgpt", "4ba8f3c14e0d7d3c"), ("setwise", "25f0d346dc321eeb")],
)
def test_without_a_team_every_word_is_as_it_was(name: str, digest: str) -> None:
    """The first request's turns, and its tag, as all ledgers have them."""
    model, seen = comparing(lambda _: "[1] > [2]" if name == "rankgpt" else "A")
    make: Any = RANKERS.get(name)
    with make(model=model, ledger=None) as ranker:
        ranking = ranker.rank(QUERY, {"a": "N95 masks", "b": "cloth masks"})
    said = json.dumps([[turn.role, turn.content] for turn in seen[0].messages])
    assert hashlib.sha256(said.encode()).hexdigest()[:16] == digest
    assert {each.tag.persona for each in seen} == {""}
    assert ranking.orders == {}
    assert not {"orders", "ranks"} & {*ranking.to_dict(), *ranking.to_dict()["hits"][0]}


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


def test_failed_comparisons_are_counted_for_the_persona_that_made_them() -> None:
    """Windows of two from the end: the parent fails in the first, c d, and sorts the others.

    a b [c d] fails; a [b c] -> a b c; [a b] -> b a: its order is b a, and c or d.
    """

    def answer(request: ChatRequest) -> str:
        parent = request.tag.persona == "Worried parent"
        if parent and "passage d" in str(request.messages[-1].content):
            return "?"
        return by_orders(ORDERS)(request)

    model, _ = comparing_team(answer)
    with team_of("rankgpt", model, window=2, step=1, repair_attempts=0) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    counts = ranking.orders
    assert [counts[name].failed for name in TEAM] == [0, 0, 1]
    assert [counts[name].asked for name in TEAM] == [3, 3, 3]
    assert [each[2] for each in ranks(ranking)] == [2, 1, 3, 3]
    assert ranking.left_out == {}
    assert ranking.comparisons is not None
    assert ranking.comparisons.asked == 9


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


@pytest.mark.parametrize("name", NAMES)
def test_estimates_count_the_team_and_the_ledger_answers_again(name: str, tmp_path: Path) -> None:
    """One recruiter, three rubrics, and each persona's comparisons."""
    each = {"rankgpt": 1}.get(name)
    model, seen = comparing_team(by_orders(ORDERS))
    with team_of(name, model, ledger=tmp_path / "ledger.db") as ranker:
        estimate = ranker.estimate(QUERY, DOCS)
        ranking = ranker.rank(QUERY, DOCS)
        asked = len(seen)
        assert 4 < asked <= estimate.calls
        if each is not None:
            assert asked == estimate.calls == 1 + 3 + 3 * each
        alone: Any = RANKERS.get(name)
        with alone(model=model, ledger=None) as one:
            assert estimate.calls == 4 + 3 * one.estimate(QUERY, DOCS).calls
        again = ranker.rank(QUERY, DOCS)
        if each is not None:
            assert ranker.estimate(QUERY, DOCS).calls == 0
    assert len(seen) == asked
    assert again.usage.calls == 0
    assert scores(again) == scores(ranking)


@pytest.mark.parametrize("name", NAMES)
def test_a_ranking_by_a_team_comes_back_from_json(name: str) -> None:
    model, _ = comparing_team(but("Worried parent", lambda: "?"))
    with team_of(name, model, depth=3) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    again = Ranking.from_dict(json.loads(ranking.to_json()))
    assert again.to_dict() == ranking.to_dict()
    assert ranks(again) == ranks(ranking)
    assert again.orders == ranking.orders
    assert again.reensemble("sum").ids == ranking.reensemble("sum").ids


def test_events_name_the_persona_and_count_the_whole_team() -> None:
    model, _ = comparing_team(by_orders(ORDERS))

    async def listen() -> list[PassagesCompared]:
        async with team_of("rankgpt", model) as ranker, ranker.astream(QUERY, DOCS) as events:
            return [event async for event in events if isinstance(event, PassagesCompared)]

    events = anyio.run(listen)
    assert {event.persona: "".join(event.doc_ids) for event in events} == ORDERS
    assert [event.done for event in events] == [1, 2, 3]
    assert {event.total for event in events} == {3}


def test_personas_are_compared_at_the_same_time() -> None:
    """Each waits for the others: one after the other, none would come to an end."""
    inner, _ = comparing_team(by_orders(ORDERS))
    here: set[str] = set()

    async def main() -> Ranking:
        everybody = anyio.Event()

        async def answer(request: ChatRequest) -> Any:
            if request.tag.stage == "score":
                here.add(request.tag.persona)
                if len(here) == len(TEAM):
                    everybody.set()
                await everybody.wait()
            return await inner.complete(request)

        async with team_of("rankgpt", ScriptedChat(answer), deadline=60) as ranker:
            return await ranker.arank(QUERY, DOCS)

    assert not anyio.run(main).partial
