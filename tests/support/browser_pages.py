"""Pages for the tests in a browser: rankings and surveys, usual and hostile, as files."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from beir_eval.persona_report.build import write_persona_report
from mcranker import MCRanker, RankGPTRanker, Ranking
from mcranker.llm.chat import ChatRequest
from personas.ranking.comparison import RankingComparison
from personas.ranking.record import OtherPlace, OtherRanking, RankingRecord
from personas.report.comparison import render_comparison
from personas.report.dataset import render_survey
from personas.report.inspection import inspection_page, render_inspection
from personas.report.page import PageContext, query_page
from personas.survey import Survey
from tests.personas.ranking.test_comparison import CHANGED, member, team
from tests.personas.ranking.test_inspection import FOUR
from tests.personas.ranking.test_inspection import stored as ranking_of
from tests.personas.report.test_compare_page import several
from tests.support.comparing import comparing
from tests.support.inspection_report import infested
from tests.support.persona_reports import DIRECT, TEAM, runs
from tests.support.scripted import scripted

PASSAGES, DEPTH = 12, 10
GRADES = {"d1": 0, "d3": 2, "d4": 1, "d9": 0, "d12": 1, "elsewhere": 1}
OTHER = OtherRanking(
    "DIRECT(0,10)",
    10.0,
    {
        f"d{place}": OtherPlace(place, None if place == 5 else 10.0 - place)
        for place in range(2, 11)
    },
)


@cache
def _stored() -> str:
    """A ranking of 12 passages, two of which nobody was asked about, with a missing score."""

    def score(request: ChatRequest) -> str:
        place = int(request.tag.doc_id[1:])
        if request.tag.persona == "Virologist":
            return "I cannot say." if place == 2 else json.dumps({"Score": 7 * place % 11})
        if request.tag.persona == "Worried parent":
            return json.dumps({"Score": (5 * place + 3) % 11})
        return json.dumps({"Score": place})

    docs = [
        {
            "_id": f"d{place}",
            "title": "" if place == 7 else f"Study {place} of masks",
            "text": f"What study {place} says of a.b* & <c>: QUITE a lot, 100% sure.",
        }
        for place in range(1, PASSAGES + 1)
    ]
    with MCRanker(model=scripted(score), depth=DEPTH, ledger=None) as ranker:
        return ranker.rank("best masks", docs).to_json()


HOSTILE = "</title><script>alert(1)</script>\u202e<img src=x onerror=alert(2)>"


def stored() -> dict[str, Any]:
    """That ranking, as it is stored."""
    data: dict[str, Any] = json.loads(_stored())
    return data


def inspection() -> RankingRecord:
    """That ranking, with judgements and another ranker's places."""
    return RankingRecord.of(stored()).beside(grades=GRADES, other=OTHER)


def write_query(folder: Path, data: dict[str, Any] | None = None) -> Path:
    """The page of that ranking by itself, or of another one; where it is."""
    page = render_inspection(data or stored(), grades=GRADES, other=OTHER)
    path = folder / "query.html"
    path.write_text(page, encoding="utf-8")
    return path


def write_long_query(folder: Path) -> Path:
    """The page of a ranking of 40 passages, the second of three queries of a report."""
    kinds = stored()["hits"][:DEPTH]
    hits = [
        {
            **kinds[place % DEPTH],
            "rank": place + 1,
            "doc_id": f"d{place + 1}",
            "first_stage_rank": 40 - place,
            "text": "word " * 200,
        }
        for place in range(40)
    ]
    found = RankingRecord.of({**stored(), "hits": hits})
    path = folder / query_page(2)
    path.parent.mkdir()
    path.write_text(inspection_page(found, PageContext("A report", 2, 3)), encoding="utf-8")
    return path


def write_compared(folder: Path, *, hostile: bool = False) -> list[Path]:
    """Pages of comparisons and of orders without scores; or hostile ones."""
    if hostile:
        sides = infested(HOSTILE * 20), infested(HOSTILE * 20)
        first, second = sides[1]["hits"][:2]
        first["rank"], second["rank"] = second["rank"], first["rank"]
        sides[1]["team"]["members"][1]["persona"]["description"] = HOSTILE
        made = {"comparison": render_comparison(RankingComparison.of(*sides), before=HOSTILE)}
    else:
        made = {
            "one": render_comparison(one_comparison()),
            "several": render_comparison(several(3)),
            "alone": render_inspection(alone().to_dict()),
        }
    folder.mkdir(exist_ok=True)
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return [folder / f"{name}.html" for name in made]


def alone() -> Ranking:
    """The order of one ranker, without scores."""
    model, _ = comparing(lambda _: "[3] > [1] > [2]")
    with RankGPTRanker(model=model, ledger=None) as ranker:
        return ranker.rank("masks", {name: f"passage {name}" for name in "abc"})


def one_comparison() -> RankingComparison:
    """Two rankings of four passages, two of which moved."""
    one = ranking_of(FOUR, team=team(member("Virologist", 35, 40, 25), member("Nurse", 100)))
    two = ranking_of(CHANGED, team=team(member("Virologist", 80, 40, 25)))
    return RankingComparison.of(one, two, grades={"d2": 1})


def write_report(folder: Path) -> Path:
    """The report on two runs of six queries each, of which the first failed; its folder.

    The last query found no passage, and some scores are missing.
    """
    labels = [DIRECT, TEAM, "MC: another team"]
    made = runs(folder / "runs", labels=labels, queries=6, passages=16, faults=True)
    write_persona_report([made], folder / "report")
    return folder / "report"


def write_survey(folder: Path, survey: Survey) -> list[Path]:
    """The page of a survey; those of its queries are not there."""
    (folder / "index.html").write_text(render_survey(survey), encoding="utf-8")
    return [folder / "index.html"]
