"""A folder can hold Appendix D word for word: every request is the folder's text, and no more.

The wording is made up; the shape is the appendix's: what each prompt gets, where it stands, and
what is written out (the scale, the answer's form, the last expert's field).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import Capabilities, ChatRequest, DirectRanker, MCRanker, ScriptedChat
from personas import PromptError, PromptSet
from tests.support.scripted import RECRUITS, RUBRIC, scripted

D1 = """Say who asks. At most {{number}}.
Query:<<<{{query}}>>>
Passage:<<<{{passage}}>>>
JSON with "Identities" and "Reason"."""
D2 = """As a Language Person, write criteria.
Query:<<<{{query}}>>>
Each with 'Its share is:'."""
D3 = """As a <<<{{persona}}>>>, write criteria.
Query: <<<{{query}}>>>
Each with 'Its share is:'. Nothing beyond <<<{{persona}}>>>."""
D4 = """Forget it all.

Role: You are a <<<{{persona}}>>>

Task: JSON with "Score", from 0 to 10, as <<<{{persona}}>>>.

Your Answer:

query: <<<{{query}}>>>

criteria: <<<{{criteria}}>>>

passage: <<<{{passage}}>>>

Output:"""
D5 = """Forget it all.

Task: JSON with "Final score", from 0 to 10.

query: <<<{{query}}>>>

passage: <<<{{passage}}>>>

Scores of the three: {{assessments}}

Output:"""
D6 = """Forget it all.

Task: JSON with "Score", from 0 to 10.

query: <<<{{query}}>>>

passage: <<<{{passage}}>>>

Output:"""

APPENDIX_D = {
    "recruit": D1,
    "criteria_scientist": D2,
    "criteria": D3,
    "score": D4,
    "assess": D5,
    "direct": D6,
    "passage": "{{text}}",
    "criterion": "{{name}}, {{explanation}} Its share is: {{weight}}%",
    "assessment": "From expert {{number}} in <<<{{persona}}>>>: Score {{number}}: <<<{{score}}>>>",
    "assessment_scientist": "From expert {{number}} in words: Score {{number}}: <<<{{score}}>>>",
}
CRITERIA = (
    "Answers the question, It says so. Its share is: 75%\n"
    "Names a source, It cites. Its share is: 25%"
)
TEXT = "N95 masks filter 95% of particles."
PASSAGE = f"Masks\n{TEXT}"


@pytest.fixture
def appendix(tmp_path: Path) -> Path:
    PromptSet.load("paper").save(tmp_path / "appendix")
    for prompt, text in APPENDIX_D.items():
        (tmp_path / "appendix" / f"{prompt}.txt").write_text(f"{text}\n", encoding="utf-8")
    return tmp_path / "appendix"


def asked(folder: Path, *, direct: bool = False, **options: Any) -> dict[tuple[str, str], str]:
    """What each persona is sent at each stage, about one passage."""
    seen: dict[tuple[str, str], str] = {}
    scores = {"NLP scientist": 7, "Virologist": 8, "Worried parent": 6}

    def answer(request: ChatRequest) -> str:
        tag = request.tag
        (message,) = request.messages
        assert seen.setdefault((tag.stage, tag.persona), message.content) == message.content
        replies = {"recruit": RECRUITS, "criteria": RUBRIC, "assess": '{"Final score": 5}'}
        return replies.get(tag.stage, json.dumps({"Score": scores.get(tag.persona, 5)}))

    model = ScriptedChat(answer, capabilities=Capabilities(label_logprobs=True))
    make = DirectRanker if direct else MCRanker
    with make(model=model, prompts=str(folder), ledger=None, **options) as ranker:
        ranker.rank("best masks?", [{"_id": "p", "title": "Masks", "text": TEXT}])
    return seen


def test_every_request_is_the_folders_text_and_no_more(appendix: Path) -> None:
    seen = asked(appendix, ensemble="assessor")
    doctor, scientist = "Virologist", "NLP scientist"
    assert seen["recruit", ""] == (
        "Say who asks. At most 2.\nQuery:<<<best masks?>>>\n"
        f'Passage:<<<{PASSAGE}>>>\nJSON with "Identities" and "Reason".'
    )
    assert seen["criteria", scientist] == (
        "As a Language Person, write criteria.\nQuery:<<<best masks?>>>\nEach with 'Its share is:'."
    )
    assert seen["criteria", doctor] == (
        "As a <<<Virologist>>>, write criteria.\nQuery: <<<best masks?>>>\n"
        "Each with 'Its share is:'. Nothing beyond <<<Virologist>>>."
    )
    assert seen["score", doctor] == (
        D4.replace("{{persona}}", doctor)
        .replace("{{query}}", "best masks?")
        .replace("{{criteria}}", CRITERIA)
        .replace("{{passage}}", PASSAGE)
    )
    experts = (
        "From expert 1 in <<<Virologist>>>: Score 1: <<<8>>>\n"
        "From expert 2 in <<<Worried parent>>>: Score 2: <<<6>>>\n"
        "From expert 3 in words: Score 3: <<<7>>>"
    )
    assert seen["assess", ""] == (
        D5.replace("{{query}}", "best masks?")
        .replace("{{passage}}", PASSAGE)
        .replace("{{assessments}}", experts)
    )


def test_direct_is_the_folders_text_and_no_more(appendix: Path) -> None:
    seen = asked(appendix, direct=True)
    assert seen["score", "DIRECT"] == (
        D6.replace("{{query}}", "best masks?").replace("{{passage}}", PASSAGE)
    )


@pytest.mark.parametrize(
    ("options", "file"),
    [({"scoring": "per_criterion"}, "score"), ({"direct": True, "scoring": "expected"}, "direct")],
)
def test_a_written_out_answer_goes_with_integers_only(
    options: dict[str, Any], file: str, appendix: Path
) -> None:
    with pytest.raises(PromptError, match=rf"{file}\.txt has no .*answer.*scoring=\"integer\""):
        asked(appendix, **options)


def test_a_missing_score_and_the_number_of_experts_can_be_said(appendix: Path) -> None:
    (appendix / "assess.txt").write_text(
        "{{query}} {{passage}} Scores of the {{experts}}: {{assessments}}", encoding="utf-8"
    )
    (appendix / "assessment_missing.txt").write_text(
        "{{number}} in {{persona}} says nothing", encoding="utf-8"
    )
    seen: list[str] = []

    def assess(request: ChatRequest) -> str:
        seen.append(request.messages[0].content)
        return '{"Final score": 5}'

    def score(request: ChatRequest) -> str:
        return "no idea" if request.tag.persona == "Virologist" else '{"Score": 4}'

    model = scripted(score, assess=assess)
    with MCRanker(model=model, prompts=str(appendix), ensemble="assessor", ledger=None) as ranker:
        ranker.rank("q", ["text"])
    assert seen == [
        "q text Scores of the 3: 1 in Virologist says nothing\n"
        "From expert 2 in <<<Worried parent>>>: Score 2: <<<4>>>\n"
        "From expert 3 in words: Score 3: <<<4>>>"
    ]
