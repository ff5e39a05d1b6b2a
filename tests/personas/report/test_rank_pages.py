"""Pages and terminal views of rankings without scores: a team's ranks, and a single order."""

from __future__ import annotations

import io
import re

from rich.console import Console

from mcranker import RankGPTRanker, Ranking, SetwiseRanker
from personas.ranking.record import RankingRecord
from personas.report import render_inspection
from personas.report.terminal import find_hit, show_passage, show_ranking
from tests.support.comparing import TEAM, by_orders, comparing, comparing_team
from tests.support.inspection_report import Page

DOCS = {name: f"passage {name}" for name in "abcd"}
ORDERS = dict(zip(TEAM, ("bacd", "bcad", "dbac"), strict=True))


def by_team() -> Ranking:
    model, _ = comparing_team(by_orders(ORDERS))
    with RankGPTRanker(model=model, ledger=None, team_size=3, ensemble="reciprocal_rank") as ranker:
        return ranker.rank("masks", DOCS)


def without_one() -> Ranking:
    model, _ = comparing_team(
        lambda asked: "?" if asked.tag.persona == TEAM[2] else by_orders(ORDERS)(asked)
    )
    with SetwiseRanker(
        model=model,
        ledger=None,
        team_size=3,
        ranks=2,
        repair_attempts=0,
        ensemble="reciprocal_rank",
    ) as ranker:
        return ranker.rank("masks", DOCS)


def alone() -> Ranking:
    model, _ = comparing(lambda _: "[3] > [1] > [2]")
    with RankGPTRanker(model=model, ledger=None) as ranker:
        return ranker.rank("masks", DOCS)


def terminal(ranking: Ranking, passage: int | None = None) -> str:
    file = io.StringIO()
    console, record = Console(file=file, width=120), RankingRecord.of(ranking.to_dict())
    if passage is None:
        show_ranking(console, record, record.hits, 20)
    else:
        show_passage(console, record, find_hit(record, passage))
    return file.getvalue()


def head_of(text: str) -> list[str]:
    """The headings of the heat map."""
    rows = Page(text).rows
    return [" ".join(cell.replace("\xad", "").split()) for cell in rows[0]]


def rows_of(text: str) -> list[str]:
    """The rows of the heat map, best first, as markup."""
    rows = [each.partition("</tr>")[0] for each in text.split('<tbody class="passage')[1:]]
    assert len(rows) == len(DOCS)
    return rows


def ranks(text: str) -> list[list[str]]:
    """The ranks of each row, without the hints of who moved it."""
    cell = re.compile(r'<td class="cell h\d+" data-v="\d+"[^>]*>([^<]*)')
    return [cell.findall(row) for row in rows_of(text)]


def test_a_teams_page_is_a_heat_map_of_ranks() -> None:
    text = render_inspection(by_team().to_dict())
    assert head_of(text)[:5] == ["Passage", "Final score", *TEAM]
    # Places b, d, a, c.
    assert ranks(text) == [["1", "1", "2"], ["4", "4", "1"], ["2", "3", "3"], ["3", "2", "4"]]
    # Of four: rank 1 is the strongest of the colours 0 to 10, rank 4 the palest.
    assert 'class="cell h10" data-v="1"' in text
    assert 'class="cell h0" data-v="4"' in text
    assert text.count('data-first="ascending"') == 5  # passage, first stage, three personas
    assert "Mean score" not in text
    assert "Missing scores" not in text
    assert "On the ranks of this query" in text
    assert "not scored" not in text


def test_a_persona_that_is_left_out_has_no_column_and_is_told() -> None:
    ranking = without_one()
    text = render_inspection(ranking.to_dict())
    assert head_of(text)[2:4] == [*TEAM[:2]]
    assert TEAM[2] not in head_of(text)
    # Places b, a, c, d; two are sorted out, b a and b c, and the others share rank 3.
    assert ranks(text) == [["1", "1"], ["2", "3+"], ["3+", "2"], ["3+", "3+"]]
    assert "gave no order" in text
    assert "all others share it" in text
    assert "failed</span>" in text
    shown = terminal(ranking)
    assert f"{TEAM[2]} gave no order, so the others' count alone" in shown
    assert "3+" in shown


def test_the_terminal_shows_ranks_and_who_moved_a_passage() -> None:
    shown = terminal(by_team())
    assert "Each persona's column has its ranks" in shown
    assert "standard deviation of the personas' ranks" in shown
    one = terminal(by_team(), passage=2)
    assert "Ranks" in one
    assert "Worried parent  rank 4 without: raised it 2" in one
