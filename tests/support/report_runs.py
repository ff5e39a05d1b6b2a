"""Shared by the tests of what a report says: folders, the report on them, and its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beir_eval.experiment.run_folder import DataManifest, Metrics, RunManifest, find_runs
from beir_eval.files import write_form
from beir_eval.report.build import build_report
from beir_eval.report.model import Report, Row, Section, TableCell
from tests.support.run_folders import make_run_folders

DIRECT, TWO, ONE = "DIRECT(0,10)", "MC: 2 recruits", "MC: 1 recruit"


def made(out: Path, **options: Any) -> Path:
    """Folders with made-up values, four queries a data set."""
    return make_run_folders(out, **{"rankings": False, "queries": 4, **options})


def report_on(out: Path, **options: Any) -> Report:
    """The report on all runs below `out`."""
    return build_report(find_runs([out]), **options)


def only(report: Report) -> Section:
    """The section of a report that has one."""
    (section,) = report.sections
    return section


def row_of(section: Section, label: str) -> Row:
    """The row with that label."""
    return next(row for row in section.rows if row.label == label)


def cell_of(section: Section, label: str, place: int = 0) -> TableCell:
    """The cell of that row in that column."""
    cell = row_of(section, label).cells[place]
    assert cell is not None
    return cell


def change(path: Path, form: type[RunManifest | DataManifest | Metrics], **fields: Any) -> None:
    """Replace fields of a manifest, or of metrics."""
    write_form(path, form.model_validate_json(path.read_bytes()).model_copy(update=fields))
