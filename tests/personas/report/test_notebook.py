"""What notebooks show of a ranking and of a team."""

from __future__ import annotations

import sys

import pytest

from mcranker import Ranking
from tests.support.inspection_report import Page, data_of, infested, ranked


def test_a_ranking_shows_warnings_first_and_every_score() -> None:
    page = Page(ranked()._repr_html_())
    warning = "1 of 12 scores is missing; what was imputed counts in the final scores marked *."
    assert page.text.index(warning) < page.text.index("Masks")
    assert [row[0] for row in page.rows] == ["Rank", "1", "2", "3", "4"]
    # Rank, passage, score, three personas, first stage.
    assert len(page.rows[1]) == 7


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</td></table>", "\x00\u202e"])
def test_foreign_text_adds_no_tag(text: str) -> None:
    ranking = Ranking.from_dict(infested(text))
    assert ranking.team is not None
    for made in (ranking._repr_html_(), ranking.team._repr_html_()):
        page = Page(made)
        tags = {tag for tag, _ in page.tags}
        assert not tags & {"script", "style", "img", "a"}
        assert "\x00" not in made


def test_a_team_shows_its_criteria_and_weights() -> None:
    team = ranked().team
    assert team is not None
    assert "Right virus 65%, Evidence 35%" in Page(team._repr_html_()).text


def test_a_data_frame_has_a_row_per_hit() -> None:
    pytest.importorskip("pandas")
    ranking = ranked()
    table = ranking.to_dataframe()
    assert list(table["doc_id"]) == ranking.ids
    assert list(table["score"]) == [hit.score for hit in ranking]
    (row,) = [place for place, hit in enumerate(ranking) if hit.missing]
    assert table["score: Virologist"].isna().tolist() == [place == row for place in range(4)]


def test_without_pandas_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    ranking = Ranking.from_dict(data_of())
    with pytest.raises(ImportError, match="pip install pandas"):
        ranking.to_dataframe()
