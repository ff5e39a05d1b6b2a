"""Two rankings of a query side by side: moved passages, and the scores that moved them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from mcranker.errors import InputError
from mcranker.inputs.grades import checked_grades
from personas.errors import SchemaError
from personas.ranking.comparison import RankingComparison
from personas.ranking.record import RankingRecord

RankingSpec: TypeAlias = RankingRecord | Mapping[str, Any] | str | os.PathLike[str]
"""A ranking, what its `to_dict` made, or a file of one ranking."""


@dataclass(frozen=True, slots=True)
class ComparedRankings(RankingComparison):
    """Two rankings of a query, with whose scores moved each passage.

    >>> moved = compare("before.json", "after.json")
    >>> for passage in moved.movers[:3]:
    ...     print(passage.doc_id, passage.moved, [each.persona for each in passage.causes])
    >>> moved.to_html("moved.html")
    """

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison as one HTML page that needs nothing else, whole or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        from mcranker import __version__
        from personas.io.atomic import write_whole
        from personas.report.comparison import render_comparison
        from personas.report.page import ReportFooter

        write_whole(path, render_comparison(self, footer=ReportFooter(__version__)))

    def show(self, top: int = 10, *, file: TextIO | None = None) -> None:
        """Print the comparison for a terminal.

        Args:
            top: moved passages listed.
            file: where to; standard output if None.
        """
        from personas.console import print_page
        from personas.report.comparison import show_comparison

        print_page(lambda console: show_comparison(console, self, top=top), file)


def compare(
    before: RankingSpec, after: RankingSpec, *, grades: Mapping[str, int] | None = None
) -> ComparedRankings:
    """Compare two rankings: passages that moved, and the judges that moved them. Makes no call.

    Any two rankings can be compared; what must be known before the rest is believed, such as
    different passages or missing scores, is in `ComparedRankings.notes`.

    Args:
        before: a ranking, what `Ranking.to_dict` made, or a file that holds one.
        after: the same, of the second ranking.
        grades: document id -> judgement for this query, above 0 for relevant.

    Raises:
        InputError: one is no ranking, is of another version, cannot be read, or has a document
            id twice; or `grades` are not document ids with whole numbers.
    """
    judged = checked_grades(grades)
    sides = [_stored(each, name) for each, name in ((before, "before"), (after, "after"))]
    try:
        return ComparedRankings.of(*sides, grades=judged)
    except SchemaError as error:
        raise InputError(str(error)) from error


def _stored(ranking: RankingSpec, name: str) -> RankingRecord:
    try:
        if isinstance(ranking, str | os.PathLike):
            name = os.fspath(ranking)
            return RankingRecord.from_dict(Path(ranking).read_bytes())
        return RankingRecord.of(ranking)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    except SchemaError as error:
        raise InputError(f"{name}: {error}") from error
