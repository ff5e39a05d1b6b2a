"""The commands with the embedded default, its model replaced by a tiny one."""

from __future__ import annotations

import json

import pytest

from mcranker.llm.connect import better_judges
from tests.support.cli_support import invoke
from tests.support.tiny_encoder import judge, use

DOCS = ("how bread is baked", "which masks help against viruses")


@pytest.fixture(autouse=True)
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    for name in ("MCRANKER_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for module in ("mcranker.llm.models", "mcranker.cli.models"):
        monkeypatch.setattr(f"{module}.connect", lambda *_, **__: judge())
    monkeypatch.setattr("mcranker.cli.rank.fetch_models", lambda models, quiet: None)
    monkeypatch.setattr("mcranker.cli.models.fetch_models", lambda models, quiet: None)


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


def test_the_check_asks_it_a_typed_question_and_suggests_a_better_one() -> None:
    result = invoke("models", "--check", "--output", "json")
    said = {each["check"]: each["said"] for each in json.loads(result.stdout)["checks"]}
    assert result.exit_code == 0, result.stdout
    assert "yes with probability" in said["answer"]
    assert better_judges() in said["model"]
