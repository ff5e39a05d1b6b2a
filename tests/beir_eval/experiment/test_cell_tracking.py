"""How far an experiment has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beir_eval.cli.run_results import CellTracker
from beir_eval.experiment.cell import Cell, ExperimentListener
from beir_eval.experiment.ranker_cell import judges
from beir_eval.experiment.run import Experiment
from beir_eval.experiment.suite import DatasetSpec, RankerSpec
from mcranker import PassageScored, RankingStarted
from tests.support.beir_folder import knowing, write_folder
from tests.support.experiment_support import plan, suite


def scored(query_id: str, done: int, total: int) -> PassageScored:
    return PassageScored(query_id, "d", "p", 1.0, "", done, total)


def test_passages_of_finished_queries_and_shares_of_those_under_way() -> None:
    sizes = dict.fromkeys(("q1", "q2", "q3", "q4"), 20)
    tracker = CellTracker(name="tiny, DIRECT (1 of 3)", sizes=sizes)
    tracker.take(RankingStarted("q1", "?", 20))
    tracker.take(RankingStarted("q2", "?", 20))
    tracker.take(scored("q1", 30, 60))
    tracker.take(scored("q2", 15, 60))
    # Half of 20 passages, and a quarter of 20.
    assert (tracker.done, tracker.total) == (15, 80)
    tracker.end_query("q1")
    assert tracker.done == 25
    assert tracker.stage == "tiny, DIRECT (1 of 3), query 2 of 4"
    assert tracker.reached == "in tiny, DIRECT (1 of 3), after 1 of 4 queries"


@pytest.mark.parametrize(
    ("ranker", "options", "number"),
    [
        ("direct", {"with_criteria": True, "team_size": 2}, 1),
        ("mcranker", {}, 3),
        ("mcranker", {"team_size": 1}, 1),
        ("mcranker", {"team_size": 2, "ensemble": "assessor"}, 3),
        ("mcranker", {"team": ["A nurse", "A patient"]}, 2),
    ],
)
def test_how_many_judge_a_passage(ranker: str, options: dict[str, Any], number: int) -> None:
    assert judges(RankerSpec("", ranker, options, None)) == number


class Beginnings(ExperimentListener):
    """Keeps what is told when a cell begins."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []

    def cell_begins(self, cell: Cell, place: int, count: int, scores_after: int) -> None:
        self.told.append((cell.spec.label, cell.scores_ahead, scores_after))


async def test_cells_that_follow_are_weighed_by_the_scores_they_ask_for(tmp_path: Path) -> None:
    folders = [write_folder(tmp_path / name) for name in ("one", "two")]
    experiment = Experiment(
        suite(folders[0], "DIRECT", "sum", "assessor"),
        plan(
            tmp_path / "out",
            knowing(),
            datasets=tuple(DatasetSpec(str(each)) for each in folders),
            depth=3,
        ),
    )
    watch = Beginnings()
    async for _ in experiment.run(watch):
        pass
    # Four queries with three passages each: 12 scores of DIRECT, 36 of the team, 48 with the
    # assessor. The second data set is not known at first, and taken to be like this one: 96.
    assert watch.told == [
        ("DIRECT", 12, 36 + 48 + 96),
        ("sum", 36, 48 + 96),
        ("assessor", 48, 96),
        ("DIRECT", 12, 36 + 48),
        ("sum", 36, 48),
        ("assessor", 48, 0),
    ]
    # What is done already has nothing ahead; one query is missing from the last run.
    path = tmp_path / "out" / "one" / "assessor" / "rankings.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    again = Beginnings()
    async for _ in experiment.run(again):
        pass
    assert again.told[:3] == [("DIRECT", 0, 12 + 96), ("sum", 0, 12 + 96), ("assessor", 12, 96)]
