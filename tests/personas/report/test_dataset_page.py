"""The page of a report over a data set, and the list of its runs: numbers, links, safety."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from personas.report import formats
from personas.report.dataset import ReportedRun, findings, render_runs, render_survey
from personas.survey import Difference, PersonaFigures, QueryFigures, Survey, Totals, Without
from tests.support.inspection_report import Page
from tests.support.survey_support import HOSTILE, empty_survey, make_survey

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
)


def shown(html: str) -> str:
    """The text of a piece of a page, with a space after each cell and term, and plain minuses."""
    spaced = re.sub(r"(</(?:t[hd]|d[dt]|p)>)", r"\1 ", html)
    return " ".join(Page(spaced).text.split()).replace("\N{MINUS SIGN}", "-")


def said(survey: Survey) -> str:
    """The text of a page."""
    return shown(render_survey(survey))


def rows_of(survey: Survey, key: str) -> list[list[str]]:
    """The cells' texts of the table of that id or class, row by row, without the heading."""
    text = render_survey(survey)
    found = re.search(rf'<table [^>]*(?:id|class)="{key}".*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert found is not None
    rows = re.findall(r"<tr.*?</tr>", found.group(1), re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[shown(f"<tr>{cell}</tr>") for cell in row] for row in cells]


def test_the_overview_says_what_was_ranked_and_how_it_went() -> None:
    text = said(SURVEY)
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
        "max calls 77",
    ):
        assert words in text


def test_the_chart_shows_recruits_and_names_the_others() -> None:
    text = render_survey(SURVEY)
    (row,) = rows_of(SURVEY, "chart")
    assert row[:2] == ["Virologist", "1 50%"]  # of two ranked queries
    assert 'class="fill" width="100.00%"' in text
    words = shown(text)
    assert (
        "Not recruited, and so not in the figure: NLP scientist (2 queries), Parent (1 query)."
        in words
    )


LOADING = {"src", "srcset", "action", "formaction", "data", "poster", "background", "ping"}
QUERY = re.compile(r"query/(\d{6})\.html(#passage-[1-9]\d*)?")
SURVEYS: dict[str, dict[str, Any]] = {
    "usual": {},
    "hostile": {"queries": 60, "texts": HOSTILE},
    "no queries": {"queries": 0},
    "all failed": {"queries": 3, "failed_every": 1},
    "no judgements": {"judged": False},
    "no other ranker": {"other": ""},
    "one persona": {"recruits": 0},
    "one query": {"queries": 1},
}


@pytest.fixture(params=SURVEYS, ids=list(SURVEYS), scope="module")
def survey(request: pytest.FixtureRequest) -> Survey:
    return make_survey(**SURVEYS[request.param])


@pytest.fixture(scope="module")
def text(survey: Survey) -> str:
    return render_survey(survey)


def test_without_a_team_there_are_queries_alone() -> None:
    survey = make_survey(4, other="")
    none: dict[str, Any] = {"alpha": None, "tau": None, "disagreement": None}
    bare = replace(
        survey,
        title="DIRECT",
        totals=replace(survey.totals, locked=0, **none),
        queries=tuple(replace(each, personas=(), **none) for each in survey.queries),
        personas=(),
    )
    words = Page(render_survey(bare)).text.partition("Settings")[0]
    assert not re.search(
        "team|persona", words.partition("</title>")[2] or words[20:], re.IGNORECASE
    )


def test_the_page_is_whole_and_stands_by_itself(text: str) -> None:
    page = Page(text)
    assert {"main", "h1"} <= {tag for tag, _ in page.tags}
    (policy,) = [found["content"] for _, found in page.tags if "http-equiv" in found]
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        digest = hashlib.sha256("".join(page.raw[tag]).encode()).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert not LOADING & {name for _, found in page.tags for name in found}
    assert not {name for _, found in page.tags for name in found if name.startswith("on")}
    assert page.attributes("style") == []
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    for name in ("aria-labelledby", "for", "data-for"):
        assert set(page.attributes(name)) <= set(ids)


