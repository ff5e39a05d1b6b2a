"""Limits of ``mcranker rank``: hits that are returned, deadlines, models that are down."""

from __future__ import annotations

import json
from pathlib import Path

import anyio

from mcranker import ChatRequest
from mcranker.errors import ServerFailed
from tests.support.cli_support import Connected, Run, answer


def test_top_n_and_min_relevance_leave_out_hits(run: Run, docs: Path, tmp_path: Path) -> None:
    whole = json.loads(run("rank", "q", "--docs", docs, "--output", "json").stdout)["ranking"]
    saved = tmp_path / "whole.json"
    limits = ("-o", "top_n=1", "-o", "min_relevance=0.1", "--save", saved)
    result = run("rank", "q", "--docs", docs, "--output", "json", *limits)
    ranking = json.loads(result.stdout)["ranking"]
    assert result.exit_code == 0
    assert ranking["hits"] == whole["hits"][:1]
    assert ranking["absolute"] is True
    (tmp_path / "cut.json").write_text(result.stdout)
    refused = run("inspect", tmp_path / "cut.json")
    said = "min_relevance left out hits: keep all with --save FILE"
    assert (refused.exit_code, said in refused.stderr) == (1, True)
    assert json.loads(saved.read_text())["hits"] == whole["hits"]
    lines = run("rank", "q", "--docs", docs, "--output", "jsonl", "-o", "top_n=1").stdout
    assert json.loads(lines)["doc_id"] == whole["hits"][0]["doc_id"]
    table = run("rank", "q", "--docs", docs, *limits[:4]).stdout
    assert "1 passage left out by min_relevance=0.1 and top_n=1" in table
    assert run("rank", "q", "--docs", docs, "-o", "top_n=0").exit_code == 2
    refused = run("rank", "q", "--docs", docs, "-o", "min_relevance=1.5")
    assert (
        refused.exit_code,
        "-o min_relevance=1.5: Input should be less than or equal to 1" in refused.stderr,
    ) == (2, True)


def test_a_deadline_is_exit_code_3(run: Run, models: Connected, docs: Path) -> None:
    async def stuck(request: ChatRequest) -> str:
        if request.tag.stage == "score" and request.tag.doc_id == "aa":
            await anyio.sleep_forever()
        return answer(request)

    models.answer = stuck
    result = run("rank", "q", "--docs", docs, "--output", "json", "-o", "deadline=0.5")
    whole = json.loads(result.stdout)
    assert (result.exit_code, whole["status"]) == (3, "missing_scores")
    assert [each["code"] for each in whole["errors"]] == ["Deadline", "MissingScores"]
    assert "The deadline came before all scores: 1 of 2" in result.stderr
    ranking = whole["ranking"]
    assert ranking["partial"]
    assert ranking["hits"][-1]["doc_id"] == "aa"
    assert set(ranking["hits"][-1]["missing"].values()) == {"deadline"}


def test_a_model_that_is_down_may_leave_the_order(
    run: Run, models: Connected, docs: Path, many: list[str | Path]
) -> None:
    def down(request: ChatRequest) -> str:
        raise ServerFailed("out of order")

    models.answer = down
    assert run("rank", "q", "--docs", docs).exit_code == 1
    result = run("rank", "q", "--docs", docs, "-o", "on_failure=keep_order", "--output", "json")
    whole = json.loads(result.stdout)
    assert (result.exit_code, whole["status"]) == (3, "missing_scores")
    assert whole["errors"][0]["code"] == "FirstStageOrder"
    assert whole["ranking"]["failure"] == "out of order"
    assert [hit["first_stage_rank"] for hit in whole["ranking"]["hits"]] == [1, 2]
    result = run(*many, "-o", "on_failure=keep_order", "--output", "json")
    assert result.exit_code == 3
    assert "query 'q1': No passage was judged" in result.stderr
    assert run("rank", "q", "--docs", docs, "-o", "on_failure=keep_order").exit_code == 3


def test_passages_that_were_cut_are_told(run: Run, docs: Path) -> None:
    result = run("rank", "q", "one two three", "four", "-o", "max_passage_words=2", "--top", "1")
    assert "for the model, and judged by its beginning" in result.stdout
    refused = run("rank", "q", "--docs", docs, "-o", "max_passage_tokens=20")
    assert refused.exit_code == 1
    assert (
        "which -o max_passage_tokens=20 needs; use -o max_passage_words=VALUE instead"
        in refused.stderr
    )
