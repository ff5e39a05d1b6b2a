"""What the pages of a report over a data set say: every number is the survey's."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from personas.report import site
from personas.report.dataset.pages import survey_pages
from personas.survey.model import PersonaFigures, QueryFigures, Survey, Totals, Without
from tests.support.inspection_report import Page
from tests.support.survey_support import empty_survey, make_survey

QUERIES = (
    QueryFigures(
        place=1,
        query_id="q-17",
        query="masks",
        personas=("NLP scientist", "Virologist"),
        passages=100,
        missing=3,
        calls=204,
        disagreement=0.125,
        alpha=0.51,
        tau=0.4,
        ndcg=0.9,
        first_stage_ndcg=0.65,
        other_ndcg=0.95,
    ),
    QueryFigures(
        place=2,
        query_id="q-18",
        query="soap",
        personas=("nlp scientist", "Parent"),
        passages=100,
        disagreement=0.25,
        ndcg=0.3,
        first_stage_ndcg=0.7,
        other_ndcg=0.3,
    ),
    QueryFigures(
        place=3,
        query_id="q-19",
        query="beards",
        ndcg=0.0,
        first_stage_ndcg=0.45,
        error="the model went away",
    ),
)
SURVEY = Survey(
    title="Team run",
    dataset="mini, 3 queries",
    first_stage="BM25",
    other="DIRECT",
    models={"recruiter": "big", "scoring": "small"},
    settings={"max_calls": "77"},
    notes=("This run is not finished.",),
    totals=Totals(
        queries=3,
        failed=1,
        judged=2,
        passages=200,
        missing=3,
        calls=1204,
        reused=35,
        cost=0.0123,
        ndcg=0.4,
        first_stage_ndcg=0.6,
        other_ndcg=0.375,
        alpha=0.51,
        tau=-0.25,
        disagreement=0.1875,
        locked=1,
    ),
    queries=QUERIES,
    personas=(
        PersonaFigures("NLP scientist", 2, 0, Without(2, 0.6, 0.55, True)),
        PersonaFigures("Virologist", 1, 1, Without(1, 0.9, 0.97, False)),
        PersonaFigures("Parent", 1, 0, None),
    ),
    personas_in_all=3,
    recruits=Without(2, 0.6, 0.575, True),
)


def shown(html: str) -> str:
    """The text of a piece of a page, with a space after each cell and term, and plain minuses."""
    spaced = re.sub(r"(</(?:t[hd]|d[dt]|p)>)", r"\1 ", html)
    return " ".join(Page(spaced).text.split()).replace("\N{MINUS SIGN}", "-")


def said(survey: Survey, name: str) -> str:
    """The text of a page."""
    return shown(dict(survey_pages(survey))[name])


def rows_of(survey: Survey, name: str, key: str) -> list[list[str]]:
    """The cells' texts of the table of that id or class, row by row, without the heading."""
    text = dict(survey_pages(survey))[name]
    found = re.search(rf'<table [^>]*(?:id|class)="{key}".*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert found is not None
    rows = re.findall(r"<tr.*?</tr>", found.group(1), re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[shown(f"<tr>{cell}</tr>") for cell in row] for row in cells]


def test_the_overview_says_what_was_ranked_and_how_it_went() -> None:
    text = said(SURVEY, site.OVERVIEW)
    for words in (
        "mini, 3 queries",
        "Team run",
        "First stage BM25",
        "Compared with DIRECT",
        "recruiter model big",
        "scoring model small",
        "Queries 3 (1 failed, 2 judged)",
        "Passages 200",
        "Missing scores 3",
        "Calls 1,204 (35 answers from the ledger)",
        "Cost $0.012",
        "Locked teams 1",
        "This run is not finished.",
        "Means over the 3 queries with judgements; 1 of them failed and count 0.",
        "0.51 The personas agree somewhat.",
        "-0.25 Two personas rather disagree on the order.",
        "0.188",  # 0.1875
        "One recruit adds +0.025 on average: 0.600 with it, 0.575 without, over 2 judged queries",
        "max calls 77",
    ):
        assert words in text


def test_differences_have_their_signs() -> None:
    text = said(SURVEY, site.OVERVIEW)
    # 0.4 - 0.6 and 0.4 - 0.375
    assert "Team run 0.400 BM25 0.600 -0.200 DIRECT 0.375 +0.025" in text
    # Gains over BM25: 0.9 - 0.65, 0.3 - 0.7, 0 - 0.45; over DIRECT: 0.9 - 0.95, 0.3 - 0.3.
    assert "Against BM25: better in 1, equal in 0, worse in 2" in text
    assert "Against DIRECT: better in 0, equal in 1, worse in 1" in text
    gains, _, losses = text.partition("Against BM25")[2].partition("Largest losses")
    assert "masks +0.250 0.900 0.650" in gains
    assert "beards (not ranked) -0.450 0.000 0.450 soap -0.400 0.300 0.700" in losses
    assert "No query gained." in text.partition("Against DIRECT")[2]


def test_lists_of_the_overview_hold_ten_and_equal_ones_keep_their_order() -> None:
    survey = replace(
        make_survey(30, failed_every=0),
        queries=tuple(
            replace(QUERIES[0], place=place, query=f"query {place}", disagreement=place % 3 / 10)
            for place in range(1, 31)
        ),
    )
    text = said(survey, site.OVERVIEW).partition("Largest disagreement")[2]
    places = [int(place) for place in re.findall(r"query (\d+) 0\.200", text)]
    assert places == list(range(2, 31, 3))  # 2, 5, ..., 29: ten of them
    assert "0.100" not in text


def test_the_chart_shows_recruits_and_names_the_others() -> None:
    text = dict(survey_pages(SURVEY))[site.OVERVIEW]
    (row,) = rows_of(SURVEY, site.OVERVIEW, "chart")
    assert row[:2] == ["Virologist", "1 50%"]  # of two ranked queries
    assert 'class="fill" width="100.00%"' in text
    words = shown(text)
    assert (
        "Not recruited, and so not in the figure: NLP scientist (2 queries), Parent (1 query)."
        in words
    )


def test_without_recruits_the_chart_shows_who_judged() -> None:
    people = tuple(replace(each, recruited=0) for each in SURVEY.personas)
    survey = replace(SURVEY, personas=people)
    assert [row[0] for row in rows_of(survey, site.OVERVIEW, "chart")] == [
        "NLP scientist",
        "Virologist",
        "Parent",
    ]
    assert "No persona was recruited for a query" in said(survey, site.OVERVIEW)


def test_rows_of_queries() -> None:
    assert rows_of(SURVEY, site.QUERIES, "queries") == [
        ["1", "masksq-17", "0.900", "+0.250", "-0.050", "0.125", "0.51", "3", "Virologist"],
        ["2", "soapq-18", "0.300", "-0.400", "0.000", "0.250", "", "0", "Parent"],
        ["3", "beardsq-19", "Failed: the model went away"],
    ]
    text = said(SURVEY, site.QUERIES)
    assert "On the team of every query: NLP scientist." in text


def test_what_a_persona_is_worth() -> None:
    text = said(SURVEY, site.OVERVIEW)
    assert "NLP scientist +0.050 0.600 0.550 2 Virologist -0.070 * 0.900 0.970 1" in text


@pytest.mark.parametrize(
    ("survey", "name", "words"),
    [
        (empty_survey(), site.OVERVIEW, "There are no queries, so nothing was ranked."),
        (empty_survey(), site.QUERIES, "There are no queries"),
        (make_survey(3, failed_every=1), site.OVERVIEW, "Every query failed"),
        (make_survey(3, judged=False), site.OVERVIEW, "No judgements are known"),
        (make_survey(3, other=""), site.OVERVIEW, "Compared with no other ranker"),
        (make_survey(3, recruits=0), site.OVERVIEW, "It takes two personas on a team"),
    ],
)
def test_what_is_not_there_is_said(survey: Survey, name: str, words: str) -> None:
    assert words in said(survey, name)
