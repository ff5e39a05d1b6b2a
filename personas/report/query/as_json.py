"""Everything that can be worked out of a ranking, as plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.ranking.usage import Usage
from personas.records import edited_names
from personas.report.query.warnings import warnings
from personas.survey.query import QueryFindings

_OF_CALLS = ("calls", "input_tokens", "cached_input_tokens", "output_tokens")
_OF_RANKING = (
    *("ranker", "team", "leave_one_out_exact", "comparisons", "left_out", "models"),
    "seconds",
)
_OF_HITS = (
    *("rank", "doc_id", "score", "scores", "ranks", "criteria", "missing"),
    *("cut", "suspicions", "disagreement", "score_range", "first_stage_rank", "first_stage_score"),
    *("moved", "grade"),
    *("other", "rank_of_all", "rank_without", "raised_most_by", "sunk_most_by", "title", "text"),
)


def inspection_dict(inspection: RankingRecord, hits: Sequence[Hit]) -> dict[str, Any]:
    """All that can be worked out of a ranking, as plain values."""
    findings = QueryFindings.of(1, inspection)
    figures, names = findings.figures, [judge.name for judge in findings.judges]
    other = inspection.other
    found: dict[str, Any] = to_jsonable_python(
        {
            **{name: getattr(inspection, name) for name in _OF_RANKING},
            "query": {"text": inspection.query.text, "id": inspection.query.id},
            "other": None if other is None else {"name": other.name, "top": other.top},
            "top_score": inspection.top,
            "edited": edited_names(inspection.team) if inspection.team else [],
            "agreement": {
                "kendall_tau": figures.tau,
                "krippendorff_alpha": figures.alpha,
                "disagreement": figures.disagreement,
                "pairs": [
                    {"personas": [names[one], names[two]], "kendall_tau": tau}
                    for (one, two), tau in findings.taus.items()
                ],
            },
            "ndcg@10": {
                "ranking": figures.ndcg,
                "first_stage": figures.first_stage_ndcg,
                "other": figures.other_ndcg,
                "without": findings.left_out.without if findings.left_out else {},
            },
            "warnings": warnings(inspection),
            "passages": len(inspection.hits),
            "missing": len(inspection.missing),
            "hits": [{name: getattr(hit, name) for name in _OF_HITS} for hit in hits],
            "calls": {
                "total": _calls(inspection.usage, inspection.cost),
                "reused": inspection.reused.calls,
                "by_stage": [
                    {"stage": row.stage, "persona": row.persona, "model": row.model}
                    | _calls(row.usage, row.cost)
                    for row in inspection.rows_of_calls()
                ],
            },
        }
    )
    return found


def _calls(usage: Usage, cost: float | None) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in _OF_CALLS} | {"cost": cost}
