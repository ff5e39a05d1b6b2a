"""What a ranking tells of answers that were in the ledger already."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcranker import MCRanker, Ranking
from tests.support.scripted import scripted


def test_a_ranking_and_its_report_say_what_came_from_the_ledger(tmp_path: Path) -> None:
    ledger, page = tmp_path / "ledger.sqlite", tmp_path / "why.html"
    for _ in range(2):
        with MCRanker(model=scripted(), team="health_questions", ledger=ledger) as ranker:
            ranking = ranker.rank("q", ["one", "two"])
    assert (ranking.usage.calls, ranking.reused.calls) == (0, 6)
    assert ranking.models == {"scoring": "scripted:function"}
    restored = Ranking.from_dict(ranking.to_dict())
    assert restored.reused == ranking.reused
    assert len(restored.calls.reused.by("persona")) == 3
    ranking.to_html(page)
    assert "6 answers from the ledger" in page.read_text(encoding="utf-8")


def test_a_model_of_ones_own_takes_part_only_where_a_ledger_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_LEDGER", str(tmp_path / "ledger.sqlite"))
    for _ in range(2):
        with MCRanker(model=scripted(), team="health_questions") as ranker:
            assert ranker.rank("q", ["one"]).reused.calls == 0
    assert not (tmp_path / "ledger.sqlite").exists()
