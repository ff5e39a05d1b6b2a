"""From run folders to a folder of pages that show why passages rank where they do.

    OUT/                    the report, if it is about one run
        persona-report.json     marks the folder as a report
        index.html, ...         pages about all queries, as `personas.report.site` names them
        figures.json            what they show, as a `personas.survey.model.Survey`
        query/000001.html, ...  a page a query, or several where one would grow too large
    OUT/run-1/, run-2/, ... the same for each of several runs; OUT/index.html lists them

Queries that were ranked have the places 1, 2, ... in the order of the data set; those that
failed come after them, and have no page.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import orjson

from beir_eval.errors import BeirEvalError, SettingError
from beir_eval.experiment.run_folder import RANKINGS, index_rankings
from beir_eval.persona_report.differences import differences
from beir_eval.persona_report.pages import PASSAGES, Chunk, index_passages, write_pages
from beir_eval.persona_report.run import RunReport
from beir_eval.persona_report.sources import Source, find_sources
from mcranker import __version__
from personas.io.atomic import replacing_folder
from personas.report.dataset.pages import RunEntry, render_runs, survey_pages
from personas.report.site import OVERVIEW, ReportFooter, query_page
from personas.survey.model import Difference, Survey

Progress: TypeAlias = Callable[[int, int], None]
"""Takes the number of queries that have their pages, and the number of all."""

FIGURES = "figures.json"
"""The survey of a run, beside its pages."""
MARKER = "persona-report.json"
"""A folder with this file is a report, which another one may replace."""

_WORTH_A_PROCESS = 16
"""With fewer queries a process, starting it takes longer than it saves."""
_MOST_BY_DEFAULT = 8
_MOST = 61
"""Processes; Windows has no way to wait for more."""
_OBJECTS_BETWEEN = 50_000
"""Objects made between two searches for cycles."""
_JOBS_AHEAD = 2

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run of a report."""

    run: Path  # its folder
    index: Path  # the first of its pages
    finished: bool  # every query was tried
    survey: Survey  # what the pages show, without the tables


@dataclass(frozen=True, slots=True)
class PersonaReport:
    """A report that has been written.

    Attributes:
        index: the page to begin with.
        runs: in order.
        pages: the number of pages.
        left_out: the reasons why other runs are not in it, a sentence each.
    """

    index: Path
    runs: tuple[ReportedRun, ...]
    pages: int
    left_out: tuple[str, ...]


def write_persona_report(
    paths: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    against: str | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    command: str = "",
    date: str = "",
) -> PersonaReport:
    """Write the report on the runs in or below `paths` into the folder `out`.

    The folder appears whole or not at all, and replaces a report that is there. The same runs
    give the same pages, whatever the number of processes. Memory is bounded by a few queries a
    process, besides what the pages about all queries show.

    Scripts that use several processes must be importable: their code belongs below
    ``if __name__ == "__main__":``.

    Args:
        paths: run folders, or folders that hold some.
        out: a new folder, an empty one, or one with a report.
        against: label or folder of the run to compare with, or ``"none"``. Without: a run
            without a team over the same data, DIRECT with the same highest score first.
        processes: that make pages, 1 to 61. Without: one a processor, 8 at most, and fewer for few
            queries.
        progress: receives the progress of the work.
        command: that made the pages, for their last line; empty for none.
        date: when they were made, for their last line; empty for none.

    Raises:
        RunFolderError: there is no run, or none like `against`; a file is damaged, of another
            version or incomplete. Names the file, and the line.
        SettingError: `out` holds something else, or `processes` is out of its range.
        BeirEvalError: a worker process ended before its work was done.
        OSError: the report cannot be written; what was there before is untouched.
    """
    if processes is not None and not 1 <= processes <= _MOST:
        raise SettingError(f"processes={processes!r} is outside 1 to {_MOST}")
    out = Path(out)
    _check_place(out)
    sources, left_out = find_sources(paths, against)
    for run in (run for each in sources for run in (each.run, each.other) if run is not None):
        if run.path.resolve().is_relative_to(out.resolve()):
            raise SettingError(
                f"{str(out)!r} holds the run {str(run.path)!r}, and would be replaced as a whole; "
                "name another folder"
            )
    with (
        replacing_folder(out) as folder,
        tempfile.TemporaryDirectory(prefix="persona-report-") as scratch,
    ):
        work = _Work(
            sources, left_out, folder, Path(scratch), ReportFooter(__version__, date, command)
        )
        work.do(processes, progress or (lambda done, total: None))
        (folder / MARKER).write_text(json.dumps({"version": 1, "runs": len(sources)}) + "\n")
        _check_place(out)  # another program may have written there meanwhile
    runs = (
        ReportedRun(source.run.path, out / each.page, each.finished, each.survey)
        for source, each in zip(sources, work.entries, strict=True)
    )
    return PersonaReport(out / OVERVIEW, tuple(runs), work.pages, tuple(left_out))


