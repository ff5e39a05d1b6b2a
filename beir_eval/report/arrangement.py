"""Where each run stands in a report: its section, its row and its column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beir_eval.experiment.labels import column_names, natural, row_labels
from beir_eval.experiment.run_folder import FIRST_STAGE, DataFolder, RunFolder, SuiteNote
from beir_eval.measures import paper
from beir_eval.report.model import Column
from beir_eval.report.notes import conditions

NO_SUITE, NO_SUITE_TITLE = "runs", "Runs"

Slot = tuple[str, str]
"""A column, by the content of its data, and a row, by its label."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Where the runs of a section stand.

    Attributes:
        name: of the suite; ``"runs"`` without one.
        suite: note of its first run; None without a suite.
        data: content -> what was ranked, in the order of the columns.
        labels: of the rows, the first stage's first; empty where no run is finished.
        runs: the finished runs.
        unfinished: (data set, label) of the others.
    """

    name: str
    suite: SuiteNote | None
    data: Mapping[str, DataFolder]
    labels: tuple[str, ...]
    runs: Mapping[Slot, RunFolder]
    unfinished: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """Heading of the section."""
        return self.suite.title if self.suite else NO_SUITE_TITLE

    def columns(self) -> tuple[Column, ...]:
        """A column for each of `data`, in its order."""
        manifests = [folder.manifest for folder in self.data.values()]
        queries = [paper.paper_queries(each.paper) if each.paper else None for each in manifests]
        return tuple(
            Column(name, data, count, conditions(data, count))
            for name, data, count in zip(column_names(manifests), manifests, queries, strict=True)
        )

    def shown(self, label: str) -> str:
        """A row's label in tables: of the first stage its own name, if all data sets have one."""
        names = {folder.manifest.first_stage.name for folder in self.data.values()}
        if label != FIRST_STAGE or len(names) != 1 or names & set(self.labels):
            return label
        return names.pop()

    def baseline(self, asked: str | None) -> str:
        """The row that the others are compared with: the one asked for, the suite's, or first."""
        named = {self.shown(label): label for label in self.labels}
        for wanted in (asked, self.suite.baseline if self.suite else None):
            if wanted is not None and self.has(wanted):
                return named.get(wanted, wanted)
        return FIRST_STAGE

    def has(self, label: str) -> bool:
        """Whether a row is called so, here or in tables."""
        return label in self.labels or label in [self.shown(each) for each in self.labels]

    def paper_value(self, place: Slot) -> float | None:
        """The paper's NDCG@10 for that place, 0 to 1; None if it has none.

        Raises:
            SuiteError: the suite names a table that the paper has not.
        """
        content, label = place
        data = self.data[content].manifest
        if label == FIRST_STAGE:
            suite = self.suite
            # Another first stage than the paper's is not to be mistaken for it.
            row = paper.FIRST_STAGE_ROW if paper.FIRST_STAGE_ROW in data.first_stage.name else None
        else:
            suite = self.runs[place].manifest.suite
            row = suite.paper_row if suite else None
        if suite is None or suite.paper_table is None or row is None or data.paper is None:
            return None
        return paper.paper_value(suite.paper_table, row, data.paper)


def arrange(runs: Sequence[RunFolder]) -> list[Arrangement]:
    """Sections by suite in the natural order of the names, runs without a suite last.

    Raises:
        RunFolderError: a run and its data do not belong together, or cannot be read.
    """
    groups: dict[str, list[RunFolder]] = {}
    for run in sorted(runs, key=_row_order):
        groups.setdefault(run.manifest.suite.name if run.manifest.suite else NO_SUITE, []).append(
            run
        )
    names = sorted(groups, key=lambda name: (name == NO_SUITE, natural(name)))
    return [_arranged(name, groups[name]) for name in names]


def _arranged(name: str, members: Sequence[RunFolder]) -> Arrangement:
    data = [run.data() for run in members]
    finished: dict[Slot, RunFolder] = {}
    folders: dict[str, DataFolder] = {}
    unfinished = []
    for label, run, folder in zip(row_labels(members), members, data, strict=True):
        if run.manifest.finished:
            finished[folder.manifest.content, label] = run
            folders.setdefault(folder.manifest.content, folder)
        else:
            unfinished.append((folder.manifest.dataset, label))
    labels = dict.fromkeys(label for _, label in finished)
    return Arrangement(
        name=name,
        suite=members[0].manifest.suite,
        data=dict(sorted(folders.items(), key=lambda item: _column_order(item[1]))),
        labels=(FIRST_STAGE, *labels) if labels else (),
        runs=finished,
        unfinished=tuple(unfinished),
    )


def _row_order(run: RunFolder) -> tuple[object, ...]:
    place = run.manifest.suite.place if run.manifest.suite else 0
    return (place, natural(run.manifest.label), run.path.resolve().parts)


def _column_order(folder: DataFolder) -> tuple[object, ...]:
    data, known = folder.manifest, paper.DATASETS
    place = known.index(data.paper) if data.paper in known else len(known)
    return (place, natural(data.dataset), data.queries, data.depth, data.split, data.content)
