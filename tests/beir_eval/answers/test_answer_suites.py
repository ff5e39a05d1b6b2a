"""Suites of pipelines: the file, and runs that are cut short, resumed and summed up."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval.answers.judges import Judgement
from beir_eval.answers.metrics import AnswerMetrics, metrics_of
from beir_eval.cli.group import cli
from beir_eval.errors import SuiteError
from beir_eval.experiment.suite import load_suite, shipped_suites
from mcranker.errors import ModelError
from mcranker.llm.chat import ChatRequest
from mcranker.rag.result import RAGResult, StageRecord
from tests.support.cli_support import Connected, scripted_but_for_encoders

GRID = """
title = "A grid"
questions = "q.jsonl"
documents = "docs"
judges = ["relevance", "f1"]
judge_model = "openai:judge"
[base]
preset = "naive"
"answer.style" = "naive"
"retrieval.by" = "bm25"
[[factors]]
name = "documents"
option = "retrieval.documents"
levels = [1, 2]
[[factors]]
name = "words"
option = "context.limit"
levels = [100, 200]
ours = true
[anova]
formula = "f1 ~ C(documents) + C(words)"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Cats purr when they are content.")
    (docs / "b.txt").write_text("Dogs bark at strangers, and cats do not.")
    questions = [
        {"id": "q1", "question": "What do cats do?", "golden_answers": ["purr"]},
        {"id": "q2", "question": "What do dogs do?", "golden_answers": ["bark loudly"]},
    ]
    (tmp_path / "q.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in questions))
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    connected = scripted_but_for_encoders(monkeypatch, tmp_path)
    connected.answer = by_rote
    return connected


def by_rote(request: ChatRequest) -> str:
    if request.tag.stage == "judge":
        return json.dumps({"evaluation_notes": "n", "relevance_score": 1})
    return "purr" if "What do cats do?" in str(request.messages) else "bark"


def run(place: Path, *args: str) -> Result:
    out = ("--out", str(place / "out"), "-q", "--output", "json", "--ledger", str(place / "l.db"))
    return CliRunner().invoke(cli, ["run", str(place / "grid.toml"), *out, *args])


def test_a_grid_is_run_judged_and_analysed(place: Path, model: Connected) -> None:
    found = run(place)
    said = json.loads(found.stdout)
    assert found.exit_code == 0, found.output
    assert [each["label"] for each in said["results"]] == [
        *("1 / 100", "1 / 200", "2 / 100", "2 / 200")
    ]
    metrics = said["results"][0]["metrics"]
    assert metrics["judges"]["relevance"]["mean"] == 1
    assert metrics["judges"]["f1"]["questions"] == {"q1": 1, "q2": pytest.approx(2 / 3)}
    assert any("One run" in each for each in said["warnings"])
    assert any("fewer than 20" in each for each in said["warnings"])
    lines = (place / "out" / "grid.csv").read_text().splitlines()
    assert lines[0] == "documents,words,relevance,f1"
    assert [each.split(",")[:2] for each in lines[1:]] == [
        *(["1", "100"], ["1", "200"], ["2", "100"], ["2", "200"])
    ]


def test_points_share_answers_and_a_second_run_asks_nothing(place: Path, model: Connected) -> None:
    run(place)
    # Contexts of 100 and of 200 words are the same here. So are those of 1 and 2 documents for the
    # second question, whose words are in one document.
    writing = [each for each in model.requests if each.tag.stage == "answer"]
    assert len(writing) == 3
    # What is judged is the question, the answer and the passages.
    assert len(model.requests) - len(writing) == 3
    before = len(model.requests)
    assert run(place).exit_code == 0
    assert len(model.requests) == before


@pytest.mark.parametrize(
    ("judge", "calls"),
    [
        ("relevance", 1),
        ("faithfulness", 1),
        ("answer_similarity", 1),
        ("retrieval_precision", 1),
        ("nuggets", 2),
    ],
)
def test_a_judge_judges_each_run_and_the_estimate_counts_it(
    place: Path, model: Connected, judge: str, calls: int
) -> None:
    """A judge that changes its mind: 2 questions · 3 runs, though the answers are the same."""
    verdicts = count()

    def answer(request: ChatRequest) -> str:
        if request.tag.stage != "judge":
            return by_rote(request)
        if "Importance" in str(request.schema):
            return json.dumps({"Nuggets": [{"Nugget": "purr", "Importance": "vital"}]})
        number = next(verdicts) // 2 % 2
        return json.dumps(
            {
                **{f"{name}_score": number for name in ("relevance", "faithfulness")},
                "evaluation_notes": "n",
                "similarity": number,
                "relevant": bool(number),
                "Support": {"1": ("no", "support")[number]},
            }
        )

    model.answer = answer
    (place / "grid.toml").write_text(
        GRID.replace('["relevance", "f1"]', f'["{judge}"]').partition("[anova]")[0]
    )
    args = ("--runs", "3", "--only", "1 / 100")
    estimated = json.loads(run(place, *args, "--dry-run").stdout)
    assert not model.requests
    said = json.loads(run(place, *args).stdout)
    judged = [each for each in model.requests if each.tag.stage == "judge"]
    assert len(judged) == 2 * 3 * calls
    assert len({*said["results"][0]["metrics"]["judges"][judge]["run_means"]}) > 1
    assert estimated["total"]["calls"] == len(model.requests)


def test_a_conversation_reaches_pipeline_and_judge(place: Path, model: Connected) -> None:
    turns = [{"role": "user", "content": "Of Felix?"}, {"role": "assistant", "content": "A cat."}]
    for number, more in enumerate(({}, {"question": "What do cats do?"})):
        last = [] if more else [{"role": "user", "content": "What do cats do?"}]
        row = {"id": "q", **more, "messages": [*turns, *last], "golden_answers": ["purr"]}
        (place / "q.jsonl").write_text(json.dumps(row))
        model.requests.clear()
        found = run(place, "--only", "1 / 100", "--ledger", str(place / f"{number}.db"))
        assert found.exit_code == 0, found.output
    for request in model.requests:
        assert "User: Of Felix?" in str(request.messages)
    row["messages"] = [{"role": "user", "content": "Of Rex?"}, turns[1]]
    (place / "q.jsonl").write_text(json.dumps(row))
    assert "begun with other choices: questions was" in run(place, "--only", "1 / 100").output


def test_a_torn_line_and_lost_judgements_are_made_again(place: Path, model: Connected) -> None:
    whole = json.loads(run(place, "--only", "1 / 100").stdout)["results"][0]["metrics"]
    path = place / "out" / "1-100" / "run-1"
    answers = (path / "answers.jsonl").read_bytes()
    (path / "answers.jsonl").write_bytes(answers[: len(answers) - 20])
    (path / "judgements.jsonl").write_bytes(b'{"id": "q1", "judg')
    before = len(model.requests)
    again = json.loads(run(place, "--only", "1 / 100").stdout)["results"][0]["metrics"]
    assert len(model.requests) == before
    for each in (whole, again):
        del each["seconds"], each["characters_per_second"]
    assert again == whole


def test_an_unreadable_verdict_is_missing_and_asked_again(place: Path, model: Connected) -> None:
    model.answer = lambda request: "?" if request.tag.stage == "judge" else by_rote(request)
    found = run(place, "--only", "1 / 100")
    said = json.loads(found.stdout)
    relevance = said["results"][0]["metrics"]["judges"]["relevance"]
    assert found.exit_code == 3
    assert (relevance["mean"], relevance["values"], relevance["missing"]) == (None, 0, 2)
    assert any("relevance: 2 of 2 values are missing" in each for each in said["warnings"])


def test_an_answer_that_fails_is_tried_again(place: Path, model: Connected) -> None:
    def refuses(request: ChatRequest) -> str:
        if request.tag.stage == "answer" and "dogs do?" in str(request.messages):
            raise ModelError("no", model="openai:test")
        return by_rote(request)

    model.answer = refuses
    found = run(place, "--only", "1 / 100")
    metrics = json.loads(found.stdout)["results"][0]["metrics"]
    assert found.exit_code == 1, found.output
    assert (list(metrics["failed"]), metrics["answers"]) == (["run 1, q2"], 1)
    model.answer = by_rote
    metrics = json.loads(run(place, "--only", "1 / 100").stdout)["results"][0]["metrics"]
    assert (metrics["failed"], metrics["answers"]) == ({}, 2)


def test_options_that_change_answers_and_other_texts_need_another_folder(
    place: Path, model: Connected
) -> None:
    run(place, "--only", "1 / 100")
    found = run(place, "--only", "1 / 100", "-o", "temperature=1")
    assert "options was {} and is {'temperature': 1.0}" in found.output
    assert run(place, "--only", "1 / 100", "-o", "concurrency=1").exit_code == 0
    (place / "docs" / "a.txt").write_text("Cats do purr when they are content.")
    assert "documents: digest was" in run(place, "--only", "1 / 100").output


def test_an_answer_without_a_stage_is_said_and_tried_again(place: Path, model: Connected) -> None:
    def refuses(request: ChatRequest) -> str:
        if request.tag.stage == "transform":
            raise ModelError("no", model="openai:test")
        return by_rote(request)

    model.answer = refuses
    (place / "grid.toml").write_text(GRID.replace("[base]", '[base]\n"query.transform" = "hyde"'))
    said = json.loads(run(place, "--only", "1 / 100").stdout)
    why = "1 / 100: 2 answers of 2 went on without query, which failed; run it again."
    assert said["warnings"][0] == why
    path = place / "out" / "1-100" / "run-1" / "answers.jsonl"
    before = path.read_bytes()
    run(place, "--only", "1 / 100")  # what fails again leaves the answers that are there
    assert path.read_bytes() == before
    model.answer = lambda request: "woof" if request.tag.stage == "answer" else by_rote(request)
    metrics = json.loads(run(place, "--only", "1 / 100").stdout)["results"][0]["metrics"]
    assert (metrics["without"], metrics["answers"]) == ({}, 2)
    # The new answer was judged, not the former; q2 has the same passages, so the same answer.
    assert metrics["judges"]["f1"]["questions"] == {"q1": 0, "q2": pytest.approx(2 / 3)}


def test_the_budget_is_of_all_pipelines_and_judges(place: Path, model: Connected) -> None:
    found = run(place, "-o", "max_calls=3")
    assert found.exit_code == 1
    assert len(model.requests) == 3
    assert run(place).exit_code == 0
    assert len(model.requests) == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('judges = ["relevance", "f1"]', 'judges = ["rouge"]', "there is no judge 'rouge'"),
        ('title = "A grid"', "", "toml: the key 'title' is missing; add it"),
        ('"answer.style"', '"style"', "a pipeline without a ranker takes no option 'style'"),
        ("levels = [1, 2]", "levels = [1]", "at least 2 items"),
        ("levels = [1, 2]", "levels = [1, 0]", "documents must be at least 1, not 0"),
        ('name = "words"', 'name = "documents"', "is there twice"),
        ('name = "words"', 'name = "two words"', "write one word"),
        ('preset = "naive"', 'preset = "nave"', "no preset and no file 'nave'"),
        ('"retrieval.by" = "bm25"', '"retrieval.bye" = "bm25"', "retrieval.bye"),
        ('"retrieval.by" = "bm25"', "cache_variant = 2", "set runs = N"),
        ('documents = "docs"', 'documents = "docs"\nindex = "i"', "do not go together"),
        ("title", "title [", "not TOML"),
        ("C(words)", "C(pages)", "anova: 'pages' is no judge and no factor"),
        ("f1 ~", "rouge ~", "anova: 'rouge' is no judge and no factor"),
        ("f1 ~", "f1 =", "formula="),
        ("[base]", '[[pipelines]]\nlabel = "A"\ntheirs = {rouge = 1.0}\n[base]', "judge 'rouge'"),
        ("ours = true", "our = true", "no option 'factors 2.our'; did you mean 'factors 2.ours'?"),
    ],
)
def test_what_is_wrong_with_a_suite_is_said(place: Path, old: str, new: str, said: str) -> None:
    (place / "grid.toml").write_text(GRID.replace(old, new, 1))
    with pytest.raises(SuiteError) as caught:
        load_suite(place / "grid.toml")
    assert said in str(caught.value)


