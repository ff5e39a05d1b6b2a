"""Weights that stand in the text of a criterion, and criteria that arrive numbered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcranker import MCRanker
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_rubric
from tests.support.scripted import scripted


def read(criteria: Any) -> list[tuple[str, str, float]]:
    rubric = read_rubric(json.dumps({"Criteria": criteria, "Reason": "x"}))
    return [(each.name, each.description, each.weight) for each in rubric.criteria]


FORMS = [
    *("The weight to this criterion is: 30%", "The weight to this criterion is: '30%'"),
    *('The weight to this criterion is: "30%".', "(The weight to this criterion is: 30%)"),
    *("**The weight to this criterion is: 30%**", "The weight to this criterion is: <30%>"),
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
        (["1) On masks", "2) Cites"], ["On masks", "Cites"]),
        (["(1) On masks", "(2) Cites"], ["On masks", "Cites"]),
        (["1.On masks", "2.Cites"], ["On masks", "Cites"]),
        (["1: On masks", "2: Cites"], ["On masks", "Cites"]),
        (["Criterion 1: On masks", "Criterion 2: Cites"], ["On masks", "Cites"]),
        (["1. On masks"], ["On masks"]),
        # Not a list's numbers
        (["1. On masks", "Cites"], ["1. On masks", "Cites"]),
        (["2. On masks", "1. Cites"], ["2. On masks", "1. Cites"]),
        (["1.5 million cases", "2.5 million cases"], ["1.5 million cases", "2.5 million cases"]),
        (["3D models"], ["3D models"]),
        (["2019 data"], ["2019 data"]),
        (["1."], ["1."]),
    ],
)
def test_names_lose_the_numbers_of_a_list(given: list[str], names: list[str]) -> None:
    entries = [{"Criterion": name, "Explanation": "x"} for name in given]
    assert [name for name, _, _ in read(entries)] == names


def test_numbered_keys_lose_their_numbers_too() -> None:
    assert read({"1. On masks": "It says so.", "2. Cites": "It cites."}) == [
        ("On masks", "It says so.", 50),
        ("Cites", "It cites.", 50),
    ]


def test_criteria_that_arrive_numbered_are_not_numbered_twice() -> None:
    criteria = json.dumps(
        {
            "Criteria": [
                "1. On masks: it says so. The weight to this criterion is: 60%",
                "2. Cites: it cites. The weight to this criterion is: 40%",
            ],
            "Reason": "x",
        }
    )
    prompts: list[str] = []

    def score(request: Any) -> str:
        prompts.append(request.messages[0].content)
        return '{"Score": 5}'

    with MCRanker(model=scripted(score, criteria=criteria), ledger=None, team_size=1) as ranker:
        ranker.rank("q", ["text"])
    assert (
        "Criteria:\n1. On masks (weight 60%): it says so\n2. Cites (weight 40%): it cites\n"
        in (prompts[0])
    )
