"""Runs, and the TREC format that carries them from one program to another.

A run maps a query id to its documents, best first, each with a score. The order of the list
is the ranking; scores only have to agree with it in a TREC file, because trec_eval and its
kin ignore the order of the lines: they sort by score, in single precision, and break ties by
the document id. What is written here therefore lowers a score that is not below the one before.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from mcranker.errors import RunError
from mcranker.logs import safe_logger
from personas.ensembles import HIGHEST_SCORE
from personas.io.atomic import write_whole
from personas.io.lines import STDIN, named, read_texts

Run: TypeAlias = Mapping[str, Sequence[tuple[str, float]]]
"""Query id -> (document id, score), best first. Ids hold no white space."""

_log = safe_logger("mcranker.inputs.trec")

# The white space of the C locale, where trec_eval splits lines, and what ends a text in C.
_NO_ID = re.compile(r"[ \t\n\r\x0b\f\0]")
_COLUMN = re.compile(r"[^ \t\n\r\x0b\f]+")
_COLUMNS = "query-id Q0 document-id rank score tag"
_SHOWN = 80  # characters of a number that is none
# Steps below a tied score in a file, at least; keeps zeros from becoming denormal numbers.
_SMALLEST_STEP = 1e-9


def read_trec(
    source: str | os.PathLike[str], *, needed: bool = False
) -> dict[str, list[tuple[str, float]]]:
    """Read a run file with the six columns ``query-id Q0 document-id rank score tag``.

    Documents come best first by score, those with the same score by rank, then by line.
    Queries come in the order of their first lines. Columns two and six are not looked at, and
    blank lines are skipped.

    Args:
        source: the file, plain or packed by gzip (``.gz``); ``"-"`` for standard input.
        needed: whether a file without a line is an error.

    Raises:
        RunError: the file cannot be read, is damaged or is not UTF-8, a line has not six columns,
            a rank or score is no number or beyond single precision, or a document appears twice
            for one query.
    """
    file = source if source == STDIN else Path(source)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for place, line in read_texts(file, RunError, too_long=f"a line of a run has six: {_COLUMNS}"):
        fields = columns(line)
        if len(fields) != 6:
            raise RunError(f"{place}: {len(fields)} columns; a line of a run has six: {_COLUMNS}")
        query_id, _, doc_id, rank, score, _ = fields
        documents = found.setdefault(query_id, {})
        if doc_id in documents:
            raise RunError(
                f"{place}: document {doc_id!r} appears twice under query {query_id!r}; "
                "a run lists it once"
            )
        documents[doc_id] = -_number(score, "score", place), _number(rank, "rank", place)
    if needed and not found:
        raise RunError(f"{named(file)}: there is no line of a run in it")
    return {
        query_id: [
            (doc_id, -falling)
            for doc_id, (falling, _) in sorted(documents.items(), key=lambda item: item[1])
        ]
        for query_id, documents in found.items()
    }


def columns(line: str) -> list[str]:
    """The columns of a line of a run or of judgements, parted as trec_eval does it."""
    return _COLUMN.findall(line)


def write_trec(run: Run, path: str | os.PathLike[str], tag: str) -> None:
    """Write `run` as a TREC file in which every reader finds the order of its lists.

    A score is written as it is, to the last digit, if it is lower than the one written before
    it for the same query, both taken in single precision. Else (ties, or a list whose order is
    not that of its scores) the number written is the one before it less one step: the spacing
    of single-precision numbers at that point (about 1.2e-7 of the value), at least 1e-9.

    The file appears whole or not at all. A query without documents leaves no line.

    Args:
        run: the run.
        path: where to write; an existing file is replaced.
        tag: the name of the run in the last column, without white space.

    Raises:
        RunError: an id or the tag is empty or holds white space, a document appears twice for
            one query, a score is not a finite number of single precision, or the file cannot
            be written.
    """
    check_name(tag, "the tag")
    lines: list[str] = []
    for query_id, documents in run.items():
        if not documents:
            _log.warning("query %r has no documents: it leaves no line in a TREC run", query_id)
        lines += _lines(query_id, documents, tag)
    try:
        write_whole(path, "".join(lines))
    except UnicodeEncodeError as failure:
        raise RunError(
            f"cannot write the run {os.fspath(path)!r}: {failure.object[failure.start]!r} in an "
            "id or the tag is no character of UTF-8"
        ) from failure
    except OSError as failure:
        raise RunError(f"cannot write the run {os.fspath(path)!r}: {failure.strerror}") from failure


def with_ties(documents: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """One query's documents with the ties that `write_trec` set apart: equal scores again."""
    found: list[tuple[str, float]] = []
    before = math.inf
    for doc_id, score in documents:
        tied = bool(found) and score == before - _step(before)
        found.append((doc_id, found[-1][1] if tied else score))
        before = _single(score, doc_id)
    return found


