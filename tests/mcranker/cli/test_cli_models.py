"""``mcranker models``, and the embedded default, its model replaced by a tiny one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcranker import ChatRequest
from mcranker.errors import AuthenticationFailed
from mcranker.llm.connect import better_judges
from tests.support.cli_support import Connected, Run, invoke
from tests.support.tiny_encoder import judge, use


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
    path = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    monkeypatch.setattr("mcranker.llm.local.model_files.download", lambda entry: path)
    result = run("models", "--download", "smollm2-135m")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path}/SmolLM2-135M-Instruct.Q4_1.gguf\n"
    assert result.stderr == "mcranker: fetching smollm2-135m (98 MB)\n"


DOCS = ("how bread is baked", "which masks help against viruses")


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    for name in ("MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for module in ("mcranker.llm.models", "mcranker.cli.models"):
        monkeypatch.setattr(f"{module}.connect", lambda *_, **__: judge())
    monkeypatch.setattr("mcranker.cli.rank.fetch_models", lambda models, quiet: None)
    monkeypatch.setattr("mcranker.cli.models.fetch_models", lambda models, quiet: None)


@pytest.mark.usefixtures("embedded")
def test_rank_says_in_one_sentence_what_would_judge_better() -> None:
    result = invoke("rank", "masks against viruses", *DOCS, "--output", "json")
    assert result.exit_code == 0, result.output
    said = result.stderr.splitlines()
    assert len(said) == 1
    assert "Judged by local:minilm, an encoder: compares meaning, does not reason." in said[0]
    assert better_judges() in said[0]
    hits = json.loads(result.stdout)["ranking"]["hits"]
    assert [hit["doc_id"] for hit in hits] == ["1", "0"]
