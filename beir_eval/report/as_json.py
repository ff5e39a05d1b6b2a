"""A report as JSON: everything in it, under the names of `beir_eval.report.model`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson
from pydantic import BaseModel

from beir_eval.experiment.run_folder import Metrics
from beir_eval.measures.values import Interval, Values
from beir_eval.report.model import Figure, Report, Section, TableCell
from beir_eval.report.warnings import warnings
from personas.sanitize import safe_json

VERSION = 1
_OF_CELL = ("value", "by_lot", "missing")


def render_json(report: Report, *, per_query: bool = False) -> str:
    """The report, indented; the same report always makes the same text. Measures are 0 to 1."""

    def plain(value: Any) -> Any:
        """Return what JSON shows for a value that it does not know."""
        match value:
            case Metrics() if not per_query:
                return value.model_dump(mode="json", exclude={"per_query", "by_lot"})
            case BaseModel():
                return value.model_dump(mode="json")
            case Interval():
                return [value.low, value.high]
            case TableCell():
                shown = {name: getattr(value, name) for name in _OF_CELL}
                return {**_named(value), **shown, "values": plain(value.values)}
            case Values():
                flaws = [each._asdict() for each in value.flaws()]
                kept = {} if not per_query else {"of": value.of, "lots": value.lots}
                return {"mean": value.mean, "ends": value.ends, "flaws": flaws, **kept}
            case Section():
                left = [{"dataset": data, "label": label} for data, label in value.unfinished]
                return {**_named(value), "unfinished": left}
            case Figure():
                lines = [{"name": name, "points": points} for name, points in value.lines]
                return {**plain(value.note), "paper": value.paper, "lines": lines}
        return _named(value)

    options = orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATACLASS
    content = {"version": VERSION, "warnings": list(warnings(report)), **_named(report)}
    text = orjson.dumps(content, default=plain, option=options)
    return safe_json(text.decode()) + "\n"


def _named(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}
