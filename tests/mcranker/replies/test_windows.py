"""Malformed replies about several passages: no score is another's, none is invented."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from mcranker import ChatRequest, RebelRanker, ReplyError, ScriptedChat
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.windows import property_keys, read_window
from tests.support.comparing import shown_in
from tests.support.scale import scaled

PIECES = [
    *('{"Passages"', '{"passages": {', '"1": {', '"2": {', '"Passage 2": {', '"99": {', '"-1": {'),
    *('"Relevance": 7', '"Relevance": "7"', '"relevance": 11', "Relevance: 3", '"Relevance": null'),
    *('"P1": 3', '"P2": 5', '"P1": 6', '"P1": "3/5"', '"p_1": 2', '"Final": 9.5', '"Final": NaN'),
    *("{", "}", "}}", "}}}", "[", "]", ",", ", ", ":", "\n", "```", "```json\n", "//", "#"),
    *("7", "1e9", "9" * 50, "0.5", "true", "null", "NaN", "\u0661", "<think>", "</think>", "\0"),
    *('"Passage": 1', '"Doc": 2', '"Properties": [', '"Property": "Depth"', '"Weight": 0.5'),
    *('"Weight": "50%"', '"Explanation": "x"', '"Reason": "y"', "Sure!", "For example:", "\ud800"),
]
IDS: list[Any] = [1, "1", "2", 2, 3, "Passage 3", "[2]", 0, 99, "-1", "", "x", None, 1.5, True]
VALUES: list[Any] = [*range(6), "3", " 4 ", 3.0, 6, 11, -1, 2.5, "5/5", None, True, "high", [3], {}]


def noise(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 20)))


def number_of(given: Any) -> int | None:
    """A reading of our own: the only digits of what names a passage."""
    if given is None or isinstance(given, bool | float):
        return None
    text = str(given).removeprefix("Passage ").strip("[]")
    return int(text) if text.isdecimal() else None


def whole(value: Any, top: int) -> int | None:
    """A reading of our own: a whole number of the scale, or the text of one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= top else None


