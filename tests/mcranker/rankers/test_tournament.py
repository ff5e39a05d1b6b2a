"""The tournament ranker: what follows from answers, which calls are left out, and that it ends."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from mcranker import ChatRequest, Comparisons, Ranking, ScriptedChat, TournamentRanker
from mcranker.rankers.tournament import PartialOrder
from tests.support.comparing import comparing, grades_in, in_order, shown_in
from tests.support.scale import scaled

QUERY = "best masks against covid"


def calls_of(seen: Sequence[ChatRequest]) -> list[list[int]]:
    return [list(grades_in(request).values()) for request in seen]


def test_what_follows_is_not_asked() -> None:
    """Windows of 3, the first 2 ranks of 1 to 6, which stand in rising order.

    [1 2 3] and [4 5 6] give 3 2 1 and 6 5 4. Behind nobody are 3 and 6, and behind one each 2
    and 5, of which the first fits: [2 3 6] gives 6 3 2. Then 6 is before all. Behind it alone
    are 3 and 5, and behind two 4 and 2, of which 4 is before nobody: [3 4 5], and 5 is second.
    """
    model, seen = comparing(in_order)
    docs = {f"d{grade}": f"p {grade}" for grade in range(1, 7)}
    with TournamentRanker(model=model, ledger=None, window=3, ranks=2) as ranker:
        ranking = ranker.rank(QUERY, docs)
        assert len(seen) <= ranker.estimate(QUERY, docs).calls
    assert calls_of(seen) == [[1, 2, 3], [4, 5, 6], [2, 3, 6], [3, 4, 5]]
    assert ranking.ids == ["d6", "d5", "d1", "d2", "d3", "d4"]
    assert ranking.comparisons == Comparisons(asked=4)
    assert ranking.config["window"] == 3
    assert ranking.config["ranks"] == 2


@pytest.mark.parametrize("seed", range(20))
def test_the_fastest_three_of_25_horses_in_seven_races(seed: int) -> None:
    """The riddle that the paper begins with; five run at a time."""
    speeds = list(range(25))
    random.Random(seed).shuffle(speeds)
    model, seen = comparing(in_order)
    with TournamentRanker(model=model, ledger=None, window=5, ranks=3) as ranker:
        ranking = ranker.rank(QUERY, [f"p {speed}" for speed in speeds])
    assert [hit.passage.text for hit in ranking[:3]] == ["p 24", "p 23", "p 22"]
    assert len(seen) == 7


@pytest.mark.parametrize("window", [2, 3, 10])
def test_consistent_answers_give_the_first_ranks_within_the_estimate(window: int) -> None:
    rng = random.Random(window)
    for _ in range(scaled(20)):
        count, ranks = rng.randint(1, 25), rng.randint(1, 12)
        grades = list(range(count))
        rng.shuffle(grades)
        model, seen = comparing(in_order)
        docs = [f"p {grade}" for grade in grades]
        with TournamentRanker(model=model, ledger=None, window=window, ranks=ranks) as ranker:
            ranking = ranker.rank(QUERY, docs)
            assert len(seen) <= ranker.estimate(QUERY, docs).calls
        found = [int(hit.passage.text.split()[1]) for hit in ranking]
        first = min(ranks, count)
        assert found[:first] == sorted(grades, reverse=True)[:first]
        assert found[first:] == [grade for grade in grades if grade not in found[:first]]


def test_passages_in_a_circle_are_a_tier() -> None:
    """1 before 2, 2 before 0, 0 before 1; 2 before 3. All three are before 3, in their order."""
    facts = PartialOrder(4)
    for pair in ((1, 2), (2, 0)):
        facts.note(pair, pair)
    assert facts.first(4) == [1, 2, 0, 3]
    for pair in ((0, 1), (2, 3)):
        facts.note(pair, pair)
    assert facts.next(4, 2) == []
    assert facts.first(4) == [0, 1, 2, 3]


def test_what_a_reply_leaves_out_is_behind_what_it_names() -> None:
    """Of 0 to 3 the reply names 2 and 1; of 0 and 3 nothing is known, nor asked again."""
    facts = PartialOrder(4)
    facts.note(range(4), [2, 1])
    assert facts.first(4) == [2, 1, 0, 3]
    assert facts.next(4, 4) == []


def test_a_failed_comparison_says_nothing_of_its_passages() -> None:
    """Pairs of 1 to 4, the first answers none: 1 and 2 keep their order.

    [1 2] fails, [3 4] gives 4; behind nobody are 1, 2 and 4. [1 4] gives 4, [2 4] gives 4, and
    then [1 3] and [2 3] give 3. 1 and 2 were shown together and are not again.
    """

    def answer(request: ChatRequest) -> str:
        return in_order(request) if set(grades_in(request).values()) != {1, 2} else "none"

    model, seen = comparing(answer)
    docs = {f"d{grade}": f"p {grade}" for grade in range(1, 5)}
    with TournamentRanker(model=model, ledger=None, window=2, repair_attempts=0) as ranker:
        ranking = ranker.rank(QUERY, docs)
    assert ranking.ids == ["d4", "d3", "d1", "d2"]
    assert sorted(calls_of(seen)) == [[1, 2], [1, 3], [1, 4], [2, 3], [2, 4], [3, 4]]
    assert ranking.comparisons is not None
    assert (ranking.comparisons.asked, ranking.comparisons.failed) == (6, 1)


def test_it_ends_whatever_the_answers_say() -> None:
    """Random orders, contradictory, partial or none: no more calls than announced."""
    rng = random.Random(5)
    replies = 0

    def answer(request: ChatRequest) -> str:
        nonlocal replies
        replies += 1
        names = list(shown_in(request))
        rng.shuffle(names)
        if rng.random() < 0.5:
            names = names[: rng.randint(2, len(names))]
        return " > ".join(f"[{name}]" for name in names) if rng.random() < 0.8 else "none"

    while replies < scaled(500):
        count, window = rng.randint(2, 30), rng.randint(2, 6)
        ranks = rng.randint(1, 12)
        docs = {str(place): f"p {place}" for place in range(count)}
        with TournamentRanker(
            model=ScriptedChat(answer),
            ledger=None,
            window=window,
            ranks=ranks,
            repair_attempts=0,
            on_failure="keep_order",
        ) as ranker:
            ranking: Ranking = ranker.rank(QUERY, docs)
            most = ranker._most(count)
        assert sorted(ranking.ids) == sorted(docs)
        assert ranking.usage.calls <= most
        rest = [int(name) for name in ranking.ids[ranks:]]
        assert rest == sorted(rest)


def test_facts_hold_whatever_is_noted() -> None:
    """Before and behind by a closure of their own: what the order must keep."""
    rng = random.Random(6)
    for _ in range(scaled(100)):
        count = rng.randint(2, 9)
        facts, edges = PartialOrder(count), set[tuple[int, int]]()
        for _ in range(rng.randint(1, 8)):
            shown = rng.sample(range(count), rng.randint(2, count))
            named = shown[: rng.randint(0, len(shown))]
            facts.note(sorted(shown), named)
            edges |= set(itertools.combinations(named, 2))
            edges |= {(a, b) for a in named for b in shown if b not in named}
        for via, before, after in itertools.product(range(count), repeat=3):
            if (before, via) in edges and (via, after) in edges:
                edges.add((before, after))
        order = facts.first(count)
        assert sorted(order) == list(range(count))
        for before, after in edges:
            if (after, before) not in edges:
                assert order.index(before) < order.index(after)
