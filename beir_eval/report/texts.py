"""A report as Markdown, as GitHub reads it, and as LaTeX with booktabs, to be put into a paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from beir_eval.report.model import Report
from beir_eval.report.tables import figure_table, section_tables
from beir_eval.report.warnings import paper_note, warnings
from personas.sanitize import plain

# Everything that could begin markup, wherever it stands.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#$&])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "§": r"$^{\S}$",
    "¶": r"$^{\P}$",
    "\N{MINUS SIGN}": "$-$",
    "±": r"$\pm$",
    "\N{EN DASH}": "--",
    # At the beginning of a row these would belong to the end of the row before.
    **{char: f"{{{char}}}" for char in "[]*"},
    **{char: f"\\{char}" for char in "{}$&#%_"},
}


def render_markdown(report: Report, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report; the same report always makes the same text.

    Args:
        report: its content.
        figures: section -> file of its figure, relative to the text; the figure's values are
            there as a table in any case.
    """
    return _rendered("report.md", escaped_markdown, report, figures)


def render_latex(report: Report, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report; arguments as `render_markdown` has them."""
    delimiters = {
        f"{kind}_{side}_string": sign
        for kind, signs in {"block": "<% %>", "variable": "<< >>", "comment": "<# #>"}.items()
        for side, sign in zip(("start", "end"), signs.split(), strict=True)
    }
    return _rendered("report.tex", escaped_latex, report, figures, **delimiters)


def escaped_markdown(text: str) -> str:
    """Return `text` in one line as Markdown shows it as it is; control characters are shown."""
    return _MARKUP.sub(r"\\\1", plain(text))


def escaped_latex(text: str) -> str:
    """Return `text` in one line, so that LaTeX sets it as it is; control characters are shown."""
    return "".join(_LATEX.get(char, char) for char in plain(text))


def _rendered(
    name: str,
    escaped: Callable[[str], str],
    report: Report,
    figures: Mapping[str, str] | None,
    **delimiters: str,
) -> str:
    from jinja2 import Environment, PackageLoader

    made = Environment(  # noqa: S701 - no HTML: `e` is the escape of the form
        loader=PackageLoader("beir_eval", "report/templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        **delimiters,  # type: ignore[arg-type]  # the signs of the template's language
    )
    made.filters.update(e=escaped, paper_note=paper_note)
    text = made.get_template(name).render(
        report=report,
        warnings=warnings(report),
        figures=figures or {},
        tables=section_tables,
        figure_table=figure_table,
    )
    return text.rstrip("\n") + "\n"
