"""What the overview of a report over a data set says first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from personas.report import site
from personas.report.dataset.pages import survey_pages
from personas.report.dataset.verdict import findings
from personas.report.site import ReportFooter
from personas.survey.model import Difference, Survey, Without
from tests.support.survey_support import make_survey

BETTER = Difference("BM25", 40, 0.65, 0.6, 0.02, 0.08, 0.0004)
WORSE = Difference("BM25", 40, 0.55, 0.6, -0.08, -0.02, 0.012)
UNDECIDED = Difference("BM25", 40, 0.61, 0.6, -0.02, 0.04, 0.5)
UNTESTED = Difference("DIRECT", 40, 0.65, 0.6, 0.02, 0.08, None, "its judge is a:b")


def survey(*differences: Difference, **totals: Any) -> Survey:
    made = make_survey(4, failed_every=0)
    queries = tuple(replace(each, missing=0) for each in made.queries)
    known = {"ndcg": 0.65, "first_stage_ndcg": 0.6, "missing": 0, "failed": 0, "alpha": None}
    return replace(
        made,
        first_stage="BM25",
        notes=(),
        recruits=None,
        queries=queries,
        totals=replace(made.totals, **{**known, **totals}),
        differences=differences,
    )


def said(survey: Survey) -> list[tuple[str, str]]:
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
    ((found, sentence),) = said(survey(difference))
    assert found == kind
    assert words in sentence


def test_the_judge_comes_first_and_then_the_worst_news() -> None:
    bad = replace(survey(BETTER, missing=3, failed=1, alpha=0.9), weak_judge="encoder")
    assert [kind for kind, _ in said(bad)] == ["warn", "bad", "bad", "note", "good"]
    assert "an encoder: compares meaning, does not reason" in said(bad)[0][1]
    sentences = " ".join(sentence for _, sentence in said(bad))
    assert "1 of 4 queries was not ranked." in sentences
    assert "3 scores in 0 queries are missing." in sentences


@pytest.mark.parametrize(("without", "told"), [(0.65, True), (0.6536, True), (0.6, False)])
def test_recruits_that_add_nothing_are_told(without: float, *, told: bool) -> None:
    found = replace(survey(BETTER), recruits=Without(12, 0.65, without, exact=True))
    sentences = [sentence for _, sentence in said(found)]
    assert any(each.startswith("A recruit adds ") for each in sentences) is told
    assert ("A recruit adds -0.004 to nDCG@10 on average (12 queries)." in sentences) is (
        without == 0.6536
    )


def test_few_queries_and_none_are_said() -> None:
    few = said(survey(replace(UNDECIDED, queries=19)))
    assert few[1][0] == "warn"
    assert few[1][1].startswith("Only 19 queries have judgements")
    assert len(said(survey(replace(UNDECIDED, queries=20)))) == 1
    assert "effectiveness is not measured" in said(survey(ndcg=None))[0][1]


def test_where_nothing_was_ranked_nothing_is_said() -> None:
    assert findings(make_survey(3, failed_every=1)) == ()


def test_the_last_line_tells_how_the_page_was_made() -> None:
    footer = ReportFooter("1.2", "2026-03-31", "personas report <runs>")
    for name, page in survey_pages(make_survey(), footer=footer):
        assert page.count('<footer class="made">') == 1, name
        assert "2026-03-31</time> by MCRanker 1.2" in page
        assert "personas report &lt;runs&gt;" in page
    assert "<footer" not in dict(survey_pages(make_survey()))[site.OVERVIEW]
