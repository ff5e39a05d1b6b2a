"""An ensemble of another package: used by its name wherever one is chosen."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcranker import ChatRequest, ConfigError, MCRanker, RankerConfig, Ranking
from personas.ensembles import ENSEMBLES
from personas.ranking.record import RankingRecord
from tests.support.known_scores import MEDIAN
from tests.support.plugins import installed
from tests.support.scripted import scripted

SCORES = {"Ann": (9, 1, 5), "Ben": (0, 8, 5), "Cleo": (1, 9, 5)}
ODD = """
from personas import Ensemble
TWO = Ensemble("two", lambda scores: scores, "Two-dimensional.")
NOTHING = len
"""


def answer(request: ChatRequest) -> str:
    return json.dumps({"Score": SCORES[request.tag.persona][int(request.tag.doc_id)]})


def ranker(ensemble: str = "median") -> MCRanker:
    team = list(SCORES)
    config = RankerConfig(criteria="none", ensemble=ensemble)
    return MCRanker(config, team=team, model=scripted(answer))


@pytest.fixture
def median(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "packages"
    folder.mkdir()
    with installed(folder, ENSEMBLES, MEDIAN, median="MEDIAN"):
        yield folder


@pytest.fixture
def ranking(median: Path) -> Ranking:
    with ranker() as made:
        return made.rank("masks", ["a", "b", "c"])


def test_it_ranks(ranking: Ranking) -> None:
    # Medians: a 1, b 8, c 5; sums: a 10, b 18, c 15.
    assert [(hit.doc_id, hit.score) for hit in ranking] == [("1", 8), ("2", 5), ("0", 1)]
    assert ranking.config["ensemble"] == "median"
    assert ranking.reensemble("sum")[0].score == 18
    assert ranking.reensemble("sum").reensemble("median").to_dict() == ranking.to_dict()


def test_reports_explain_it_and_leave_personas_out_by_it(ranking: Ranking, tmp_path: Path) -> None:
    inspection = RankingRecord.of(ranking.to_dict())
    assert inspection.leave_one_out_exact
    # Without Ben the medians are the means of two: a 5, b 5, c 5, so the first stage's order.
    assert [hit.rank_without["Ben"] for hit in inspection.hits] == [2, 3, 1]
    ranking.to_html(tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert "The median of the scores. Equal ones keep the order of the first stage." in page
    assert "rank without a persona is unknown" not in page
    shown = io.StringIO()
    ranking.show(file=shown)
    assert "ensemble median" in shown.getvalue()


def test_without_the_package_its_rankings_open_and_the_sum_stands_in(
    median: Path, tmp_path: Path
) -> None:
    with ranker() as made:
        saved = made.rank("masks", ["a", "b", "c"]).to_json()
    ENSEMBLES.__dict__["_added"].clear()
    ranking = Ranking.from_dict(json.loads(saved))
    inspection = RankingRecord.of(ranking.to_dict())
    assert inspection.ensemble is None
    assert not inspection.leave_one_out_exact
    assert [hit.rank_of_all for hit in inspection.hits] == [1, 2, 3]  # sums 18, 15 and 10
    ranking.to_html(tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert "rank of a passage without a persona is not known exactly" in page
    assert "That of the ensemble “median”, which is not installed here." in page
    assert ranking.reensemble("sum").ids == ["1", "2", "0"]
    for use in (ranking.reensemble, ranker):
        with pytest.raises(ConfigError, match="there is no ensemble 'median'; there are sum, rec"):
            use()


def test_what_is_no_ensemble_is_refused_before_any_call(tmp_path: Path) -> None:
    with installed(tmp_path, ENSEMBLES, ODD, two="TWO", nothing="NOTHING", gone="GONE"):
        with pytest.raises(ConfigError, match="'own_plugin:NOTHING' is a builtin_function_or_meth"):
            ranker("nothing")
        with pytest.raises(ConfigError, match="'gone' cannot be loaded from 'own_plugin:GONE'"):
            ranker("gone")
        with (
            ranker("two") as made,
            pytest.raises(ConfigError, match="the ensemble 'two' gave an ar"),
        ):
            made.rank("masks", ["a", "b", "c"])
