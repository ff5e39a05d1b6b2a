"""Fused rankers in run folders: what their members miss, and what they could not tell apart."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from beir_eval.experiment.run import run_suite
from beir_eval.experiment.run_folder import Metrics
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite
from beir_eval.measures.ties import Tied, tie_figures
from beir_eval.report.numbers import MISSING_SIGN
from mcranker import ChatRequest, ScriptedChat
from personas.ranking.record import RankingRecord
from tests.support.beir_folder import judging, write_folder
from tests.support.experiment_support import plan
from tests.support.report_runs import cell_of, only, report_on

MEMBERS = ["direct", {"ranker": "direct", "scale": 5}]


def fused(out: Path, model: ScriptedChat, **options: object) -> Metrics:
    spec = RankerSpec("fused", "fused", {"members": MEMBERS, **options}, None, frozenset())
    folder = DatasetSpec(str(write_folder(out / "tiny")), about="Notes.")
    suite = Suite("fusion", "Fusion", "", (folder,), (spec,), depth=20)
    (result,) = run_suite(suite, plan(out / "out", model))
    assert result.metrics is not None
    return result.metrics


def test_scores_that_members_miss_count(tmp_path: Path) -> None:
    """A member that cannot read every eighth reply hides it behind the mean of its others."""

    def answer(request: ChatRequest) -> str:
        if request.tag.doc_id in ("d0", "d8", "d16"):
            return "I cannot say."
        return json.dumps({"Score": 3})

    found = fused(tmp_path, judging(answer))

    assert found.scores is not None
    # Of 4 queries: two members, 20 passages at most; the fused row itself asks for one a member.
    assert found.scores.missing > 0
    missed = {why: n for why, n in found.scores.reasons.items() if why.startswith("scores that")}
    assert missed.keys() == {"scores that direct missed", "scores that direct 2 missed"}
    assert found.scores.asked >= 2 * found.scores.missing
    assert MISSING_SIGN in cell_of(only(report_on(tmp_path / "out")), "Fused").signs


@pytest.mark.parametrize(
    "tied",
    [
        {"scores": (5, 5, 1)},
        {"ranker": "setwise", "scores": (None, None, None), "undecided": ((1, 2),)},
    ],
)
@pytest.mark.parametrize("method", ["rrf", "interpolate"])
def test_fused_ties_by_hand(method: str, tied: dict[str, object]) -> None:
    """One member has a and b as equals, or has not decided; the other ranks a, b, c.

    In first-stage order a, b, c both give ranks 1, 2, 3: a has 2 / 61 and b 2 / 62. Had b come
    first, both would have 1 / 61 + 1 / 62, and b would stay first. By places that is 2 · 1 for a
    and 2 · 1/2 for b, or 1 + 1/2 for both; by scores of 5 both have 1 of the first member always.
    """
    by_score = method == "interpolate" and "undecided" not in tied
    given = [1 / 61, 1 / 62, 1 / 63] if method == "rrf" else [1.0, 0.5, 0.0]
    tied_given = [1.0, 1.0, 0.0] if by_score else given
    hits = [
        {
            "rank": rank,
            "doc_id": doc_id,
            "score": tied_given[rank - 1] + given[rank - 1],
            "scores": {"x": tied_given[rank - 1], "y": given[rank - 1]},
            "missing": {},
            "criteria": {},
            "first_stage_rank": rank,
            "first_stage_score": None,
        }
        for rank, doc_id in enumerate("abc", start=1)
    ]
    members = [
        {"label": "x", "ranker": "direct", "weight": 1.0, "ranks": (1, 2, 3), **tied},
        {
            "label": "y",
            "ranker": "rankgpt",
            "weight": 1.0,
            "ranks": (1, 2, 3),
            "scores": (None, None, None),
        },
    ]
    ranking = RankingRecord.from_dict(
        {
            "version": 1,
            "query": {"text": "query", "id": "q"},
            "ranker": "fused",
            "team": None,
            "personas": ["x", "y"],
            "hits": hits,
            "config": {"method": method, "ensemble": "sum", "missing_policy": "lowest"},
            "models": {},
            "prompt_hashes": {},
            "usage": {
                "calls": 0,
                "input_tokens": 0,
                "cached_input_tokens": 0,
                "output_tokens": 0,
                "cost": 0.0,
                "by_stage": [],
            },
            "seconds": {},
            "absolute": False,
            "members": members,
        }
    )
    found = tie_figures({"q": Tied.of_ranking(ranking)}, {"q": {"b": 1}})
    bounds = found.bounds["nDCG@10"]
    if by_score:
        assert bounds.worst == bounds.best == pytest.approx(1 / math.log2(3))
        return
    # b at 2 where a comes first, else at 1.
    assert bounds.worst == pytest.approx(1 / math.log2(3))
    assert bounds.best == 1.0
    assert bounds.worst < found.by_lot["nDCG@10"]["q"] < bounds.best
