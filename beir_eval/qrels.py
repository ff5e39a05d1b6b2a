"""Judgements from a file of their own: as BEIR writes them, or as TREC does."""

from __future__ import annotations

import os
from pathlib import Path

from beir_eval.errors import DatasetError

__all__ = ["read_qrels"]

_FORMS = {3: (0, 1, 2), 4: (0, 2, 3)}  # columns -> where query, document and grade stand


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Query id -> document id -> grade, in the order of the file.

    A line has three columns parted by white space (query id, document id, grade; BEIR's form,
    whose line of headings may be missing) or four (query id, a column that is not looked at,
    document id, grade; TREC's). Blank lines are skipped.

    Raises:
        DatasetError: the file cannot be read or is not UTF-8; a line has another number of
            columns than the first; a grade is no whole number; a document has two grades for one
            query; there is no judgement at all.
    """
    path = Path(path)
    found: dict[str, dict[str, int]] = {}
    columns = 0
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if not fields or (number == 1 and len(fields) == 3 and fields[2].lower() == "score"):
            continue
        columns = columns or len(fields)
        if columns not in _FORMS or len(fields) != columns:
            raise DatasetError(
                f"{path}:{number}: {len(fields)} columns; each line of judgements has three (query "
                "id, document id, grade) or each has four (query id, 0, document id, grade)"
            )
        query_id, doc_id, grade_text = (fields[column] for column in _FORMS[columns])
        try:
            grade = int(grade_text)
        except ValueError as failure:
            raise DatasetError(
                f"{path}:{number}: grade {grade_text!r} is no whole number"
            ) from failure
        if found.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            raise DatasetError(
                f"{path}:{number}: query {query_id!r} and document {doc_id!r} were given grade "
                f"{found[query_id][doc_id]} before, now {grade}; keep one of the lines"
            )
    if not found:
        raise DatasetError(f"{path}: no judgement in it")
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as failure:
        raise DatasetError(
            f"cannot read the judgements {str(path)!r}: {failure.strerror}"
        ) from failure
    except UnicodeDecodeError as failure:
        raise DatasetError(f"{path}: not UTF-8; convert the file first") from failure
