"""Fused rankers: sums by hand, and what is told of members that lack something."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    BudgetExceeded,
    Capabilities,
    ChatRequest,
    ConfigError,
    DirectRanker,
    FusedRanker,
    InputError,
    Passage,
    PassageScored,
    Query,
    Ranker,
    RankGPTRanker,
    Ranking,
    RankingStarted,
    ScriptedChat,
    ServerFailed,
    fuse,
)
from mcranker.rankers.fused import MemberSpec
from personas.ranking.types import Comparisons, MemberRanking
from tests.support.beir_folder import judging
from tests.support.comparing import comparing, in_order, shown_in
from tests.support.rebel import rebel_model

QUERY = Query("best masks against covid", "q")
DOCS = [
    Passage("a", "p 1", score=9.0),
    Passage("b", "p 5", score=6.0),
    Passage("c", "p 3", score=3.0),
]
RUN = [("c", 8.0), ("x", 6.0), ("a", 4.0)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    file = tmp_path / "mine.trec"
    file.write_text("".join(f"q Q0 {doc} 0 {score} tag\n" for doc, score in RUN))
    return file


def knowing() -> ScriptedChat:
    grades = {each.id: int(each.text.split()[-1]) for each in DOCS}
    return judging(lambda request: json.dumps({"Score": grades[request.tag.doc_id]}))


def direct(**options: Any) -> DirectRanker:
    """Scores a passage by the number at its end."""
    return DirectRanker(model=knowing(), ledger=None, **options)


def scores(ranking: Ranking) -> dict[str, float | None]:
    return {hit.doc_id: hit.score for hit in ranking}


def test_a_weak_judge_among_the_members_is_named() -> None:
    model = ScriptedChat(
        lambda _: '{"Score": 1}', name="local:minilm", capabilities=Capabilities(reasons=False)
    )
    with fuse(DirectRanker(model=model, ledger=None), "bm25") as ranker:
        assert "local:minilm, an encoder" in ranker.rank(QUERY, DOCS).judge_note
    with fuse(direct(), "bm25") as ranker:
        assert ranker.rank(QUERY, DOCS).judge_note == ""


def test_reciprocal_ranks_by_hand() -> None:
    """DIRECT: b c a; first stage: a b c. b 1/61 + 1/62, a 1/63 + 1/61, c 1/62 + 1/63."""
    with fuse(direct(), "bm25") as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.ids == ["b", "a", "c"]
    expected = {"b": 1 / 61 + 1 / 62, "a": 1 / 63 + 1 / 61, "c": 1 / 62 + 1 / 63}
    assert scores(ranking) == pytest.approx(expected, abs=1e-12)
    assert (ranking.absolute, ranking[0].relevance) == (False, None)
    assert ranking.personas == ("direct", "bm25")
    assert ranking[0].scores == pytest.approx({"direct": 1 / 61, "bm25": 1 / 62})
    assert ranking.members == (
        MemberRanking("direct", "direct", 1.0, ranks=(3, 1, 2), scores=(1.0, 5.0, 3.0), asked=3),
        MemberRanking("bm25", "first stage", 1.0, ranks=(1, 2, 3), scores=(9.0, 6.0, 3.0)),
    )
    assert ranking.ranker == "fused"
    assert ranking.usage.calls == 3


def test_weighted_scores_by_hand() -> None:
    """DIRECT scaled: a 0, b 1, c 1/2; first stage: a 1, b 1/2, c 0. Weights 3 and 1.

    a 0 + 1, b 3 + 1/2, c 3/2 + 0.
    """
    with fuse(direct(), "first_stage", method="interpolate", weights=[3, 1]) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert scores(ranking) == {"b": 3.5, "c": 1.5, "a": 1.0}
    assert ranking.ids == ["b", "c", "a"]
    assert ranking.config["weights"] == [3.0, 1.0]


def test_what_has_no_scores_counts_by_its_places() -> None:
    """RankGPT: b c a, so 1, 1/2, 0; the first stage without scores: a 1, b 1/2, c 0."""
    model, _ = comparing(in_order)
    with fuse(
        RankGPTRanker(model=model, ledger=None), "bm25", method="interpolate", weights=[2, 1]
    ) as ranker:
        ranking = ranker.rank(QUERY, {each.id: each.text for each in DOCS})
    assert scores(ranking) == {"b": 2.5, "a": 1.0, "c": 1.0}
    assert ranking.ids == ["b", "a", "c"]
    assert ranking.comparisons == Comparisons(asked=1)
    assert ranking.members[0].scores == (None, None, None)
    assert ranking.members[0].ranks == (3, 1, 2)


def test_what_a_member_has_not_decided_is_kept() -> None:
    """A model that always prefers the first passage ties every pair."""
    options: dict[str, Any] = {"model": comparing(lambda _: "A")[0], "ledger": None}
    with fuse({"ranker": "pairwise", "ranks": 3}, "bm25", **options) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert [each.undecided for each in ranking.members] == [((1, 3),), ()]
    assert Ranking.from_dict(json.loads(ranking.to_json())).members == ranking.members


def test_a_run_counts_by_its_own_ranks_and_what_it_lacks_is_told(run: Path) -> None:
    """c first and a third of the run: c 1/61 + 1/63, a 1/63 + 1/61, b 1/62 alone."""
    for spec in (run, str(run), {"run": str(run), "label": "mine"}):
        with fuse(spec, "bm25") as ranker:
            ranking = ranker.rank(QUERY, DOCS)
            assert ranker.estimate(QUERY, DOCS).calls == 0
        assert ranking.ids == ["a", "c", "b"]
        assert ranking[2].missing == {"mine": "it is not in the run"}
        assert ranking[2].scores == {"mine": None, "bm25": pytest.approx(1 / 62)}
        assert ranking.members[0].ranks == (3, None, 1)
        assert [each.doc_id for each in ranking.missing] == ["b"]
    with fuse(run, "bm25") as ranker:
        with pytest.raises(InputError, match="the query has no id"):
            ranker.rank("masks", DOCS)
        other = ranker.rank(Query("masks", "other"), DOCS)
    assert other.ids == ["a", "b", "c"]
    assert other[0].missing == {"mine": "the run has no query 'other'"}


def test_what_a_member_drops_or_does_not_judge_gets_nothing_from_it(run: Path) -> None:
    """DIRECT returns b alone of two that it judges; c is beyond its depth."""
    with fuse(direct(top_n=1, depth=2), "bm25") as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.members[0].ranks == (None, 1, None)
    assert {hit.doc_id: dict(hit.missing) for hit in ranking} == {
        "b": {},
        "a": {"direct": "it was not returned"},
        "c": {"direct": "it was not returned"},
    }
    with fuse(direct(depth=2), run) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    # a 1 / 62 + 1 / 63, c 1 / 61, b 1 / 61
    assert ranking.ids == ["a", "b", "c"]
    missing = [dict(hit.missing) for hit in ranking]
    assert missing == [{}, {"mine": "it is not in the run"}, {"direct": "it was not judged"}]


def test_passages_beyond_depth_follow() -> None:
    with fuse(direct(), "bm25", weights=[2, 1], depth=2) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
        assert ranker.estimate(QUERY, DOCS).calls == 2
    assert ranking.ids == ["b", "a", "c"]
    assert ranking[2].score is None
    assert not ranking[2].missing
    assert not ranking.missing


def failing(_: ChatRequest) -> str:
    raise ServerFailed("down")


def test_a_member_that_fails_is_an_error_or_left_out_and_told() -> None:
    broken = DirectRanker(model=ScriptedChat(failing), ledger=None)
    with fuse(broken, direct(), "bm25") as ranker, pytest.raises(ServerFailed):
        ranker.rank(QUERY, DOCS)
    with fuse(broken, direct(), "bm25", on_failure="keep_order") as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.ids == ["b", "a", "c"]
    assert not ranking.failure
    assert ranking.members[0].label == "direct"
    assert "down" in ranking.members[0].failure
    assert ranking.members[1].label == "direct 2"
    assert all("down" in hit.missing["direct"] for hit in ranking)
    own = DirectRanker(model=ScriptedChat(failing), ledger=None, on_failure="keep_order")
    with fuse(own, "bm25") as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert "down" in ranking.failure
    assert ranking.ids == ["a", "b", "c"]


def test_missing_scores_and_a_deadline_are_told() -> None:
    async def answer(request: ChatRequest) -> str:
        if "p 5" in request.messages[-1].content:
            await anyio.sleep_forever()
        return '{"Score": 2}'

    slow = DirectRanker(model=ScriptedChat(answer), ledger=None)
    with fuse(slow, "bm25", deadline=0.3) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.partial
    assert ranking.members[0].partial
    assert ranking.members[0].missing == 1
    hits = {hit.doc_id: hit for hit in ranking}
    assert hits["b"].missing == {"direct": "deadline"}
    assert hits["a"].score == pytest.approx(2 / 61)


@pytest.mark.parametrize("member", ["direct", "rankgpt", {"ranker": "setwise", "team_size": 2}])
def test_a_member_that_knows_nothing_by_the_deadline_gives_nothing(member: MemberSpec) -> None:
    async def answer(request: ChatRequest) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    with fuse(member, "bm25", model=ScriptedChat(answer), ledger=None, deadline=0.2) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.members[0].ranks == (None, None, None)
    assert ranking.members[0].partial
    assert {reason for hit in ranking for reason in hit.missing.values()} == {"deadline"}
    assert ranking.ids == ["a", "b", "c"]


@pytest.mark.parametrize("dropped", ["b", "abc"])
def test_dropped_passages_get_nothing_and_are_told(dropped: str) -> None:
    docs = {name: f"{name}: {2 if name in dropped else 5} 1 1 1 1 1" for name in "abc"}
    with fuse("rebel", "bm25", model=rebel_model()[0], ledger=None) as ranker:
        hits = {hit.doc_id: hit for hit in ranker.rank(QUERY, docs)}
    assert {name for name, hit in hits.items() if hit.missing} == set(dropped)
    assert hits["b"].missing == {"rebel": "dropped: its relevance is 2"}


def test_members_by_name_share_model_ledger_options_and_budget(tmp_path: Path) -> None:
    def answer(request: ChatRequest) -> str:
        return in_order(request) if shown_in(request) else '{"Score": 3}'

    model, seen = comparing(answer)
    options: dict[str, Any] = {"model": model, "ledger": tmp_path / "ledger.db"}
    members: list[MemberSpec] = [
        "direct",
        {"ranker": "rankgpt", "window": 2, "step": 1, "label": "list"},
        "bm25",
    ]
    with FusedRanker(members=members, depth=3, **options) as ranker:
        assert ranker.estimate(QUERY, DOCS).calls == 5
        ranking = ranker.rank(QUERY, DOCS)
        again = ranker.rank(QUERY, DOCS)
        assert ranker.models.names["scoring"] == "scripted:function"
        assert {"direct", "rankgpt"} <= set(ranker.prompt_hashes)
    assert (ranking.usage.calls, again.usage.calls, again.reused.calls) == (5, 0, 5)
    assert ranking.personas == ("direct", "list", "bm25")
    assert ranking.models == {"scoring": "scripted:function"}
    limited = FusedRanker(members=members, model=model, ledger=None, max_calls=4)
    before = len(seen)
    with limited, pytest.raises(BudgetExceeded):
        limited.rank(QUERY, DOCS)
    assert len(seen) - before <= 4


def test_a_stored_ranking_is_checked_and_not_combined_again(run: Path) -> None:
    with fuse(direct(), run, "bm25", weights=[1, 0.5, 1]) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    data = json.loads(ranking.to_json())
    assert data["members"][1]["ranks"] == [3, None, 1]
    again = Ranking.from_dict(data)
    assert again.members == ranking.members
    with pytest.raises(ConfigError, match="fuse its members again"):
        again.reensemble("reciprocal_rank")
    data["members"][1]["ranks"] = [3]
    with pytest.raises(InputError, match="must have one rank and score a hit"):
        Ranking.from_dict(data)
    told = io.StringIO()
    ranking.show(file=told)
    # a 1 / 63 + 0.5 / 63 + 1 / 61, c 1 / 62 + 0.5 / 61 + 1 / 63, b 1 / 61 + 1 / 62
    assert re.search(r"^ +3 +b +0\.033 +#1 +- +#2 ", told.getvalue(), re.MULTILINE)


def test_events_are_those_of_one_query() -> None:
    async def listen() -> list[Any]:
        async with (
            fuse(direct(), direct(), "bm25") as ranker,
            ranker.astream(QUERY, DOCS) as events,
        ):
            return [event async for event in events]

    events = anyio.run(listen)
    assert sum(isinstance(event, RankingStarted) for event in events) == 1
    scored = [event for event in events if isinstance(event, PassageScored)]
    assert [event.done for event in scored] == [1, 2, 3, 4, 5, 6]
    assert scored[-1].total == 6


def test_members_by_name_rank_all_unless_they_are_told_not_to() -> None:
    docs = {name: f"{name}: 5 1 1 1 1 1" for name in "abcde"}
    with fuse("rebel", "bm25", model=rebel_model()[0], ledger=None) as ranker:
        assert None not in ranker.rank(QUERY, docs).members[0].ranks
    least = {"ranker": "rebel", "top_n": 2}
    with fuse(least, "bm25", model=rebel_model()[0], ledger=None) as ranker:
        assert ranker.rank(QUERY, docs).members[0].ranks == (1, 2, None, None, None)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: fuse("bm25"), "fusion takes two or more"),
        (lambda: fuse("bm25", "bm24"), "'bm24' is neither the first stage"),
        (lambda: fuse("bm25", "direct", method="sum"), "method='sum' is unknown; give one of rrf"),  # type: ignore[arg-type]  # that is the point
        (lambda: fuse("bm25", "direct", weights=[1]), "give 2 numbers"),
        (lambda: fuse("bm25", "direct", weights=[0, 0]), "at least one above 0"),
        (lambda: fuse("bm25", "direct", weights=[1, -1]), r"weights=\[1, -1\]: give 2 numbers"),
        (lambda: fuse("bm25", {"ranker": "direct", "window": 2}), "takes no option 'window'"),
        (lambda: fuse("bm25", {"run": "x.trec", "k": 2}), "a run takes no options"),
        (lambda: fuse("bm25", {"ranker": "bm25", "k": 2}), "the first stage takes no options"),
        (lambda: fuse("bm25", 5), "the member 5 is neither a ranker"),  # type: ignore[arg-type]  # that is the point
        (lambda: fuse("bm25", {"rankr": "direct"}), "neither a ranker, nor a name"),
        (lambda: fuse("bm25", "direct", weights=5), "weights=5: give 2 numbers"),  # type: ignore[arg-type]  # that is the point
        (lambda: FusedRanker(members=5), "members=5: fusion takes two"),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_what_cannot_be_fused_is_refused(make: Callable[[], Ranker], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make()
