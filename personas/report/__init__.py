"""Reports for people: why passages rank where they do, as pages that need nothing else."""

from personas.report.query.inspection_page import render_inspection
from personas.report.sections import Section

__all__ = ["Section", "render_inspection"]
