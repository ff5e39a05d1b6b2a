"""Scores as models really write them, and replies that mislead: what is read, what is refused."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.replies.loose_json import LONGEST, Unreadable
from mcranker.replies.read import (
    read_criterion_scores,
    read_personas,
    read_rubric,
    read_score,
)
from mcranker.replies.windows import read_pack
from tests.support.reply_texts import any_text
from tests.support.scale import scaled

Reader = Callable[[str], object]

SEVEN = [
    *("7", '"7"', "07", '{"Score": 7}', '{"Score": "7"}', '{"Score": 7.0}', '{"Score": 7e0}'),
    *('{"SCORE ": 7}', '{"Reason": "between 3 and 9", "Score": 7}', '[{"Score": 7}]'),
    *('```json\n{"Score": 7}\n```', '```json {"Score": 7} ```', '```json\n{"Score": 7}'),
    'Here you are:\n```json\n{"Score": 7}\n```\nGood luck.',
    *('The passage fits, so: {"Score": 7}. Is 9 too much?', '{"Thought": "9?"} {"Score": 7}'),
    *('{"Score": 7} and once more {"Score": 7}', '\ufeff{"Score": 7}'),
    '{"Reason": "two\nlines", "Score": 7}',
    *('{"Reason": "two\nlines, one says: Score: 3", "Score": 7}', "{'Score': 7}", "{Score: 7}"),
    *('{"Score": 7,}', "{\u201cScore\u201d: 7}", '{"Score": 7 // good\n}'),
    *('{"Score": 7 /* not 9 */}', '{"Score": 07}', "{'Reason': 'it doesn't say 9', 'Score': 7}"),
    *('{"Score": 7, "Reason": "a "good" one"}', '{"Reason": "a "good" one", "Score": 7}'),
    *('{"Score": 7, "Rea', '{"Score": 7, "Reason": "because the pass', '{"Score": 7}/10'),
    '{"Score": 7} out of 10.',
    '{"Score": 7}\n\nThe passage describes 3 trials with 10 patients, of 2010.',
    '{"Score": 7}\nConfidence: 0.8\nPublished: 2010',
    '{"Score": 7} (on a scale from 0 to 10; scores of 0 - 3 are for other topics)',
    'Topic: 9. Detail: 5. In the requested format: {"Score": 7}',
    *('My final score is 7: {"Score": 7}', '{"Score": 7\n"Reason": "no comma before"}'),
    *("{'Thought': 'x'} {'Score': 7}", '{"Reason": "says "a", b", "Score": 7,}'),
]

REFUSED = [
    *("", "seven", "Score: 7", "7/10", "7.5", "7.0.", "-1", "+7", "11", "12345", "null", "true"),
    *("[7]", "{}", "[]", "{", "}", '{"Score"', '{"Score": }', '{"Score": 7.5}'),
    *('{"Score": "7.5"}', '{"Score": "7/10"}', '{"Score": 11}', '{"Score": -1}'),
    *('{"Score": 1e3}', '{"Score": 1e400}', '{"Score": NaN}', '{"Score": Infinity}'),
    *('{"Score": true}', '{"Score": null}', '{"Score": ""}', '{"Score": "high"}'),
    *('{"Score": [7]}', '{"Score": {"value": 7}}', '{"Result": {"Score": 7}}', '{"Rating": 7}'),
    *('{"Relevance score": 7}', '[{"Score": 7}, {"Score": 7}]', '"{\\"Score\\": 7}"'),
    *('{"Score": 3, "Score": 8}', '{"Score": 3, "score": 8}', '{"Score": 3} {"Score": 8}'),
    '```json\n{"Score": 3}\n```\nor\n```json\n{"Score": 8}\n```',
    *('{"Score": 3}\nNo, wait: {"Score": 8,}', "{'Score': 3, 'Score': 8}"),
    "{'Score': 3}{'Score': 8}",
    *("{'Score': 3, 'Reason': 'at first I thought \"Score\": 8'}", '{"Score": 1'),
    *('{"Score": "1', '{"Score": 1.', '{"Score": 1,', '{"Score": 1e', '{"Score": -'),
    *('```json\n{"Score": 1', '{"Reason": "fine", "Score": 1', '{"Score": 1 0}'),
    *('{"Score": 1\n0}', '{"Score": 1,0}', '{"Score": 1, 0}', '{"Score": 7,5}'),
    *('{"Score": 5 or 6}', '{"Score": 5-6}', '{"Score": 5\u20136}', '{"Score": 7 out of 10}'),
    *('{"Score": 7/10}', '{"Score": 70%}', '{"Score": ~7}', '{"Score": \u2013 1}'),
    *('{"Score": -1,}', '{"Score": .7}', '{"Score": 0x7}', '{"Score": (7)}'),
    *('{"Score": "7" of 10}', '{"Score": seven}', '{"Score": None}', "{'Score': True}"),
    *("{'Score': [7]}", "{'Result': {'Score': 7}}", "{'Relevance Score': 7}", '{"Score" 7}'),
    # in doubt: more than a number, an example, or prose that goes on with another number
    *('{"Score": 7, but honestly 3}', '{"Score": 7, or 8}', '{"Score": 7,\xbd}'),
    *('{"Score": 7\xbd}', '{"Score": 7\xb2}', '{"Score": 7,5 "Reason": "x"}'),
    *('{"Score": 7,5 Reason: "x"}', '{"Score": 1,000, "Reason": "x"}', '{"Score": 7 8}'),
    *('{"Score": 7-8}', '{"Score": not 7}', '{"Score": 6.99999999999999999999}'),
    *('{"Score": 7, "Reason": x, "Score": 8}', '{"Score": 7, Reason: "as said", or 8}'),
    *('{"Score": [7, 8]}', "{'Score': 7, 'Reason': 'I mean \"Score\": 8'}"),
    *('{"Score": 7, // no: "Score": 8\n}', '{"Score": 7, bu'),
    *('The format is {"Score": 0}. My answer: 8', 'The format is {"Score": 0}.'),
    'The template should be:\n```json\n{"Score": 0}\n```\nI would say eight.',
    *('For example: {"Score": 0}', 'Not {"Score": 0}!'),
    'I would rather say 8 than follow, e.g., {"Score": 0}... instead of `{"Score": 0}`',
    *('{"Score": 7}. My answer: 8', '{"Score": 7}, or 8', '{"Score": 7} or maybe 8.'),
    *('{"Score": 7} but honestly 3', '{"Score": 7} - no, 8!', '{"Score": 7}\n8'),
    *('{"Score": 7}\n**8**', '{"Score": 7}\n8/10\n', '{"Score": 7}\nMeine Antwort: 8'),
    '{"Score": 7}\n\u5f97\u5206: 8',
    '{"Score": 7}\nOn second thoughts the score should be an 8 after all.',
    *('{"Score": 7}\nI would say 8.', '{"Score": 7}\nThe rating is eight.', '{"Score": 7}/20'),
    *('{"Score": 7} out of 100', '{"Score": 7}.5', '{"Score": 7}\xbd'),
    'My final answer is 8. {"Score": 0}',
    'Overall score: 8. In the form asked for: {"Score": 0}',
    *('```json\n{"Score": 3}\n```\n```json\n{"Score": 8}\n```', '{"Score": 3} {"Score": 8,}'),
    "{'Score': 3} {'Score': 8}",
    # huge and deep
    '{"Score": ' + "9" * 5_000 + "}",
    '{"Score": 7, "x": ' + "9" * 5_000 + "}",
    '{"Score": 7.' + "0" * 50_000 + "}",
    "[" * 100_000,
    '{"Score": 7, "x": ' + "[" * 50_000 + "]" * 50_000 + "}",
    '{"x": ' * 10_000 + '{"Score": 7}' + "}" * 10_000,
]


@pytest.mark.parametrize(
    ("reply", "score"),
    [("0", 0), ("10", 10), ('{"Score": 0}', 0), ('{"Score": 10}}', 10), *((x, 7) for x in SEVEN)],
)
def test_scores_that_are_read(reply: str, score: int) -> None:
    assert read_score(reply, key="Score", top=10) == score


@pytest.mark.parametrize("reply", REFUSED, ids=lambda reply: reply[:30])
def test_scores_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_score(reply, key="Score", top=10)


def test_a_bare_number_of_a_reply_that_was_cut_does_not_count() -> None:
    with pytest.raises(Unreadable, match="cut"):
        read_score("1", key="Score", top=10, cut=True)
    assert read_score('{"Score": 1}', key="Score", top=10, cut=True) == 1


@pytest.mark.parametrize("key", ["Final score", "final_score", "FinalScore", "Final Score"])
def test_keys_are_compared_without_case_space_and_underscore(key: str) -> None:
    assert read_score(json.dumps({key: 7, "Score": 3}), key="Final score", top=10) == 7
    assert read_score(f"{{'{key}': 7, 'Score': 3}}", key="Final score", top=10) == 7


@given(any_text, st.integers(1, 100))
def test_any_text_is_a_score_in_range_or_unreadable(text: str, top: int) -> None:
    for cut in (False, True):
        try:
            score = read_score(text, key="Score", top=top, cut=cut)
        except Unreadable:
            continue
        assert type(score) is int
        assert 0 <= score <= top
        assert str(score) in text.translate({ord(c): str(int(c)) for c in text if c.isdecimal()})


scores_json = st.fixed_dictionaries(
    {"Score": st.integers(0, 10), "Scores": st.lists(st.integers(0, 10), min_size=1, max_size=4)},
    optional={"Reason": st.text(), "Final score": st.integers(0, 10)},
)


@given(scores_json, st.data(), st.sampled_from([None, 1]), st.booleans())
def test_a_reply_that_is_cut_reads_as_the_whole_one_or_not_at_all(
    whole: dict[str, Any], data: st.DataObject, indent: int | None, single: bool
) -> None:
    order = data.draw(st.permutations(sorted(whole)))
    ordered = {key: whole[key] for key in order}
    text = repr(ordered) if single else json.dumps(ordered, indent=indent)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with contextlib.suppress(Unreadable):
        assert read_score(cut, key="Score", top=10, cut=True) == whole["Score"]
    with contextlib.suppress(Unreadable):
        scores = read_criterion_scores(cut, count=len(whole["Scores"]), top=10)
        assert scores == tuple(whole["Scores"])


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"Scores": {"1": 7, "2": 10}}', (7, 10)),
        ('{"Scores": {"2": 10, "1": 7}}', (7, 10)),
        ('{"Scores": [7, 10]}', (7, 10)),
        ('{"scores": ["7", 10.0]}', (7, 10)),
        ("{'Scores': {'1': 7, '2': 10}}", (7, 10)),
        ("{'Scores': [7, 10,]}", (7, 10)),
        ("{'Scores': [7, 10], 'Reason': 'becau", (7, 10)),
    ],
)
def test_criterion_scores_that_are_read(reply: str, scores: tuple[int, ...]) -> None:
    assert read_criterion_scores(reply, count=2, top=10) == scores


@pytest.mark.parametrize(
    "reply",
    [
        *("7, 10", "[7, 10]", '{"Scores": [7]}', '{"Scores": [7, 10, 3]}', '{"Scores": [7, 11]}'),
        *('{"Scores": [7, null]}', '{"Scores": [7, true]}', '{"Scores": [[7, 10]]}'),
        *('{"Scores": "7, 10"}', '{"Scores": 7}', '{"Scores": {}}'),
        *('{"Scores": {"0": 7, "2": 10}}', '{"Scores": {"0": 7, "1": 8, "2": 10}}'),
        *('{"Scores": {"0": 7}}', '{"Scores": {"1": 7, "3": 10}}'),
        *('{"Scores": {"1": 7, "2": 10, "3": 1}}', '{"Scores": {"1": 7, "1": 8, "2": 10}}'),
        *('{"Scores": {"On topic": 7, "Recent": 10}}', '{"Scores": [7, 10]} {"Scores": [7, 9]}'),
        *("{'Scores': {'1': 7, '1': 8, '2': 10}}", "{'Scores': [7, 1", "{'Scores': [7, 10"),
        *("{'Scores': [7, 1 0]}", "{'Scores': [7, 5 or 6]}", "{'Scores': {'1': 7, '2': 5 or 6}}"),
        "{'Scores': [7, 10]}{'Scores': [7, 9]}",
        'The format is {"Scores": {"1": 0, "2": 0}}. So: 8 and 9',
        *('{"Scores": {"1": 7, "2": 7}}\nMy answer: 8', '{"Scores": {"1": 7, "2": 7½}}'),
        *('{"Scores": [7, 8 or 9]}', '{"Scores": [7, 8], or 9}', '{"Scores": [7,5, 8]}'),
        *('{"Scores": [, 7, 8]}', "{'Scores': [7, 8], 'Reason': 'or \"Scores\": [7, 9]'}"),
    ],
)
def test_criterion_scores_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_criterion_scores(reply, count=2, top=10)


@pytest.mark.parametrize(
    "reply",
    [
        '{"1": [7, 5], "2": [3, 4]}',
        '{"2": [3, 4], "1": [7, 5]}',
        '{"0": [7, 5], "1": [3, 4]}',
        'Here it is:\n```json\n{"Passage 1": [7, 5], "Passage 2": [3, 4],}\n```',
        '{"Scores": {"[1]": ["7", 5], "[2]": [3, 4.0]}}',
        '{"1": {"Judge 1": 7, "Judge 2": 5}, "2": {"Judge 2": 4, "Judge 1": 3}}',
        '{"0": {"Judge 1": 7, "Judge 2": 5}, "1": {"Judge 1": 3, "Judge 2": 4}}',
    ],
)
def test_scores_of_several_passages_belong_to_the_numbers_they_are_under(reply: str) -> None:
    assert read_pack(reply, count=2, names=("Judge 1", "Judge 2"), top=10) == ((7, 5), (3, 4))


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ('{"2": [3, 4]}', "no score of this passage"),
        ('{"1": [7], "2": [3, 4]}', "not 2 integers"),
        ('{"1": [7, 5, 6], "2": [3, 4]}', "not 2 integers"),
        ('{"1": [7, 11], "2": [3, 4]}', "not an integer from 0 to 10"),
        ('{"1": 7, "2": [3, 4]}', "not 2 integers"),
        ('{"1": [7, 5], "Passage 1": [5, 7], "2": [3, 4]}', "more than once"),
        ('{"1": [7, 5], "2": [3, 4]} No: {"1": [8, 5]}', "more than once"),
        ('{"1": {"Judge 1": 7, "Expert 1": 3}, "2": [3, 4]}', "not 2 integers"),
        ('{"1": {"Judge 2": 7, "Judge 3": 3}, "2": [3, 4]}', "not 2 integers"),
    ],
)
def test_a_score_that_is_not_clear_is_missing_and_the_others_are_kept(
    reply: str, fault: str
) -> None:
    first, second = read_pack(reply, count=2, names=("Judge 1", "Judge 2"), top=10)
    assert any(fault in str(each) for each in first)
    assert second == (3, 4)


@pytest.mark.parametrize(
    "reply",
    [
        *('{"0": 5, "1": 5, "2": 5}', "[5, 5]", '{"3": 5}', "5"),
        *('Not {"1": 7, "2": 5}', '{"1": 7, "2": 5, "3": 2}', '{"1": "high"}'),
    ],
)
def test_scores_whose_passage_is_in_doubt_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_pack(reply, count=2, names=("Judge 1",), top=10)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('<think>Maybe {"Score": 3}? No.</think>\n{"Score": 8}', 8),
        ("\n<think>\n\n</think>\n\n7", 7),
    ],
)
def test_what_a_model_thinks_aloud_is_not_its_answer(text: str, score: int) -> None:
    assert read_score(text, key="Score", top=10) == score


def test_a_reply_that_ends_while_thinking_says_nothing() -> None:
    with pytest.raises(Unreadable, match="before its thinking does"):
        read_score('<think>Perhaps {"Score": 3}', key="Score", top=10)


@pytest.mark.parametrize(
    "criteria",
    [
        ["A (60%)", "B (40%)"],
        ["A (60)", "B (40)"],
        ["A: 60%", "B: 40%"],
        ["A: 60", "B: 40"],
        ["A, 60 percent", "B, 40 points"],
        {"A": "60% - on topic", "B": "40% - recent"},
        [{"Criterion": "A", "Importance": 60}, {"Criterion": "B", "Importance": 40}],
        [{"Criterion": "A", "Explanation": "On topic (60%)."}, {"Criterion": "B"}],
        [{"Criterion": "A", "Explanation": "Weight: 50-60"}, {"Criterion": "B"}],
        [{"Criterion": "A", "Explanation": "x", "Weight": "50-60"}, {"Criterion": "B"}],
        [{"Criterion": "A", "Explanation": "The weight of this is 60, mostly."}, "B"],
    ],
)
def test_weights_given_in_another_way_are_not_shared_out(criteria: Any) -> None:
    with pytest.raises(Unreadable):
        read_rubric(json.dumps({"Criteria": criteria}))


def test_a_rubric_has_a_limit() -> None:
    with pytest.raises(Unreadable, match='"Criteria" holds 101, and 100 is the limit'):
        read_rubric(json.dumps({"Criteria": [f"c{place}" for place in range(101)]}))


WORDS = [
    *("the", "passage", "is", "on", "masks;", "it", "doesn't", "say", "much,", "3", "of", "12"),
    *("trials", "found", '"no', 'effect"', "(p", "<", "0.05)", "in", "May", "2010", "-", "good:"),
    *("{yes}", "[1]", "`code`", "50%", "<b>x</b>", "\\", "'", '"', "}", "]", "{", "[", "//", "#"),
    *("/*", "*/", "é", "漢", "½", "null"),
]
TAILS = [", but honestly %d", ", or %d", " or %d", "-%d", "/%d", ",%d", ".%d", " %d", "%d%%", "½"]


def noise(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 15)))


def written(members: dict[str, Any], rng: random.Random) -> str:
    """An object with the members in any order, as JSON or nearly so."""
    items = list(members.items())
    rng.shuffle(items)
    form = rng.randrange(6)
    if form == 0:
        return json.dumps(dict(items), indent=rng.choice([None, 2]))
    if form == 1:
        return repr(dict(items))
    if form == 2:
        return json.dumps(dict(items)).replace('\\"', '"')
    if form == 3:
        return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in items) + ",}"
    if form == 4:
        return json.dumps(dict(items)).replace(', "', '\n"')
    return json.dumps(dict(items)).replace('{"', "{\u201c", 1).replace('":', "\u201d:", 1)


def damaged(text: str, rng: random.Random) -> str:
    """The text with some characters lost or put in, none of them a digit.

    A number may fall in two, but only by one character: nobody knows "1}\\n0" for a 10.
    """
    for change in range(rng.randrange(3)):
        place = rng.randrange(len(text) + 1)
        if rng.random() < 0.5:
            if change and any(char.isdigit() for char in text[max(0, place - 2) : place + 2]):
                continue
            text = text[:place] + rng.choice("\",'}{][:/ \n#\\\u201c`") + text[place:]
        elif not text[place : place + 1].isdigit():
            text = text[:place] + text[place + 1 :]
    return text


def spoiled(text: str, rng: random.Random) -> str:
    """The text cut; or damaged, among prose or in a fence."""
    form = rng.randrange(5)
    if form == 0:
        return text[: rng.randrange(len(text) + 1)]
    text = damaged(text, rng)
    if form == 1:
        return f"```json\n{text}\n```"
    before = f"{noise(rng)}{rng.choice(' .:')} " if form != 2 else ""
    after = f"{rng.choice([' ', '. ', chr(10)])}{noise(rng)}" if form != 3 else ""
    return before + text + after


def scored(rng: random.Random) -> tuple[dict[str, Any], Any, Reader]:
    score = rng.randint(0, 10)
    members: dict[str, Any] = {"Score": score}
    for key in rng.sample(["Reason", "Thought", "Confidence"], rng.randrange(3)):
        members[key] = rng.choice([noise(rng), 0.5, None, True, "high", [1, 2], {"a": 3}])
    return members, score, lambda text: read_score(text, key="Score", top=10, cut=True)


def scored_by_criterion(rng: random.Random) -> tuple[dict[str, Any], Any, Reader]:
    scores = tuple(rng.randint(0, 10) for _ in range(rng.randint(1, 4)))
    listed: Any = list(scores)
    if rng.random() < 0.5:
        listed = {str(place): score for place, score in enumerate(scores, start=1)}
    members = {"Scores": listed, "Reason": noise(rng)}
    return members, scores, lambda text: read_criterion_scores(text, count=len(scores), top=10)


@pytest.mark.parametrize(("made", "seed"), [(scored, 7), (scored_by_criterion, 9)])
def test_noise_around_scores_never_makes_them_others(
    made: Callable[[random.Random], tuple[dict[str, Any], Any, Reader]], seed: int
) -> None:
    rng = random.Random(seed)
    read = 0
    cases = scaled(1_500)
    for _ in range(cases):
        members, expected, reader = made(rng)
        text = spoiled(written(members, rng), rng)
        with contextlib.suppress(Unreadable):
            assert reader(text) == expected, text
            read += 1
    assert read > cases / 8


def test_a_number_with_something_after_it_is_none() -> None:
    rng = random.Random(8)
    for _ in range(scaled(800)):
        score, other = rng.sample(range(11), 2)
        tail = rng.choice(TAILS)
        said = f"{score}{tail % other if '%d' in tail else tail}"
        if said.rstrip("0") == f"{score}.":  # 7.0 is 7
            continue
        members = [f'"Score": {said}', f'"Reason": {json.dumps(noise(rng))}', '"Fits": true']
        rng.shuffle(members)
        text = "{" + rng.choice([", ", ",\n ", " ,"]).join(members) + "}"
        if rng.random() < 0.5:
            text = text.replace('"', "'").replace("doesn't", "does not")
        try:
            found = read_score(text, key="Score", top=10)
        except Unreadable:
            continue
        pytest.fail(f"{found} from {text}")


RUNAWAY = [
    *('{"x" 1', '{"x": 1 ', '{"x": 1, ', "{'a': 'don't ", '{"a": "b" "c', '["', "[1, ", "{["),
    *("7.5[{", "*/'\n{//", '": 3, "', '", "a', ", a: ", ":Score:", 'Score: 7"', "score "),
    *("my score is ", '{"Score": 7} ', "{'Score': 7} ", "{x", "{x}", "// \n", "/*", "\\", '\\"'),
    *(" ", "\n", ": 8\n", "8\n", "9", "0.", "weight of ", "(60%", "</think>"),
]
READERS: list[Reader] = [
    lambda text: read_score(text, key="Score", top=10),
    lambda text: read_criterion_scores(text, count=2, top=10),
    read_personas,
    read_rubric,
]


@pytest.mark.parametrize("unit", RUNAWAY)
def test_reading_takes_time_in_proportion_to_the_length(unit: str) -> None:
    for opening in ("", '{"Score": 7, "x": "', "{'Criteria': ["):
        text = (opening + unit * LONGEST)[:LONGEST]
        for read in READERS:
            start = time.process_time()
            with contextlib.suppress(Unreadable):
                read(text)
            # Seconds; 0.3 at most in practice, and many minutes where it is quadratic.
            assert time.process_time() - start < 2


def test_a_reply_beyond_the_limit_is_not_read() -> None:
    size = 30_000_000
    start = time.process_time()
    for text in ('{"Score": 7}' + " x" * (size // 2), '{"Score": ' + "7" * size + "}"):
        with pytest.raises(Unreadable, match=r"it has [\d,]+ characters, and 100,000 is the limit"):
            read_score(text, key="Score", top=10)
    assert time.process_time() - start < 2
    thought = "<think>" + "x" * size + '</think>{"Score": 7}'
    assert read_score(thought, key="Score", top=10) == 7
