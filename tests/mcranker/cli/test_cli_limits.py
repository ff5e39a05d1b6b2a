"""``--dry-run``, budgets, deadlines and models that are down, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from mcranker import ChatRequest
from mcranker.cli.progress import check_local_models
from mcranker.errors import InputError, ServerFailed
from tests.support.cli_support import Connected, Run, answer


@pytest.fixture(autouse=True)
def wide(models: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_a_dry_run_shows_calls_by_stage_and_persona(run: Run, models: Connected) -> None:
    result = run("rank", "q", "a", "b", "--dry-run", "--model", "openai:gpt-5-mini")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[1][:6] == ["stage", "persona", "model", "calls", "in", "ledger"]
    assert ["score", "Recruit", "2", "openai:gpt-5-mini", "2", "0"] in [row[:6] for row in rows]
    assert ["recruit", "openai:gpt-5-mini", "1", "0"] in [row[:4] for row in rows]
    summary = result.stdout.splitlines()[-1]
    assert summary.startswith("10 calls, about ")
    assert "about $0.00" in summary
    assert "at most $0." in summary
    assert summary.endswith("; nothing was sent")
    assert models.requests == []


def test_answers_of_the_ledger_are_told_apart(run: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    ranked = run("rank", "q", "a", "b", "--ledger", ledger)
    assert ranked.exit_code == 0
    assert "from the ledger" not in ranked.stdout
    shown = run("rank", "q", "a", "b", "c", "--ledger", ledger, "--dry-run")
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["score", "Virologist", "openai:default", "1", "2"] in [row[:5] for row in rows]
    assert "3 calls, 10 answers from the ledger, about " in shown.stdout
    again = run("rank", "q", "a", "b", "c", "--ledger", ledger)
    assert "3 calls, 10 answers from the ledger, " in again.stdout


def test_a_dry_run_fetches_no_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"local:smollm2-135m is not .* models --download smollm2"):
        check_local_models(["openai:x", "local:smollm2-135m"])
    check_local_models(["openai:smollm2-135m", f"local:{tmp_path}/other.gguf"])


def test_what_was_ranked_within_the_budget_is_written(
    run: Run, models: Connected, many: list[str | Path], tmp_path: Path
) -> None:
    flags = ["--output", "trec", "-o", "query_concurrency=1"]
    planned = run(*many, *flags, "--dry-run", "--out", tmp_path / "out.trec")
    assert (planned.exit_code, "20 calls" in planned.stdout, models.requests) == (0, True, [])
    assert not (tmp_path / "out.trec").exists()
    result = run(*many, *flags, "-o", "max_calls=15")
    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["q1", "q1"]
    done, line = result.stderr.splitlines()
    assert done.startswith("mcranker: ranking: 2 of 2 queries, 10 calls")
    assert line.startswith("mcranker: error: 1 of 2 queries not ranked; the first, 'q2': ")
    assert "-o max_calls=15 is used up" in line


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
