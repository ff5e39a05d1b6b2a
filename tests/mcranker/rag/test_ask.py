"""``mcranker ask`` and ``mcranker rag``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcranker.rag.config import PipelineConfig
from mcranker.rag.result import RAGResult
from tests.mcranker.rag.fake_pipeline import SENTENCE, FakePipeline
from tests.support.cli_support import invoke

QUESTION = "What is NSP?"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "papers.index"
    path.touch()
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    texts = ["none to be had", "fail at once", QUESTION]
    lines = [{"id": f"q{n}", "question": text} for n, text in enumerate(texts)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def as_json(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_an_answer_goes_to_standard_output(index: Path, pipelines: list[FakePipeline]) -> None:
    result = invoke("ask", QUESTION, "--index", index, "--debug")
    assert result.exit_code == 0, result.stderr
    assert SENTENCE in result.stdout
    assert pipelines[0].index == str(index)
    assert pipelines[0].closed


def test_no_output_replaces_the_index_or_a_file_of_the_documents(
    tmp_path: Path, index: Path, pipelines: list[FakePipeline]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("kept")
    (tmp_path / "link").symlink_to(docs)
    for given in (
        ("--index", index, "--report", index),
        ("--docs", docs, "--report", docs / "a.txt"),
        ("--docs", tmp_path / "link", "--save", docs / "a.txt"),
        ("--docs", tmp_path, "--out", docs / "a.txt"),
    ):
        result = invoke("ask", QUESTION, *given)
        assert (result.exit_code, "would replace" in result.stderr) == (2, True)
    assert (docs / "a.txt").read_text() == "kept"
    assert invoke("ask", QUESTION, "--docs", docs, "--out", docs / "new.txt").exit_code == 0


def test_options_of_stages_ranker_and_pipeline_reach_it(
    index: Path, pipelines: list[FakePipeline]
) -> None:
    flags: list[str | Path] = [
        "-o",
        "answer.style=naive",
        "-o",
        "retrieval.documents=20",
        "-o",
        "max-calls=9",
    ]
    flags += ["--team-size", "4", "-o", "rerank.options.scale=5", "--model", "openai:x"]
    assert invoke("ask", QUESTION, "--index", index, *flags).exit_code == 0
    made = pipelines[0]
    assert isinstance(made.config, PipelineConfig)
    assert made.config.preset == "team"
    assert (made.config.answer.style, made.config.retrieval.documents) == ("naive", 20)
    assert made.config.rerank.options == {"team_size": 4, "scale": 5}
    assert made.options == {"max_calls": 9, "model": "openai:x"}


def test_a_shown_preset_is_a_pipeline(
    tmp_path: Path, index: Path, pipelines: list[FakePipeline]
) -> None:
    shown = invoke("ask", "--presets", "mmr")
    file = tmp_path / "mine.toml"
    file.write_text(shown.stdout.replace("mmr = 0.5", "mmr = 0.25"))
    assert invoke("ask", QUESTION, "--index", index, "--pipeline", file).exit_code == 0
    config = pipelines[0].config
    assert isinstance(config, PipelineConfig)
    changed = PipelineConfig.load("mmr", preset="", retrieval={"mmr": 0.25})
    assert config == changed


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--index", "."], "QUESTION"),
        (["why"], "--index"),
        (["why", "--index", ".", "--docs", "."], "--index"),
        (["why", "--index", ".", "--embedder", "x"], "--embedder"),
        (["why", "--index", ".", "--preset", "team", "--pipeline", "x.toml"], "--preset"),
        (["why", "--index", ".", "-o", "answer.stile=extract"], "answer.style"),
        (["why", "--index", ".", "-o", "answer.style=long"], "answer.style"),
        (["why", "--index", ".", "-o", "retrieval.documents=0"], "retrieval.documents"),
        (["why", "--index", ".", "--questions", "x"], "--questions"),
        (["--index", ".", "--questions", "x", "--report", "why.html"], "--report"),
        (["--index", ".", "--questions", "x", "--output", "text"], "a JSON line each"),
    ],
)
def test_impossible_usage(args: list[str], said: str, pipelines: list[FakePipeline]) -> None:
    result = invoke("ask", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert pipelines == []


def test_no_answer_is_an_error_and_the_rest_is_shown(
    index: Path, pipelines: list[FakePipeline]
) -> None:
    result = invoke("ask", "none of it", "--index", index, "--output", "json")
    body = as_json(result)
    assert (result.exit_code, body["status"]) == (1, "error")
    assert body["errors"] == [{"code": "NoAnswer", "message": "no key", "retryable": True}]
    assert len(body["answer"]["passages"]) == 2


def test_many_answers_are_lines_in_order_with_errors_in_place(
    index: Path, questions: Path, pipelines: list[FakePipeline]
) -> None:
    result = invoke("ask", "--questions", questions, "--index", index, "--output", "json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["id"] for each in lines] == ["q0", "q1", "q2"]
    assert lines[0]["kind"] == "none"
    assert lines[1]["question"] == "fail at once"
    assert lines[1]["error"]["code"] == "ConnectionFailed"
    assert RAGResult.from_dict(lines[2]).kind == "answer"
    assert result.exit_code == 1
    assert "2 of 3 questions not answered; the first, 'q0': no key" in result.stderr


def test_pages_and_records_are_written(
    index: Path, tmp_path: Path, pipelines: list[FakePipeline]
) -> None:
    save, page, out = (tmp_path / name for name in ("a.json", "a.html", "a.txt"))
    flags: list[str | Path] = ["--save", save, "--report", page, "--out", out]
    result = invoke("ask", QUESTION, "--index", index, *flags)
    assert (result.exit_code, result.stdout) == (0, "")
    assert RAGResult.load(save).question == QUESTION
    assert "next sentence" in page.read_text()
    assert SENTENCE in out.read_text()


TURNS = [{"role": "user", "content": "What is BERT?"}, {"role": "assistant", "content": "A model."}]


@pytest.mark.parametrize(
    "entry",
    [
        {"messages": [*TURNS, {"role": "user", "content": QUESTION}]},
        {"question": QUESTION, "messages": TURNS},
        {"query": QUESTION, "messages": [*TURNS, {"role": "user", "content": QUESTION}]},
    ],
)
def test_a_conversation_in_a_file_is_asked_whole(
    index: Path, tmp_path: Path, pipelines: list[FakePipeline], entry: dict[str, Any]
) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"id": "t", **entry}))
    result = invoke("ask", "--questions", file, "--index", index)
    assert result.exit_code == 0, result.stderr
    whole = f"User: What is BERT? Assistant: A model. User: {QUESTION}"
    assert json.loads(result.stdout)["question"] == whole
