"""A ranking's inspection report as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mcranker.errors import InputError
from personas.atomic import write_whole
from personas.plain import in_brief

__all__ = ["HIGHEST_GRADE", "checked_grades", "write_inspection"]

HIGHEST_GRADE = 1_000_000
"""Grades go as far below 0. Programs that measure take memory for each up to the highest."""


def write_inspection(
    data: Mapping[str, Any], path: str | os.PathLike[str], grades: Mapping[str, int] | None = None
) -> None:
    """Write the report of one ranked query; the file appears whole or not at all.

    Args:
        data: what `Ranking.to_dict` made.
        path: of the file; one that is there is replaced.
        grades: as `checked_grades` takes them, or None if no judgements are known.

    Raises:
        InputError: `grades` are not document ids with whole numbers.
        OSError: the file cannot be written.
    """
    from personas.report import render_inspection

    page = render_inspection(data, grades=None if grades is None else checked_grades(grades))
    write_whole(path, page)


def checked_grades(grades: Mapping[str, int]) -> dict[str, int]:
    """Judgements of one query: document id -> grade, above 0 for relevant.

    Raises:
        InputError: they are something else.
    """
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
                f"grades: the grade of {doc_id!r} is {in_brief(grade)}; give a whole number, "
                f"above 0 for relevant, up to {HIGHEST_GRADE:,}"
            )
    return {doc_id: int(grade) for doc_id, grade in grades.items()}
