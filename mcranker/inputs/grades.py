"""Judgements of one query, as users give them."""

from __future__ import annotations

from collections.abc import Mapping

from mcranker.errors import InputError
from personas.errors import shown

HIGHEST_GRADE = 1_000_000
"""Grades go as far below 0. Programs that measure take memory for each up to the highest."""


def checked_grades(grades: Mapping[str, int] | None) -> dict[str, int] | None:
    """Judgements of one query: document id -> grade, above 0 for relevant."""
    if grades is None:
        return None
    if not isinstance(grades, Mapping):
        raise InputError(
            f"grades is a {type(grades).__name__}; give a mapping of document id to grade, "
            'e.g. {"doc1": 2}'
        )
    for doc_id, grade in grades.items():
        if not isinstance(doc_id, str):
            raise InputError(
                f"grades: document id {doc_id!r} is a {type(doc_id).__name__}; "
                "give ids as text, as in docs"
            )
        # True is a whole number to Python, and numbers of numpy are none.
        whole = hasattr(grade, "__index__") and not isinstance(grade, bool)
        if not (whole and abs(int(grade)) <= HIGHEST_GRADE):
            raise InputError(
                f"grades: the grade of {doc_id!r} is {shown(grade)}; give a whole number, "
                f"above 0 for relevant, up to {HIGHEST_GRADE:,}"
            )
    return {doc_id: int(grade) for doc_id, grade in grades.items()}
