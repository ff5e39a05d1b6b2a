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
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import orjson

from beir_eval.errors import BeirEvalError, SettingError
from beir_eval.experiment.rankings import RANKINGS, index_rankings
from beir_eval.persona_report.differences import differences
from beir_eval.persona_report.pages import Chunk, index_passages, write_pages
from beir_eval.persona_report.run import RunReport
from beir_eval.persona_report.sources import Source, find_sources
from mcranker import __version__
from personas.io.atomic import replacing_folder
from personas.ranking.weak_judges import judge_note
from personas.report.site import OVERVIEW, Made, query_page

if TYPE_CHECKING:
    from personas.report.dataset.pages import RunEntry
    from personas.survey.model import Difference

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
    """One run of a report.

    Attributes:
        run: its folder.
        index: the first of its pages.
        entry: its row in the list of the runs: title, data set, figures.
        notes: sentences that a reader must know.
    """

    run: Path
    index: Path
    entry: RunEntry
    notes: tuple[str, ...]


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
        paths: run folders, or folders that hold some; of these, the runs of teams are reported,
            or all where no team has judged.
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
        made = Made(__version__, date, command)
        work = _Work(sources, folder, Path(scratch), made)
        work.do(processes, progress or (lambda done, total: None))
        (folder / MARKER).write_text(json.dumps({"version": 1, "runs": len(sources)}) + "\n")
        _check_place(out)  # another program may have written there meanwhile
    runs = (
        ReportedRun(source.run.path, out / entry.page, entry, notes)
        for source, (entry, notes) in zip(sources, work.found, strict=True)
    )
    return PersonaReport(out / OVERVIEW, tuple(runs), work.pages, tuple(left_out))


class _Work:
    """The making of all pages of one report.

    Attributes:
        found: row in the list of the runs, and notes, of each run that is done.
        pages: written so far.
    """

    def __init__(self, sources: list[Source], folder: Path, scratch: Path, made: Made) -> None:
        self.found: list[tuple[RunEntry, tuple[str, ...]]] = []
        self.pages = 0
        self._sources, self._folder, self._scratch, self._made = sources, folder, scratch, made
        self._indexes: dict[Path, Path] = {}
        self._begun: dict[int, RunReport] = {}

    def do(self, processes: int | None, progress: Progress) -> None:
        """Write everything."""
        from personas.report.dataset.pages import render_runs

        tested = differences(self._sources)
        ranked = [
            index_rankings(each.run.path / RANKINGS, finished=each.run.manifest.finished)
            for each in self._sources
        ]
        done, total = 0, sum(len(each.offsets) for each in ranked)
        if processes is None:
            most = min(usable_processors(), _MOST_BY_DEFAULT, total // _WORTH_A_PROCESS)
            processes = max(1, most)

        def chunks() -> Iterator[Chunk]:
            # Each run is prepared when the one before has been handed out.
            for number, (source, where) in enumerate(
                zip(self._sources, ranked, strict=True), start=1
            ):
                folder = self._folder / f"run-{number}" if len(ranked) > 1 else self._folder
                (folder / query_page(1)).parent.mkdir(parents=True)
                index = self._index(source.data.path / "passages.jsonl")
                report = RunReport(source, where, folder, index, self._made)
                self._begun[number] = report
                yield from report.chunks(number)

        progress(done, total)
        with closing(in_order(write_pages, chunks(), processes)) as results:
            for number, pages, findings in results:
                self.pages += pages
                done += len(findings)
                progress(done, total)
                if self._begun[number].add(findings):
                    self._finish(self._begun.pop(number), tested[number - 1])
        if len(self._sources) > 1:
            entries = [entry for entry, _ in self.found]
            self._write(self._folder / OVERVIEW, render_runs(entries, self._made))

    def _index(self, passages: Path) -> Path:
        """The index of a file of texts, which several runs may have ranked."""
        key = passages.resolve()
        if key not in self._indexes:
            index = self._scratch / f"passages-{len(self._indexes)}"
            index_passages(passages, index)
            self._indexes[key] = index
        return self._indexes[key]

    def _finish(self, run: RunReport, tested: tuple[Difference, ...]) -> None:
        """Write the pages about all queries of a run."""
        from personas.report.dataset.pages import RunEntry, survey_pages

        survey, folder = run.survey(tested), run.plan.folder
        (folder / FIGURES).write_bytes(
            orjson.dumps(survey, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n"
        )
        runs = f"../{OVERVIEW}" if len(self._sources) > 1 else ""
        for name, page in survey_pages(survey, runs=runs, figures=FIGURES, made=self._made):
            self._write(folder / name, page)
        entry = RunEntry(
            page=(folder / OVERVIEW).relative_to(self._folder).as_posix(),
            title=survey.title,
            dataset=survey.dataset,
            first_stage=survey.first_stage,
            other=survey.other,
            personas=survey.personas_in_all,
            totals=survey.totals,
            differences=survey.differences,
            judge=judge_note(survey.weak_judge, survey.models.get("scoring", "")),
            finished=run.source.run.manifest.finished,
        )
        self.found.append((entry, survey.notes))

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


def usable_processors() -> int:
    """Return the number of processors that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    work: Callable[[Job], Result], jobs: Iterator[Job], processes: int
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each job, in the order of the jobs.

    At most three jobs a process have been taken and not been given back. Close the iterator to
    end the processes; it waits for the jobs that have been begun. They end with this process as
    well, however that ends.

    Args:
        work: a function of a module, its arguments and results such that pickle can take them.
        jobs: taken one by one, in this process.
        processes: with 1, this process does the work.

    Raises:
        BeirEvalError: a process ended before its work was done.
    """
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
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Prepare a worker: the process that started it decides when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A query's hundreds of passages are made at once and gone at once: looking for cycles among
    # them after every 700 objects takes a tenth of the time.
    gc.set_threshold(_OBJECTS_BETWEEN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this runs in a worker"
    parent.join()
    os._exit(1)
