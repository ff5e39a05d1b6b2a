"""A ranking or a team as a notebook shows it: a small table without scripts or styles of a page."""

from __future__ import annotations

from personas.ranking.record import RankingRecord
from personas.report.formats import printable
from personas.report.page import environment
from personas.report.query.passages import PassageFormat
from personas.report.query.verdict import verdict
from personas.schema import Team

_ROWS = 10


def ranking_html(ranking: RankingRecord) -> str:
    """The query, warnings and notes, and the first ten passages with their scores."""
    form, hits = PassageFormat(ranking), ranking[:_ROWS]
    shown = [(hit, cells, label) for hit, label, cells, *_ in form.shown(hits, 0)]
    return _render(ranking=ranking, warnings=verdict(ranking), rows=shown, team=None)


def team_html(team: Team) -> str:
    """Members with their criteria and weights."""
    return _render(ranking=None, team=team)


def _render(**values: object) -> str:
    return printable(environment().get_template("templates/notebook.html").render(values))
