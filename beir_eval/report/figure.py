"""The figure that the runs of a suite make."""

from __future__ import annotations

from collections.abc import Sequence

from beir_eval.experiment.run_folder import SuiteNote
from beir_eval.measures import paper
from beir_eval.report.model import Cell, Column, Figure, Point, Row

__all__ = ["build_figure"]


def build_figure(
    suite: SuiteNote | None, columns: Sequence[Column], rows: Sequence[Row]
) -> Figure | None:
    """The suite's figure; None if it has none, or nothing of it was run.

    Lines go by `SuiteNote.x` from left to right; bars stand in the order of the rows.

    Raises:
        SuiteError: it names a figure that the paper has not.
    """
    if suite is None or suite.figure is None:
        return None
    note = suite.figure
    lines: dict[str, list[Point]] = {}
    for place, column in enumerate(columns):
        for row in rows:
            cell = row.cells[place]
            if cell is None or cell.manifest is None or cell.manifest.suite is None:
                continue
            point = _point(note.kind, cell, cell.manifest.suite, row.label)
            if point is not None:
                name = _line_name(cell.manifest.suite.series, column.name, len(columns))
                lines.setdefault(name, []).append(point)
    if not lines:
        return None
    if note.kind == "line":
        for points in lines.values():
            points.sort(key=lambda point: float(point.x))
    return Figure(
        note=note,
        lines=tuple((name, tuple(points)) for name, points in lines.items()),
        paper=paper.paper_words(note.paper) if note.paper else "",
    )


def _point(kind: str, cell: Cell, suite: SuiteNote, label: str) -> Point | None:
    """None where a run has no number to stand at on the axis of a line figure."""
    x = suite.x
    if kind == "bars":
        return Point(label if x is None else str(x), cell.value, cell.interval)
    if isinstance(x, int | float):
        return Point(float(x), cell.value, cell.interval)
    return None


def _line_name(series: str, column: str, columns: int) -> str:
    if not series:
        return column
    return series if columns == 1 else f"{series}, {column}"
