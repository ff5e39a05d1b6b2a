"""Rankings that an earlier version saved, by each kind of ranker, are read with their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcranker import Ranking
from personas.ranking.stored import with_current_names
from personas.report import render_inspection
from tests.support.inspection_report import Page

FILES = sorted((Path(__file__).parent / "version_1").glob("*.json"))
FORMER = {"relevance", "scale", "skipped", "at_most"}
"""What meant something else in that version, or is gone."""


def holds(now: Any, former: Any) -> bool:
    """Whether all that was stored formerly is there, with the same values."""
    if isinstance(former, dict) and isinstance(now, dict):
        return all(holds(now.get(name), former[name]) for name in former.keys() - FORMER)
    if isinstance(former, list) and isinstance(now, list):
        return len(now) == len(former) and all(map(holds, now, former))
    return bool(now == former)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_saved_ranking_is_read_and_shown_with_its_numbers(file: Path) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    ranking = Ranking.from_dict(data)
    again = ranking.to_dict()
    for hit, stored in zip(again["hits"], data["hits"], strict=True):
        if stored["missing"] and all(score is None for score in stored["scores"].values()):
            stored["score"] = None  # that version gave 0 to what no judge had scored
        assert holds(hit, stored)
    former = {**data, "hits": again["hits"], "config": with_current_names(data["config"])}
    assert holds(again, former)
    assert ranking.ids == [hit["doc_id"] for hit in data["hits"]][: len(ranking)]
    page = Page(render_inspection(ranking))
    assert ranking.query.text in page.text
    assert all(hit.text in page.text for hit in ranking.hits)


def test_every_kind_of_ranking_is_among_them() -> None:
    names = {"direct", "failed", "mcranker", "rankgpt", "rebel", "team_rankgpt"}
    assert names <= {file.stem for file in FILES}