def test_every_link_leads_somewhere(survey: Survey, text: str) -> None:
    page, places = Page(text), {query.place for query in survey.queries}
    for target in page.attributes("href"):
        if query := QUERY.fullmatch(target):
            assert int(query.group(1)) in places
        elif target.startswith("#sort="):
            assert target.removeprefix("#sort=").lstrip("-") in page.attributes("data-key")
        else:
            assert target.removeprefix("#") in page.attributes("id")


@pytest.mark.parametrize("foreign", HOSTILE, ids=range(len(HOSTILE)))
def test_text_from_outside_stays_text(foreign: str) -> None:
    made = render_survey(make_survey(texts=(foreign,)))
    made.encode()  # writes
    page, plain = Page(made), Page(render_survey(make_survey(texts=("plain",))))
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in plain.tags} | {"bdi"}
    assert {each for _, found in page.tags for each in found} <= {
        each for _, found in plain.tags for each in found
    }
    for name in ("href", "id"):
        assert page.attributes(name) == plain.attributes(name)
    for name in ("script", "style"):
        assert page.raw[name] == plain.raw[name]
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", made)
    words = " ".join(formats.printable(formats.contained(foreign)).split())
    if words and len(foreign) < 30:
        assert words in page.text


BETTER = Difference("BM25", 40, 0.65, 0.6, 0.02, 0.08, 0.0004)
WORSE = Difference("BM25", 40, 0.55, 0.6, -0.08, -0.02, 0.012)
UNDECIDED = Difference("BM25", 40, 0.61, 0.6, -0.02, 0.04, 0.5)
UNTESTED = Difference("DIRECT", 40, 0.65, 0.6, 0.02, 0.08, None, "its judge is a:b")


def surveyed(*differences: Difference, **totals: Any) -> Survey:
    made = make_survey(4, failed_every=0)
    queries = tuple(replace(each, missing=0) for each in made.queries)
    known = {"ndcg": 0.65, "first_stage_ndcg": 0.6, "missing": 0, "failed": 0, "alpha": None}
    return replace(
        made,
        first_stage="BM25",
        notes=(),
        queries=queries,
        totals=replace(made.totals, **{**known, **totals}),
        differences=differences,
    )


def verdict(survey: Survey) -> list[tuple[str, str]]:
    return [(each.kind, each.sentence.replace("\N{MINUS SIGN}", "-")) for each in findings(survey)]


@pytest.mark.parametrize(
    ("difference", "kind", "words"),
    [
        (BETTER, "good", "better than BM25 in nDCG@10: 0.650 and 0.600, +0.050 (95% interval"),
        (BETTER, "good", "+0.020 to +0.080, p <0.001)."),
        (WORSE, "bad", "worse than BM25"),
        (WORSE, "bad", "-0.050 (95% interval -0.080 to -0.020, p 0.012)."),
        (UNDECIDED, "warn", "No significant difference from BM25 in nDCG@10: 0.610 and 0.600"),
        # An interval on one side of 0 decides nothing where the corrected p does not.
        (replace(BETTER, p_value=0.05), "warn", "No significant difference from BM25"),
        (UNTESTED, "warn", "Not tested against DIRECT (0.650 and 0.600): its judge is a:b."),
    ],
)
def test_the_corrected_p_decides(difference: Difference, kind: str, words: str) -> None:
    ((found, sentence),) = verdict(surveyed(difference))
    assert found == kind
    assert words in sentence


def test_the_judge_comes_first_then_the_gain_and_then_the_worst_news() -> None:
    bad = replace(surveyed(BETTER, missing=3, failed=1, alpha=0.9), weak_judge="encoder")
    assert [kind for kind, _ in verdict(bad)] == ["warn", "good", "bad", "bad", "note"]
    assert "an encoder: compares meaning, does not reason" in verdict(bad)[0][1]
    sentences = " ".join(sentence for _, sentence in verdict(bad))
    assert "1 of 4 queries was not ranked." in sentences
    assert "3 scores in 0 queries are missing." in sentences


