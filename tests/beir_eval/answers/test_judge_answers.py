"""Answers of a file judged: reading, sums, warnings, and the command."""

from __future__ import annotations

import json
import math
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from beir_eval.answers.judges import Judgement, names_of
from beir_eval.answers.judging import check_answers, read_answers
from beir_eval.answers.metrics import JudgeMetrics, judge_metrics
from beir_eval.answers.questions import read_questions
from beir_eval.cli.group import cli
from beir_eval.errors import DatasetError, SettingError
from beir_eval.report.warnings import flaw_notices
from mcranker import ScriptedChat
from mcranker.llm.chat import ChatRequest
from mcranker.rag.result import Citation, RAGResult, SourcePassage


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def test_questions_of_several_projects_are_read(tmp_path: Path) -> None:
    flash = {"id": "a", "question": "Who?", "golden_answers": ["x", "y"], "metadata": {"type": "f"}}
    live = {
        "question": "What?",
        "answer": "z",
        "document_ids": ["d1"],
        "question_categories": {"p": 1},
    }
    beir = {"_id": "c", "text": "Why?"}
    first, second, third = read_questions(lines(tmp_path / "q.jsonl", flash, live, beir))
    assert (first.id, first.golden_answers, first.metadata) == ("a", ("x", "y"), {"type": "f"})
    assert (second.id, second.golden_answers, second.documents) == ("2", ("z",), ("d1",))
    assert (third.id, third.text, third.golden_answers) == ("c", "Why?", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no question"),
        ('{"id": 1}\n', r"q\.jsonl:1: there is no question"),
        ('{"question": "a", "id": 1}\n{"question": "b", "id": "1"}\n', r":2: the id '1' is there"),
        ('{"question": "a", "answers": [7]}\n', r'"golden_answers" holds \[7\]'),
        ("[1]\n", "entry 1: holds 1; write"),
        ("{\n", r"q\.jsonl:1"),
    ],
)
def test_what_is_no_file_of_questions_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(text)
    with pytest.raises(DatasetError, match=said):
        read_questions(tmp_path / "q.jsonl")


def result(**changes: Any) -> RAGResult:
    values: dict[str, Any] = {
        "question": "Who?",
        "id": "q1",
        "text": "The cat.",
        "kind": "answer",
        "all_citations": (Citation(claim="The cat.", passage=1, quote="cat", verdict="invented"),),
        "passages": (
            SourcePassage(id="b", document="b", text="second", rank=2),
            SourcePassage(id="a", document="a", text="first", rank=1, number=1),
        ),
        "models": {"answer": "openai:writer"},
    }
    return RAGResult(**{**values, **changes})


def test_answers_of_a_pipeline_and_of_others_are_read(tmp_path: Path) -> None:
    own = result().to_dict()
    failed = {"id": "q2", "question": "What?", "error": {"message": "no server"}}
    other = {
        "id": "q3",
        "question": "Why?",
        "response": "So.",
        "context": ["one", {"contents": "two"}],
    }
    golden = lines(tmp_path / "q.jsonl", {"id": "q3", "question": "Why?", "golden_answers": ["so"]})
    answers = read_answers(lines(tmp_path / "a.jsonl", own, failed, other))
    first, second, third = answers
    assert (first.passages, first.retrieved) == (("first",), ("first", "second"))
    assert (second.failure, third.passages) == ("no server", ("one", "two"))
    assert [each.models for each in answers] == [{"openai:writer"}, set(), set()]
    (known,) = read_answers(lines(tmp_path / "b.jsonl", other), read_questions(golden))
    assert known.question.golden_answers == ("so",)
    with pytest.raises(DatasetError, match="no question has the id 'q1'"):
        read_answers(tmp_path / "a.jsonl", read_questions(golden))
    with pytest.raises(SettingError, match="f1 needs golden answers, and no answer has any; give"):
        check_answers(answers, ["f1"])


def test_answers_of_other_programs_are_read(tmp_path: Path) -> None:
    flash = {
        "id": "test_1",
        "question": "Who?",
        "golden_answers": ["cat"],
        "output": {
            "retrieval_result": [{"id": "0", "contents": "The cat."}],
            "prompt": "Who?",
            "pred": "A cat.",
            "metric_score": {"em": 0.0},
        },
    }
    (tmp_path / "intermediate_data.json").write_text(json.dumps([flash], indent=4))
    (found,) = read_answers(tmp_path / "intermediate_data.json")
    assert (found.question.golden_answers, found.text) == (("cat",), "A cat.")
    assert (found.passages, found.retrieved) == (("The cat.",), ("The cat.",))
    ragas = {"user_input": "Who?", "retrieved_contexts": ["b"], "response": "c", "reference": "d"}
    live = {"id": 1, "question": "Who?", "passages": [{"passage": "b", "doc_IDs": ["x"]}]}
    for each in read_answers(lines(tmp_path / "a.jsonl", ragas, {**live, "answer": "c"})):
        assert (each.question.text, each.text, each.passages) == ("Who?", "c", ("b",))
    (tmp_path / "a.json").write_text('[{"question": "Who?", "answer": "c"},\n 1]')
    with pytest.raises(DatasetError, match="entry 2: holds 1; write an object"):
        read_answers(tmp_path / "a.json")


