"""What notebooks show of a ranking and of a team."""

from __future__ import annotations

import copy
import pickle
import pydoc
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mcranker import ConfigError, Estimate, MCRanker, Ranking
from mcranker.rag.result import Citation, RAGResult, Sentence, SourcePassage
from tests.support.inspection_report import Page, data_of, infested, ranked
from tests.support.scripted import scripted


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


def test_pandas_makes_that_row_of_each_hit_by_itself() -> None:
    pandas = pytest.importorskip("pandas")
    ranking = ranked()
    rows = [dict(hit) for hit in ranking]
    assert rows[0]["score: Virologist"] == ranking[0].scores["Virologist"]
    table = pandas.DataFrame(ranking)  # before pandas 3.1 without columns of personas
    assert [*table["doc_id"]] == ranking.ids
    assert "ranking" not in table
    assert [row.keys() for row in rows] == [{*ranking.to_dataframe().columns}] * 4


def test_a_hit_by_its_id() -> None:
    ranking = ranked()
    assert ranking[ranking.ids[2]] is ranking[2]
    with pytest.raises(KeyError, match="no passage 'aa'"):
        ranking["aa"]


def test_hits_know_their_ranking_after_a_copy() -> None:
    for again in (pickle.loads(pickle.dumps(ranked())), copy.deepcopy(ranked())):
        assert all(hit.ranking is again for hit in again)


def answer(text: str = "Masks seal. " * 99) -> RAGResult:
    return RAGResult(
        question=text,
        text=text,
        kind="extract",
        sentences=(Sentence(text=text, citations=(0,)),),
        all_citations=(Citation(claim=text, passage=1, quote=text, verdict="found"),),
        passages=(SourcePassage(id=text, document=text, text=text, number=1),),
    )


def test_what_is_shown_of_an_object_is_a_line() -> None:
    ranking = ranked()
    for made in (ranking, ranking.team, ranking[0], answer(), Estimate()):
        assert len(repr(made)) < 250
        assert "\n" not in str(made)
    assert repr(ranking["a"]) == "<Hit 2: 'a', relevance 0.3, 'N95 masks seal.'>"
    assert str(Estimate()) == "0 calls, about 0 tokens in, 0 out"


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</p></div>", "\x00\u202e"])
def test_an_answer_shows_its_sources(text: str) -> None:
    page = Page(answer(text)._repr_html_())
    assert "[1]" in page.text
    assert {tag for tag, _ in page.tags} == {"div", "p", "strong", "bdi", "small", "br"}


def test_a_ranking_with_its_progress_is_one_output(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    def display(data: object, **_: object) -> SimpleNamespace:
        shown.append([data])
        return SimpleNamespace(update=lambda data, raw: shown[-1].append(data))

    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with MCRanker(
        model=scripted(lambda _: '{"Score": 5}'), team=["Ann"], criteria="none", ledger=None
    ) as ranker:
        ranker.show("masks", ["N95 masks seal.", "Soap is for hands."]).show()
    (progress, *_, page), (again,) = shown
    assert progress.keys() == {"text/plain"}
    assert page["text/html"].count("<pre") == 1
    assert "Soap is for hands." in page["text/plain"]
    assert "masks" in again["text/html"]


def test_help_begins_with_the_usual_keywords() -> None:
    begin, *_ = pydoc.plain(pydoc.render_doc(MCRanker)).partition("Method resolution order")
    usual = "model base_url team team_size criteria scoring scale ensemble ledger max_cost"
    assert all(f"      {name}: " in begin for name in usual.split())
    assert begin.count("\n") < 40
    with pytest.raises(ConfigError, match="no ensemble 'sums'; did you mean 'sum'"):
        MCRanker(ensemble="sums", ledger=None)  # type: ignore[arg-type] # so type checkers say it


def test_without_pandas_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    ranking = Ranking.from_dict(data_of())
    with pytest.raises(ImportError, match="pip install pandas"):
        ranking.to_dataframe()
