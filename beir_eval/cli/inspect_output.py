"""What ``mcranker inspect`` prints besides the view of a ranking: lists of queries, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from beir_eval.cli.inspect_sources import Listed
from personas.inspection.inspection import InspectedHit, Inspection
from personas.provenance import provenance
from personas.survey.query import QueryFindings
from personas.words import counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["inspection_dict", "listed_dicts", "show_list"]

_LONGEST_ID = 24
_NOT_SHOWN = {"seconds", "unreadable"}


def show_list(console: Console, rows: Sequence[Listed]) -> None:
    """The queries, a line each, and how to pick one."""
    from rich.text import Text

    from personas.report.terminal.parts import NOTE, Column, Sheet, clipped

    sheet = Sheet(console)
    numbers = Column(("number",), [Text(str(row.number)) for row in rows])
    ids = [Text(clipped(row.query_id, _LONGEST_ID)) for row in rows]
    columns = [numbers, Column(("id",), ids, right=False)]
    if any(row.ndcg is not None for row in rows):
        values = [Text("" if row.ndcg is None else f"{row.ndcg:.3f}") for row in rows]
        columns.append(Column(("NDCG@10",), values))
    room = sheet.width - sum(column.width + 2 for column in columns)
    texts = [Text(clipped(row.text, 4 * max(room, 10))) for row in rows]
    columns.append(Column(("query",), texts, right=False, fixed_width=max(room, 10)))
    sheet.cells(columns, 2)
    example = next((row.query_id for row in rows if row.query_id), rows[0].number)
    sheet.words(
        f"{counted(len(rows), 'query', 'queries')}; pick one by id or number, for example "
        f"--query {clipped(str(example), _LONGEST_ID)}",
        NOTE,
    )


def listed_dicts(rows: Sequence[Listed]) -> list[dict[str, Any]]:
    """The queries as plain values."""
    return [asdict(row) for row in rows]


def inspection_dict(inspection: Inspection, hits: Sequence[InspectedHit]) -> dict[str, Any]:
    """All that can be worked out of a ranking, as plain values.

    Args:
        inspection: the ranking.
        hits: the passages to list.
    """
    findings = QueryFindings.of(1, inspection)
    figures, names = findings.figures, [judge.name for judge in findings.judges]
    other = inspection.other
    return {
        "query": {"text": inspection.query, "id": inspection.query_id},
        "ranker": inspection.ranker,
        "other": None if other is None else {"name": other.name, "top": other.top},
        "top_score": inspection.top,
        "team": None if inspection.team is None else inspection.team.model_dump(mode="json"),
        "written_by": {
            member.name: asdict(provenance(member))
            for member in (inspection.team.members if inspection.team else ())
        },
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
            "without": dict(findings.left_out.without) if findings.left_out else {},
        },
        "leave_one_out_exact": inspection.leave_one_out_exact,
        "passages": len(inspection.hits),
        "missing": inspection.missing,
        "skipped": inspection.skipped,
        "hits": [_hit(hit) for hit in hits],
        "models": dict(inspection.models),
        "calls": {
            "total": inspection.total.model_dump(exclude=_NOT_SHOWN),
            "reused": inspection.reused,
            "by_stage": [row.model_dump(exclude=_NOT_SHOWN) for row in inspection.calls],
        },
        "seconds": dict(inspection.seconds),
    }


def _hit(hit: InspectedHit) -> dict[str, Any]:
    return {
        "rank": hit.rank,
        "doc_id": hit.doc_id,
        "score": hit.score,
        "at_most": hit.at_most,
        "scores": dict(hit.scores),
        "criteria": {name: dict(scores) for name, scores in hit.criteria.items()},
        "missing": dict(hit.missing),
        "skipped": list(hit.skipped),
        "disagreement": hit.disagreement,
        "score_range": hit.score_range,
        "first_stage_rank": hit.first_stage_rank,
        "first_stage_score": hit.first_stage_score,
        "moved": hit.moved,
        "grade": hit.grade,
        "other": None if hit.other is None else asdict(hit.other),
        "rank_of_all": hit.rank_of_all,
        "rank_without": dict(hit.rank_without),
        "raised_most_by": list(hit.raised_most_by),
        "sunk_most_by": list(hit.sunk_most_by),
        "title": hit.title,
        "text": hit.text,
    }
