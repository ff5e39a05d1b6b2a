"""The frame of every report page: templates, styles, scripts, the policy that guards them, names.

A page is one file. Its content-security policy allows the style and the script that are in
it, by their SHA-256, and nothing else: no request, no frame, no form, and no markup from a
passage could change that. Templates escape whatever they are given.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from personas import format as formatting
from personas.report import formats

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


OVERVIEW = "index.html"
"""The page of a report over many queries; those of its queries are named by numbers only."""
_FILTERS = {
    formats: (
        *("alpha_reading", "bare", "bar", "change", "cut", "escaped", "iso", "judgement", "moved"),
        *("part", "place", "tau_reading", "tersely", "tooltip", "value"),
    ),
    formatting: (
        *("counted", "dollars", "exact", "fixed", "optional", "p_text", "percent", "seconds"),
        *("signed", "weight", "whole"),
    ),
}


@dataclass(frozen=True, slots=True)
class ReportFooter:
    """Version, date and command of a report, for its last line; empty ones are left out."""

    version: str = ""
    date: str = ""  # such as 2026-03-31
    command: str = ""


NO_FOOTER = ReportFooter()


@dataclass(frozen=True, slots=True)
class PageContext:
    """The place of a query's page in its report."""

    title: str  # of the report, for the link back
    place: int  # of the query, from 1; names its pages
    queries: int
    footer: ReportFooter = NO_FOOTER


def query_page(place: int) -> str:
    """Path of a query's page below the report's folder, e.g. ``query/000012.html``."""
    return f"query/{place:06d}.html"


def render_page(template: str, *, assets: Sequence[str] = (), **values: Any) -> str:
    """The page that `template`, a file of ``templates/``, makes of `values`."""
    made = environment().get_template(f"templates/{template}")
    return formats.printable(made.render({**_frame(tuple(assets)), **values}))


@cache
def environment(*packages: str) -> Environment:
    """Templates, with our filters, of the folder ``report`` of these packages and of this one."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(each, "report") for each in (*packages, "personas")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for module, names in _FILTERS.items():
        made.filters.update({name: getattr(module, name) for name in names})
    return made


def policy(styles: Sequence[str], script: str) -> str:
    """The content-security policy that allows these style sheets and this script alone."""
    allowed = " ".join(map(_source, styles))
    return (
        f"default-src 'none'; style-src {allowed}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _frame(assets: tuple[str, ...]) -> dict[str, Markup]:
    """Style, script and policy of the pages with these assets."""
    from markupsafe import Markup

    style, script = asset("report.css"), asset("tables.js") + asset("report.js")
    for name in assets:
        css, js = asset(f"{name}.css"), asset(f"{name}.js")
        if not css and not js:
            raise FileNotFoundError(f"the reports have neither {name}.css nor {name}.js")
        style, script = style + css, script + js
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    return {
        "style": Markup(style),  # noqa: S704
        "script": Markup(script),  # noqa: S704
        "policy": Markup(policy([style], script)),  # noqa: S704
    }


def asset(name: str, package: str = "personas") -> str:
    """The text of a file of the package's folder ``report``, empty if there is no such file."""
    file = files(f"{package}.report") / name
    return file.read_text(encoding="utf-8").replace("\r\n", "\n") if file.is_file() else ""


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def team_html(team: Any) -> str:
    """Members of a `personas.Team` with their criteria and weights."""
    return render_notebook(team=team)


def render_notebook(**values: object) -> str:
    """The template of notebooks with these values."""
    return formats.printable(environment().get_template("templates/notebook.html").render(values))
