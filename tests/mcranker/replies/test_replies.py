"""Scores as models really write them: what is read, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_criterion_scores, read_score
from tests.support.reply_texts import any_text

READABLE_SCORES = [
    ("7", 7),
    (" 7\n", 7),
    ('"7"', 7),
    ("0", 0),
    ("10", 10),
    ("07", 7),
    ('{"Score": 7}', 7),
    ('{"Score": 0}', 0),
    ('{"Score": "7"}', 7),
    ('{"Score": " 7 "}', 7),
    ('{"Score": 7.0}', 7),
    ('{"Score": 7e0}', 7),
    ('{"score": 7}', 7),
    ('{"SCORE ": 7}', 7),
    ('{"Reason": "between 3 and 9", "Score": 7}', 7),
    ('{"Score": 7, "Score": 7}', 7),
    ('[{"Score": 7}]', 7),
    ('{"Score": 7}\n\nI hope that helps {you}!', 7),
    ('```json\n{"Score": 7}\n```', 7),
    ('```\n{"Score": 7}\n```\n', 7),
    ('```json {"Score": 7} ```', 7),
    ('```json\n{"Score": 7}', 7),
    ('Here you are:\n```json\n{"Score": 7}\n```\nGood luck.', 7),
    ('The passage fits, so: {"Score": 7}. Is 9 too much?', 7),
    ('{"Thought": "9?"} {"Score": 7}', 7),
    ('{"Score": 7} and once more {"Score": 7}', 7),
    ('\ufeff{"Score": 7}', 7),
    ('{"Reason": "two\nlines", "Score": 7}', 7),
    ('{"Reason": "two\nlines, one says: Score: 3", "Score": 7}', 7),
    # mended
    ("{'Score': 7}", 7),
    ("{Score: 7}", 7),
    ('{"Score": 7,}', 7),
    ('{"Score": 7, }', 7),
    ("{'Score': '7',}", 7),
    ("{'Score': 7.0}", 7),
    ("{\u201cScore\u201d: 7}", 7),
    ('{"Score": 7 // good\n}', 7),
    ('{"Score": 7 /* not 9 */}', 7),
    ('{"Score": 07}', 7),
    ('{"Score": 10}}', 10),
    ("{'Reason': 'it doesn't say 9', 'Score': 7}", 7),
    ('{"Score": 7, "Reason": "a "good" one"}', 7),
    ('{"Reason": "a "good" one", "Score": 7}', 7),
    # cut after the score was complete
    ('{"Score": 7, "Rea', 7),
    ('{"Score": 7, "Reason": "because the pass', 7),
    ('{"Score": 7,\n "Reason"', 7),
]

REFUSED_SCORES = [
    *("", " ", "seven", "Score: 7", "7/10", "7.5", "7.0.", "-1", "+7", "11", "12345", "1 0"),
    *("null", "true", "[7]", "{}", "[]", "{", "}", '{"Score"', '{"Score":', '{"Score": }'),
    *('{"Score": ', '{"Score": 7.5}', '{"Score": "7.5"}', '{"Score": "7/10"}', '{"Score": 11}'),
    *('{"Score": -1}', '{"Score": "-1"}', '{"Score": 1e3}', '{"Score": 1e400}', '{"Score": NaN}'),
    '{"Score": Infinity}',
    '{"Score": ' + "9" * 5000 + "}",
    *('{"Score": true}', '{"Score": false}', '{"Score": null}', '{"Score": ""}'),
    *('{"Score": "high"}', '{"Score": [7]}', '{"Score": {"value": 7}}'),
    *('{"Result": {"Score": 7}}', '{"Rating": 7}', '{"Relevance score": 7}'),
    *('[{"Score": 7}, {"Score": 7}]', '"{\\"Score\\": 7}"'),
    # contradictions
    *('{"Score": 3, "Score": 8}', '{"Score": 3, "score": 8}', '{"Score": 3} {"Score": 8}'),
    '```json\n{"Score": 3}\n```\nor\n```json\n{"Score": 8}\n```',
    *('{"Score": 3}\nNo, wait: {"Score": 8,}', "{'Score': 3, 'Score': 8}"),
    *("{'Score': 3}{'Score': 8}", "{'Score': 3, 'Reason': 'at first I thought \"Score\": 8'}"),
    # cut inside the score, or where it may go on
    *('{"Score": 1', '{"Score": 1 ', '{"Score": "1', '{"Score": 1.', '{"Score": 7.0'),
    *('{"Score": 1,', '{"Score": 1, ', '{"Score": 1e', '{"Score": -', '```json\n{"Score": 1'),
    '{"Reason": "fine", "Score": 1',
    # no number as a whole
    *('{"Score": 1 0}', '{"Score": 1\n0}', '{"Score": 1_0}', '{"Score": 1,0}', '{"Score": 1, 0}'),
    *('{"Score": 1,000}', '{"Score": 7,5}', '{"Score": 5 or 6}', '{"Score": 5-6}'),
    *('{"Score": 5\u20136}', '{"Score": 7 out of 10}', '{"Score": 7/10}', '{"Score": 70%}'),
    *('{"Score": 7%}', '{"Score": ~7}', '{"Score": \u2013 1}', '{"Score": -1,}', '{"Score": .7}'),
    *('{"Score": 0x7}', '{"Score": (7)}', '{"Score": "7" of 10}', '{"Score": seven}'),
    *('{"Score": None}', "{'Score': True}", "{'Score': [7]}", "{'Result': {'Score': 7}}"),
    *("{'Relevance Score': 7}", '{"Score" 7}'),
    "[" * 100_000,
    '{"a":' * 100_000,
]


@pytest.mark.parametrize(("reply", "score"), READABLE_SCORES)
def test_scores_that_are_read(reply: str, score: int) -> None:
    assert read_score(reply, key="Score", top=10) == score


@pytest.mark.parametrize("reply", REFUSED_SCORES, ids=lambda reply: reply[:30])
def test_scores_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_score(reply, key="Score", top=10)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("Good.", "it is not one JSON object."),
        ("{'Good'", "it is not one JSON object."),
        ('{"Rating": 7}', 'the key "Score" is missing.'),
        ('{"Score": 11}', "11 is not an integer from 0 to 10."),
        ('{"Score": "' + "é" * 100 + '"}', "... is not an integer from 0 to 10."),
        ('{"Score": [7]}', "a list is not an integer from 0 to 10."),
        ('{"Score": {}}', "an object is not an integer from 0 to 10."),
        ('{"Score": 3, "Score": 8}', '"Score" stands there more than once, with different values.'),
        ('{"Score": 1', "it breaks off before its end."),
        ('{"Score": 5 or 6}', 'it is not clear JSON: the number under "Score" is in doubt.'),
    ],
)
def test_problems_are_said_in_words_for_the_model(reply: str, problem: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_score(reply, key="Score", top=10)
    assert str(caught.value).endswith(problem)
    assert len(str(caught.value)) < 120


def test_a_bare_number_of_a_reply_that_was_cut_does_not_count() -> None:
    with pytest.raises(Unreadable, match="cut"):
        read_score("1", key="Score", top=10, cut=True)
    assert read_score('{"Score": 1}', key="Score", top=10, cut=True) == 1


@pytest.mark.parametrize("key", ["Final score", "final_score", "FinalScore", "Final Score"])
def test_keys_are_compared_without_case_space_and_underscore(key: str) -> None:
    assert read_score(json.dumps({key: 7, "Score": 3}), key="Final score", top=10) == 7
    assert read_score(f"{{'{key}': 7, 'Score': 3}}", key="Final score", top=10) == 7


def test_a_key_inside_another_one_is_not_that_key() -> None:
    assert read_score("{'Final score': 7, 'Score': 3,}", key="Score", top=10) == 3


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


@given(any_text, st.integers(1, 5), st.integers(1, 100))
def test_any_text_is_scores_in_range_or_unreadable(text: str, count: int, top: int) -> None:
    try:
        scores = read_criterion_scores(text, count=count, top=top)
    except Unreadable:
        return
    assert len(scores) == count
    assert all(type(score) is int and 0 <= score <= top for score in scores)


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
        ("{'Scores': {'2': 10, '1': '7',},}", (7, 10)),
        ("{Scores: {1: 7, 2: 10}}", (7, 10)),
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
        *('{"Scores": {"0": 7, "1": 10}}', '{"Scores": {"1": 7, "3": 10}}'),
        *('{"Scores": {"1": 7, "2": 10, "3": 1}}', '{"Scores": {"1": 7, "1": 8, "2": 10}}'),
        *('{"Scores": {"On topic": 7, "Recent": 10}}', '{"Scores": [7, 10]} {"Scores": [7, 9]}'),
        *("{'Scores': {'1': 7, '1': 8, '2': 10}}", "{'Scores': [7, 1", "{'Scores': [7, 10"),
        *("{'Scores': {'1': 7, '2': 1", "{'Scores': [7 10]}", "{'Scores': [7, , 10]}"),
        *("{'Scores': [7, 1 0]}", "{'Scores': [7, 5 or 6]}", "{'Scores': {'1': 7, '2': 5 or 6}}"),
        "{'Scores': [7, 10]}{'Scores': [7, 9]}",
    ],
)
def test_criterion_scores_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_criterion_scores(reply, count=2, top=10)


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
