"""``mcranker models`` in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest
from mcranker.errors import AuthenticationFailed
from tests.support.cli_support import Connected, Run


def test_the_model_is_checked(run: Run, models: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    result = run("models", "--check")
    assert result.exit_code == 0, result.output
    assert "sk-secret" not in result.output
    assert "openai:test: named by MCRANKER_MODEL" in result.stdout
    assert result.stdout.splitlines()[-1] == "ok      answer  'OK'"
    assert len(models.requests) == 1

    def refusing(request: ChatRequest) -> str:
        raise AuthenticationFailed("the key is wrong; set OPENAI_API_KEY")

    models.answer = refusing
    monkeypatch.delenv("OPENAI_API_KEY")
    result = run("models", "--check", "--output", "json")
    assert result.exit_code == 1
    whole = json.loads(result.stdout)
    assert [(each["check"], each["ok"]) for each in whole["checks"]] == [
        ("model", True),
        ("key", False),
        ("ledger", True),
        ("answer", False),
    ]
    assert whole["errors"][-1]["message"] == "the key is wrong; set OPENAI_API_KEY"


def test_a_ledger_that_is_none_is_found(
    run: Run, models: Connected, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "l.sqlite"
    file.write_text("no ledger" * 100)
    monkeypatch.setenv("MCRANKER_LEDGER", str(file))
    checks = json.loads(run("models", "--check", "--output", "json").stdout)["checks"]
    assert {each["check"]: each["ok"] for each in checks}["ledger"] is False


def test_models_lists_the_catalogue(run: Run, tmp_path: Path) -> None:
    result = run("models")
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if "smollm2-135m" in line)
    assert row.split()[:5] == ["smollm2-135m", "98", "MB", "Apache-2.0", "chat"]
    folder = tmp_path / "cache" / "models"
    folder.mkdir(parents=True)
    (folder / "qwen2.5-1.5b-instruct-q4_k_m.gguf").write_bytes(b"x")
    listed = json.loads(run("models", "--output", "json").stdout)["models"]
    assert [each["name"] for each in listed if each["downloaded"]] == ["qwen2.5-1.5b"]


def test_models_download_says_where_the_file_is(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(entry: Any, *, progress: Callable[[int, int | None], None]) -> Path:
        progress(50, 100)
        return tmp_path / str(entry.file)

    monkeypatch.setattr("mcranker.llm.local.model_files.download", download)
    result = run("models", "--download", "smollm2-135m")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path}/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    assert result.stderr == "mcranker: fetching smollm2-135m (100 B)\n"
