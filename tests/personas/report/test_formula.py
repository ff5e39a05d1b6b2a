"""How a final score is made of the team's and the first stage's, where a row is shown."""

from __future__ import annotations

import io
import json

import pytest

from mcranker import DirectRanker, Passage, Ranking, ScriptedChat
from personas.ranking.record import RankingRecord
from personas.report import render_inspection
from tests.support.inspection_report import Page

SCORES = {"a": 9, "b": 5, "c": 1}
FIRST = {"a": 2.0, "b": 10.0, "c": 0.0}


def typeset(formula: str) -> str:
    return formula.replace("x", "\N{MULTIPLICATION SIGN}")


def ranked(weight: float, scores: dict[str, float] = FIRST) -> Ranking:
    model = ScriptedChat(lambda request: json.dumps({"Score": SCORES[request.tag.doc_id]}))
    docs = [Passage(name, f"text {name}", score=score) for name, score in scores.items()]
    with DirectRanker(model=model, ledger=None, first_stage_weight=weight) as ranker:
        return ranker.rank("q", docs)


def test_the_numbers_are_filled_in() -> None:
    # Scores 9, 5 and 1 are 1, 1/2 and 0; the first stage's 2, 10 and 0 are 1/5, 1 and 0.
    inspection = RankingRecord.of(ranked(0.3).to_dict())
    assert {hit.doc_id: hit.formula for hit in inspection.hits} == {
        "a": typeset("0.70 x 1.00 + 0.30 x 0.20 = 0.760"),
        "b": typeset("0.70 x 0.50 + 0.30 x 1.00 = 0.650"),
        "c": typeset("0.70 x 0.00 + 0.30 x 0.00 = 0.000"),
    }
    alone = RankingRecord.of(ranked(1.0).to_dict())
    assert alone.hits[1].formula == typeset("0.00 x 0.00 + 1.00 x 0.20 = 0.200")


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_pages_and_terminals_show_it_where_the_first_stage_counts(weight: float) -> None:
    ranking = ranked(weight)
    terminal = io.StringIO()
    ranking.show(passage=1, file=terminal)
    page = Page(render_inspection(ranking.to_dict()))
    formula = typeset("0.70 x 1.00 + 0.30 x 0.20 = 0.760")
    assert (formula in terminal.getvalue()) is bool(weight)
    assert (formula in page.text) is bool(weight)
    assert (formula in page.attributes("title")) is bool(weight)
    assert "relevance" in terminal.getvalue()
    assert "0.900" in terminal.getvalue()  # 9 of 10, whatever the first stage says
    assert "Relevance" in page.text


def test_a_ranking_that_counted_places_has_none() -> None:
    data = ranked(0.3).to_dict()
    for hit in data["hits"]:
        hit["first_stage_score"] = None
    inspection = RankingRecord.of(data)
    assert {hit.formula for hit in inspection.hits} == {""}
