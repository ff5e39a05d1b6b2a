"""The line on why below a passage's title, and reasons in an opened passage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcranker import Ranking
from personas.ranking.types import Reason
from personas.report import render_inspection
from tests.support.inspection_report import Page, ranked

FILLER = "Nothing about it is said here at all. " * 10


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    text = f"{FILLER}The best way is <new>. Cotton MASKS keep <dust> out. {FILLER}"
    return ranked(docs=[{"_id": "a", "title": "Cotton", "text": text}, {"_id": "b", "text": "No."}])


def why_of(ranking: Ranking) -> dict[str, str]:
    """Document id -> the line on why; empty where there is none."""
    cells = [row[0].split("\n") for row in Page(render_inspection(ranking)).rows if row]
    return {parts[1]: parts[2] if len(parts) > 2 else "" for parts in cells if len(parts) > 1}


def test_the_words_of_the_query_decide(ranking: Ranking) -> None:
    found = why_of(ranking)
    # Of the query "best masks" the second word decides.
    assert found["a"].startswith("…Cotton MASKS keep <dust> out.")
    assert found["b"] == ""
    made = render_inspection(ranking)
    assert "…Cotton <b>MASKS</b> keep &lt;dust&gt;" in made


def explained(ranking: Ranking, why: Reason) -> Ranking:
    """The ranking with a reason for passage "a"."""
    given = {"a": {"Virologist": why}}
    hits = [replace(hit, reasons=given.get(hit.doc_id, {})) for hit in ranking.hits]
    return replace(ranking, hits=tuple(hits))


def test_a_reason_comes_first_and_its_quote_is_marked(ranking: Ranking) -> None:
    reasoned = explained(ranking, Reason("It names <masks>.", "keep <dust> out"))
    assert why_of(reasoned)["a"] == "Virologist: It names <masks>."
    made = render_inspection(reasoned)
    assert "<mark>keep &lt;dust&gt; out</mark>" in made
    assert "nearest sentence" not in made


def test_words_of_an_encoder_are_no_reason(ranking: Ranking) -> None:
    nearest = explained(ranking, Reason("Cotton MASKS keep <dust> out.", "", "words"))
    assert "Virologist, nearest sentence: Cotton MASKS" in Page(render_inspection(nearest)).text
    assert why_of(nearest)["a"] == why_of(ranking)["a"]
