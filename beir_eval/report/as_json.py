"""A report as JSON: everything in it, under the names of `beir_eval.report.model`."""

from __future__ import annotations

from typing import Any

import orjson

from beir_eval.measures.significance import Interval
from beir_eval.report.model import Cell, Column, Figure, Report, Row, Section
from personas.plain import safe_json

__all__ = ["render_json", "report_dict"]

VERSION = 1


def render_json(report: Report, *, per_query: bool = False) -> str:
    """The report, indented; the same report always makes the same text.

    Args:
        report: what it says.
        per_query: with the value of every query.
    """
    text = orjson.dumps(report_dict(report, per_query=per_query), option=orjson.OPT_INDENT_2)
    return safe_json(text.decode()) + "\n"


def report_dict(report: Report, *, per_query: bool = False) -> dict[str, Any]:
    """The report as plain values; measures are 0 to 1."""
    return {
        "version": VERSION,
        "measure": report.measure,
        "test": report.test,
        "correction": report.correction,
        "level": report.level,
        "resamples": report.resamples,
        "seed": report.seed,
        "sections": [_section(each, per_query=per_query) for each in report.sections],
    }


def _section(section: Section, *, per_query: bool) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "baseline": section.baseline,
        "paper_source": section.paper_source,
        "columns": [_column(each) for each in section.columns],
        "rows": [_row(each, per_query=per_query) for each in section.rows],
        "figure": _figure(section.figure) if section.figure else None,
        "unfinished": [
            {"dataset": dataset, "label": label} for dataset, label in section.unfinished
        ],
        "notes": list(section.notes),
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "data": column.data.model_dump(mode="json"),
        "paper_queries": column.paper_queries,
        "conditions": column.conditions,
    }


def _row(row: Row, *, per_query: bool) -> dict[str, Any]:
    return {
        "label": row.label,
        "is_baseline": row.is_baseline,
        "weak": row.weak,
        "models": row.models,
        "average": row.average,
        "paper_average": row.paper_average,
        "rank": row.rank,
        "cells": [_cell(each, per_query=per_query) if each else None for each in row.cells],
    }


def _cell(cell: Cell, *, per_query: bool) -> dict[str, Any]:
    found = cell.comparison
    return {
        "value": cell.value,
        "interval": _interval(cell.interval),
        "paper": cell.paper,
        "rank": cell.rank,
        "comparison": {
            "difference": found.difference,
            "interval": _interval(cell.difference),
            "p_value": found.p_value,
            "p_adjusted": found.p_adjusted,
            "wins": found.wins,
            "ties": found.ties,
            "losses": found.losses,
        }
        if found
        else None,
        "metrics": cell.metrics.model_dump(
            mode="json", exclude=None if per_query else {"per_query"}
        ),
        "manifest": cell.manifest.model_dump(mode="json") if cell.manifest else None,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        **figure.note.model_dump(mode="json"),
        "paper": figure.paper,
        "lines": [
            {
                "name": name,
                "points": [
                    {"x": point.x, "value": point.value, "interval": _interval(point.interval)}
                    for point in points
                ],
            }
            for name, points in figure.lines
        ],
    }


def _interval(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None
