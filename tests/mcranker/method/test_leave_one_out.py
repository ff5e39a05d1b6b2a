"""Where passages stand without a persona, against ranking once more without it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from personas.ensembles import ENSEMBLES
from personas.ranking.record import RankingRecord
from tests.support.known_scores import MEDIAN, Judged
from tests.support.plugins import installed


@pytest.fixture(autouse=True)
def median(tmp_path: Path) -> Iterator[None]:
    with installed(tmp_path, ENSEMBLES, MEDIAN, median="MEDIAN"):
        yield


def without(inspection: RankingRecord, name: str) -> list[str]:
    """Ids of the passages that all have judged, in their order without this persona."""
    hits = sorted(inspection.judged, key=lambda hit: hit.rank_without[name])
    return [hit.doc_id for hit in hits]


@pytest.mark.parametrize("seed", range(24))
def test_it_is_ranking_once_more_without_the_persona(seed: int) -> None:
    judged = Judged(seed)
    ranking = judged.rank()
    inspection = RankingRecord.of(ranking.to_dict())
    assert inspection.leave_one_out_exact
    if len(judged.names) < 2:
        return
    name = random.Random(seed).choice(judged.names)
    again = judged.rank(name)
    known = {hit.doc_id for hit in inspection.judged}
    # Those that nobody else scored are behind the others.
    assert without(inspection, name) == [each for each in again.ids if each in known]


@pytest.mark.parametrize("seed", range(12))
def test_it_is_so_with_weights(seed: int) -> None:
    judged = Judged(seed, weighted=True)
    inspection = RankingRecord.of(judged.rank(ensemble="sum").to_dict())
    assert inspection.leave_one_out_exact
    assert inspection.rule.weights
    name = random.Random(seed).choice(judged.names)
    again = judged.rank(name, ensemble="sum")
    known = {hit.doc_id for hit in inspection.judged}
    assert without(inspection, name) == [each for each in again.ids if each in known]