def record(rng: random.Random, keys: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {"Relevance": rng.choice(VALUES) if rng.random() < 0.2 else 7}
    fields |= {key: rng.choice(VALUES) if rng.random() < 0.2 else 4 for key in keys}
    for key in rng.sample(sorted(fields), rng.randint(0, 1) if rng.random() < 0.3 else 0):
        del fields[key]
    if rng.random() < 0.5:
        fields["Final"] = rng.choice([9.5, "9", None, "x", True])
    return fields


def test_each_score_is_that_of_its_own_number() -> None:
    """Known by a reading of our own, of entries in any order, of odd numbers and odd values."""
    rng = random.Random(1)
    cases, read, odd = scaled(800), 0, 0
    for _ in range(cases):
        count, keys = rng.randint(1, 5), property_keys(rng.randint(0, 3))
        given = [
            number if rng.random() < 0.7 else rng.choice(IDS) for number in range(1, count + 1)
        ]
        rng.shuffle(given)
        entries = [(name, record(rng, keys)) for name in given]
        text = json.dumps({"Passages": [{**fields, "Passage": name} for name, fields in entries]})
        numbers = [number for name in given if (number := number_of(name)) is not None]
        first = int(sorted(numbers) != list(range(count)))  # all are there, counted from 0
        if first and 0 in numbers:
            with pytest.raises(Unreadable):
                read_window(text, count=count, properties=len(keys), least=0)
            continue
        said: dict[int, list[dict[str, Any]]] = {}
        for name, fields in entries:
            number = number_of(name)
            if number is not None and 0 <= number - first < count:
                said.setdefault(number - first, []).append(fields)
        known = {}
        for place, records in said.items():
            relevance = whole(records[0].get("Relevance"), 10)
            scores = [whole(records[0].get(key), 5) for key in keys]
            if len(records) == 1 and relevance is not None and None not in scores:
                known[place] = (relevance, tuple(scores))
        try:
            found = read_window(text, count=count, properties=len(keys), least=0)
        except Unreadable:
            assert not known, text
            continue
        read += 1
        odd += found.odd
        single = {place for place, records in said.items() if len(records) == 1}
        assert {
            place: (each.relevance, each.properties)
            for place, each in found.scores.items()
            if place in single
        } == known, text
        assert found.scores.keys() | found.problems.keys() == set(range(count))
        assert not found.scores.keys() & found.problems.keys()
        assert found.missing == count - len(said)
        assert found.repeated == sum(len(records) - 1 for records in said.values())
        assert found.unknown == len(entries) - sum(map(len, said.values()))
    assert cases / 2 < read
    assert odd > cases / 4


@pytest.mark.parametrize(
    ("numbers", "read"),
    [
        *(((0, 1, 2), True), ((2, 0, 1), True), ((0, 1), False), ((0, 1, 2, 3), False)),
        *(((0, 1, 1), False), ((0, 2, 3), False), ((0,), False), ((0, 1, 2, 9), False)),
    ],
)
def test_passages_are_counted_from_0_if_all_are(numbers: tuple[int, ...], read: bool) -> None:
    listed = [{"Passage": number, "Relevance": number, "P1": 1} for number in numbers]
    try:
        found = read_window(json.dumps({"Passages": listed}), count=3, properties=1, least=0)
    except Unreadable:
        assert not read
        return
    assert read
    assert {place: each.relevance for place, each in found.scores.items()} == {0: 0, 1: 1, 2: 2}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        '{"Passages": 7}',
        '{"Passages": {}}',
        '{"Passages": []}',
        '{"Passages": [{"Relevance": 7, "P1": 3}]}',
        '{"Passages": {"1": {"Relevance": 7, "P1": 3}',
        '{"1": {"Relevance": 7, "P1": 3}}',
        'For example: {"Passages": {"1": {"Relevance": 7, "P1": 3}}}',
        '{"Passages": {"1": {"Relevance": 7, "P1": 3}}} {"Passages": {"1": {"Relevance": 8}}}',
        '<think>{"Passages": {"1": {"Relevance": 7, "P1": 3}}}',
        "Doc: 1, Relevance: 7",
    ],
)
def test_a_reply_in_doubt_is_none(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_window(reply, count=1, properties=1, least=0)


@pytest.mark.parametrize("repair_attempts", [0, 1])
def test_whatever_a_model_says_each_passage_is_ranked_once(repair_attempts: int) -> None:
    """What has a score has that of the entry with its number, in one of the replies about it."""
    rng = random.Random(3)
    replies = ranked = scored = 0
    said: dict[str, set[float]] = {}

    def answer(request: ChatRequest) -> str:
        nonlocal replies
        replies += 1
        if rng.random() < 0.2:
            return noise(rng)
        shown = shown_in(request)
        entries: list[dict[str, Any]] = []
        for number, text in shown.items():
            entry = {"Passage": number, **record(rng, ("P1", "P2", "P3", "P4", "P5"))}
            relevance = whole(entry.get("Relevance"), 10)
            scores = [whole(entry.get(f"P{each}"), 5) for each in range(1, 6)]
            known = [each for each in scores if each is not None]
            if relevance is not None and len(known) == 5:
                said.setdefault(text, set()).add(relevance + 0.5 * sum(known))
            entries.append(entry)
        entries = [each for each in entries if rng.random() < 0.9]
        rng.shuffle(entries)
        return json.dumps({"Passages": entries})

    options: dict[str, Any] = {"repair_attempts": repair_attempts, "window": 4, "top_n": None}
    with RebelRanker(model=ScriptedChat(answer), ledger=None, **options) as ranker:
        while replies < scaled(400):
            said.clear()
            docs = {str(place): f"text {place}" for place in range(rng.randint(1, 9))}
            try:
                ranking = ranker.rank("masks", docs)
            except ReplyError:
                continue
            ranked += 1
            missing = {each.doc_id for each in ranking.missing}
            dropped = [ranking.passages[place].id for place in ranking.dropped]
            assert sorted([*ranking.ids, *dropped]) == sorted(docs)
            for hit in ranking:
                score = hit.scores["REBEL"]
                if score is not None:
                    scored += 1
                    assert score in said[hit.passage.text]
                assert (score is None) == (hit.doc_id in missing or hit.criteria == {})
                assert not (hit.dropped is not None and hit.score is not None)
            counts = ranking.windows
            assert counts is not None
            assert ranking.usage.calls <= counts.asked + ranking.usage.unreadable
    assert ranked > 20
    assert scored > 100
