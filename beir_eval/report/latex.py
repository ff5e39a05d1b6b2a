"""A report as LaTeX, to be put into a paper as it is; tables as booktabs has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from beir_eval.report.model import Report, Section
from beir_eval.report.notes import findings, paper_note
from beir_eval.report.tables import Entry, Table, figure_table, section_tables
from personas.sanitize import plain

_PREAMBLE = r"% Needs: \usepackage{booktabs,longtable,graphicx}"
_SVG = r"% The figures are SVG files; they need: \usepackage{svg}"
WIDE = 8
"""Columns from which on a table is scaled to the width of the line."""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    # At the beginning of a row these would belong to the end of the row before.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "§": r"$^{\S}$",
    "¶": r"$^{\P}$",
    "‖": r"$^{\|}$",
    "\N{MINUS SIGN}": "$-$",
    "±": r"$\pm$",
    "\N{EN DASH}": "--",
}


def render_latex(report: Report, *, figures: Mapping[str, str] | None = None) -> str:
    """Return the report; the same report always makes the same text.

    Args:
        report: its content.
        figures: section -> SVG file of its figure, relative to where the text will stand; the
            figure's values are there as a table in any case.
    """
    lines = [_PREAMBLE, *([_SVG] if figures else []), ""]
    lines += _items([each.sentence for each in findings(report)])
    for section in report.sections:
        lines += _section(report, section, (figures or {}).get(section.name))
    return "\n".join(lines).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    """Return `text` in one line, so that LaTeX sets it as it is; control characters are shown."""
    return "".join(_SPECIAL.get(char, char) for char in plain(text))


def _section(report: Report, section: Section, figure_file: str | None) -> Iterator[str]:
    yield from (rf"\section*{{{escaped(section.title)}}}", "")
    yield from _items([f"{each.name}: {each.conditions}" for each in section.columns])
    first, *others = section_tables(report, section) or (None,)
    if first is not None:
        yield from _floating(first)
    for table in others:
        yield from _long(table)
    if section.figure:
        if figure_file:
            yield from (r"\begin{figure}", r"\centering")
            yield rf"\includesvg[width=\linewidth]{{{figure_file}}}"
            caption = escaped(section.figure.note.title)
            yield from (rf"\caption{{{caption}}}", r"\end{figure}", "")
        yield from _long(figure_table(report, section.figure))
        if section.figure.paper:
            yield from (f"The paper's figure, in words: {escaped(section.figure.paper)}.", "")
    source = [paper_note(section.paper_source)] if section.paper_source else []
    yield from _items([*source, *section.notes])


def _floating(table: Table) -> Iterator[str]:
    """Yield a table that fits a page, scaled where it would not fit its width."""
    wide = len(table.headings) > WIDE
    yield from (r"\begin{table}", r"\centering", rf"\caption{{{_caption(table)}}}")
    if wide:
        yield r"\resizebox{\linewidth}{!}{%"
    yield rf"\begin{{tabular}}{{{_alignment(table)}}}"
    yield from (r"\toprule", _row(map(escaped, table.headings)), r"\midrule")
    yield from (_row(map(_entry, row)) for row in table.rows)
    yield from (r"\bottomrule", r"\end{tabular}" + "}" * wide, r"\end{table}", "")


def _long(table: Table) -> Iterator[str]:
    """Yield a table that may go over several pages."""
    headings = _row(map(escaped, table.headings))
    yield from ("{", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}")
    yield rf"\begin{{longtable}}{{{_alignment(table)}}}"
    yield rf"\caption{{{_caption(table)}}}\\"
    yield from (r"\toprule", headings, r"\midrule", r"\endfirsthead")
    yield from (r"\toprule", headings, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot")
    yield from (_row(map(_entry, row)) for row in table.rows)
    yield from (r"\end{longtable}", "}", "")


def _items(texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield r"\begin{itemize}"
        yield from (rf"\item {escaped(text)}" for text in texts)
        yield from (r"\end{itemize}", "")


def _caption(table: Table) -> str:
    return escaped(f"{table.title}. {table.note}".rstrip())


def _alignment(table: Table) -> str:
    return "l" * table.texts + "r" * (len(table.headings) - table.texts)


def _row(cells: Iterable[str]) -> str:
    return rf"{' & '.join(cells)} \\"


def _entry(entry: Entry) -> str:
    text = escaped(entry.text)
    if entry.best:
        text = rf"\textbf{{{text}}}"
    if entry.second:
        text = rf"\underline{{{text}}}"
    mark = rf"$^{{{entry.mark}}}$" if entry.lettered else escaped(entry.mark)
    return text + mark + "".join(f" ({escaped(tag)})" for tag in entry.tags)
