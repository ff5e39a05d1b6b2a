"""``beir-eval judge``: grades of a model and their mark, agreement, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beir_eval import load
from beir_eval.cli import cli
from mcranker import ChatRequest
from tests.support.beir_folder import GRADES, write_folder
from tests.support.cli_support import Connected, scripted

RUN = """\
q1 Q0 d3 1 9 x
q1 Q0 d1 2 8 x
q1 Q0 d2 3 7 x
q2 Q0 d4 1 9 x
"""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Connected:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "tiny")
    (tmp_path / "one.trec").write_text(RUN)
    (tmp_path / "two.trec").write_text(RUN.replace("d3 1 9", "d3 1 1"))
    connected = scripted(monkeypatch, tmp_path)
    connected.answer = graded
    return connected


def graded(request: ChatRequest) -> str:
    """People's grades, 2 for what they have not judged; d2 cannot be read."""
    if request.tag.doc_id == "d2" and request.tag.query_id == "q1":
        return "perhaps"
    grade = GRADES[request.tag.query_id].get(request.tag.doc_id, 2)
    return json.dumps({"Intent": "to know", "Match": 1, "Trust": 3, "Score": grade})


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli, ["judge", "tiny", *args])


def mark(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{path}.judge.json").read_text())
    return found


def test_grades_are_written_beside_their_mark(model: Connected) -> None:
    args = ("one.trec", "--out", "model.tsv", "--ledger", "kept.sqlite")
    result = invoke(*args)
    assert result.exit_code == 3, result.output
    assert "model.tsv: 3 judgements" in result.stdout
    # Of the run's four pairs, one has no grade, and is left out.
    judgements = ["q1\td3\t2", "q1\td1\t2", "q2\td4\t1"]
    assert Path("model.tsv").read_text().splitlines()[1:] == judgements
    found = mark("model.tsv")
    assert (found["judge"], found["model"]) == ("umbrela", "openai:default")
    assert found["config"]["scale"] == 3
    assert "umbrela" in found["prompt_hashes"]
    assert list(found["reasons"].values()) == [1]
    asked = [request.tag.doc_id for request in model.requests]
    assert asked.count("d1") == 1

    assert invoke(*args).exit_code == 3
    again = [request.tag.doc_id for request in model.requests[len(asked) :]]
    assert "d1" not in again, "its answer is in the ledger"


def test_judgements_of_a_model_are_said_wherever_they_are_read(model: Connected) -> None:
    assert invoke("one.trec", "--out", "tiny/qrels/model.tsv").exit_code == 3
    evaluate = ["evaluate", "one.trec", "--qrels", "tiny/qrels/model.tsv"]
    result = CliRunner().invoke(cli, evaluate)
    note = "its judgements are a model's, openai:default"
    assert result.exit_code == 0
    assert f"warning: tiny/qrels/model.tsv: {note}" in " ".join(result.stderr.split())
    assert load("tiny", split="model").description.endswith(note)


def test_agreement_and_order_are_in_the_envelope(model: Connected) -> None:
    result = invoke("one.trec", "two.trec", "--check", "--output", "json")
    found = json.loads(result.stdout)["judging"]
    # People's 0, 1 and 2 count as 0, 2 and 3; the judge gave 0, 1 and 2.
    assert found["agreement"]["confusion"] == {
        "0": [2, 0, 0, 0],
        "1": [0, 6, 0, 0],
        "2": [0, 0, 4, 0],
    }
    # 2 of 12 agree; by chance (2 · 2 + 6 · 4) / 144.
    chance = 28 / 144
    assert found["agreement"]["kappa"]["value"] == pytest.approx((2 / 12 - chance) / (1 - chance))
    assert found["agreement"]["recall"]["value"] == pytest.approx(4 / 10)
    assert found["agreement"]["false_positives"]["value"] == 0
    assert {*found["systems"]["means"]} == {"one", "two"}
    assert found["missing"] == 1
    said = " ".join(found["warnings"])
    assert "2 systems: with fewer than 5" in said
    assert "models are not known: one, two" in said
    table = invoke("one.trec", "two.trec", "--check", "--map", "0:0,1:1,2:2")
    assert "kappa" in table.stdout
    assert "1.000" in table.stdout


def test_model_does_not_judge_what_it_ranked(model: Connected) -> None:
    model.answer = lambda request: '{"Score": 1}'
    made = ["run", "--dataset", "tiny", "--ranker", "direct", "--out", "runs", "--depth", "4"]
    assert CliRunner().invoke(cli, [*made, "--limit", "1"]).exit_code == 0
    model.requests.clear()
    refused = invoke("runs", "--out", "model.tsv")
    assert refused.exit_code == 1
    assert not model.requests
    assert not Path("model.tsv").exists()
    assert "'openai:default' made the run 'DIRECT(0,10)'" in refused.stderr
    forced = invoke("runs", "--out", "model.tsv", "--same-model")
    assert forced.exit_code == 0
    assert "made itself: DIRECT(0,10)" in forced.stderr
    assert mark("model.tsv")["own"] == ["DIRECT(0,10)"]
    assert invoke("runs", "--out", "other.tsv", "--model", "openai:other").exit_code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("one.trec",), "give --out FILE"),
        (("--out", "f.tsv"), "give runs whose documents"),
        (("one.trec", "--out", "tiny/qrels/test.tsv"), "would replace people's judgements"),
        (("one.trec", "--check", "--map", "0=1"), "write e.g. 0:0"),
        (("strange.trec", "--check"), "'q9'"),
        (("one.trec", "--check", "-o", "top_n=3"), "'judge' takes no option 'top_n' here; leave"),
        (("one.trec", "--check", "-o", "ranker=qg"), "'judge' takes no option 'ranker' here"),
        (("one.trec", "--check", "--team", "medicine"), "'judge' takes no option 'team' here"),
        (("one.trec", "--out", "f.tsv", "--sample", "3"), "--sample goes with --check"),
    ],
)
def test_what_makes_no_sense_is_refused(args: tuple[str, ...], said: str, model: Connected) -> None:
    Path("strange.trec").write_text("q9 Q0 d1 1 9 x\n")
    before = Path("tiny/qrels/test.tsv").read_bytes()
    result = invoke(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not model.requests
    assert Path("tiny/qrels/test.tsv").read_bytes() == before


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--split", "model", "--check"), "split 'model': its judgements are a model's"),
        (("--check", "--map", "0:0,1:2"), "people's grade 2 has no place"),
    ],
)
def test_judgements_that_do_not_do_are_refused_before_a_call(
    args: tuple[str, ...], said: str, model: Connected
) -> None:
    assert invoke("one.trec", "--out", "tiny/qrels/model.tsv").exit_code == 3
    before = mark("tiny/qrels/model.tsv")
    model.requests.clear()
    result = invoke("one.trec", *args, "--ledger", "none")
    assert result.exit_code == 1
    assert said in " ".join(result.stderr.split())
    assert not model.requests
    assert mark("tiny/qrels/model.tsv") == before


def test_dry_run_counts_a_call_a_pair(model: Connected) -> None:
    result = invoke("one.trec", "--dry-run", "--output", "json")
    assert json.loads(result.stdout)["estimate"]["calls"] == 4
    assert not model.requests
