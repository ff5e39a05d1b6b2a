"""What is read from replies as models really write them, and what is refused."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcranker.replies import (
    Unreadable,
    read_criterion_scores,
    read_personas,
    read_rubric,
    read_score,
)

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
    # mended
    ("{'Score': 7}", 7),
    ("{Score: 7}", 7),
    ('{"Score": 7,}', 7),
    ('{"Score": 7, }', 7),
    ("{'Score': '7',}", 7),
    ("{'Score': 7.0}", 7),
    ("{“Score”: 7}", 7),
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
    "",
    " ",
    "seven",
    "Score: 7",
    "7/10",
    "7.5",
    "7.0.",
    "-1",
    "+7",
    "11",
    "12345",
    "1 0",
    "null",
    "true",
    "[7]",
    "{}",
    "[]",
    "{",
    "}",
    '{"Score"',
    '{"Score":',
    '{"Score": }',
    '{"Score": ',
    '{"Score": 7.5}',
    '{"Score": "7.5"}',
    '{"Score": "7/10"}',
    '{"Score": 11}',
    '{"Score": -1}',
    '{"Score": "-1"}',
    '{"Score": 1e3}',
    '{"Score": 1e400}',
    '{"Score": NaN}',
    '{"Score": Infinity}',
    '{"Score": ' + "9" * 5000 + "}",
    '{"Score": true}',
    '{"Score": false}',
    '{"Score": null}',
    '{"Score": ""}',
    '{"Score": "high"}',
    '{"Score": [7]}',
    '{"Score": {"value": 7}}',
    '{"Result": {"Score": 7}}',
    '{"Rating": 7}',
    '{"Relevance score": 7}',
    '[{"Score": 7}, {"Score": 7}]',
    '"{\\"Score\\": 7}"',
    # contradictions
    '{"Score": 3, "Score": 8}',
    '{"Score": 3, "score": 8}',
    '{"Score": 3} {"Score": 8}',
    '```json\n{"Score": 3}\n```\nor\n```json\n{"Score": 8}\n```',
    '{"Score": 3}\nNo, wait: {"Score": 8,}',
    "{'Score': 3, 'Score': 8}",
    "{'Score': 3}{'Score': 8}",
    "{'Score': 3, 'Reason': 'at first I thought \"Score\": 8'}",
    # cut inside the score, or where it may go on
    '{"Score": 1',
    '{"Score": 1 ',
    '{"Score": "1',
    '{"Score": 1.',
    '{"Score": 7.0',
    '{"Score": 1,',
    '{"Score": 1, ',
    '{"Score": 1e',
    '{"Score": -',
    '```json\n{"Score": 1',
    '{"Reason": "fine", "Score": 1',
    # no number as a whole
    '{"Score": 1 0}',
    '{"Score": 1\n0}',
    '{"Score": 1_0}',
    '{"Score": 1,0}',
    '{"Score": 1, 0}',
    '{"Score": 1,000}',
    '{"Score": 7,5}',
    '{"Score": 5 or 6}',
    '{"Score": 5-6}',
    '{"Score": 5–6}',
    '{"Score": 7 out of 10}',
    '{"Score": 7/10}',
    '{"Score": 70%}',
    '{"Score": 7%}',
    '{"Score": ~7}',
    '{"Score": – 1}',
    '{"Score": -1,}',
    '{"Score": .7}',
    '{"Score": 0x7}',
    '{"Score": "1","0"}',
    '{"Score": (7)}',
    '{"Score": "7" of 10}',
    '{"Score": seven}',
    '{"Score": None}',
    "{'Score': True}",
    "{'Score': [7]}",
    "{'Result': {'Score': 7}}",
    "{'Relevance Score': 7}",
    '{"Score" 7}',
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
        ('{"Score": 1', 'it is not clear JSON: the number under "Score" is in doubt.'),
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


any_text = st.text() | st.text(st.sampled_from("{}[]\"'`:,. \n0123456789ScoreScores\\-")) | st.lists(
    st.sampled_from(
        ['{"Score": ', "{'Scores': [", '"Criteria": [', '{"Weight": ', '"Identities": ["', "7"]
        + ["1", "0", "}", "]", '"', "'", ",", " ", "\n", "```", "json", "null", "1e9", "\\ud800", "a"]
    ),
    max_size=20,
).map("".join)  # fmt: skip


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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
keyed = st.dictionaries(
    st.sampled_from(["Score", "Scores", "Criteria", "Identities", "Reason", "1", "2"])
    | st.sampled_from(["Criterion", "Explanation", "Weight", "Identity", "Name"]),
    json_values
    | st.lists(
        st.dictionaries(
            st.sampled_from(["Criterion", "Explanation", "Weight", "Identity", "Reason"]),
            st.text(min_size=1) | st.integers(-1, 100) | st.floats() | st.none(),
        ),
        max_size=4,
    )
    | st.lists(st.text(), max_size=4)
    | st.dictionaries(st.text(), st.text() | st.integers(0, 100), max_size=4),
)
replies = any_text | keyed.map(json.dumps) | keyed.map(repr)


@given(replies)
def test_any_text_is_a_rubric_with_weights_of_100_or_unreadable(text: str) -> None:
    try:
        rubric = read_rubric(text)
    except Unreadable:
        return
    weights = [criterion.weight for criterion in rubric.criteria]
    assert math.fsum(weights) == pytest.approx(100, abs=1e-6)
    names = [criterion.name.casefold() for criterion in rubric.criteria]
    assert len(set(names)) == len(names)
    assert all(0 < len(name.strip()) for name in names)


@given(replies)
@example(json.dumps({"Identities": ["x" * 119 + " y", "x" * 119]}))
@example(json.dumps({"Identities": ["a" * 500, "ß", "SS", "ss", "\u0130"]}))
@example('{"Identities": ["\\ud800"]}')
@example('{"Identities": ["A"], "Reason": "\\ud800"}')
def test_any_text_is_distinct_personas_or_unreadable(text: str) -> None:
    try:
        personas = read_personas(text)
    except Unreadable:
        return
    assert personas
    names = [persona.name for persona in personas]
    assert all(0 < len(name) <= 200 and name == name.strip() for name in names)
    assert len({name.casefold() for name in names}) == len(names)


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
    try:
        assert read_score(cut, key="Score", top=10, cut=True) == whole["Score"]
    except Unreadable:
        pass
    try:
        scores = read_criterion_scores(cut, count=len(whole["Scores"]), top=10)
        assert scores == tuple(whole["Scores"])
    except Unreadable:
        pass


TEAM = {
    "Identities": ["Virologist", "Public health researcher", "Nurse"],
    "Reason": "They know masks, and viruses too.",
}
RUBRIC = {
    "Reason": "What counts.",
    "Criteria": [
        {"Criterion": "On topic", "Explanation": "It is on masks: 3 kinds.", "Weight": 60},
        {"Criterion": "Recent", "Explanation": "Less than 2 years old.", "Weight": 25},
        {"Criterion": "Clear", "Explanation": "Easy to read.", "Weight": 15},
    ],
}


@pytest.mark.parametrize("write", [json.dumps, repr, lambda data: json.dumps(data, indent=2)])
def test_teams_and_rubrics_that_are_cut_are_read_whole_or_not_at_all(write: Any) -> None:
    people = write(TEAM)
    for end in range(len(people)):
        try:
            names = [persona.name for persona in read_personas(people[:end])]
        except Unreadable:
            continue
        assert names == TEAM["Identities"], people[:end]
    criteria = write(RUBRIC)
    for end in range(len(criteria)):
        try:
            read = read_rubric(criteria[:end])
        except Unreadable:
            continue
        assert read.criteria == read_rubric(criteria).criteria, criteria[:end]


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
        "7, 10",
        "[7, 10]",
        '{"Scores": [7]}',
        '{"Scores": [7, 10, 3]}',
        '{"Scores": [7, 11]}',
        '{"Scores": [7, null]}',
        '{"Scores": [7, true]}',
        '{"Scores": [[7, 10]]}',
        '{"Scores": "7, 10"}',
        '{"Scores": 7}',
        '{"Scores": {}}',
        '{"Scores": {"0": 7, "1": 10}}',
        '{"Scores": {"1": 7, "3": 10}}',
        '{"Scores": {"1": 7, "2": 10, "3": 1}}',
        '{"Scores": {"1": 7, "1": 8, "2": 10}}',
        '{"Scores": {"On topic": 7, "Recent": 10}}',
        '{"Scores": [7, 10]} {"Scores": [7, 9]}',
        "{'Scores': {'1': 7, '1': 8, '2': 10}}",
        "{'Scores': [7, 1",
        "{'Scores': [7, 10",
        "{'Scores': {'1': 7, '2': 1",
        "{'Scores': [7 10]}",
        "{'Scores': [7, , 10]}",
        "{'Scores': [7, 1 0]}",
        "{'Scores': [7, 5 or 6]}",
        "{'Scores': {'1': 7, '2': 5 or 6}}",
        "{'Scores': [7, 10]}{'Scores': [7, 9]}",
    ],
)
def test_criterion_scores_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_criterion_scores(reply, count=2, top=10)


@pytest.mark.parametrize(
    ("identities", "names"),
    [
        (["Virologist", "Nurse"], ["Virologist", "Nurse"]),
        (["Nurse", "NURSE", " nurse. "], ["Nurse"]),
        (["public_health_researcher"], ["public health researcher"]),
        (["- *Nurse*", "  a\n b "], ["Nurse", "a b"]),
        (["", " . ", "Nurse", None, 7], ["Nurse"]),
        ("Virologist, Nurse; Teacher\nParent", ["Virologist", "Nurse", "Teacher", "Parent"]),
        ({"1": "Virologist", "2": "Nurse"}, ["Virologist", "Nurse"]),
        ({"Identity 1": "Virologist", "Identity 2": "Nurse"}, ["Virologist", "Nurse"]),
        ({"Virologist": "knows viruses", "Nurse": "knows care"}, ["Virologist", "Nurse"]),
        ({"Identity": "Nurse", "Reason": "knows care"}, ["Nurse"]),
        ({"Name": "Nurse", "Reason": "knows care"}, ["Nurse"]),
        ([{"Identity": "Nurse", "Reason": "x"}, {"role": "Teacher"}], ["Nurse", "Teacher"]),
        (["x" * 150], ["x" * 120]),
    ],
)
@pytest.mark.parametrize("write", [json.dumps, repr])
def test_personas_that_are_read(write: Any, identities: Any, names: list[str]) -> None:
    personas = read_personas(write({"Identities": identities, "Reason": "why"}))
    assert [persona.name for persona in personas] == names


def test_reasons_come_with_the_person_or_for_all() -> None:
    both = {"Identities": [{"Identity": "A", "Reason": " own "}, "B"], "Reason": ["for", "all"]}
    assert [persona.reason for persona in read_personas(json.dumps(both))] == ["own", "for all"]


@pytest.mark.parametrize(
    "reply",
    [
        "Virologist, Nurse",
        '{"People": ["Nurse"]}',
        '{"Identities": []}',
        '{"Identities": {}}',
        '{"Identities": ["", "  "]}',
        '{"Identities": [7, null]}',
        '{"Identities": null}',
        '{"Identities": 7}',
        '{"Identities": ["\\ud83d"]}',
        '{"Identities": ["A"]} {"Identities": ["B"]}',
        '{"Identities": ["Doctor", "Virolo',
        '{"Identities": ["Doctor"',
        '{"Identities": ["Doctor",',
        "{'Identities': 'Doctor, Vir",
    ],
)
def test_personas_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_personas(reply)


def _weights(criteria: Any) -> dict[str, float]:
    rubric = read_rubric(json.dumps({"Criteria": criteria}))
    return {criterion.name: criterion.weight for criterion in rubric.criteria}


@pytest.mark.parametrize(
    ("criteria", "weights"),
    [
        ([{"Criterion": "a", "Weight": 60}, {"Criterion": "b", "Weight": 40}], (60, 40)),
        ([{"criterion": "a", "weight": "60%"}, {"Name": "b", "WEIGHT": "40 percent"}], (60, 40)),
        ([{"Criterion": "a", "Weight": 0.6}, {"Criterion": "b", "Weight": 0.4}], (60, 40)),
        ([{"Criterion": "a", "Weight (%)": 60}, {"Criterion": "b", "Weight (%)": 40}], (60, 40)),
        # 60 + 60 = 120, so half and half
        ([{"Criterion": "a", "Weight": 60}, {"Criterion": "b", "Weight": "60"}], (50, 50)),
        ([{"Criterion": "a", "Weight": 60}, {"Criterion": "b"}], (60, 40)),
        ([{"Criterion": "a"}, {"Criterion": "b", "Weight": None}], (50, 50)),
        # nothing is left for b: it gets the mean of the others, 100, and then half
        ([{"Criterion": "a", "Weight": 100}, {"Criterion": "b"}], (50, 50)),
        ([{"Criterion": "a", "Weight": "100%"}, {"Criterion": "b"}], (50, 50)),
        (["a: on topic. Weight: 60", "b (weight 40%)"], (60, 40)),
        (
            [
                {"Criterion": "a", "Explanation": "Fits. The weight to this criterion is 60."},
                {"Criterion": "b", "Explanation": "New, weight 40%."},
            ],
            (60, 40),
        ),
        ({"a": {"Explanation": "x", "Weight": 60}, "b": {"Weight": 40}}, (60, 40)),
        ({"a": 60, "b": "40%"}, (60, 40)),
        ({"a": "on topic", "b": "recent"}, (50, 50)),
        (
            [
                {"Criterion": "a", "Weight_reason": "matters", "Weight": 60},
                {"Criterion": "b", "Weight": 40},
            ],
            (60, 40),
        ),
        (
            [
                {"Criterion": "a", "Weight": 60},
                {"Criterion": "A", "Weight": 1},
                {"Criterion": "b", "Weight": 40},
            ],
            (60, 40),
        ),
    ],
)
def test_weights_that_are_read(criteria: Any, weights: tuple[float, float]) -> None:
    assert _weights(criteria) == pytest.approx(dict(zip("ab", weights, strict=True)))


def test_a_single_criterion_given_as_an_object_is_one_criterion() -> None:
    assert _weights({"Criterion": "a", "Explanation": "b", "Weight": 30}) == {"a": 100}


def test_texts_of_criteria() -> None:
    reply = {
        "Criteria": [
            {"Criterion": "On  topic\n", "Explanation": " It is on masks. Weight: 60% "},
            "Recent: less than 2 years old",
            {"Explanation": "Clear: easy to read"},
            {"Criterion": "Is the patient overweight 20"},
        ],
        "Reason": " all in all ",
    }
    rubric = read_rubric(json.dumps(reply))
    assert [(each.name, each.description) for each in rubric.criteria] == [
        ("On topic", "It is on masks."),
        ("Recent", "less than 2 years old"),
        ("Clear", "easy to read"),
        ("Is the patient overweight 20", ""),
    ]
    assert rubric.reason == "all in all"


@pytest.mark.parametrize(
    "criteria",
    [
        [],
        {},
        None,
        "on topic",
        7,
        [7],
        [None],
        [[]],
        [{}],
        [{"Weight": 50}],
        [""],
        [{"Criterion": " "}],
        [{"Criterion": ":"}],
        [{"Criterion": "a", "Weight": 0}],
        [{"Criterion": "a", "Weight": -5}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": "-5"}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": "high"}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": "30 to 40"}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": "1,000"}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": True}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": [30]}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": math.nan}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": 10**400}, {"Criterion": "b", "Weight": 50}],
        [{"Criterion": "a", "Weight": "35%"}, {"Criterion": "b", "Weight": 0.65}],
        [{"Criterion": "\ud800"}],
        [{"Criterion": "a", "Explanation": "\ud800"}],
    ],
)
def test_rubrics_that_are_refused(criteria: Any) -> None:
    with pytest.raises(Unreadable):
        read_rubric(json.dumps({"Criteria": criteria}))


@pytest.mark.parametrize(
    "reply",
    [
        "{'Criteria': [{'Criterion': 'a', 'Weight': 30 to 40}]}",
        "{'Criteria': [{'Criterion': 'a', 'Weight': 1 0}, {'Criterion': 'b', 'Weight': 90}]}",
        "{'Criteria': [{'Criterion': 'a', 'Weight': 60}, {'Criterion': 'b', 'Weight': 4",
        "{'Criteria': [{'Criterion': 'a', 'Weight': 60}",
        "{'Criteria': [{'Criterion': 'a', 'Criterion': 'b'}]}{'Criteria': ['c']}",
    ],
)
def test_broken_rubrics_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_rubric(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "```" + " " * 20_000,
        "```json\n" + "\n" * 20_000 + "x",
        "{" + " " * 20_000,
        '{"Score": "' + "\n" * 20_000,
        '{"Criteria": ["a' + " " * 20_000 + 'x"]}',
        '{"Criteria": ["' + "weight " * 3_000 + '"]}',
        "{'a': '" + "don't " * 3_000,
        "{Scores: [" + "7 " * 5_000,
    ],
    ids=lambda reply: reply[:12],
)
def test_a_runaway_reply_is_read_in_no_time(reply: str) -> None:
    start = time.process_time()
    for read in (
        lambda: read_score(reply, key="Score", top=10),
        lambda: read_criterion_scores(reply, count=2, top=10),
        lambda: read_personas(reply),
        lambda: read_rubric(reply),
    ):
        try:
            read()
        except Unreadable:
            continue
    # Seconds; in practice a few hundredths, and minutes with a pattern that backtracks.
    assert time.process_time() - start < 5
