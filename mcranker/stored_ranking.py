"""From the plain values that a ranking is stored as back to its fields."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from mcranker.types import Passage, Query, ScoreMatrix, UsageTable
from personas.errors import SchemaError

if TYPE_CHECKING:
    from mcranker.llm.chat import Stage
    from personas.inspection.stored import StoredCalls

__all__ = ["ASSESSOR", "restored_fields"]

ASSESSOR = "(assessor)"
"""The name under which the assessor's own missing scores are listed."""


def restored_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Ranking` from what ``Ranking.to_dict`` made.

    Raises:
        SchemaError: it is something else.
    """
    import numpy as np

    from personas.inspection.stored import read_stored

    stored = read_stored(data)
    hits = sorted(stored.hits, key=lambda hit: hit.first_stage_rank)
    personas = tuple(stored.personas)
    matrix = ScoreMatrix.empty(len(hits), len(personas))
    assessor_reasons: dict[int, str] = {}
    bounds: dict[int, float] = {}
    for row, hit in enumerate(hits):
        for column, name in enumerate(personas):
            matrix.values[row, column] = _or_nan(hit.scores[name])
            if name in hit.missing:
                matrix.reasons[row, column] = hit.missing[name]
            if scores := hit.criteria.get(name):
                criteria = stored.criteria_of(name)
                if set(scores) != set(criteria):
                    raise SchemaError(
                        f"the hit of rank {hit.rank} has scores of other criteria than {name!r} has"
                    )
                matrix.criteria[row, column] = tuple(scores[each] for each in criteria)
        if ASSESSOR in hit.missing and ASSESSOR not in personas:
            assessor_reasons[row] = hit.missing[ASSESSOR]
        if hit.at_most is not None:
            bounds[row] = hit.at_most
    calls = UsageTable()
    _count(calls, stored.usage.by_stage, reused=False)
    _count(calls, stored.usage.reused, reused=True)
    return {
        "query": Query(stored.query.text, stored.query.id),
        "passages": tuple(
            Passage(hit.doc_id, hit.text, hit.title, hit.first_stage_score) for hit in hits
        ),
        "order": np.argsort([hit.rank for hit in hits]).astype(np.intp),
        "final": np.array([_or_nan(hit.score) for hit in hits], dtype=np.float64),
        "matrix": matrix,
        "personas": personas,
        "team": stored.team,
        "ranker": stored.ranker,
        "config": stored.config,
        "models": stored.models,
        "prompt_hashes": stored.prompt_hashes,
        "calls": calls,
        "seconds": stored.seconds,
        "assessor_reasons": assessor_reasons,
        "bounds": bounds,
    }


def _count(table: UsageTable, rows: Iterable[StoredCalls], *, reused: bool) -> None:
    from mcranker.llm.chat import Usage

    for row in rows:
        counts = Usage(
            calls=row.calls,
            input_tokens=row.input_tokens,
            cached_input_tokens=row.cached_input_tokens,
            output_tokens=row.output_tokens,
            seconds=row.seconds,
            unreadable=row.unreadable,
        )
        table.add(cast("Stage", row.stage), row.persona, row.model, counts, reused=reused)


def _or_nan(score: float | None) -> float:
    return math.nan if score is None else score
