"""Experiments on the small data set of `tests.support.beir_folder`, with made-up models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beir_eval.experiment.cell import Plan
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite
from mcranker import ChatRequest, ScriptedChat
from tests.support.beir_folder import judging

MEASURE = "nDCG@10"
RANKERS: dict[str, tuple[str, dict[str, Any]]] = {
    "DIRECT": ("direct", {}),
    "DIRECT with criteria": ("direct", {"with_criteria": True}),
    "scientist": ("mcranker", {"team_size": 1}),
    "sum": ("mcranker", {}),
    "reciprocal rank": ("mcranker", {"ensemble": "reciprocal_rank"}),
    "assessor": ("mcranker", {"ensemble": "assessor"}),
    "no criteria": ("mcranker", {"criteria": "none"}),
    "data set's criteria": ("mcranker", {"criteria": "dataset"}),
}


def suite(folder: Path, *labels: str) -> Suite:
    rankers = tuple(
        RankerSpec(label, *RANKERS[label], note=None, own=frozenset(RANKERS[label][1]))
        for label in labels or RANKERS
    )
    datasets = (DatasetSpec(str(folder), about="Notes on masks and filters."),)
    return Suite("made", "Made up", "", datasets, rankers, depth=20)


def plan(out: Path, model: object, **fields: Any) -> Plan:
    options = {"model": model, "ledger": None, **fields.pop("options", {})}
    return Plan(out=out, options=options, cache=False, **fields)


def constant(score: int) -> ScriptedChat:
    def answer(request: ChatRequest) -> str:
        key = "Final score" if request.tag.stage == "assess" else "Score"
        return json.dumps({key: score})

    return judging(answer, name="scripted:constant")
