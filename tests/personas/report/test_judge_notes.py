"""A weak judge is named wherever a ranking is shown."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mcranker import Capabilities, DirectRanker, Ranking, ScriptedChat, compare
from personas.ranking.types import judge_note
from personas.report import render_inspection
from personas.report.comparison import render_comparison
from tests.support.inspection_report import Page

NOTE = (
    "Judged by local:minilm, an encoder: compares meaning, does not reason. "
    "It does not read criteria; with a model that reasons they decide."
)


def ranked(**capabilities: Any) -> Ranking:
    model = ScriptedChat(
        lambda _: '{"Score": 5}', name="local:minilm", capabilities=Capabilities(**capabilities)
    )
    with DirectRanker(model=model, ledger=None, scale=10) as ranker:
        return ranker.rank("q", ["a", "b"])


def shown(ranking: Ranking) -> dict[str, str]:
    """Where a ranking is shown -> the text."""
    terminal, one, moved = io.StringIO(), io.StringIO(), io.StringIO()
    ranking.show(file=terminal)
    ranking.show(passage=1, file=one)
    compared = compare(ranking, ranking)
    compared.show(file=moved)
    return {
        "property": ranking.judge_note,
        "notebook": repr(ranking),
        "terminal": terminal.getvalue(),
        "passage": one.getvalue(),
        "page": Page(render_inspection(ranking.to_dict())).text,
        "comparison": moved.getvalue(),
        "comparison page": Page(render_comparison(compared)).text,
        "comparison data": " ".join(compared.notes),
    }


def test_an_encoder_is_named_everywhere() -> None:
    for where, text in shown(ranked(reasons=False)).items():
        assert NOTE in " ".join(text.split()), where


def test_a_judge_that_is_not_weak_is_not() -> None:
    for where, text in shown(ranked()).items():
        assert "Judged by" not in text, where


def test_a_comparison_says_which_of_two_it_was() -> None:
    assert compare(ranked(), ranked(reasons=False)).notes[0] == f"After: {NOTE}"


@pytest.mark.parametrize("name", ["", "local:minilm"])
def test_a_note_names_the_judge(name: str) -> None:
    by = f"{name}, " if name else ""
    assert judge_note("encoder", name).startswith(f"Judged by {by}an encoder")
    assert judge_note("", name) == ""