def test_few_queries_and_none_are_said() -> None:
    few = verdict(surveyed(replace(UNDECIDED, queries=19)))
    assert few[1][0] == "warn"
    assert few[1][1].startswith("Only 19 queries have judgements")
    assert len(verdict(surveyed(replace(UNDECIDED, queries=20)))) == 1
    assert "effectiveness is not measured" in verdict(surveyed(ndcg=None))[0][1]


def test_where_nothing_was_ranked_nothing_is_said() -> None:
    assert findings(make_survey(3, failed_every=1)) == ()


def totals(**changed: Any) -> Totals:
    usual = {
        "queries": 300,
        "failed": 0,
        "judged": 300,
        "passages": 30_000,
        "missing": 0,
        "calls": 90_000,
        "reused": 0,
        "cost": 1.5,
        "ndcg": 0.75,
        "first_stage_ndcg": 0.625,
        "other_ndcg": 0.875,
        "alpha": 0.5,
        "tau": -0.25,
        "disagreement": 0.05,
        "locked": 0,
    }
    return Totals(**{**usual, **changed})


def entry(number: int, *, finished: bool = True, **changed: Any) -> tuple[str, ReportedRun]:
    usual = {
        "title": f"Run {number}",
        "dataset": "scifact: 300 queries",
        "first_stage": "BM25",
        "other": "DIRECT(0,10)",
        "personas_in_all": 1211,
        "totals": totals(),
    }
    survey = replace(empty_survey(), **{**usual, **changed})
    page = f"run-{number}/index.html"
    return page, ReportedRun(Path("runs"), Path(page), finished, survey)


def cells(page: str) -> list[list[str]]:
    """The text of each row, cell by cell; headings as well."""
    rows = re.findall("<tr>(.*?)</tr>", page, re.DOTALL)
    return [
        [
            " ".join(re.sub("<[^>]*>", " ", cell).split())
            for cell in re.findall("<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_a_row_has_the_figures() -> None:
    heading, row = cells(render_runs([entry(1)]))
    assert heading == [
        *("Run", "nDCG@10", "over BM25", "over DIRECT(0,10)"),
        *("Alpha", "Tau", "Personas", "Queries", "Scores missing"),
    ]
    # 0.75 - 0.625 and 0.75 - 0.875
    assert row == [
        "Run 1",
        "0.750",
        "+0.125",
        "\N{MINUS SIGN}0.125",
        "0.50",
        "\N{MINUS SIGN}0.25",
        "1,211",
        "300",
        "0",
    ]


def test_what_is_not_known_is_no_number() -> None:
    unknown = totals(ndcg=None, alpha=None, tau=None)
    _, row = cells(render_runs([entry(1, totals=unknown)]))
    assert row[1:6] == ["\N{EN DASH} not known"] * 5


def test_names_are_escaped() -> None:
    evil = "</a><script>alert(1)</script>\u202e"
    page = render_runs([entry(1, title=evil, dataset=evil, first_stage=evil, other=evil)])
    assert "<script>alert" not in page
    assert 'href="run-1/index.html"' in page


def test_what_is_not_tested_says_so() -> None:
    tested = Difference("BM25", 40, 0.65, 0.6, 0.02, 0.08, 0.0004)
    other = Difference("DIRECT(0,10)", 40, 0.65, 0.7, -0.1, 0.02, None, "its judge is a:b")
    page = render_runs([entry(1, differences=(tested, other))])
    (_, row) = cells(page)
    assert row[1] == "0.650"  # the mean that was tested, and not the 0.750 as ranked
    assert row[2] == "+0.050 +0.020 to +0.080, p &lt;0.001"
    assert row[3] == "\N{MINUS SIGN}0.050 \N{MINUS SIGN}0.100 to +0.020, not tested"
