"""Personas and rubrics as models really write them: what is read, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given

from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_personas, read_rubric
from tests.support.reply_texts import replies


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
    assert all(name.strip() for name in names)


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
        *("Virologist, Nurse", '{"People": ["Nurse"]}', '{"Identities": []}'),
        *('{"Identities": {}}', '{"Identities": ["", "  "]}', '{"Identities": [7, null]}'),
        *('{"Identities": null}', '{"Identities": 7}', '{"Identities": ["\\ud83d"]}'),
        *('{"Identities": ["A"]} {"Identities": ["B"]}', '{"Identities": ["Doctor", "Virolo'),
        *('{"Identities": ["Doctor"', '{"Identities": ["Doctor",', "{'Identities': 'Doctor, Vir"),
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


def test_names_that_are_cut_stay_distinct() -> None:
    assert _weights(["x" * 119 + " y", "x" * 119, "b"]) == {"x" * 119: 50, "b": 50}


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
        ("On topic", "It is on masks"),
        ("Recent", "less than 2 years old"),
        ("Clear", "easy to read"),
        ("Is the patient overweight 20", ""),
    ]
    assert rubric.reason == "all in all"


@pytest.mark.parametrize(
    "criteria",
    [
        *([], {}, None, "on topic", 7, [7], [None], [[]], [{}], [""], [{"Weight": 50}]),
        *([{"Criterion": name}] for name in (" ", ":", "\ud800")),
        [{"Criterion": "a", "Weight": 0}],
        [{"Criterion": "a", "Weight": "35%"}, {"Criterion": "b", "Weight": 0.65}],
        [{"Criterion": "a", "Explanation": "\ud800"}],
        *(
            [{"Criterion": "a", "Weight": weight}, {"Criterion": "b", "Weight": 50}]
            for weight in (-5, "-5", "high", "30 to 40", "1,000", True, [30], math.nan, 10**400)
        ),
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
        *("{'Criteria': [{'Criterion': 'a', 'Weight': 60}", "{'Criteria': [{'Criterion': 'a [1]"),
        *("{'Criteria': [{'Criterion': 'a [1] \\", '{"Criteria": [{"Criterion": "a [1]'),
        "{'Criteria': [{'Criterion': 'a', 'Criterion': 'b'}]}{'Criteria': ['c']}",
    ],
)
def test_broken_rubrics_that_are_refused(reply: str) -> None:
    with pytest.raises(Unreadable):
        read_rubric(reply)
