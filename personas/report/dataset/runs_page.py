"""The first page of a report over several runs: its runs by data set, with what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from personas.report.page import render_page
from personas.survey.model import Totals


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run of the report.

    Attributes:
        page: path of its overview below the report's folder.
        title: of the run.
        dataset: what was ranked, in a few words.
        first_stage: how the first stage is called.
        other: name of the ranker compared with; empty if there is none.
        personas: how many different ones judged.
        totals: over all its queries.
        finished: whether every query was tried; else these are those that were.
    """

    page: str
    title: str
    dataset: str
    first_stage: str
    other: str
    personas: int
    totals: Totals
    finished: bool = True


@dataclass(frozen=True, slots=True)
class _Group:
    """Runs over the same data; a name is empty where they do not share it."""

    dataset: str
    entries: tuple[RunEntry, ...]
    first_stage: str
    other: str


def render_runs(entries: Sequence[RunEntry]) -> str:
    """The page; runs over the same data stand together, in the order in which they come."""
    datasets = dict.fromkeys(entry.dataset for entry in entries)
    groups = [
        _group(dataset, tuple(entry for entry in entries if entry.dataset == dataset))
        for dataset in datasets
    ]
    return render_page("runs.html", groups=groups, runs=len(entries))


def _group(dataset: str, entries: tuple[RunEntry, ...]) -> _Group:
    first_stages = {entry.first_stage for entry in entries}
    others = {entry.other for entry in entries}
    return _Group(
        dataset,
        entries,
        first_stages.pop() if len(first_stages) == 1 else "",
        others.pop() if len(others) == 1 else "",
    )
