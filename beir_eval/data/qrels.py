"""Judgements from a file of their own: as BEIR writes them, or as TREC does."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.errors import DatasetError
from mcranker.inputs.grades import HIGHEST_GRADE
from mcranker.inputs.trec import columns
from mcranker.logs import safe_logger
from mcranker.paths import is_file
from personas.io.lines import read_records, read_texts

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_FORMS = {3: (0, 1, 2), 4: (0, 2, 3)}  # columns -> where query, document and grade stand
BLANK = " \t\n\r\x0b\f"
_ID = re.compile(f"[^{BLANK}\0]+")  # tools in C end a text at a zero byte
MARK = ".judge.json"
"""Ending of the file that lies beside judgements of a model, see `beir_eval.judging`."""
BY_MODEL = "its judgements are a model's, {}"
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")

_log = safe_logger("mcranker.beir_eval.qrels")


def read_qrels(
    path: str | os.PathLike[str] | Traversable, *, tabs: bool = False
) -> dict[str, dict[str, int]]:
    """Query id -> document id -> grade, in the order of the file."""
    if isinstance(path, str | os.PathLike):
        path = Path(path)
    found: dict[str, dict[str, int]] = {}
    count = 3 if tabs else 0
    for line_number, (place, line) in enumerate(read_texts(path, DatasetError)):
        fields = [each.strip(BLANK) for each in line.split("\t")] if tabs else columns(line)
        if line_number == 0 and len(fields) == 3 and fields[2].lower() == "score":
            count = 3
            continue
        count = count or len(fields)
        if count not in _FORMS or len(fields) != count:
            raise DatasetError(
                f"{place}: {len(fields)} columns; "
                + (
                    "a line of judgements has three, parted by tabs: query id, document id, grade"
                    if tabs
                    else "each line of judgements has three (query id, document id, grade) or each "
                    "has four (query id, 0, document id, grade)"
                )
            )
        query_id, doc_id, text = (fields[column] for column in _FORMS[count])
        check_id(query_id, "query id", place)
        check_id(doc_id, "document id", place)
        if not _WHOLE.fullmatch(text):
            raise DatasetError(f"{place}: grade {text[:40]!r} is no whole number")
        grade = int(text)
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
    if not found:
        raise DatasetError(f"{path}: no judgement in it")
    if model := judging_model(path):
        _log.warning("%s: %s", path, BY_MODEL.format(model))
    return found


def judging_model(path: str | os.PathLike[str] | Traversable) -> str:
    """The model that made a file's judgements, by the file beside it; empty if people did."""
    mark = Path(f"{path}{MARK}")
    records = read_records(mark, DatasetError, "model") if is_file(mark) else ()
    return next((str(each["model"]) for _, each in records), "")


def check_id(value: str, what: str, place: str) -> None:
    """Check that an id fits a TREC run, whose columns are parted by white space."""
    if not _ID.fullmatch(value):
        raise DatasetError(
            f"{place}: {what} {value!r} is empty or holds white space or a zero byte"
        )