@dataclass(slots=True)
class _Work:
    """The making of all pages of one report; `entries` are of the runs that are done."""

    sources: Sequence[Source]
    left_out: Sequence[str]
    folder: Path
    scratch: Path
    footer: ReportFooter
    entries: list[RunEntry] = field(default_factory=list)
    pages: int = 0

    def do(self, processes: int | None, progress: Progress) -> None:
        """Write everything."""
        tested = differences(self.sources)
        ranked = [
            index_rankings(each.run.path / RANKINGS, finished=each.run.manifest.finished)
            for each in self.sources
        ]
        done, total = 0, sum(len(each.offsets) for each in ranked)
        if processes is None:
            bound = hasattr(os, "sched_getaffinity")
            usable = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
            processes = max(1, min(usable, _MOST_BY_DEFAULT, total // _WORTH_A_PROCESS))
        begun: dict[int, RunReport] = {}
        indexes: dict[Path, Path] = {}  # of texts, which several runs may have ranked

        def chunks() -> Iterator[Chunk]:
            # Each run is prepared when the one before has been handed out.
            for number, source in enumerate(self.sources):
                several = len(self.sources) > 1
                folder = self.folder / f"run-{number + 1}" if several else self.folder
                (folder / query_page(1)).parent.mkdir(parents=True)
                passages = (source.data.path / PASSAGES).resolve()
                if passages not in indexes:
                    indexes[passages] = self.scratch / f"passages-{len(indexes)}"
                    index_passages(passages, indexes[passages])
                begun[number] = RunReport(
                    source, ranked[number], folder, indexes[passages], self.footer
                )
                yield from begun[number].chunks(number)

        progress(done, total)
        with closing(in_order(write_pages, chunks(), processes)) as results:
            for number, pages, findings in results:
                report = begun[number]
                for each in findings:
                    report.surveyor.add(each)
                self.pages += pages
                report.left -= len(findings)
                done += len(findings)
                progress(done, total)
                if not report.left:
                    self._finish(begun.pop(number), tested[number])
        if len(self.sources) > 1:
            self._write(
                self.folder / OVERVIEW, render_runs(self.entries, self.left_out, self.footer)
            )

    def _finish(self, run: RunReport, tested: tuple[Difference, ...]) -> None:
        """Write the pages about all queries of a run."""
        survey, folder = run.survey(tested), run.plan.folder
        (folder / FIGURES).write_bytes(
            orjson.dumps(survey, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n"
        )
        runs = f"../{OVERVIEW}" if len(self.sources) > 1 else ""
        for name, page in survey_pages(survey, runs=runs, figures=FIGURES, footer=self.footer):
            self._write(folder / name, page)
        entry = RunEntry(
            (folder / OVERVIEW).relative_to(self.folder).as_posix(),
            replace(survey, queries=(), personas=()),
            run.plan.source.run.manifest.finished,
        )
        self.entries.append(entry)

    def _write(self, path: Path, page: str) -> None:
        path.write_text(page, encoding="utf-8", newline="")
        self.pages += 1


def _check_place(out: Path) -> None:
    """Refuse a place where something else is than a report."""
    if out.exists() and not out.is_dir():
        raise SettingError(f"{str(out)!r} is a file; name a folder for the report")
    if out.is_dir() and not (out / MARKER).is_file() and any(out.iterdir()):
        raise SettingError(
            f"{str(out)!r} holds something else than a report, and would be replaced as a whole; "
            "name a new folder, or an empty one"
        )


def in_order(
    work: Callable[[Job], Result], jobs: Iterator[Job], processes: int
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each job, in the order of the jobs."""
    if processes == 1:
        yield from map(work, jobs)
        return
    # Started afresh, and not forked, because a fork of a process with threads may hang.
    pool = ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_begin
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            with _interrupts_kept_back():
                waiting.append(pool.submit(work, job))
            if len(waiting) > (1 + _JOBS_AHEAD) * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as failure:
        raise BeirEvalError(
            f"one of {processes} worker processes ended before its work was done, perhaps for "
            "want of memory, or because a script starts this without an "
            "if __name__ == '__main__' around it; try it with 1 process"
        ) from failure
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_kept_back() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal; what is started here must not see it."""
    known = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if known else None
    try:
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a worker: the process that started it decides when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A query's hundreds of passages are made at once and gone at once: looking for cycles among
    # them after every 700 objects takes a tenth of the time.
    gc.set_threshold(_OBJECTS_BETWEEN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in a worker"

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
