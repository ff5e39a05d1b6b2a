"""Reports for people: why passages rank where they do, as pages that need nothing else."""

from personas.report.inspection import render_inspection

__all__ = ["render_inspection"]
