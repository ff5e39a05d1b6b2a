"""Rankings and teams as notebooks show them: small tables without scripts or styles of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from personas.report.formats import printable
from personas.report.page import environment

if TYPE_CHECKING:
    from personas.ranking.record import RankingRecord

_ROWS = 10


def team_html(team: Any) -> str:
    """Members of a `personas.Team` with their criteria and weights."""
    return _rendered(ranking=None, team=team)


def ranking_html(ranking: RankingRecord) -> str:
    """The query, warnings and notes, and the first ten passages with their scores."""
    from personas.report.query.passages import PassageFormat
    from personas.report.query.warnings import warnings

    form, hits = PassageFormat(ranking), ranking[:_ROWS]
    shown = [(hit, cells, label) for hit, label, cells, *_ in form.shown(hits, 0)]
    return _rendered(ranking=ranking, warnings=warnings(ranking), rows=shown, team=None)


def _rendered(**values: object) -> str:
    return printable(environment().get_template("templates/notebook.html").render(values))
