"""From the plain values that a ranking is stored as back to its fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mcranker.types import Passage, Query, ScoreMatrix, UsageTable

__all__ = ["ASSESSOR", "restored_fields"]

ASSESSOR = "(assessor)"
"""The name under which the assessor's own missing scores are listed."""


def restored_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Ranking` from what ``Ranking.to_dict`` made.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is something else.
    """
    import numpy as np

    from mcranker.llm.chat import Usage
    from personas import Team

    hits = sorted(data["hits"], key=lambda hit: int(hit["first_stage_rank"]))
    personas = tuple(data["personas"])
    team = Team.model_validate(data["team"]) if data["team"] else None
    matrix = ScoreMatrix.empty(len(hits), len(personas))
    assessor_reasons: dict[int, str] = {}
    bounds: dict[int, float] = {}
    for row, hit in enumerate(hits):
        for column, name in enumerate(personas):
            value = hit["scores"][name]
            matrix.values[row, column] = math.nan if value is None else value
            if name in hit["missing"]:
                matrix.reasons[row, column] = hit["missing"][name]
            if name in hit["criteria"]:
                matrix.criteria[row, column] = tuple(hit["criteria"][name].values())
        if ASSESSOR in hit["missing"] and ASSESSOR not in personas:
            assessor_reasons[row] = hit["missing"][ASSESSOR]
        if hit.get("at_most") is not None:
            bounds[row] = float(hit["at_most"])
    calls = UsageTable()
    for name in ("by_stage", "reused"):
        for entry in data["usage"].get(name, []):
            counts = Usage(
                calls=int(entry["calls"]),
                input_tokens=int(entry["input_tokens"]),
                cached_input_tokens=int(entry["cached_input_tokens"]),
                output_tokens=int(entry["output_tokens"]),
                seconds=float(entry.get("seconds", 0.0)),
                unreadable=int(entry.get("unreadable", 0)),
            )
            key = (entry["stage"], entry["persona"], entry["model"])
            calls.add(*key, counts, reused=name == "reused")
    return {
        "query": Query(**data["query"]),
        "passages": tuple(
            Passage(hit["doc_id"], hit["text"], hit["title"], hit["first_stage_score"])
            for hit in hits
        ),
        "order": np.argsort([int(hit["rank"]) for hit in hits]).astype(np.intp),
        "final": np.array(
            [math.nan if hit["score"] is None else hit["score"] for hit in hits], dtype=np.float64
        ),
        "matrix": matrix,
        "personas": personas,
        "team": team,
        "ranker": str(data["ranker"]),
        "config": dict(data["config"]),
        "models": dict(data["models"]),
        "prompt_hashes": dict(data["prompt_hashes"]),
        "calls": calls,
        "seconds": dict(data["seconds"]),
        "assessor_reasons": assessor_reasons,
        "bounds": bounds,
    }
