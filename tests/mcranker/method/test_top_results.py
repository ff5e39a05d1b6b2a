"""What ``top_k`` left out, as it is stored, written as a run, and shown on pages and terminals."""

from __future__ import annotations

import json
import re

import pytest

from mcranker import ChatRequest, InputError, MCRanker, Query, Ranking
from personas.ranking.record import RankingRecord
from personas.report import render_inspection
from tests.support.scripted import scripted

# Ann scores all; for the first rank b must be asked about, then a, and Cho only about b:
# b 9 + 9 + 9, a 8 + 2 + at most 10, c 1 + at most 20, d missing + at most 20, e beyond depth.
TABLE: dict[str, dict[str, int | None]] = {
    "Ann": {"a": 8, "b": 9, "c": 1, "d": None},
    "Ben": {"a": 2, "b": 9, "c": 1, "d": 3},
    "Cho": {"a": 2, "b": 9, "c": 1, "d": 3},
}
DOCS = {name: f"Text {name}." for name in "abcde"}


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    def score(request: ChatRequest) -> str:
        value = TABLE[request.tag.persona][request.tag.doc_id]
        return "no idea" if value is None else json.dumps({"Score": value})

    ranker = MCRanker(
        team=list(TABLE),
        model=scripted(score),
        criteria="none",
        repair_attempts=0,
        depth=4,
        top_k=1,
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mcranker.method.schedule.SAMPLE", 0)  # the judges in the team's order
        return ranker.rank(Query("masks", "q1"), DOCS)


def test_what_is_ranked(ranking: Ranking) -> None:
    assert [(hit.doc_id, hit.score, hit.at_most, hit.skipped) for hit in ranking] == [
        ("b", 27.0, None, ()),
        ("d", None, 23.0, ("Cho",)),
        ("c", None, 21.0, ("Ben", "Cho")),
        ("a", None, 20.0, ("Cho",)),
        ("e", None, None, ()),
    ]
    assert ranking.skipped == 4
    assert [(each.doc_id, each.persona) for each in ranking.missing] == [("d", "Ann")]


def test_a_file_from_before_there_was_top_k_reads_as_it_did(ranking: Ranking) -> None:
    data = ranking.to_dict()
    assert data["version"] == 1
    for hit in data["hits"]:
        del hit["skipped"], hit["at_most"]
    old = Ranking.from_dict(data)
    assert old.ids == ranking.ids
    assert old.bounds == {}
    assert [hit.skipped for hit in old] == [()] * 5
    assert RankingRecord.of(data).skipped == 0
    assert "not asked for, because" not in render_inspection(data)


def test_a_bound_that_is_no_number_is_refused(ranking: Ranking) -> None:
    data = ranking.to_dict()
    data["hits"][1]["at_most"] = "much"
    with pytest.raises(InputError, match=r"hits\.1\.at_most: Input should be a valid number"):
        Ranking.from_dict(data)


def test_a_run_falls_by_what_could_be_reached(ranking: Ranking) -> None:
    lines = [line.split() for line in ranking.to_trec().splitlines()]
    assert [(line[2], float(line[4])) for line in lines] == [
        ("b", 27.0),
        ("d", 23.0),
        ("c", 21.0),
        ("a", 20.0),
        ("e", 19.0),
    ]


def test_the_report_marks_what_was_not_asked(ranking: Ranking) -> None:
    page = render_inspection(ranking.to_dict())
    # A row a passage, and its details in the next one, which ends with the body.
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row.partition("</tr>")[0], re.DOTALL)
        for row in page.split('<tbody class="passage')[1:]
    ]
    text = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]
    not_asked = "·not asked: it could not reach the first ranks"
    assert text[0][:4] == ["27", "9", "9", "9"]
    assert text[1][0] == "≤ 23"
    assert text[1][1].startswith("\N{EN DASH}missing: ")
    assert text[1][2:4] == ["3", not_asked]
    assert text[2][:4] == ["≤ 21", "1", not_asked, not_asked]
    assert text[4][:4] == ["not scored", "", "", ""]
    assert "<dt>·</dt><dd>A score that was not asked for" in page
    assert "could not reach rank 1 any more" in page
    assert "Compares only the 1 passages that the whole team scored" in page
    assert "1 scored, 3 in part" in page
    assert "at most 23" in page
    assert "Passages that were not scored follow" in page
    assert "1 score is missing" in page
