"""``mcranker rank --dry-run``, and runs that stop at their budget, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcranker.cli.results import check_local_models
from mcranker.errors import InputError
from tests.support.cli_support import Connected, Run


@pytest.fixture(autouse=True)
def wide(models: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def many(tmp_path: Path) -> list[str | Path]:
    """Arguments for three queries, each with two passages."""
    queries, corpus, bm25 = (tmp_path / name for name in ("queries.tsv", "corpus.tsv", "run.trec"))
    queries.write_text("q1\tone\nq2\ttwo\nq3\tthree\n")
    corpus.write_text("".join(f"d{number}\ttext {number}\n" for number in range(6)))
    bm25.write_text(
        "".join(
            f"q{query} Q0 d{2 * query - 2 + place} {place + 1} {9 - place} bm25\n"
            for query in (1, 2, 3)
            for place in (0, 1)
        )
    )
    return ["rank-run", bm25, "--queries", queries, "--corpus", corpus]


def test_a_dry_run_shows_calls_by_stage_and_persona(run: Run, models: Connected) -> None:
    result = run("rank", "q", "a", "b", "--dry-run", "--model", "openai:gpt-5-mini")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[1][:5] == ["stage", "persona", "calls", "in", "ledger"]
    assert ["score", "Recruit", "2", "2", "0"] in [row[:5] for row in rows]
    assert ["recruit", "1", "0"] in [row[:3] for row in rows]
    summary = result.stdout.splitlines()[-1]
    assert summary.startswith("10 calls, about ")
    assert "about $0.00" in summary
    assert "at most $0." in summary
    assert summary.endswith(", openai:gpt-5-mini; nothing was sent")
    assert models.requests == []


def test_several_models_are_told_apart(run: Run) -> None:
    flags = ["--model", "openai:gpt-5-mini", "-o", "scoring_model=openai:other"]
    lines = run("rank", "q", "a", "b", "--dry-run", *flags).stdout.splitlines()
    rows = [line.split() for line in lines]
    assert rows[1][:3] == ["stage", "persona", "model"]
    assert ["score", "Recruit", "2", "openai:other", "2", "0"] in [row[:6] for row in rows]
    assert ["recruit", "openai:gpt-5-mini", "1", "0"] in [row[:4] for row in rows]
    assert lines[-1].endswith(
        "no price is known, openai:gpt-5-mini, openai:other; nothing was sent"
    )


def test_a_dry_run_says_what_it_cannot_know(run: Run) -> None:
    def summary(*args: str | int) -> str:
        return str(run("rank", "q", "a", "b", "--dry-run", *args).stdout.splitlines()[-1])

    assert "no price is known" in summary()
    local = summary("--model", "local:x.gguf")
    assert "price" not in local
    assert "$" not in local


def test_a_dry_run_as_json(run: Run, models: Connected) -> None:
    result = run("rank", "q", "a", "b", "--dry-run", "--output", "json")
    whole = json.loads(result.stdout)
    assert (whole["status"], whole["exit_code"], whole["errors"]) == ("ok", 0, [])
    assert whole["estimate"]["calls"] == 10
    assert whole["estimate"]["cost"] is None
    assert sum(row["calls"] for row in whole["estimate"]["by_stage"]) == 10
    assert models.requests == []


def test_answers_of_the_ledger_are_told_apart(run: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    ranked = run("rank", "q", "a", "b", "--ledger", ledger)
    assert ranked.exit_code == 0
    assert "from the ledger" not in ranked.stdout
    shown = run("rank", "q", "a", "b", "c", "--ledger", ledger, "--dry-run")
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["score", "Virologist", "1", "2"] in [row[:4] for row in rows]
    assert "3 calls, 10 answers from the ledger, about " in shown.stdout
    again = run("rank", "q", "a", "b", "c", "--ledger", ledger)
    assert "3 calls, 10 answers from the ledger, " in again.stdout


def test_many_personas_are_shown_together(run: Run) -> None:
    names = run("rank", "q", "a", "--dry-run", "--team-size", 20).stdout
    assert len([line for line in names.splitlines() if line.split()[:1] == ["score"]]) == 20
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mcranker.cli.results.MOST_NAMED", 19)
        together = run("rank", "q", "a", "--dry-run", "--team-size", 20).stdout
    rows = [line.split() for line in together.splitlines()]
    assert ["score", "20", "personas", "20", "0"] in [row[:5] for row in rows]


def test_a_dry_run_fetches_no_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"local:smollm2-135m is not .* models --download smollm2"):
        check_local_models(["openai:x", "local:smollm2-135m"])
    check_local_models(["openai:smollm2-135m", f"local:{tmp_path}/other.gguf"])


def test_a_ranking_beyond_its_budget_is_one_line(run: Run) -> None:
    result = run("rank", "q", "a", "b", "-o", "max_calls=9")
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("mcranker: error: -o max_calls=9 is used up; ")
    priced = run("rank", "q", "a", "--max-cost", 1)
    assert priced.exit_code == 2
    assert "no price is known for 'openai:default', so --max-cost 1 cannot" in priced.stderr
    assert "use -o max_calls=VALUE instead" in priced.stderr


def test_what_was_ranked_within_the_budget_is_written(
    run: Run, models: Connected, many: list[str | Path], tmp_path: Path
) -> None:
    flags = ["--output", "trec", "-o", "query_concurrency=1"]
    planned = run(*many, *flags, "--dry-run", "--out", tmp_path / "out.trec")
    assert (planned.exit_code, "30 calls" in planned.stdout, models.requests) == (0, True, [])
    assert not (tmp_path / "out.trec").exists()
    result = run(*many, *flags, "-o", "max_calls=25")
    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["q1", "q1", "q2", "q2"]
    (line,) = result.stderr.splitlines()
    assert line.startswith("mcranker: error: 1 of 3 queries not ranked; the first, 'q3': ")
    assert "-o max_calls=25 is used up" in line


def test_queries_that_the_ledger_has_are_ranked_without_a_budget(
    run: Run, many: list[str | Path], tmp_path: Path
) -> None:
    flags = [
        "--output",
        "trec",
        "-o",
        "query_concurrency=1",
        "--ledger",
        tmp_path / "ledger.sqlite",
    ]
    queries = Path(many[3])
    everything = queries.read_text()
    queries.write_text("q3\tthree\n")
    assert run(*many, *flags).exit_code == 0
    queries.write_text(everything)
    result = run(*many, *flags, "-o", "max_calls=0")
    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["q3", "q3"]
    assert "2 of 3 queries not ranked" in result.stderr
