"""``mcranker demo`` with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from click.testing import CliRunner

import beir_eval
from beir_eval.cli.demo import LIMITS_OF_ENCODERS
from mcranker import ChatRequest
from mcranker.cli import cli
from tests.support.scripted import scripted


@pytest.fixture
def ideal(monkeypatch: pytest.MonkeyPatch) -> None:
    qrels = beir_eval.load("mini").qrels

    def score(request: ChatRequest) -> str:
        grade = qrels[request.tag.query_id].get(request.tag.doc_id, 0)
        return json.dumps({"Score": 5 * grade})

    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("mcranker.llm.models.connect", lambda *_, **__: scripted(score))


def _best_first(
    hits: Sequence[tuple[str, float]], grades: Mapping[str, int]
) -> list[tuple[str, float]]:
    ids = sorted((doc_id for doc_id, _ in hits), key=lambda doc_id: -grades.get(doc_id, 0))
    return [(doc_id, -float(rank)) for rank, doc_id in enumerate(ids)]


@pytest.mark.usefixtures("ideal")
def test_a_judge_who_knows_the_grades_reaches_the_best_order_of_what_bm25_found() -> None:
    result = CliRunner().invoke(cli, ["demo", "--queries", "2", "--depth", "20", "--model", "x:y"])
    assert result.exit_code == 0, result.output

    dataset = beir_eval.load("mini")
    run = beir_eval.retrieve(dataset, 20)
    queries = list(dataset.queries)[:2]
    qrels = {query: dataset.qrels[query] for query in queries}
    ideal = {query: _best_first(run[query], qrels[query]) for query in queries}
    mean = beir_eval.evaluate(ideal, qrels).means["nDCG@10"]
    before = beir_eval.evaluate({query: run[query] for query in queries}, qrels).means["nDCG@10"]
    means = next(line for line in result.output.splitlines() if line.startswith(" mean"))
    assert means.split()[1:3] == [f"{before:.3f}", f"{mean:.3f}"]
    assert f"The team {mean:.3f} against {before:.3f}, not tested (2 queries)." in result.output
    assert "What to make of this" not in result.output


@pytest.mark.local_model
def test_without_a_key_the_demo_claims_nothing_and_says_what_the_encoder_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(cli, ["demo", "--queries", "2", "--depth", "3"])
    assert result.exit_code == 0, result.output
    assert "not tested (2 queries)." in result.output
    assert "Judged by local:minilm, an encoder: compares meaning, does not reason." in result.output
    assert len(LIMITS_OF_ENCODERS.splitlines()) == 3
    assert LIMITS_OF_ENCODERS in result.output
