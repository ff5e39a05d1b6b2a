"""REBEL: final scores by hand, dropped passages, and odd replies."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from mcranker import (
    ChatReply,
    ChatRequest,
    ConfigError,
    ContextTooLong,
    Ranking,
    RebelRanker,
    ReplyError,
    ScriptedChat,
    WindowCounts,
)
from tests.support.comparing import shown_in
from tests.support.rebel import by_rote, entry, passages, rebel_model

QUERY = "best masks against covid"
# Relevance, depth, diversity, clarity, authoritativeness, recency.
SCORES = {
    "a": [6, 1, 1, 1, 1, 1],  # 6 + 0.5 * 5 = 8.5
    "b": [2, 5, 5, 5, 5, 5],  # dropped, though 2 + 0.5 * 25 = 14.5
    "c": [5, 5, 5, 5, 5, 5],  # 5 + 12.5 = 17.5
    "d": [10, 0, 0, 0, 0, 3],  # 10 + 1.5 = 11.5
    "e": [3, 0, 0, 0, 0, 0],  # 3
    "f": [0, 0, 0, 0, 0, 0],  # dropped
}
DOCS = passages(SCORES)


def ranked(docs: Any = DOCS, answer: Any = by_rote, **options: Any) -> Ranking:
    model, _ = rebel_model(answer)
    with RebelRanker(model=model, ledger=options.pop("ledger", None), **options) as ranker:
        return ranker.rank(QUERY, docs)


# One turn


def test_the_final_score_is_relevance_and_half_of_each_property() -> None:
    """c 17.5, d 11.5, a 8.5, e 3; b and f are dropped, and no hits."""
    ranking = ranked(top_n=None)
    assert ranking.ids == ["c", "d", "a", "e"]
    assert [hit.score for hit in ranking] == [17.5, 11.5, 8.5, 3.0]
    assert ranking.dropped == {1: 2.0, 5: 0.0}
    stored = ranking.to_dict()["hits"]
    assert [(hit["doc_id"], hit["dropped"]) for hit in stored[4:]] == [("b", 2.0), ("f", 0.0)]
    assert stored[4]["criteria"]["REBEL"] == {
        "Relevance": 2.0,
        "Depth of content": 5.0,
        "Diversity of perspectives": 5.0,
        "Clarity and specificity": 5.0,
        "Authoritativeness": 5.0,
        "Recency": 5.0,
    }
    assert stored[4]["scores"] == {"REBEL": 14.5}
    assert ranking.config["top_score"] == 22.5  # 10 + 0.5 * 5 * 5
    assert ranking[0].relevance == pytest.approx(17.5 / 22.5)
    assert ranking.missing == []
    assert ranking.windows == WindowCounts(asked=1)
    assert ranking.models == {"scoring": "scripted:function"}
    assert (ranking.config["window"], ranking.config["min_relevance_score"]) == (10, 3)
    assert ranking.config["variant"] == "one_turn"


def test_three_passages_are_returned_unless_told_otherwise() -> None:
    assert ranked().ids == ["c", "d", "a"]
    assert len(ranked().passages) == 6
    assert ranked(top_n=5).ids == ["c", "d", "a", "e"]
    model, _ = rebel_model()
    with RebelRanker(model=model, ledger=None) as ranker:
        assert ranker.rank(QUERY, DOCS, top_n=1).ids == ["c"]


def test_the_threshold_can_be_another_or_none() -> None:
    assert ranked(min_relevance_score=0, top_n=None).ids == ["c", "b", "d", "a", "e", "f"]
    assert ranked(min_relevance_score=0).dropped == {}
    assert ranked(min_relevance_score=6, top_n=None).ids == ["d", "a"]
    assert ranked(min_relevance_score=10, docs={"a": DOCS["a"]}).ids == []


def test_windows_are_consecutive_and_scored_by_one_rule() -> None:
    """Of 12, 5 a window: three calls; the best of the last is first."""
    docs = passages({str(place): [3 + place // 2, 0, 0, 0, 0, 0] for place in range(12)})
    model, seen = rebel_model()
    with RebelRanker(model=model, ledger=None, window=5, top_n=None) as ranker:
        assert ranker.estimate(QUERY, docs).calls == 3
        ranking = ranker.rank(QUERY, docs)
    shown = sorted(
        [text.split()[1].rstrip(":") for text in shown_in(request).values()] for request in seen
    )
    assert shown == sorted([list("01234"), list("56789"), ["10", "11"]])
    assert ranking.ids == ["10", "11", "8", "9", "6", "7", "4", "5", "2", "3", "0", "1"]
    assert ranking.usage.calls == 3


def test_the_prompt_names_properties_weights_and_the_formula() -> None:
    model, seen = rebel_model()
    with RebelRanker(model=model, ledger=None, lowercase_query=True) as ranker:
        ranker.rank(QUERY.upper(), DOCS)
    (request,) = seen
    asked = request.messages[-1].content
    assert "P4. Authoritativeness (weight 0.5): 5 for a recognised source" in asked
    assert "Final = Relevance + 0.5 * P1 + 0.5 * P2 + 0.5 * P3 + 0.5 * P4 + 0.5 * P5" in asked
    assert f"<<<{QUERY}>>>" in asked
    assert request.schema is not None
    entries = request.schema.schema["properties"]["Passages"]["properties"]
    assert list(entries) == ["1", "2", "3", "4", "5", "6"]
    assert entries["1"]["required"] == ["Relevance", "P1", "P2", "P3", "P4", "P5", "Final"]
    assert entries["1"]["properties"]["P5"]["enum"] == [0, 1, 2, 3, 4, 5]


# Two turns


def test_the_first_call_of_two_infers_properties_and_weights() -> None:
    """a 5 + 0.7 * 5 + 0.3 * 0 = 8.5; b 6 + 0 + 1.5 = 7.5; c 8 + 0.7 + 0.3 = 9."""
    docs = passages({"a": [5, 5, 0], "b": [6, 0, 5], "c": [8, 1, 1]})
    model, seen = rebel_model()
    options: Any = {"variant": "two_turn", "infer_weights": True}
    with RebelRanker(model=model, ledger=None, **options) as ranker:
        assert ranker.estimate(QUERY, docs).calls == 2
        ranking = ranker.rank(QUERY, docs)
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("c", 9.0), ("a", 8.5), ("b", 7.5)]
    assert ranking.config["top_score"] == 15.0  # 10 + 5 * 0.7 + 5 * 0.3
    assert [request.tag.stage for request in seen] == ["criteria", "score"]
    asked = seen[1].messages[-1].content
    assert "Relevance, from 0 to 10: 10: it says which masks protect. 0: it is not" in asked
    assert "P1. Tested on wearers (weight 0.7): 5: trials. 0: claims." in asked
    assert ranking.models == {"criteria": "scripted:function", "scoring": "scripted:function"}
    assert ranking.calls.total.calls == 2


def test_relevance_alone_as_the_first_call_explains_it() -> None:
    docs = passages({"a": [5], "b": [9], "c": [2]})
    model, seen = rebel_model()
    options: Any = {"variant": "two_turn_relevance", "top_n": None}
    with RebelRanker(model=model, ledger=None, **options) as ranker:
        ranking = ranker.rank(QUERY, docs)
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("b", 9.0), ("a", 5.0)]
    assert ranking[0].criteria == {"REBEL": {"Relevance": 9.0}}
    assert "it says which masks protect" in seen[1].messages[-1].content
    assert "P1" not in seen[1].messages[-1].content
    assert seen[0].schema is not None
    assert "Properties" not in seen[0].schema.schema["properties"]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("Depth and recency.", "not one JSON object"),
        ({"Relevance": "on masks", "Properties": []}, "1 to 12 objects"),
        ({"Relevance": " ", "Properties": [{"Property": "Depth"}]}, "must say in words"),
        ({"Relevance": "x", "Properties": [{"Property": "relevance"}]}, "must differ"),
        ({"Relevance": "x", "Properties": [{"Property": "A", "Weight": 30}]}, "from 0 to 2"),
    ],
)
def test_a_first_call_that_cannot_be_read_is_asked_again_and_then_an_error(
    reply: Any, problem: str
) -> None:
    said = reply if isinstance(reply, str) else json.dumps(reply)
    model, seen = rebel_model(lambda _: said)
    options: Any = {"variant": "two_turn", "infer_weights": True}
    with RebelRanker(model=model, ledger=None, **options) as ranker:
        with pytest.raises(ReplyError, match=problem):
            ranker.rank(QUERY, DOCS)
        assert len(seen) == 2
    kept = ranked(answer=lambda _: said, **options, on_failure="keep_order", top_n=None)
    assert kept.ids == list(DOCS)
    assert problem in kept.failure


# Odd replies


def said(entries: Any) -> str:
    return json.dumps({"Passages": entries})


TWO = passages({"a": [4, 0, 0, 0, 0, 0], "b": [9, 0, 0, 0, 0, 0]})
A, B = entry([4, 0, 0, 0, 0, 0]), entry([9, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("entries", "ids", "counts"),
    [
        ({"2": B, "1": A}, "ba", WindowCounts(1)),
        ([{"Passage": 2, **B}, {"Passage": "1", **A}], "ba", WindowCounts(1)),
        ({"1": A, "2": B, "3": B, "x": A}, "ba", WindowCounts(1, odd=1, unknown=2)),
        ({"1": A, "2": B, "Passage 2": B}, "ba", WindowCounts(1, odd=1, repeated=1)),
        ({"1": {**A, "final_score": 4}, "2": B}, "ba", WindowCounts(1)),
    ],
)
def test_a_reply_is_repaired_and_counted(entries: Any, ids: str, counts: WindowCounts) -> None:
    ranking = ranked(TWO, lambda _: said(entries))
    assert "".join(ranking.ids) == ids
    assert ranking.windows == counts
    assert ranking.missing == []


@pytest.mark.parametrize(
    ("entries", "reason", "counts"),
    [
        ([A, {"Passage": 1, **A}], "it was left out", {"missing": 1, "unknown": 1}),
        ({"1": A, "2": {**B, "Relevance": 11}}, "11 is not an integer", {"unreadable": 1}),
        ({"1": A, "2": {**B, "P3": 6}}, "P3: odd answer: 6 is not", {"unreadable": 1}),
        ({"1": A, "2": {"Relevance": 9}}, "P1: no answer", {"unreadable": 1}),
        ({"1": A, "2": 9}, "it was left out", {"missing": 1, "unknown": 1}),
        (
            [{"Passage": 1, **A}, {"Passage": 2, **A}, {"Passage": 2, **B}],
            "more than once, with different scores",
            {"repeated": 1, "unreadable": 1},
        ),
    ],
)
def test_what_a_reply_lacks_is_missing_and_never_anothers(
    entries: Any, reason: str, counts: dict[str, int]
) -> None:
    ranking = ranked(TWO, lambda _: said(entries), repair_attempts=0)
    assert ranking.ids == ["a", "b"]
    assert ranking.windows == WindowCounts(1, odd=1, **counts)
    (missing,) = ranking.missing
    assert (missing.doc_id, missing.persona) == ("b", "REBEL")
    assert reason in missing.reason
    assert ranking[0].score == 4.0
    assert ranking[1].score is None


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ({"1": A}, "a"),
        ([{"Passage": 2, **B}], "b"),
        ({"2": {"Relevance": 2}}, ""),
        ({}, ""),
        ([], ""),
    ],
)
@pytest.mark.parametrize("repair_attempts", [0, 1])
def test_a_passage_that_a_list_leaves_out_is_dropped_in_one_call(
    entries: Any, left: str, repair_attempts: int
) -> None:
    model, seen = rebel_model(lambda _: said(entries))
    options: Any = {"repair_attempts": repair_attempts}
    with RebelRanker(model=model, ledger=None, **options) as ranker:
        ranking = ranker.rank(QUERY, TWO)
    assert len(seen) == 1
    assert (ranking.ids, ranking.missing, ranking.failure) == (list(left), [], "")
    assert len(ranking.dropped) == 2 - len(left)


@pytest.mark.parametrize(
    "reply",
    [
        "They are all about masks.",
        said({"1": {"Relevance": "high"}, "2": B}),
        said([{**A, "Passage": 1}, {**B, "Passage": 99}]),
    ],
)
def test_a_list_that_cannot_be_read_is_asked_for_once_again(reply: str) -> None:
    """Ten passages in one window: two calls at most, whatever comes."""
    docs = passages({str(place): [5, 0, 0, 0, 0, 0] for place in range(10)})
    model, seen = rebel_model(lambda _: reply)
    with RebelRanker(model=model, ledger=None, on_failure="keep_order") as ranker:
        ranking = ranker.rank(QUERY, docs)
    assert len(seen) == 2
    assert len(ranking.ids) <= 3


def test_inferred_properties_weigh_half_a_point_unless_weights_are_inferred() -> None:
    """a 5 + 0.5 * 5 = 7.5 and b 5 + 0.5 * 4 = 7, though the model gives 0.7 and 0.3."""
    docs = passages({"a": [5, 5, 0], "b": [5, 0, 4]})
    model, seen = rebel_model()
    with RebelRanker(model=model, ledger=None, variant="two_turn") as ranker:
        ranking = ranker.rank(QUERY, docs)
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("a", 7.5), ("b", 7.0)]
    assert "Weight" not in seen[0].messages[-1].content
    assert "Final = Relevance + 0.5 * P1 + 0.5 * P2" in seen[1].messages[-1].content
    with pytest.raises(ConfigError):
        RebelRanker(model=model, ledger=None, infer_weights=True)


def test_a_window_that_fails_is_asked_in_halves() -> None:
    """Four do not fit, two do; e alone never does."""

    def answer(request: ChatRequest) -> str:
        shown = shown_in(request)
        if len(shown) > 2 or "passage e" in str(shown):
            raise ContextTooLong("too long")
        return by_rote(request)

    docs = {name: DOCS[name] for name in "acde"}
    model, seen = rebel_model(answer)
    with RebelRanker(model=model, ledger=None, top_n=None) as ranker:
        ranking = ranker.rank(QUERY, docs)
    assert [len(shown_in(request)) for request in seen] == [4, 2, 2, 1, 1]
    assert ranking.ids == ["c", "d", "a", "e"]
    assert ranking.windows == WindowCounts(asked=2, failed=3)
    assert [(each.doc_id, each.reason) for each in ranking.missing] == [("e", "too long")]


# What it shares with the others


@pytest.mark.parametrize("late", ["criteria", "score"])
def test_the_deadline_leaves_what_is_known(late: str) -> None:
    """The second window, or the first call of two, never comes."""

    class Slow(ScriptedChat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            if request.tag.stage == late and (late == "criteria" or "passage c" in str(request)):
                await anyio.sleep_forever()
            return await super().complete(request)

    docs = passages({"a": [4, 1, 1], "b": [2, 1, 1], "c": [9, 1, 1], "d": [9, 1, 1]})
    slow = Slow(by_rote)
    options: Any = {"variant": "two_turn", "window": 2, "deadline": 0.2, "top_n": None}
    with RebelRanker(model=slow, ledger=None, **options) as ranker:
        ranking = ranker.rank(QUERY, docs)
    assert ranking.partial
    if late == "criteria":
        assert ranking.ids == list("abcd")
        return
    assert [(hit.doc_id, hit.score) for hit in ranking] == [*(("a", 5.0), ("c", None), ("d", None))]
    assert ranking.dropped == {1: 2.0}
    assert {each.doc_id for each in ranking.missing} == {"c", "d"}


# Teams


# Prompts
