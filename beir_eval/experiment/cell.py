"""One system of a suite over its inputs, in a folder of its own, resumable anywhere."""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from beir_eval.data.first_stage import FirstStage
from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import MANIFEST, Metrics, RunFolder, RunManifest, digests
from beir_eval.experiment.suite import DatasetSpec, RankerSpec
from beir_eval.files import write_form
from mcranker.config import HOW_NOT_WHAT
from mcranker.errors import (
    FATAL_ERRORS,
    BudgetExceeded,
    ReplyError,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.runtime.service import Stream

if TYPE_CHECKING:
    from beir_eval.answers.metrics import AnswerMetrics
    from mcranker.events import Event
    from personas.ranking.types import Query

GIVE_UP = 5
"""Queries that fail one after the other, before a run is stopped: the model is out of reach."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of one run of a suite; those left out come from the suite.

    Attributes:
        out: folder of the run folders.
        datasets: in place of the suite's; empty for the suite's.
        rankers: labels of those to run, rankers or pipelines; empty for all.
        queries: ids of the queries; empty for all judged ones.
        limit: only the first N queries of each data set, or questions.
        depth: passages a query; None for the suite's.
        first_stage: what finds the passages; its depth is not looked at.
        measures: names as ir-measures writes them; the first one heads the tables.
        options: for all rankers: models, ``base_url``, ``ledger``, fields of `RankerConfig`; in
            place of the suite's settings, but not of what a ranker of the suite sets itself.
            ``max_calls`` and ``max_cost`` hold for the whole experiment. For pipelines values of
            stages as well, such as ``answer.style``.
        cache: keep first-stage runs in the cache folder.
        questions: for pipelines, a file of questions.
        documents: for pipelines, a folder to index; or else `index`.
        index: for pipelines, the file of an index.
        judge_model: asked by the judges of answers.
        runs: repetitions of every answer; None for the suite's.
    """

    out: str | os.PathLike[str]
    datasets: tuple[DatasetSpec, ...] = ()
    rankers: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    limit: int | None = None
    depth: int | None = None
    first_stage: FirstStage = field(default_factory=FirstStage)
    measures: tuple[str, ...] = ("nDCG@10",)
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = True
    questions: str = ""
    documents: str = ""
    index: str = ""
    judge_model: str = ""
    runs: int | None = None


@dataclass(frozen=True, slots=True)
class CellResult:
    """One ranker over one data set, or one pipeline over the questions.

    Attributes:
        dataset: name of the data set; empty for a pipeline.
        label: the ranker's or the pipeline's.
        path: the run folder.
        metrics: measures of a ranker; None if the run stopped before it was finished.
        answers: those of a pipeline, likewise.
        first_stage: measures of the first stage's run; None for a pipeline.
        depth: passages a query, at most; 0 for a pipeline.
        calls: calls made now for the queries that were ranked, or for the questions.
        cost: US dollars paid for them; None if a price is not known.
        reused: answers that the ledger had.
        stopped: the error that ended the run early: a budget that is spent, something that fails
            every query, or the last of `GIVE_UP` failures in a row, or of all; None if none.
    """

    dataset: str
    label: str
    path: Path
    metrics: Metrics | None = None
    answers: AnswerMetrics | None = None
    first_stage: Metrics | None = None
    depth: int = 0
    calls: int = 0
    cost: float | None = None
    reused: int = 0
    stopped: Exception | None = None

    @property
    def name(self) -> str:
        """Data set and label, for people."""
        return f"{self.dataset}, {self.label}" if self.dataset else self.label

    @property
    def unsupported(self) -> bool:
        """True if it stopped because the model cannot serve the ranker."""
        return isinstance(self.stopped, UnsupportedCapability)

    @property
    def of_this_cell(self) -> bool:
        """True if it stopped for a reason that need not hold for the cells that follow.

        The model cannot serve the ranker, or its answers to it cannot be read, or the requests
        are refused as they are.
        """
        return self.unsupported or isinstance(self.stopped, ReplyError | RequestRejected)


class ExperimentListener:
    """Observer of an experiment; override the methods, which do nothing."""

    def dataset_begins(self, spec: DatasetSpec) -> None:
        """Called before a data set is loaded and its passages are found."""

    def cell_begins(self, cell: Cell, place: int, count: int) -> None:
        """The `place`-th of `count` cells begins, counted from 1."""

    def part_begins(self, what: str, queries: Iterable[str]) -> None:
        """A part of a pipeline's cell begins, such as judging, with these questions."""

    def event(self, event: Event) -> None:
        """Something happened to a query of this cell."""

    def query_done(self, query: Query) -> None:
        """A query was ranked, answered or judged, or failed."""

    def cell_ends(self, result: CellResult) -> None:
        """The cell is finished, or stopped."""


@dataclass
class Cell(ABC):
    """One ranker over one data set, or one pipeline over the questions."""

    path: Path  # of the run folder
    spec: RankerSpec  # what ranks or answers
    # Query id -> why it was not ranked or answered, of the queries tried this time.
    failed: dict[str, str] = field(default_factory=dict, kw_only=True)

    @property
    def dataset(self) -> str:
        """Name of the data set; empty if there is none."""
        return ""

    @property
    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Id -> passages of each query that is still to be done, in order."""

    @abstractmethod
    async def run(self, listener: ExperimentListener) -> CellResult:
        """Do what is open; keep each result as soon as it is there."""

    async def take(
        self, stream: Stream[T], keep: Callable[[T], Exception | None]
    ) -> tuple[Exception | None, Exception | None]:
        """Take results until there are no more or no sense is in going on.

        `keep` returns the error if there is nothing to keep. The result is the error that ended
        it, if one did, and the last error.
        """
        last: Exception | None = None
        in_a_row = 0
        async with stream:
            async for each in stream:
                error = keep(each)
                if error is None:
                    in_a_row = 0
                    continue
                last = error
                in_a_row += 1
                if isinstance(error, (BudgetExceeded, *FATAL_ERRORS)) or in_a_row == GIVE_UP:
                    return error, error
        return None, last

    def result(self, **more: Any) -> CellResult:
        """The result of this cell."""
        return CellResult(self.dataset, self.spec.label, self.path, **more)

    def begin(self, *, begun: bool, **more: Any) -> None:
        """Write the manifest; if the folder is `begun`, with the same choices alone."""
        from mcranker import __version__

        options, path = self.spec.options, self.path / MANIFEST
        manifest = RunManifest(
            label=self.spec.label,
            options={name: _plain(options[name]) for name in options if name not in HOW_NOT_WHAT},
            versions={"mcranker": __version__, "python": platform.python_version()},
            suite=self.spec.note,
            **more,
        )
        if path.exists():
            known = RunFolder.open(self.path).manifest
            if begun and (changed := _changed(known, manifest)):
                raise RunFolderError(
                    f"{self.path} was begun with other choices: {'; '.join(changed[:3])}; choose "
                    "another --out, or delete the folder (answers stay in the ledger)"
                )
            if known.finished and not self.sizes and not manifest.answers:
                manifest = manifest.model_copy(update={"finished": True, "files": known.files})
        self.path.mkdir(parents=True, exist_ok=True)
        write_form(path, manifest)

    def mark_finished(self, files: Iterable[str]) -> None:
        """Add to the manifest that all is done, and the digests of the other files."""
        known = RunFolder.open(self.path).manifest
        finished = {"finished": True, "files": digests(self.path, files)}
        write_form(self.path / MANIFEST, known.model_copy(update=finished))


def _changed(known: RunManifest, wanted: RunManifest) -> list[str]:
    return [
        f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
        for before, now in zip(_choices(known), _choices(wanted), strict=True)
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
    ]


def _choices(manifest: RunManifest) -> Iterator[Mapping[str, object]]:
    """Everything that shapes results, by its name."""
    yield {"label": manifest.label, "ranker": manifest.ranker}
    yield {"questions" if manifest.answers else "data": manifest.data}
    yield from (manifest.config, manifest.models, manifest.prompt_hashes)
    if manifest.answers:
        documents = manifest.answers.documents.items()
        yield {"judge": manifest.answers.judge, **{f"documents: {k}": v for k, v in documents}}


def _plain(value: Any) -> Any:
    """An option as JSON can hold it; a model object by its name."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(getattr(value, "name", type(value).__name__))
