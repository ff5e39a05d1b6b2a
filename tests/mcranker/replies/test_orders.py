"""Malformed replies to rankers that compare: nothing is shifted or invented, each passage once."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any

import pytest

from mcranker import ChatRequest, Ranking, ReplyError, ScriptedChat, SetwiseRanker
from mcranker.rankers.comparative import RankGPTRanker
from mcranker.replies.loose_json import LONGEST, Unreadable
from mcranker.replies.orders import read_choice, read_order
from tests.support.scale import scaled

PIECES = [
    *(
        "[1]",
        *("[2]", "[3]", "[4]", "[99]", "[0]", "[-1]", "[1.5]", "[]", "[ 2 ]", "[1", "2]", "[[3]]"),
    ),
    *(">", " > ", ">>", "=", ",", ";", "\n", " ", ">\n", "->", "<", "and", ". ", "...", "&gt;"),
    *("1", "2", "3", "4", "12", "007", "3.14", "1e9", "9" * 12, "\u0661", "\u00b2", "\uff11"),
    *("A", "B", "[A]", "Passage A", "Passage B", "passage c", "Answer: B", "C.", "(D)", "Z", "a"),
    *("<think>", "</think>", "{", "}", '"Order": [2, 1]', "```", "For example:", "not", "I", "\0"),
    *("The passage is about masks.", "\u202e", "\U0001f637", "None", "null", "\ud800"),
]
LETTERS = ("A", "B", "C", "D")


def noise(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 14)))


def written(order: list[int], rng: random.Random) -> str:
    """The order as models write it."""
    between = rng.choice([" > ", ">", "\n> ", "  >  "])
    bracketed = rng.random() < 0.7
    return between.join(f"[{n}]" if bracketed else str(n) for n in order)


def test_an_order_is_what_stands_in_the_reply() -> None:
    """Known by a reading of its own: the list as it was written, whatever stands around it."""
    rng = random.Random(1)
    read = 0
    cases = scaled(1_000)
    for _ in range(cases):
        count = rng.randint(1, 20)
        said = [
            rng.randint(0 if rng.random() < 0.1 else 1, count + 2)
            for _ in range(rng.randint(2, count + 3))
        ]
        around = rng.choice(["", "", "Here is the order: ", "So:\n\n"])
        text = (
            f"{around}{written(said, rng)}{rng.choice(['', '.', chr(10) + 'Passage 1 is best.'])}"
        )
        first = int(sorted(said) != list(range(count)))  # all are there, counted from 0
        known = [number - first for number in said if 0 <= number - first < count]
        if not known or (first and 0 in said):
            with pytest.raises(Unreadable):
                read_order(text, count)
            continue
        found = read_order(text, count)
        assert found.places == tuple(dict.fromkeys(known)), text
        assert found.missing == count - len(set(known))
        assert found.repeated == len(known) - len(set(known))
        assert found.unknown == len(said) - len(known)
        read += 1
    assert read > cases / 2


@pytest.mark.parametrize(
    "reply",
    [
        *("", "[1] > [2]\n[2] > [1]", "[1] > [2] = [3] > [4]", "The format is [2] > [1]"),
        *("for example [2] > [1]", "[7] > [8]", "[1], [2], [3]", "1, 2, 3, 4 are all about masks"),
        *("Relevant passages: 1, 2, 3, 4", "The format is 4, 3, 2, 1"),
        "Example output: 4, 3, 2, 1",
        "[1]: about masks\n[2]: about cloth\n[3]: about trials\n[4]: about air",
        *("1. [1]: masks\n2. [2]: cloth\n3. [3]: trials\n4. [4]: air", "1.\n2.\n3.\n4."),
        *("4, 3, 2, 1\n\n1, 2, 3, 4", "4\n3\n2\n1\n\nOr: [1] > [2] > [3] > [4]"),
        *("[4] > [3], [2], [1]", "[4] < [3] < [2] < [1]", "1. [4]\n3. [3]\n2. [2]\n4. [1]"),
        *("p > 0.05 > 0.01", "3.1 > 2.2", "Passage 1 and passage 2", "<think>[1] > [2]"),
        *("\u0661 > \u0662", "9999999999 > 8888888888"),
    ],
)
def test_an_order_in_doubt_is_none(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_order(reply, 4)


@pytest.mark.parametrize(
    "reply",
    [
        *("[3] > [0] > [2] > [1]", "3, 0, 2, 1", '{"ranking": [3, 0, 2, 1]}', "3\n0\n2\n1"),
        *("1. [3]\n2. [0]\n3. [2]\n4. [1]", "Passage 3 > Passage 0 > Passage 2 > Passage 1"),
    ],
)
def test_all_passages_may_be_counted_from_0(reply: str) -> None:
    assert read_order(reply, 4).places == (3, 0, 2, 1)


@pytest.mark.parametrize(
    "reply",
    [
        *("[4]>[3]>[2]>[1]>[0]", "[4]>[3]>[2]>[0]", "[3]>[0]", "[2]>[1]>[0]", "[0]", "0"),
        *("[3]>[2]>[1]>[0]>[0]", "[3]>[2]>[2]>[0]", "[3]>[2]>[1]>[0]>[5]", "3, 2, 0", "4, 3, 2, 0"),
        *('{"ranking": [3, 0]}', "3\n2\n0", "[3]>[2]>[1]>[0]\n[4]>[3]>[2]>[1]"),
    ],
)
def test_a_part_counted_from_0_is_no_order(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_order(reply, 4)


def test_a_number_that_may_lack_digits_does_not_count() -> None:
    assert read_order("3 > 2 > 1", 12, cut=True).places == (2, 1)
    assert read_order("3 > 2 > 1", 12).places == (2, 1, 0)
    assert read_order("[3] > [2] > [1", 12, cut=True).places == (2, 1)
    with pytest.raises(Unreadable):
        read_order("1", 12, cut=True)
    assert read_order("2 > 1 > 0", 3, cut=True).places == (2, 1, 0)


@pytest.mark.parametrize(
    "reply",
    [
        *("**[4]** > **[1]** > **[3]** > **[2]**", "**4** > **1** > **3** > **2**"),
        *("`[4] > [1] > [3] > [2]`", "__[4]__ > __[1]__ > __[3]__ > __[2]__"),
        "Passage 4 > Passage 1 > Passage 3 > Passage 2",
        *("[Passage 4] > [Passage 1] > [Passage 3] > [Passage 2]", "(4) > (1) > (3) > (2)"),
        *("[4] >> [1] >> [3] >> [2]", "[4] \u2192 [1] \u2192 [3] \u2192 [2]"),
        *("[4] &gt; [1] &gt; [3] &gt; [2]", "4\n1\n3\n2", "[4]\n[1]\n[3]\n[2]"),
        "1. [4]\n2. [1]\n3. [3]\n4. [2]",
        "**1.** Passage 4\n**2.** Passage 1\n**3.** Passage 3\n**4.** Passage 2",
        *("Rank 1: [4]\nRank 2: [1]\nRank 3: [3]\nRank 4: [2]", "- [4]\n- [1]\n- [3]\n- [2]"),
        *("4, 1, 3, 2", "[4], [1], [3], [2]", "[4, 1, 3, 2]", '{"order": [4, 1, 3, 2]}'),
        *("Ranking: 4, 1, 3, 2", "[4] [1] [3] [2]"),
        "[4] > [1] > [3] > [2]\n\nPassage 4 names 3 trials, 95% of them of masks; 2 and 1 do not.",
        "Here is the order:\n\n4, 1, 3, 2\n\nPassage 1 is better than passage 3, by 2 trials.",
    ],
)
def test_an_order_is_read_as_models_write_it(reply: str) -> None:
    assert read_order(reply, 4).places == (3, 0, 2, 1)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"),
        ("Passage B is more relevant to the query than passage A.", "B"),
        ("The most relevant passage is B, because A is not about masks.", "B"),
        ("While A names masks, **passage B** is clearly more relevant.", "B"),
        ("Is A better? Passage B is better.", "B"),
        ("I would choose passage B.", "B"),
        ("The answer is B since it names trials.", "B"),
        ("More relevant passage: B", "B"),
        ("[B]", "B"),
        ("**Passage B**", "B"),
        ("The most relevant passage is B.", "B"),
        ("Answer: B", "B"),
        ("It names trials.\n\nB", "B"),
        ("B\n\nIt names trials that A lacks.", "B"),
    ],
)
def test_a_choice_is_read(reply: str, letter: str) -> None:
    assert LETTERS[read_choice(reply, LETTERS)] == letter


@pytest.mark.parametrize(
    "reply",
    [
        *("", "E", "b", "A or B", "A\nB", "Not A", "Neither", "A passage about masks", "<think>A"),
        *("Is passage B more relevant?", "I do not think that passage B is more relevant."),
        *("Neither A nor B is more relevant.", "If trials count, B is better."),
        "The most relevant passage is A or B.",
        "A is better on trials, and B is better on masks.",
        *("The answer is A passage about masks.", "Both A and B are relevant."),
    ],
)
def test_a_choice_in_doubt_is_none(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_choice(reply, LETTERS)


@pytest.mark.parametrize(
    "unit",
    [
        *("[1] > ", "1 > ", "[", "1 ", "> ", "[1]", " ", "A\n", "passage ", "the ", "_", "9", "*"),
        *("A is better ", "answer: A, ", "order ", "1, ", "1. [1]\n", "(", "or A "),
    ],
)
def test_reading_takes_time_in_proportion_to_the_length(unit: str) -> None:
    text = (unit * LONGEST)[:LONGEST]
    start = time.process_time()
    for read in (lambda: read_order(text, 20), lambda: read_choice(text, LETTERS)):
        with contextlib.suppress(Unreadable):
            read()
    assert time.process_time() - start < 2
    with pytest.raises(Unreadable, match="is the limit"):
        read_order(text + "x" * (LONGEST + 1), 20)


RANKERS: list[tuple[Any, dict[str, Any]]] = [
    (RankGPTRanker, {"window": 4, "step": 2}),
    (SetwiseRanker, {"children": 2, "ranks": 3}),
    (SetwiseRanker, {"children": 1, "ranks": 2}),
]


@pytest.mark.parametrize(("kind", "options"), RANKERS)
def test_whatever_a_model_says_each_passage_is_ranked_once(
    kind: Any, options: dict[str, Any]
) -> None:
    rng, ranked, failed = random.Random(5), 0, 0

    def reply(request: ChatRequest) -> str:
        if rng.random() < 0.3:
            return rng.choice(["?", "I would rather not", noise(rng)])
        return written([2, 1, 7], rng) if kind is RankGPTRanker else rng.choice(LETTERS[:2])

    with kind(model=ScriptedChat(reply), ledger=None, repair_attempts=0, **options) as ranker:
        for _ in range(scaled(60)):
            docs = {str(place): f"text {place}" for place in range(rng.randint(2, 7))}
            try:
                ranking: Ranking = ranker.rank("masks", docs)
            except ReplyError:
                continue
            ranked += 1
            failed += ranking.usage.unreadable
            assert sorted(ranking.ids) == sorted(docs)
            assert ranking.comparisons is not None
            assert ranking.usage.calls == ranking.comparisons.asked
            assert ranking.usage.unreadable == ranking.comparisons.failed
    assert ranked > 5
    assert failed > 3
