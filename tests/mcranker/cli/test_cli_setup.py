"""``mcranker doctor`` and ``mcranker models`` in this process."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcranker import ChatRequest
from mcranker.errors import AuthenticationFailed, ModelError
from tests.support.cli_support import Connected, Run


def test_doctor(run: Run, models: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    result = run("doctor")
    assert result.exit_code == 0, result.output
    assert "sk-secret" not in result.output
    lines = {tuple(line.split()[:2]) for line in result.stdout.splitlines()}
    assert {("ok", "OPENAI_API_KEY"), ("missing", "ANTHROPIC_API_KEY")} <= lines
    assert "openai:test: named by MCRANKER_MODEL" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("ok      answer              'OK' in ")
    assert len(models.requests) == 1

    assert run("doctor", "--no-call").exit_code == 0
    assert len(models.requests) == 1

    def refusing(request: ChatRequest) -> str:
        raise AuthenticationFailed("the key is wrong; set OPENAI_API_KEY")

    models.answer = refusing
    result = run("doctor", "--output", "json")
    assert result.exit_code == 1
    whole = json.loads(result.stdout)
    assert whole["findings"][-1] == {
        "kind": "bad",
        "code": "answer",
        "sentence": "the key is wrong; set OPENAI_API_KEY",
    }


def test_doctor_lists_all_extras_that_users_have(run: Run) -> None:
    file = Path(__file__).parents[3] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    findings = json.loads(run("doctor", "--no-call", "--output", "json").stdout)["findings"]
    listed = {each["code"].removeprefix("extra ") for each in findings if "extra " in each["code"]}
    assert listed == set(project["optional-dependencies"]) - {"browser", "dev"}


def test_doctor_without_a_way_to_the_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def unconnected(*_: object, **__: object) -> None:
        raise ModelError("there is no key")

    monkeypatch.setattr("mcranker.cli.doctor.connect", unconnected)
    result = run("doctor")
    assert result.exit_code == 1
    assert "failed  connection          there is no key" in result.stdout
    result = run("doctor", "--no-call", "--model", "local:qwen2.5-1.5b")
    assert result.exit_code == 1
    assert "mcranker models download qwen2.5-1.5b" in result.stdout


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
    result = run("models", "download", "smollm2-135m")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path}/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    assert result.stderr == "mcranker: fetching smollm2-135m (100 B)\n"
