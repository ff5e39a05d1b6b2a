"""The pages of some queries of one run: the work of one worker process."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beir_eval.errors import RunFolderError
from beir_eval.experiment.rankings import ranking_at
from personas.io.lines import Line, place_of, read_records, record
from personas.report.site import Made

if TYPE_CHECKING:
    from personas.survey.query import QueryFindings

_PASSAGE = ("_id", "title", "text")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The files of a run, which all its queries share.

    Attributes:
        folder: of the run's pages.
        title: of its report.
        queries: number of those with a page.
        rankings: the file of rankings.
        passages: the file of texts.
        index: the index of that file, by `index_passages`.
        other: the file of rankings of the run compared with; None if there is none.
        other_name: its name.
        other_top: its highest score.
        made: what the last line of each page says.
    """

    folder: Path
    title: str
    queries: int
    rankings: Path
    passages: Path
    index: Path
    other: Path | None
    other_name: str
    other_top: float | None
    made: Made


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One ranked query: its place from 1, its rankings' offsets, and its judgements, if any."""

    place: int
    offset: int
    other_offset: int | None
    grades: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive queries of a run, the run by its number from 1."""

    number: int
    run: RunPlan
    queries: tuple[QueryPlan, ...]


def write_pages(chunk: Chunk) -> tuple[int, int, list[QueryFindings]]:
    """Write the pages of the queries.

    Returns:
        The run's number, the number of pages, and the findings of each query.

    Raises:
        RunFolderError: a ranking is none, or the text of a passage is missing; names the line.
        OSError: a page cannot be written.
    """
    from personas.ranking.record import OtherRanking
    from personas.report.query.inspection_page import inspection_pages
    from personas.report.site import PageContext, query_page
    from personas.survey.query import QueryFindings

    run, pages, findings = chunk.run, 0, []
    with ExitStack() as files:
        passages = files.enter_context(Passages(run.passages, run.index))
        rankings = files.enter_context(run.rankings.open("rb"))
        others = files.enter_context(run.other.open("rb")) if run.other else None
        for query in chunk.queries:
            other = theirs = None
            if run.other and others:
                if query.other_offset is not None:
                    theirs = ranking_at(run.other, others, query.other_offset)
                other = OtherRanking.of(run.other_name, run.other_top, theirs)
            ranking, texts = ranking_at(run.rankings, rankings, query.offset), {}
            for hit in ranking.hits:
                found = passages.texts(hit.doc_id)
                if found is None:
                    raise RunFolderError(
                        f"{run.passages}: has no text of passage {hit.doc_id!r}, which "
                        f"{place_of(run.rankings, query.offset)} ranks; bring back the whole folder"
                    )
                texts[hit.doc_id] = found
            ranking = ranking.with_texts(texts).beside(grades=query.grades, other=other)
            around = PageContext(run.title, query.place, run.queries, run.made)
            for part, page in enumerate(inspection_pages(ranking, around), start=1):
                path = run.folder / query_page(query.place, part)
                path.write_text(page, encoding="utf-8", newline="")
                pages += 1
            findings.append(QueryFindings.of(query.place, ranking))
    return chunk.number, pages, findings


def index_passages(path: Path, index: Path) -> None:
    """Write the index by which `Passages` finds the lines of a file; processes share it.

    Raises:
        RunFolderError: the file cannot be read, or a line is no passage; names the line.
        OSError: the index cannot be written.
    """
    rows = (
        (entry["_id"], line.offset) for line, entry in read_records(path, RunFolderError, *_PASSAGE)
    )
    try:
        with closing(sqlite3.connect(index)) as database, database:
            database.execute("pragma journal_mode = off")
            database.execute("pragma synchronous = off")
            database.execute("create table lines (id, start)")
            database.executemany("insert into lines values (?, ?)", rows)
            database.execute("create index by_id on lines (id, start)")
    except sqlite3.Error as failure:
        raise OSError(f"{index}: cannot be written: {failure}") from failure


class Passages:
    """Titles and texts of the passages of a file, read when they are asked for."""

    def __init__(self, path: Path, index: Path) -> None:
        self._path = path
        self._lines = path.open("rb")
        self._index = sqlite3.connect(index)

    def __enter__(self) -> Passages:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._index.close()

    def texts(self, doc_id: str) -> tuple[str, str] | None:
        """Title and text of a passage; None if the file does not have it."""
        found = self._index.execute("select min(start) from lines where id = ?", (doc_id,))
        (start,) = found.fetchone()
        if start is None:
            return None
        self._lines.seek(start)
        place = f"{self._path}, changed while the report was made, at byte {start:,}"
        line = Line(place, start, self._lines.readline())
        entry = record(line, RunFolderError, *_PASSAGE)
        return entry["title"], entry["text"]
