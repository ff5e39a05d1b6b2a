"""The playground, the page at ``/``: rank, change the team, and see what moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

from mcranker import __version__
from mcranker.logs import safe_logger
from mcranker.rankers.judge import PointwiseRanker
from mcranker.serve.rankers import ServedRanker
from mcranker.serve.results import public_name
from personas.ranking.types import judge_note
from personas.report.page import asset

__all__ = ["FILES", "HEADERS", "examples", "file_of", "ranker_of"]

logger = safe_logger("mcranker.serve")

FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/playground.css": ("page.css", "text/css; charset=utf-8"),
    "/playground.js": ("page.js", "text/javascript; charset=utf-8"),
}
"""Route -> a file of this package, and its type."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}

_GROUP = "mcranker.examples"


@cache
def file_of(route: str) -> str:
    """The text of a route of `FILES`; style begins with the reports'."""
    name, _ = FILES[route]
    text = (files(__name__) / name).read_text(encoding="utf-8").replace("\r\n", "\n")
    if name == "page.css":
        return asset("report.css") + text
    return text.replace("{{version}}", __version__)


def ranker_of(served: ServedRanker) -> Mapping[str, Any]:
    """Return the facts of a ranker that the page shows."""
    scoring = served.ranker.models.scoring
    model = public_name(scoring.name)
    weak = scoring.capabilities.weak_judge
    note = judge_note(weak, model) or f"Judged by {model}."
    return {
        "name": served.name,
        "judge": note if served.ranker.needs_model else "",
        "reads_criteria": not weak,
        "chooses_team": "team" in served.settings.per_request,
        "has_team": isinstance(served.ranker, PointwiseRanker),
    }


@cache
def examples() -> Sequence[Mapping[str, Any]]:
    """Queries with passages and judgements that other packages offer, by their entry points."""
    for entry in entry_points(group=_GROUP):
        try:
            found: Sequence[Mapping[str, Any]] = entry.load()()
        except Exception as error:  # noqa: BLE001 - a page without examples is still a page
            logger.info("no examples of %s: %s", entry.value, error)
        else:
            return found
    return ()