def test_shipped_suites_are_those_of_the_papers() -> None:
    sizes = {name: len(load_suite(name).pipelines) for name in shipped_suites("answers")}
    assert sizes == {"g_rag": 96, "rankrag_table2": 5, "rebel_fig1": 8}
    ours = [*note.ours] if (note := load_suite("g_rag").pipelines[0].note) else []
    assert "augmentation" not in ours
    assert len(ours) == 5


def test_sums_by_hand() -> None:
    def answer(name: str, text: str, seconds: float, reused: int = 0) -> RAGResult:
        stage = StageRecord(
            name="answer",
            seconds=seconds,
            calls=1,
            input_tokens=10,
            reused=reused,
            reused_tokens=(100 * reused, 7 * reused),
            cost=0.5,
            reused_cost=0.25 * reused,
        )
        vectors = StageRecord(name="retrieval", calls=9, input_tokens=9)
        stages = (vectors, stage)
        return RAGResult(question="?", id=name, text=text, kind="answer", stages=stages)

    def value(found: float | None, **more: Any) -> dict[str, Judgement]:
        return {"f1": Judgement(found, **more)}

    first = [(answer("a", "1234", 2.0), value(1.0)), (answer("b", "12", 1.0), value(0.0))]
    second = [
        (answer("a", "123456", 9.0, reused=1), value(0.5)),
        (answer("b", "x", 3.0), value(None, why="no golden answer", undefined=True)),
    ]
    found = metrics_of([first, second], ["f1"], {"run 2, c": "no"}, 3)
    judge = found.judges["f1"]
    # An answer that failed counts with the lowest value, which could have been another.
    assert judge.questions == {"a": 0.75, "b": 0.0, "c": 0.0}
    assert judge.mean == 0.25
    assert judge.run_means == (0.5, 0.25)
    assert (judge.values, judge.missing, judge.undefined) == (4, 0, 1)
    assert judge.failed == {"c": "there is no answer: no"}
    assert list(judge.as_values("f1").ends) == pytest.approx([0.25, 1.75 / 3])
    assert judge.reasons == {"no golden answer": 1}
    assert (found.calls, found.cost, found.answers) == (5, 2.25, 4)
    assert (found.input_tokens, found.output_tokens) == (140, 7)
    assert found.seconds == 2.0  # the median of 2, 1 and 3: one answer was in the ledger
    assert found.characters_per_second == 7 / 6
    assert AnswerMetrics.model_validate_json(found.model_dump_json()) == found


def test_one_pipeline_that_cannot_be_made_and_nothing_is_asked(
    place: Path, model: Connected
) -> None:
    extra = '[[pipelines]]\nlabel = "late"\n"rerank.ranker" = "likelihood"\n[base]'
    (place / "grid.toml").write_text(GRID.replace("[base]", extra))
    found = run(place)
    assert found.exit_code != 0
    assert not model.requests