def trec_run(query_id: str, ids: Sequence[str], scores: Sequence[float], tag: str) -> str:
    """One query's lines of a run, as `write_trec` writes them; passages with NaN come last."""
    check_names([query_id], ids)
    floor = min((score for score in scores if not math.isnan(score)), default=0.0) - 1.0
    falling = (floor if math.isnan(score) else score for score in scores)
    return "".join(_lines(query_id, zip(ids, falling, strict=True), tag))


def _number(text: str, what: str, place: str) -> float:
    try:
        number = decimal(text)
    except ValueError as failure:
        raise RunError(f"{place}: {what} {text[:_SHOWN]!r} is no number") from failure
    if not abs(number) <= HIGHEST_SCORE:
        raise RunError(
            f"{place}: {what} {text[:_SHOWN]!r} is not finite in single precision, in which runs "
            "are read, so it gives no order"
        )
    return number


def decimal(text: str) -> float:
    """The number in a column of a file: in ASCII, and without Python's underscores."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text[:_SHOWN]!r} is no number")
    return float(text)


def _lines(query_id: str, documents: Iterable[tuple[str, float]], tag: str) -> Iterator[str]:
    check_name(query_id, "query id")
    seen = set()
    before = math.inf
    for rank, (doc_id, score) in enumerate(documents, start=1):
        check_name(doc_id, f"document id of query {query_id!r}")
        if doc_id in seen:
            raise RunError(
                f"query {query_id!r}: document {doc_id!r} appears twice; a run lists it once"
            )
        seen.add(doc_id)
        place = f"query {query_id!r}, document {doc_id!r}"
        written = float(score)
        if _single(written, place) >= before:
            written = before - _step(before)
        before = _single(written, place)
        yield f"{query_id} Q0 {doc_id} {rank} {written!r} {tag}\n"


def _single(number: float, place: str) -> float:
    """`number` in single precision, as the C programs of the field hold scores."""
    try:
        if not math.isfinite(number):
            raise OverflowError
        (single,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise RunError(
            f"{place}: score {number!r} is not a finite single-precision number"
        ) from None
    return float(single)


def _step(single: float) -> float:
    # 24 bits of mantissa: numbers in [2**(e-1), 2**e) lie 2**(e-24) apart.
    if single == 0:
        return _SMALLEST_STEP
    _, exponent = math.frexp(single)
    return max(math.ldexp(1.0, exponent - 24), _SMALLEST_STEP)


def check_names(queries: Iterable[str], passages: Iterable[str]) -> None:
    """Refuse ids that some reader of runs would not accept; some part columns at any space."""
    for what, name in chain((("query", x) for x in queries), (("passage", x) for x in passages)):
        if name.split() != [name] or "\0" in name:
            raise RunError(
                f"a TREC run cannot name the {what} {name!r}: ids must not be empty or hold white "
                "space or a zero byte; rename it, or choose another format"
            )


def check_name(name: str, what: str) -> None:
    """See that a TREC run can hold an id or a tag; `what` is what messages call it."""
    if not name or _NO_ID.search(name):
        raise RunError(
            f"{what} {name!r} is empty, or holds white space or a zero byte: not possible in a "
            "TREC run"
        )
