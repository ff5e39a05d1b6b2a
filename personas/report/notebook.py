"""A team as a notebook shows it: a small table without scripts or styles of a page."""

from __future__ import annotations

from typing import Any

from personas.report.formats import printable
from personas.report.page import environment


def team_html(team: Any) -> str:
    """Members of a `personas.Team` with their criteria and weights."""
    return render_notebook(ranking=None, team=team)


def render_notebook(**values: object) -> str:
    """The template of notebooks with these values."""
    return printable(environment().get_template("templates/notebook.html").render(values))
