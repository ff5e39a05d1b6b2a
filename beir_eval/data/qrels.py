"""Judgements from a file of their own: as BEIR writes them, or as TREC does."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.errors import DatasetError
from beir_eval.text_files import read_lines
from mcranker.grades import HIGHEST_GRADE

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_FORMS = {3: (0, 1, 2), 4: (0, 2, 3)}  # columns -> where query, document and grade stand
_FIELD = re.compile(r"[^ \t\n\r\x0b\f]+")  # between the white space of the C locale
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")


def read_qrels(path: str | os.PathLike[str] | Traversable) -> dict[str, dict[str, int]]:
    """Query id -> document id -> grade, in the order of the file.

    A line has three columns parted by white space (query id, document id, grade; BEIR's form,
    whose line of headings may be missing) or four (query id, a column that is not looked at,
    document id, grade; TREC's). Blank lines are skipped.

    Raises:
        DatasetError: the file cannot be read or is not UTF-8; a line has another number of
            columns than the first; a grade is no whole number, or beyond `HIGHEST_GRADE`; a
            document has two grades for one query; there is no judgement at all.
    """
    if isinstance(path, str | os.PathLike):
        path = Path(path)
    found: dict[str, dict[str, int]] = {}
    columns = 0
    for place, number, line in read_lines(path):
        fields = _FIELD.findall(line)
        if number == 1 and len(fields) == 3 and fields[2].lower() == "score":
            continue
        columns = columns or len(fields)
        if columns not in _FORMS or len(fields) != columns:
            raise DatasetError(
                f"{place}: {len(fields)} columns; each line of judgements has three (query "
                "id, document id, grade) or each has four (query id, 0, document id, grade)"
            )
        query_id, doc_id, grade_text = (fields[column] for column in _FORMS[columns])
        add_grade(found, query_id, doc_id, grade_text, place)
    if not found:
        raise DatasetError(f"{path}: no judgement in it")
    return found


def add_grade(
    found: dict[str, dict[str, int]], query_id: str, doc_id: str, grade_text: str, place: str
) -> None:
    """Note a judgement that stands at `place`, as ``FILE:LINE``.

    Raises:
        DatasetError: the grade is no whole number, or beyond `HIGHEST_GRADE`; or the document
            has another grade for the query already.
    """
    if not _WHOLE.fullmatch(grade_text):
        raise DatasetError(f"{place}: grade {grade_text[:40]!r} is no whole number")
    grade = int(grade_text)
    if abs(grade) > HIGHEST_GRADE:
        raise DatasetError(
            f"{place}: grade {grade!r} is out of range; give one from {-HIGHEST_GRADE:,} to "
            f"{HIGHEST_GRADE:,}"
        )
    before = found.setdefault(query_id, {}).setdefault(doc_id, grade)
    if before != grade:
        raise DatasetError(
            f"{place}: query {query_id!r} and document {doc_id!r} were given grade {before} "
            f"before, now {grade}; keep one of the lines"
        )
