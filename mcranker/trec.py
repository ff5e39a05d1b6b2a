"""Rankings as lines of a TREC run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mcranker.errors import InputError

__all__ = ["can_be_named", "decimal", "trec_run"]


def can_be_named(name: str) -> bool:
    """Whether a TREC run can hold this id: some text without white space or a zero byte."""
    return name.split() == [name] and "\0" not in name


def decimal(text: str) -> float:
    """The number in a column of a file: in ASCII, and without Python's underscores.

    Raises:
        ValueError: it is none.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"{text[:80]!r} is no number")
    return float(text)


def trec_run(query_id: str, ids: Sequence[str], scores: Sequence[float], tag: str) -> str:
    """One line a passage: query id, Q0, document id, rank, score, tag.

    Tools for TREC runs sort by score, read as a 32-bit float, and break ties by document id;
    so scores that would be equal there are set apart by the smallest such step.

    Args:
        query_id: names the query.
        ids: of the passages, best first.
        scores: theirs, not rising; NaN, for passages without one, comes last.
        tag: names the run.

    Raises:
        InputError: the query has no id, or an id holds white space.
    """
    for what, name in [("query", query_id), *(("passage", each) for each in ids)]:
        if not can_be_named(name):
            raise InputError(
                f"a TREC run cannot name the {what} {name!r}; "
                "ids must not be empty or hold white space or a zero byte"
            )
    return "".join(
        f"{query_id} Q0 {doc_id} {rank} {score} {tag}\n"
        for rank, (doc_id, score) in enumerate(
            zip(ids, _strictly_falling(scores), strict=True), start=1
        )
    )


def _strictly_falling(scores: Sequence[float]) -> list[str]:
    """The scores, NaN below all others, as numbers that fall even when read as 32-bit floats."""
    import numpy as np

    floor = min((score for score in scores if not math.isnan(score)), default=0.0)
    fallen: list[str] = []
    last = np.float32(math.inf)
    for score in scores:
        score = floor - 1.0 if math.isnan(score) else score
        single = np.float32(score)
        text = repr(score)
        if single >= last:
            single = np.nextafter(last, np.float32(-math.inf))
            text = str(single)
        fallen.append(text)
        last = single
    return fallen
