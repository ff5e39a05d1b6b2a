"""What is known about a query's passages from judgements: in numbers, and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from personas.inspection.effectiveness import ndcg
from personas.inspection.inspection import Inspection, OtherRanking
from personas.report.formats import whole

__all__ = ["Judgements", "judgements"]


@dataclass(frozen=True, slots=True)
class Judgements:
    """What the judgements say of a ranking.

    Attributes:
        ndcg: NDCG@10, 0 to 1; None where no passage is relevant.
        first_stage_ndcg: that of the first stage.
        other_ndcg: that of the ranking compared with; None if there is none.
        graded: whether grades above 1 occur.
        sentence: how many relevant passages there are, and how many of them were found.
    """

    ndcg: float | None
    first_stage_ndcg: float | None
    other_ndcg: float | None
    graded: bool
    sentence: str


def judgements(inspection: Inspection) -> Judgements | None:
    """What the judgements say; None if none are known."""
    grades = inspection.grades
    if grades is None:
        return None
    relevant = sum(grade > 0 for grade in grades.values())
    if not relevant:
        return Judgements(None, None, None, graded=False, sentence=_nothing(grades))
    hits = inspection.hits
    given = sorted(hits, key=lambda hit: hit.first_stage_rank)
    other = inspection.other if inspection.other and inspection.other.places else None
    found = sum(hit.grade is not None and hit.grade > 0 for hit in hits)
    return Judgements(
        ndcg=ndcg([hit.grade for hit in hits], grades.values()),
        first_stage_ndcg=ndcg([hit.grade for hit in given], grades.values()),
        other_ndcg=ndcg(_grades_of(other, grades), grades.values()) if other else None,
        graded=max(grades.values()) > 1,
        sentence=_sentence(relevant, found, len(hits)),
    )


def _grades_of(other: OtherRanking, grades: Mapping[str, int]) -> list[int | None]:
    order = sorted(other.places, key=lambda doc_id: other.places[doc_id].rank)
    return [grades.get(doc_id) for doc_id in order]


def _nothing(grades: Mapping[str, int]) -> str:
    if not grades:
        return "There are no judgements for this query."
    return "No passage is judged relevant to this query, so NDCG@10 cannot be told."


def _sentence(relevant: int, found: int, passages: int) -> str:
    these = f"{_are(found)} among these {whole(passages)}"
    if relevant == 1 and found:
        return f"The one passage judged relevant {these}."
    if relevant == 1:
        return "The one passage judged relevant was not found by the first stage."
    if found == relevant:
        return f"All {whole(relevant)} passages judged relevant {these}."
    lost = relevant - found
    if not found:
        return f"None of the {whole(lost)} passages judged relevant was found by the first stage."
    missed = f"{whole(lost)} {'was' if lost == 1 else 'were'} not found by the first stage"
    return f"Of {whole(relevant)} passages judged relevant, {whole(found)} {these}; {missed}."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
