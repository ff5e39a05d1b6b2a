"""The frame of every report page: templates, styles, scripts, and the policy that guards them.

A page is one file. Its content-security policy allows the style and the script that are in
it, by their SHA-256, and nothing else: no request, no frame, no form, and no markup from a
passage could change that. Templates escape whatever they are given.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from personas.report import formats, markup

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["render_page"]

_FORMATS = ("bare", "cut", "exact", "fixed", "money", "seconds", "value", "weight", "whole")

_MARKUP = ("bar", "iso", "moved", "part")


def render_page(
    template: str,
    *,
    assets: Sequence[str] = (),
    filled: Mapping[str, str] | None = None,
    **values: Any,
) -> str:
    """The page that `template`, a file of ``templates/``, makes of `values`.

    Every page has ``report.css``, ``tables.js`` and ``report.js``.

    Args:
        template: its file name.
        assets: what the page has besides, e.g. ``("survey",)``: ``survey.css`` and
            ``survey.js`` of this package follow the others, in the order given. One of the
            two files may be absent.
        filled: name -> large markup to be put where the template says ``<!--name-->``. It has
            to be escaped and printable already; no text from outside can hold such a mark.
        values: what the template shows.

    Raises:
        FileNotFoundError: an asset has neither file.
    """
    made = _environment().get_template(f"templates/{template}")
    page = formats.printable(made.render({**_frame(tuple(assets)), **values}))
    for name, large in (filled or {}).items():
        before, _, after = page.partition(f"<!--{name}-->")
        page = f"{before}{large}{after}"
    return page


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("personas", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: getattr(formats, name) for name in _FORMATS})
    environment.filters.update({name: getattr(markup, name) for name in _MARKUP})
    return environment


@cache
def _frame(assets: tuple[str, ...]) -> dict[str, Markup]:
    """Style, script and policy of the pages with these assets."""
    from markupsafe import Markup

    style, script = _asset("report.css"), _asset("tables.js") + _asset("report.js")
    for name in assets:
        css, js = _asset(f"{name}.css"), _asset(f"{name}.js")
        if not css and not js:
            raise FileNotFoundError(f"the reports have neither {name}.css nor {name}.js")
        style, script = style + css, script + js
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    return {
        "style": Markup(style),  # noqa: S704
        "script": Markup(script),  # noqa: S704
        "policy": Markup(policy),  # noqa: S704
    }


def _asset(name: str) -> str:
    """The file's text, empty if there is no such file."""
    file = files("personas.report") / name
    return file.read_text(encoding="utf-8").replace("\r\n", "\n") if file.is_file() else ""


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
