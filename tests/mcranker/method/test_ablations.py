"""The paper's ablations change one thing: tables 2, 3 and 4, by what is asked and what is not."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from mcranker import ChatRequest, DirectRanker, MCRanker, Ranker, ScriptedChat
from tests.support.scripted import RECRUITS

DOCS = ["N95 masks filter well.", "Soup wants salt."]
TEAM = ("NLP scientist", "Virologist", "Worried parent")


def rubric(persona: str) -> str:
    shares = {"NLP scientist": (70, 30), "Virologist": (60, 40)}.get(persona, (50, 50))
    criteria = [
        {"Criterion": f"{persona} {number}", "Explanation": "", "Weight": share}
        for number, share in enumerate(shares, start=1)
    ]
    return json.dumps({"Criteria": criteria, "Reason": "Because."})


class Notes:
    """A model that keeps what it is asked, by stage and persona."""

    def __init__(self) -> None:
        self.asked: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.model = ScriptedChat(self._answer)

    def _answer(self, request: ChatRequest) -> str:
        tag = request.tag
        self.asked[tag.stage, tag.persona].append(request.messages[-1].content)
        if tag.stage == "recruit":
            return RECRUITS
        if tag.stage == "criteria":
            return rubric(tag.persona)
        key = "Final score" if tag.stage == "assess" else "Score"
        return json.dumps({key: len(tag.persona) % 10})


def asked_by(make: type[Ranker], query: str = "best masks", **options: Any) -> Notes:
    notes = Notes()
    with make(model=notes.model, ledger=None, **options) as ranker:
        ranker.rank(query, DOCS)
    return notes


MCRANKER = asked_by(MCRanker).asked


def test_table_2_without_criteria_only_they_are_gone() -> None:
    without = asked_by(MCRanker, criteria="none").asked
    assert without["recruit", ""] == MCRANKER["recruit", ""]
    assert not [stage for stage, _ in without if stage == "criteria"]
    for name in TEAM:
        for full, bare in zip(MCRANKER["score", name], without["score", name], strict=True):
            plain = re.sub(r"Criteria:\n(.+\n)+\n", "", full)
            plain = plain.replace(
                "you get a query, your criteria and one", "you get a query and one"
            )
            plain = re.sub(r" The query comes first: .+? counts as met\.", "", plain)
            assert bare == plain


def test_table_2_direct_gets_the_very_criteria_persona_by_persona() -> None:
    with_criteria = asked_by(DirectRanker, with_criteria=True).asked
    for stage in ("recruit", "criteria"):
        for name in ("", *TEAM):
            assert with_criteria[stage, name] == MCRANKER[stage, name]
    prompt = with_criteria["score", "DIRECT"][0]
    shown = prompt.partition("Criteria:\n")[2].partition("\n\nPassage:")[0]
    assert shown == (
        "Criteria of an NLP scientist:\n"
        "1. NLP scientist 1 (weight 70%)\n2. NLP scientist 2 (weight 30%)\n\n"
        "Criteria of a Virologist:\n"
        "1. Virologist 1 (weight 60%)\n2. Virologist 2 (weight 40%)\n\n"
        "Criteria of a Worried parent:\n"
        "1. Worried parent 1 (weight 50%)\n2. Worried parent 2 (weight 50%)"
    )
    for block in shown.split("\n\n"):
        assert sum(map(int, re.findall(r"weight (\d+)%", block))) == 100
        mine = block.partition("\n")[2]
        assert any(mine in prompt for prompts in MCRANKER.values() for prompt in prompts)


def test_table_3_all_but_what_the_criteria_are_about_is_the_same() -> None:
    query = asked_by(MCRanker).asked
    dataset = asked_by(MCRanker, criteria="dataset", dataset="Covid papers").asked
    assert dataset["recruit", ""] == query["recruit", ""]
    assert {name: dataset["score", name] for name in TEAM} == {
        name: query["score", name] for name in TEAM
    }
    for name in TEAM:
        (text,) = dataset["criteria", name]
        assert "Covid papers" in text
        assert "best masks" not in text
    # The recruits have no brief of their own; the scientist's differs from theirs in both.
    scientist, recruit = (dataset["criteria", name][0] for name in TEAM[:2])
    assert scientist.replace("NLP scientist", "X") != recruit.replace("Virologist", "X")


def experts(notes: Notes) -> list[str]:
    found = re.findall(r"Expert (\d), (.+): (\d)", notes.asked["assess", ""][0])
    assert [number for number, _, _ in found] == [str(n) for n in range(1, len(found) + 1)]
    return [name for _, name, _ in found]


def test_table_4_the_assessor_sees_recruits_first_and_the_scientist_last() -> None:
    notes = asked_by(MCRanker, ensemble="assessor")
    assert experts(notes) == ["Virologist", "Worried parent", "NLP scientist"]
    assert notes.asked["recruit", ""] == MCRANKER["recruit", ""]
    assert {name: notes.asked["score", name] for name in TEAM} == {
        name: MCRANKER["score", name] for name in TEAM
    }
