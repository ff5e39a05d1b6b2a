"""A ranking as a notebook shows it."""

from __future__ import annotations

from personas.ranking.record import RankingRecord
from personas.report.notebook import render_notebook
from personas.report.query.passages import PassageFormat
from personas.report.query.warnings import warnings

_ROWS = 10


def ranking_html(ranking: RankingRecord) -> str:
    """The query, warnings and notes, and the first ten passages with their scores."""
    form, hits = PassageFormat(ranking), ranking[:_ROWS]
    shown = [(hit, cells, label) for hit, label, cells, *_ in form.shown(hits, 0)]
    return render_notebook(ranking=ranking, warnings=warnings(ranking), rows=shown, team=None)
