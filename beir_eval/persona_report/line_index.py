"""Texts of passages, found by id without holding their file.

The index is a file of its own, which processes share.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from beir_eval.errors import RunFolderError
from personas.io.lines import Line, read_records, record

_PASSAGE = ("_id", "title", "text")


def index_passages(path: Path, index: Path) -> None:
    """Write the index by which `Passages` finds the lines of a file.

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
