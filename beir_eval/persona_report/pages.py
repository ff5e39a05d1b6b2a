"""The pages of some queries of one run: the work of one worker process."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from beir_eval.errors import RunFolderError
from beir_eval.experiment.run_folder import RANKINGS, ranking_at
from beir_eval.persona_report.sources import Source
from personas.ensembles import highest_score
from personas.io.lines import Line, place_of, read_records, record
from personas.ranking.record import OtherRanking
from personas.report.query.inspection_page import inspection_pages
from personas.report.site import PageContext, ReportFooter, query_page
from personas.survey.query import QueryFindings

PASSAGES = "passages.jsonl"
_PASSAGE = ("_id", "title", "text")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Facts that all queries of a run share."""

    source: Source  # the run
    folder: Path  # of its pages
    queries: int  # number of those with a page
    index: Path  # of the file of texts, by `index_passages`
    footer: ReportFooter  # what the last line of each page says


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
    """Write the pages of the queries."""
    run, source, pages, findings = chunk.run, chunk.run.source, 0, []
    path, texts = source.run.path / RANKINGS, source.data.path / PASSAGES
    others: BinaryIO | None = None
    with ExitStack() as files:
        lines = files.enter_context(texts.open("rb"))
        index = files.enter_context(closing(sqlite3.connect(run.index)))
        rankings = files.enter_context(path.open("rb"))
        if source.other is not None:
            others = files.enter_context((source.other.path / RANKINGS).open("rb"))
        for query in chunk.queries:
            other = theirs = None
            if source.other is not None and others is not None:
                if query.other_offset is not None:
                    theirs = ranking_at(source.other.path / RANKINGS, others, query.other_offset)
                manifest = source.other.manifest
                other = OtherRanking.of(manifest.label, highest_score(manifest.config), theirs)
            ranking, known = ranking_at(path, rankings, query.offset), {}
            for hit in ranking.hits:
                try:
                    known[hit.doc_id] = _texts(texts, lines, index, hit.doc_id)
                except KeyError:
                    raise RunFolderError(
                        f"{texts}: has no text of passage {hit.doc_id!r}, which "
                        f"{place_of(path, query.offset)} ranks; bring back the whole folder"
                    ) from None
            ranking = ranking.with_texts(known).beside(grades=query.grades, other=other)
            around = PageContext(source.title, query.place, run.queries, run.footer)
            for part, page in enumerate(inspection_pages(ranking, around), start=1):
                name = run.folder / query_page(query.place, part)
                name.write_text(page, encoding="utf-8", newline="")
                pages += 1
            findings.append(QueryFindings.of(query.place, ranking))
    return chunk.number, pages, findings


def index_passages(path: Path, index: Path) -> None:
    """Write where the lines of a file's passages begin, for all processes."""
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


def _texts(path: Path, lines: BinaryIO, index: sqlite3.Connection, doc_id: str) -> tuple[str, str]:
    """Title and text of a passage of `lines`, the open file `path`; KeyError if it has none."""
    found = index.execute("select min(start) from lines where id = ?", (doc_id,))
    (start,) = found.fetchone()
    if start is None:
        raise KeyError(doc_id)
    lines.seek(start)
    place = f"{path}, changed while the report was made, at byte {start:,}"
    entry = record(Line(place, start, lines.readline()), RunFolderError, *_PASSAGE)
    return entry["title"], entry["text"]
