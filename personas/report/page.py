"""The frame of every report page: templates, style, script, and the policy that guards them.

A page is one file. Its content-security policy allows the style and the script that are in
it, by their SHA-256, and nothing else: no request, no frame, no form, and no markup from a
passage could change that. Templates escape whatever they are given.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any

from personas.report import formats, markup

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render_page"]

_FORMATS = ("bare", "cut", "exact", "fixed", "money", "seconds", "value", "weight", "whole")


def render_page(template: str, **values: Any) -> str:
    """The page that `template`, a file of ``templates/``, makes of `values`."""
    return formats.printable(_environment().get_template(f"templates/{template}").render(values))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("personas", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: getattr(formats, name) for name in _FORMATS})
    environment.filters.update({name: getattr(markup, name) for name in markup.__all__})
    style = _asset(environment, "report.css")
    script = _asset(environment, "tables.js") + _asset(environment, "report.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    # Our own files, not text from outside: the hashes hold only if they stay as they are.
    environment.globals.update(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        policy=Markup(policy),  # noqa: S704
    )
    return environment


def _asset(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return text.replace("\r\n", "\n")


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