def summed_up(values: list[Judgement], judge: str) -> JudgeMetrics:
    return judge_metrics(
        [[(str(place), {judge: each}) for place, each in enumerate(values)]], judge
    )


def test_an_id_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Who?", "answer": "so"}
    with pytest.raises(DatasetError, match=r"a\.jsonl:2: the id 'a' is there twice"):
        read_answers(lines(tmp_path / "a.jsonl", row, row))
    del row["id"]
    assert len(read_answers(lines(tmp_path / "b.jsonl", row, row))) == 2


def test_missing_values_are_counted_and_in_no_mean() -> None:
    values: list[Judgement] = [Judgement(value) for value in (1.0, 0.0, 0.5)]
    values += [Judgement(None, "it is empty."), Judgement(None, "none", undefined=True)]
    found = summed_up(values, "f1")
    assert (found.mean, found.values, found.missing, found.undefined) == (0.5, 3, 1, 1)
    interval = found.as_values("f1").interval
    # Student's t of 0.975 on 2 degrees of freedom is 4.3027; 4.3027 · 0.5 / √3 = 1.2421, which
    # goes beyond the scale of 0 to 1 in both directions, and not beyond one of -1 to 2.
    assert (interval.low, interval.high) == (0, 1)
    wide = summed_up(values, "relevance").as_values("relevance").interval
    assert wide.high == pytest.approx(0.5 + 4.302653 * 0.5 / math.sqrt(3), abs=1e-5)
    assert dict(found.reasons) == {"it is empty.": 1, "none": 1}
    empty = summed_up([Judgement(None, "none")], "f1")
    assert (empty.mean, empty.as_values("f1").mean) == (None, None)


def test_a_reader_is_told_what_may_mislead() -> None:
    def said(values: list[Judgement], *, own: bool) -> list[tuple[str, str]]:
        of = summed_up(values, "relevance").as_values("relevance", "m", own=own)
        return [(each.kind, each.sentence) for each in flaw_notices([("relevance", of)])]

    # 50 ones and one of -1 to 2: 49 / 51 and 52 / 51.
    assert said([Judgement(1.0)] * 50 + [Judgement(None, "no")], own=True) == [
        (
            "bad",
            "1 of 51 values are missing (2.0%); the mean lies between 0.961 and 1.020.",
        ),
        ("bad", "Judged by a model, m, which is also the system's, and not by people."),
    ]
    by_model = ("warn", "Judged by a model, m, and not by people.")
    assert said([Judgement(1.0)] * 20, own=False) == [by_model]
    few = ("warn", "19 queries, fewer than 20: intervals and tests are rough.")
    undefined = ("note", "1 answer without a value by their nature, in no mean.")
    values = [Judgement(1.0)] * 19 + [Judgement(None, "none", undefined=True)]
    assert said(values, own=False) == [undefined, by_model, few]


@pytest.mark.parametrize("text", ["", "f1,nope", "f1@3", "answer_recall@0"])
def test_unknown_judges_are_refused(text: str) -> None:
    with pytest.raises(SettingError):
        names_of(text.split(","))


def test_the_command_judges_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = iter(["4", "many", "many"])
    asked: list[str] = []

    def reply(request: ChatRequest) -> str:
        asked.append(request.messages[0].content)
        return next(replies)

    chat = ScriptedChat(reply, name="openai:judge")
    monkeypatch.setattr("mcranker.llm.models.connect", lambda *_, **__: chat)
    golden = {"question": "Who?", "golden_answers": ["cat"]}
    answers = lines(
        tmp_path / "a.jsonl",
        {**golden, "id": "1", "answer": "The cat."},
        {**golden, "id": "2", "answer": "A dog."},
    )
    # Golden answers come with the answers; "answer" is the answer here.
    out = tmp_path / "out.jsonl"
    flags = ["--judges", "exact_match,answer_similarity", "--model", "openai:judge", "--quiet"]
    flags += ["--ledger", "none", "--output", "json", "--out", str(out)]
    shutil.copytree(str(resources.files("personas") / "prompts" / "paper"), tmp_path / "own")
    wording = "[user]\nLike {{question}}: {{reference}}, {{response}}? A number."
    (tmp_path / "own" / "judge_similarity.txt").write_text(wording)
    flags += ["-o", f"prompts={tmp_path / 'own'}"]
    found = CliRunner().invoke(cli, ["judge-answers", str(answers), *flags])
    assert found.exit_code == 3, found.stderr
    body = json.loads(found.stdout)
    means = {each["judge"]: (each["mean"], each["missing"]) for each in body["judges"]}
    assert means == {"exact_match": (0.5, 0), "answer_similarity": (4.0, 1)}
    assert (body["model"], body["calls"]) == ("openai:judge", 3)
    assert all(each.startswith("Like Who?") for each in asked)
    kept = [json.loads(line)["judgements"] for line in out.read_text().splitlines()]
    assert kept[0]["answer_similarity"] == {"value": 4.0}
    assert "not one JSON object" in kept[1]["answer_similarity"]["why"]
