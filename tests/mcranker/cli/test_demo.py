"""The demonstration: a recorded team, which every change of the prompts has to keep whole."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcranker import ConfigError, MCRanker
from mcranker.cli.group import cli
from mcranker.demo import QUERY, WISH, passages, rankings, recorded
from mcranker.llm.recording import RECORDED
from tests.support.scripted import scripted


def test_the_recording_answers_every_prompt_of_the_example(tmp_path: Path) -> None:
    ledger = tmp_path / "masks.ledger"
    shutil.copyfile(recorded("masks.ledger"), ledger)
    before, after = asyncio.run(rankings(RECORDED, ledger))
    for ranking in (before, after):
        # After other prompts: python examples/record.py MODEL examples/masks.ledger
        assert not ranking.missing
        assert ranking.usage.calls == 0
        assert ranking.criteria_used
        assert all(hit.reasons for hit in ranking)
        assert ranking.models["scoring"] == RECORDED
    assert before.team is not None
    assert after.team is not None
    assert after.team.members[1].rubric is not None
    assert WISH in [each.name for each in after.team.members[1].rubric.criteria]


def test_the_demo_needs_no_key_and_changes_no_file(tmp_path: Path) -> None:
    def digest() -> str:
        return hashlib.sha256(recorded("masks.ledger").read_bytes()).hexdigest()

    kept = digest()
    shown = CliRunner().invoke(cli, ["demo"])
    assert shown.exit_code == 0
    assert "A recording: a large model" in shown.stdout
    assert WISH in shown.stdout
    assert "NLP scientist" in shown.stdout
    page = tmp_path / "demo.html"
    assert CliRunner().invoke(cli, ["demo", "--html", str(page)]).exit_code == 0
    assert RECORDED in page.read_text("utf-8")
    assert digest() == kept


def test_offline_the_ledger_alone_answers_and_what_it_lacks_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ledger, docs = tmp_path / "l.sqlite", ["a mask", "another mask"]
    options = {"team": ["clinician"], "criteria": "library", "ledger": ledger, "offline": True}
    model = scripted()
    with MCRanker(model=model, team=["clinician"], ledger=ledger) as asked:
        asked.rank("masks", docs[:1])
    with MCRanker(model="openai:some-model", **options) as ranker:  # type: ignore[arg-type]
        found = ranker.rank("masks", docs)
    assert [each.reason for each in found.missing] == [found.missing[0].reason] * 2
    with MCRanker(model=model, **options) as ranker:  # type: ignore[arg-type]
        found = ranker.rank("masks", docs)
    assert [hit.score is None for hit in found] == [False, True]
    assert "the ledger has no answer" in found.missing[0].reason
    for absent in (None, tmp_path / "mistyped"):
        with pytest.raises(ConfigError, match="name it: ledger=FILE"):
            MCRanker(model=model, offline=True, ledger=absent)


def test_the_example_is_the_one_of_the_readme() -> None:
    assert f'mcranker rank "{QUERY}"' in (Path(__file__).parents[3] / "README.md").read_text(
        "utf-8"
    )
    assert len(passages()) == 8
