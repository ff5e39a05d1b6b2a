"""The commands with the embedded default, its model replaced by a tiny one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcranker.llm.connect import better_judges
from mcranker.retrieval.vectors import Vector, VectorStore, default_vectors_path
from tests.support.cli_support import invoke
from tests.support.tiny_encoder import judge, use

DOCS = ("how bread is baked", "which masks help against viruses")


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    for name in ("MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TYPESAFE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for module in ("mcranker.models", "mcranker.cli.doctor"):
        monkeypatch.setattr(f"{module}.connect", lambda *_, **__: judge())
    monkeypatch.setattr("mcranker.cli.rank.fetch_models", lambda models, quiet: None)
    monkeypatch.setattr("mcranker.cli.doctor.is_here", lambda entry: True)


def test_rank_says_in_one_sentence_what_would_judge_better() -> None:
    result = invoke("rank", "masks against viruses", *DOCS, "--output", "json")
    assert result.exit_code == 0, result.output
    said = result.stderr.splitlines()
    assert len(said) == 1
    assert "Judged by local:minilm, an encoder: compares meaning, does not reason." in said[0]
    assert better_judges() in said[0]
    hits = json.loads(result.stdout)["ranking"]["hits"]
    assert [hit["doc_id"] for hit in hits] == ["1", "0"]


@pytest.mark.parametrize("flags", [("--quiet",), ("--model", "local:minilm")])
def test_who_names_the_model_or_wants_quiet_is_told_nothing(flags: tuple[str, ...]) -> None:
    result = invoke("rank", "masks", *DOCS, *flags)
    assert result.exit_code == 0, result.output
    assert better_judges() not in result.stderr


def test_doctor_asks_it_a_typed_question_and_suggests_a_better_one() -> None:
    result = invoke("doctor", "--output", "json")
    findings = {each["code"]: each for each in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 0, result.stdout
    assert "yes with probability" in findings["answer"]["sentence"]
    assert "no chat model" in findings["connection"]["sentence"]
    assert findings["better judges"]["sentence"] == better_judges()


@pytest.mark.parametrize("state", ["off", "absent", "there", "broken"])
def test_doctor_tells_of_the_vectors(
    state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "vectors"
    monkeypatch.setenv("MCRANKER_VECTORS", "none" if state == "off" else str(path))
    if state == "broken":
        path.write_bytes(b"the file of an older version")
    if state == "there":
        vector = Vector(np.array([1], np.float16), 1)
        VectorStore(path, mark="any").keep([("one", vector)])
    result = invoke("doctor", "--no-call", "--output", "json")
    found = {each["code"]: each for each in json.loads(result.stdout)["findings"]}["vectors"]
    expected = {
        "off": ("note", "MCRANKER_VECTORS turns it off"),
        "absent": ("note", "is made with the first vector"),
        "there": ("good", "1 vector"),
        "broken": ("bad", "delete it"),
    }[state]
    assert found["kind"] == expected[0]
    assert expected[1] in found["sentence"]
    assert (default_vectors_path() is None) == (state == "off")
