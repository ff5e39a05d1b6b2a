"""Rankers that compare: their orders by hand, odd replies, and what they share with the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import (
    BudgetExceeded,
    ChatRequest,
    Comparisons,
    ContextTooLong,
    MissingScoreError,
    RankGPTRanker,
    Ranking,
    ScriptedChat,
    SetwiseRanker,
)
from mcranker.rankers import RANKERS, Ranker
from tests.support.comparing import best, comparing, in_order, shown_in

QUERY = "best masks against covid"
DOCS = {name: f"passage {name} {grade}" for grade, name in enumerate("abcde", start=1)}
NAMES = ("rankgpt", "setwise")


def ranked(ids: str, ranking: Ranking) -> bool:
    return "".join(ranking.ids) == ids


def made(name: str, model: Any, **options: Any) -> Ranker:
    make: Any = RANKERS.get(name)
    ranker: Ranker = make(model=model, ledger=options.pop("ledger", None), **options)
    return ranker


def answer_of(name: str) -> Any:
    return in_order if name == "rankgpt" else best


# RankGPT


def test_windows_slide_from_the_end_to_the_top() -> None:
    """Grades a 1 to e 5; windows of 3, step 2: places 2 to 4, then 0 to 2.

    a b [c d e] -> a b e d c; [a b e] d c -> e b a d c.
    """
    model, seen = comparing(in_order)
    with RankGPTRanker(model=model, ledger=None, window=3, step=2) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranked("ebadc", ranking)
    assert [list(shown_in(request).values()) for request in seen] == [
        ["passage c 3", "passage d 4", "passage e 5"],
        ["passage a 1", "passage b 2", "passage e 5"],
    ]
    assert ranking.comparisons == Comparisons(asked=2)
    assert ranking.usage.calls == 2
    assert ranking.config["window"] == 3
    assert [hit.score for hit in ranking] == [None] * 5


@pytest.mark.parametrize(
    ("reply", "ids", "counts"),
    [
        ("[5] > [4]", "edabc", Comparisons(1, odd=1, missing=3)),
        ("[5] > [5] > [3] > [5] > [1] > [2] > [4]", "ecabd", Comparisons(1, odd=1, repeated=2)),
        ("[6] > [2] > [7] > [1] > [3] > [4] > [5]", "bacde", Comparisons(1, odd=1, unknown=2)),
        ("3 > 1 > 2 > 5 > 4", "cabed", Comparisons(1)),
        ("<think>[1] > [2]</think>Ranking:\n[3]>[1]>[2]>[5]>[4].", "cabed", Comparisons(1)),
        ("[4]", "dabce", Comparisons(1, odd=1, missing=4)),
        ("[4]>[3]>[2]>[1]>[0]", "edcba", Comparisons(1)),  # all of them, counted from 0
    ],
)
def test_a_reply_is_repaired_and_counted(reply: str, ids: str, counts: Comparisons) -> None:
    model, seen = comparing(lambda _: reply)
    with RankGPTRanker(model=model, ledger=None) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranked(ids, ranking)
    assert ranking.comparisons == counts
    assert len(seen) == 1


def test_a_stronger_model_puts_the_first_in_order_again(tmp_path: Path) -> None:
    """Windows of 3 by the cheap one, then the first two by the strong one, lowest grade first.

    a b [c d e] -> a b e d c; [a b e] -> e b a d c; then [e b] -> b e.
    """

    def lowest_first(request: ChatRequest) -> str:
        return " > ".join(reversed(in_order(request).split(" > ")))

    cheap, first = comparing(in_order)
    strong, again = comparing(lowest_first)
    strong = ScriptedChat(strong.complete, name="scripted:strong")
    options: dict[str, Any] = {"window": 3, "step": 2, "reranked": 2}
    with RankGPTRanker(
        model=cheap, assessor_model=strong, ledger=tmp_path / "ledger.db", **options
    ) as ranker:
        assert ranker.estimate(QUERY, DOCS).calls == 3
        ranking = ranker.rank(QUERY, DOCS)
    assert ranked("beadc", ranking)
    assert (len(first), len(again)) == (2, 1)
    assert ranking.models == {"scoring": "scripted:function", "assessor": "scripted:strong"}
    assert ranking.usage.calls == 3
    assert ranking.config["reranked"] == 2
    limited = RankGPTRanker(model=cheap, assessor_model=strong, ledger=None, max_calls=2, **options)
    with limited, pytest.raises(BudgetExceeded):
        limited.rank(QUERY, DOCS)
    assert len(again) == 1


# Setwise


def test_a_heap_is_built_and_the_best_taken_off() -> None:
    """Children 2, heap a b c d e: b d e -> e; a e c -> e; a d b -> d: e d c a b.

    e off, b on top: b d c -> d; b a -> b. d off: the rest is a b c, of which nothing is asked.
    Each set is shown in first-stage order; b of a b is the only choice that is not the last.
    """
    model, seen = comparing(best)
    with SetwiseRanker(model=model, ledger=None, ranks=2, children=2) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
        assert ranker.estimate(QUERY, DOCS).calls == 5
    assert ranked("edabc", ranking)
    shown = ["".join(text.split()[1] for text in shown_in(each).values()) for each in seen]
    assert shown == ["bde", "ace", "abd", "bcd", "ab"]
    assert ranking.comparisons == Comparisons(asked=5)
    assert ranking.undecided == ((3, 5),)


# What all of them share


@pytest.mark.parametrize("name", NAMES)
def test_comparisons_that_fail_among_others_are_counted(name: str) -> None:
    """All with passage c fail; nothing is made of them."""

    def answer(request: ChatRequest) -> str:
        if "passage c 3" in shown_in(request).values():
            raise ContextTooLong("too long")
        said: str = answer_of(name)(request)
        return said

    options: dict[str, Any] = {"rankgpt": {"window": 2, "step": 1}, "setwise": {"children": 1}}
    with made(name, ScriptedChat(answer), **options.get(name, {})) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    counts = ranking.comparisons
    assert counts is not None
    assert 0 < counts.failed < counts.asked
    assert counts.reason == "too long"
    assert sorted(ranking.ids) == sorted(DOCS)
    with (
        made(name, ScriptedChat(answer), missing_policy="fail", **options.get(name, {})) as ranker,
        pytest.raises(MissingScoreError, match="a comparison failed"),
    ):
        ranker.rank(QUERY, DOCS)


@pytest.mark.parametrize("name", NAMES)
def test_at_the_deadline_the_order_is_what_is_known(name: str) -> None:
    async def answer(request: ChatRequest) -> str:
        if "passage a 1" in shown_in(request).values():
            await anyio.sleep_forever()
        said: str = answer_of(name)(request)
        return said

    options: dict[str, Any] = {"rankgpt": {"window": 2, "step": 1}}
    with made(name, ScriptedChat(answer), deadline=0.3, **options.get(name, {})) as ranker:
        ranking = ranker.rank(QUERY, DOCS)
    assert ranking.partial
    # The best has risen behind a; a heap has no order before its top is known.
    assert ranked("aebcd" if name == "rankgpt" else "abcde", ranking)
