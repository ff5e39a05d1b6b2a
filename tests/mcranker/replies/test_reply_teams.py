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


@pytest.mark.parametrize(
    ("identities", "names"),
    [
        (["Virologist", "Nurse"], ["Virologist", "Nurse"]),
        (["Nurse", "NURSE", " nurse. "], ["Nurse"]),
        (["public_health_researcher"], ["public health researcher"]),
        (["", " . ", "Nurse", None, 7], ["Nurse"]),
        ("Virologist, Nurse; Teacher\nParent", ["Virologist", "Nurse", "Teacher", "Parent"]),
        ({"1": "Virologist", "2": "Nurse"}, ["Virologist", "Nurse"]),
        ({"Identity 1": "Virologist", "Identity 2": "Nurse"}, ["Virologist", "Nurse"]),
        ({"Virologist": "knows viruses", "Nurse": "knows care"}, ["Virologist", "Nurse"]),
        ({"Identity": "Nurse", "Reason": "knows care"}, ["Nurse"]),
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
        # 60 + 60 = 120, so half and half
        ([{"Criterion": "a", "Weight": 60}, {"Criterion": "b", "Weight": "60"}], (50, 50)),
        ([{"Criterion": "a", "Weight": 60}, {"Criterion": "b"}], (60, 40)),
        # nothing is left for b: it gets the mean of the others, 100, and then half
        ([{"Criterion": "a", "Weight": 100}, {"Criterion": "b"}], (50, 50)),
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


def read(criteria: Any) -> list[tuple[str, str, float]]:
    rubric = read_rubric(json.dumps({"Criteria": criteria, "Reason": "x"}))
    return [(each.name, each.description, each.weight) for each in rubric.criteria]


FORMS = [
    *("The weight to this criterion is: 30%", "The weight to this criterion is: '30%'"),
    *('The weight to this criterion is: "30%".', "(The weight to this criterion is: 30%)"),
    *("The weight to this criterion is 30 percent.", "The weight of this criterion is: 30"),
    *("The weight assigned to this criterion is: 30%", "weight = 30 points", "Weight: 30%"),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_weight_in_the_text_is_read_and_taken_out(form: str) -> None:
    other = form.replace("30", "70")
    for key in ("Explanation", "Criterion"):
        entries = [
            {"Criterion": "On masks", "Explanation": "It says so", key: text}
            for text in (f"It says so. {form}", f"It cites. {other}")
        ]
        if key == "Explanation":
            entries[1]["Criterion"] = "Cites"
        found = read(entries)
        assert [weight for _, _, weight in found] == [30, 70]
        assert not [text for name, text, _ in found if "eight" in name + text]


SAID = "The weight to this criterion is"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(
            [
                {"Explanation": f"It says so. {SAID}: '20%'", "Weight": "20%"},
                {"Explanation": "It cites.", "Weight": "80%"},
            ],
            [("a", "It says so", 20), ("b", "It cites.", 80)],
            id="given twice",
        ),
        pytest.param(
            [{"Explanation": f"{SAID}: 20%. It says."}, {"Explanation": f"{SAID}: 80%, if so."}],
            [("a", "It says.", 20), ("b", "if so.", 80)],
            id="before the explanation",
        ),
        pytest.param(
            [{"Weight": f"{SAID}: 30%"}, {"Weight": f"{SAID}: 70%"}],
            [("a", "", 30), ("b", "", 70)],
            id="as the weight, as in the paper's figure 6",
        ),
        pytest.param(
            [{SAID: "30%"}, {SAID: "70%"}], [("a", "", 30), ("b", "", 70)], id="as the key"
        ),
    ],
)
def test_the_papers_sentence_is_a_weight_and_no_text(
    entries: list[dict[str, str]], expected: list[tuple[str, str, float]]
) -> None:
    named = zip("ab", entries, strict=True)
    assert read([{"Criterion": name, **entry} for name, entry in named]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The weight to this criterion is: 30/100",
        "The weight to this criterion is: 30% of the total, at most 40%.",
        "The weight to this criterion is: 30.5.2, if any.",
        "First, the weight to this criterion is: 3%. Then the weight to this criterion is: 4%. x",
    ],
)
def test_weights_in_doubt_are_still_asked_for_again(text: str) -> None:
    with pytest.raises(Unreadable):
        read([{"Criterion": "a", "Explanation": text}, {"Criterion": "b"}])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["1. On masks", "2. Cites"], ["On masks", "Cites"]),
        (["Criterion 1: On masks", "Criterion 2: Cites"], ["On masks", "Cites"]),
        (["1. On masks"], ["On masks"]),
        # Not a list's numbers
        (["1. On masks", "Cites"], ["1. On masks", "Cites"]),
        (["2. On masks", "1. Cites"], ["2. On masks", "1. Cites"]),
        (["1.5 million cases", "2.5 million cases"], ["1.5 million cases", "2.5 million cases"]),
    ],
)
def test_names_lose_the_numbers_of_a_list(given: list[str], names: list[str]) -> None:
    entries = [{"Criterion": name, "Explanation": "x"} for name in given]
    assert [name for name, _, _ in read(entries)] == names
