"""The places of runs in a report: sections by suite, columns by data set, rows by label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beir_eval.experiment.labels import column_names, natural, row_labels
from beir_eval.experiment.run_folder import (
    FIRST_STAGE,
    DataFolder,
    RunFolder,
    RunManifest,
    SuiteNote,
)
from beir_eval.measures import paper
from beir_eval.report.model import Column
from beir_eval.report.warnings import conditions

NO_SUITE, NO_SUITE_TITLE = "runs", "Runs"
Slot = tuple[str, str]
"""A column, by the content of its data, and a row, by its label."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The runs of a section."""

    name: str  # of the suite; "runs" without one
    suite: SuiteNote | None  # of its first run; None without a suite
    data: Mapping[str, DataFolder]  # content -> what was ranked, in the order of the columns
    labels: tuple[str, ...]  # of the rows, the first stage's first; empty if no run is finished
    runs: Mapping[Slot, RunFolder]  # the finished ones
    unfinished: tuple[tuple[str, str], ...]  # (data set, label)
    never_run: tuple[str, ...] = ()  # labels of the suite's other rankers

    def manifest(self, place: Slot) -> RunManifest | None:
        """Return that of a run; None for the first stage, and where nothing was run."""
        return self.runs[place].manifest if place in self.runs else None

    def columns(self) -> tuple[Column, ...]:
        """Return a column for each of `data`, in its order."""
        manifests = [folder.manifest for folder in self.data.values()]
        queries = [paper.paper_queries(each.paper) if each.paper else None for each in manifests]
        return tuple(
            Column(name, data, count, conditions(data, count), data.judge)
            for name, data, count in zip(column_names(manifests), manifests, queries, strict=True)
        )

    def shown(self, label: str) -> str:
        """Return a row's label in tables: the first stage's own name, if all data sets have one."""
        names = {folder.manifest.first_stage.name for folder in self.data.values()}
        if label != FIRST_STAGE or len(names) != 1 or names & set(self.labels):
            return label
        return names.pop()

    def row(self, label: str) -> str | None:
        """Find a row by its label, by its label in tables, or by the label in its runs' folders."""
        kept = {run.manifest.label: row for (_, row), run in self.runs.items()}
        names = kept | {self.shown(each): each for each in self.labels}
        return label if label in self.labels else names.get(label)

    def baseline(self, wanted: str | None) -> str:
        """Return the row that the others are compared with: as asked for, the suite's, or first."""
        asked = (wanted, self.suite.baseline if self.suite else None)
        return next((row for each in asked if each and (row := self.row(each))), FIRST_STAGE)

    def paper_value(self, place: Slot) -> float | None:
        """Return the paper's nDCG@10 for that place, 0 to 1; None if it has none."""
        content, label = place
        if label == FIRST_STAGE:
            # Another first stage than the paper's is not to be mistaken for it.
            is_papers = paper.FIRST_STAGE_ROW in self.data[content].manifest.first_stage.name
            return self._published(paper.FIRST_STAGE_ROW if is_papers else None, content)
        manifest = self.manifest(place)
        suite = manifest.suite if manifest else None
        return self._published(suite.paper_row if suite else None, content, suite)

    def not_run(self) -> list[tuple[str, tuple[float | None, ...]]]:
        """Return (label, the paper's numbers by column) of rows of which nothing was run."""
        if self.suite is None:
            return []
        rows = [(label, self.suite.paper_rows.get(label)) for label in self.never_run]
        found = [
            (label, tuple(self._published(row, content) for content in self.data))
            for label, row in (*rows, *((row, row) for row in self.suite.not_run))
        ]
        return [each for each in found if each[0] in self.never_run or set(each[1]) != {None}]

    def _published(
        self, row: str | None, content: str, suite: SuiteNote | None = None
    ) -> float | None:
        suite, data = suite or self.suite, self.data[content].manifest
        if suite is None or suite.paper_table is None or row is None or data.paper is None:
            return None
        return paper.paper_value(suite.paper_table, row, data.paper)


def arrange(runs: Sequence[RunFolder]) -> list[Arrangement]:
    """Make sections by suite in the natural order of the names, runs without a suite last."""

    def place(run: RunFolder) -> tuple[object, ...]:
        suite = run.manifest.suite
        return (suite.place if suite else 0, natural(run.manifest.label), run.path.resolve().parts)

    groups: dict[str, list[RunFolder]] = {}
    for run in sorted(runs, key=place):
        suite = run.manifest.suite
        groups.setdefault(suite.name if suite else NO_SUITE, []).append(run)
    names = sorted(groups, key=lambda name: (name == NO_SUITE, natural(name)))
    return [_arranged(name, groups[name]) for name in names]


def _arranged(name: str, members: Sequence[RunFolder]) -> Arrangement:
    def place(folder: DataFolder) -> tuple[object, ...]:
        data, known = folder.manifest, paper.DATASETS
        of_paper = known.index(data.paper) if data.paper in known else len(known)
        return (of_paper, natural(data.dataset), data.queries, data.depth, data.split, data.content)

    finished: dict[Slot, RunFolder] = {}
    folders: dict[str, DataFolder] = {}
    unfinished = []
    for label, run in zip(row_labels(members), members, strict=True):
        folder = run.data()
        if run.manifest.finished:
            finished[folder.manifest.content, label] = run
            folders.setdefault(folder.manifest.content, folder)
        else:
            unfinished.append((folder.manifest.dataset, label))
    labels = dict.fromkeys(label for _, label in finished)
    suite = members[0].manifest.suite
    begun = {run.manifest.label for run in members}
    return Arrangement(
        name=name,
        suite=suite,
        data=dict(sorted(folders.items(), key=lambda item: place(item[1]))),
        labels=(FIRST_STAGE, *labels) if labels else (),
        runs=finished,
        unfinished=tuple(unfinished),
        never_run=tuple(each for each in (suite.rankers if suite else ()) if each not in begun),
    )
