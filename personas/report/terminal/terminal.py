"""One ranked query for people at a terminal, with all that the page of the query shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console

from personas.console import print_page
from personas.errors import PersonasError
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.report.terminal.passage import show_passage
from personas.report.terminal.ranking import show_ranking
from personas.report.terminal.screen import Screen, clipped
from personas.report.terminal.summary import show_agreement, show_calls, show_head, show_warnings
from personas.report.terminal.team import show_team

_LONGEST_ID = 200
_RANK = re.compile("(?<!0)0*+[1-9][0-9]{0,8}")
_CLOSE = 0.75  # how alike ids must be to be suggested, 0 to 1


def print_inspection(
    data: RankingRecord | Mapping[str, Any],
    *,
    top: int = 20,
    passage: int | str | None = None,
    grades: Mapping[str, int] | None = None,
    file: TextIO | None = None,
) -> None:
    """Print a ranking: in colour on a terminal, as plain text anywhere else."""
    inspection = RankingRecord.of(data).beside(grades=grades)
    if passage is not None:
        find_hit(inspection, passage)
    print_page(lambda console: show_inspection(console, inspection, top=top, passage=passage), file)


def show_inspection(
    console: Console, inspection: RankingRecord, *, top: int = 20, passage: int | str | None = None
) -> None:
    """Print the query, the team, the ranking and its calls, nothing by colour alone."""
    screen = Screen(console)
    hit = None if passage is None else find_hit(inspection, passage)
    show_head(screen, inspection)
    if hit is not None:
        if inspection.judge_note:
            screen.words(clipped(inspection.judge_note, 300), "yellow")
        show_passage(screen, inspection, hit)
        return
    show_warnings(screen, inspection)
    show_team(screen, inspection)
    show_ranking(screen, inspection, top)
    show_agreement(screen, inspection)
    show_calls(screen, inspection)


def find_hit(inspection: RankingRecord, passage: int | str) -> Hit:
    """The passage of that id, or of that rank if no passage has such an id."""
    hits = inspection.hits
    by_id = next((hit for hit in hits if hit.doc_id == passage), None)
    given = str(passage)[:_LONGEST_ID]
    if by_id is not None:
        return by_id
    if _RANK.fullmatch(given) and int(given) <= len(hits):
        return hits[int(given) - 1]
    shown = repr(given if isinstance(passage, str) else passage)
    if not hits:
        raise PersonasError(f"no passage {shown}: no passages were ranked")
    ids = [hit.doc_id[:_LONGEST_ID] for hit in hits if isinstance(passage, str)]
    close = difflib.get_close_matches(given, ids, n=3, cutoff=_CLOSE)
    meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise PersonasError(f"no passage {shown}; give an id, or a rank from 1 to {len(hits)}{meant}")
