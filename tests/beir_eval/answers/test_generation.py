"""Questions written from documents: drawn, checked, refused, and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beir_eval.answers.questions import read_questions
from beir_eval.cli.group import cli
from mcranker.errors import AuthenticationFailed
from mcranker.llm.chat import ChatRequest
from tests.support.cli_support import Connected, scripted


@pytest.fixture
def place(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(6):
        (docs / f"d{number}.txt").write_text(f"Cat number {number} purrs at {number} hertz.")
    return tmp_path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    connected = scripted(monkeypatch, tmp_path)
    connected.answer = Writer()
    return connected


class Writer:
    """Writes another question each time; the verdicts come in turn."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = [*verdicts]
        self.written = 0

    def __call__(self, request: ChatRequest) -> str:
        if request.schema is not None and request.schema.name == "question":
            self.written += 1
            words = f"alpha{self.written} beta{self.written} gamma{self.written}"
            return json.dumps({"question": f"What is {words}?", "answer": "It purrs."})
        verdict = self.verdicts.pop(0) if self.verdicts else "good"
        return json.dumps({"evaluation_notes": "", "verdict": verdict})


def write(place: Path, *args: str) -> Result:
    given = ("--count", "4", "--ledger", str(place / "l.db"), "-q", *args)
    return CliRunner().invoke(cli, ["questions", str(place / "docs"), *given])


def test_questions_are_written_and_read_back(place: Path, model: Connected) -> None:
    out = place / "q.jsonl"
    found = write(place, "--out", str(out))
    assert found.exit_code == 0, found.output
    questions = read_questions(out)
    assert [each.golden_answers for each in questions] == [("It purrs.",)] * 4
    needed = {"single": 1, "comparison": 2, "multi-aspect": 2, "three documents": 3}
    for each in questions:
        assert len(set(each.documents)) == needed[each.metadata["documents"]]
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert all("hertz" in text for line in lines for text in line["evidence"])
    lines[0]["keep"] = False
    out.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert len(read_questions(out)) == 3


def test_the_same_seed_asks_nothing_again(place: Path, model: Connected) -> None:
    first = write(place).stdout
    before = len(model.requests)
    assert write(place).stdout == first
    assert len(model.requests) == before
    assert write(place, "--seed", "1").stdout != first


def test_what_is_refused_is_counted_and_replaced(place: Path, model: Connected) -> None:
    model.answer = Writer("not answerable", "good", "wrong answer")
    said = json.loads(write(place, "--output", "json").stdout)
    assert len(said["questions"]) == 4
    assert said["refused"] == {"not answerable": 1, "wrong answer": 1}


def test_a_question_like_another_is_refused(place: Path, model: Connected) -> None:
    same = json.dumps({"question": "What is a cat?", "answer": "It purrs.", "verdict": "good"})
    model.answer = lambda request: same
    found = write(place, "--output", "json")
    said = json.loads(found.stdout)
    assert found.exit_code == 1
    assert len(said["questions"]) == 1
    assert said["refused"] == {"like another": 11}


def test_where_each_call_fails_it_stops(place: Path, model: Connected) -> None:
    model.answer = lambda request: "no JSON"
    found = write(place)
    assert found.exit_code == 1
    assert "it is not one JSON object" in found.stderr
    assert len(model.requests) == 8  # one round, and a repair turn each

    def refuses(request: ChatRequest) -> str:
        raise AuthenticationFailed("wrong key")

    model.answer = refuses
    assert "wrong key" in write(place, "--seed", "5").stderr


def test_a_file_that_may_have_been_edited_is_not_replaced(place: Path, model: Connected) -> None:
    (place / "q.jsonl").write_text('{"keep": false}\n')
    found = write(place, "--out", str(place / "q.jsonl"))
    assert found.exit_code == 2
    assert "is there already, and may have been edited" in found.stderr
    assert not model.requests
    model.answer = lambda request: "no JSON"
    assert write(place, "--out", str(place / "new.jsonl")).exit_code == 1
    assert not (place / "new.jsonl").exists()
