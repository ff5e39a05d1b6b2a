"""Texts of passages, found by id without holding their file.

The index is a file of its own, which processes share.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from beir_eval.errors import RunFolderError
from beir_eval.files import Line, read_lines


def index_passages(path: Path, index: Path) -> None:
    """Write the index by which `Passages` finds the lines of a file.

    Raises:
        RunFolderError: the file cannot be read, or a line is no passage; names the line.
        OSError: the index cannot be written.
    """

    def rows() -> Iterator[tuple[str, int]]:
        for line in read_lines(path):
            entry = line.entry()
            if not _is_passage(entry):
                raise RunFolderError(f"{line.place}: no passage: it needs _id, title and text")
            yield entry["_id"], line.offset

    try:
        with closing(sqlite3.connect(index)) as database, database:
            database.execute("pragma journal_mode = off")
            database.execute("pragma synchronous = off")
            database.execute("create table lines (id, start)")
            database.executemany("insert into lines values (?, ?)", rows())
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
        entry = self._entry_at(start)
        return entry["title"], entry["text"]

    def _entry_at(self, offset: int) -> dict[str, Any]:
        self._lines.seek(offset)
        place = f"{self._path}, changed while the report was made"
        entry = Line(place, offset, self._lines.readline()).entry()
        if not _is_passage(entry):
            raise RunFolderError(f"{place}: no passage at byte {offset:,}; make the report again")
        return entry


def _is_passage(entry: Mapping[str, Any]) -> bool:
    return all(isinstance(entry.get(name), str) for name in ("_id", "title", "text"))
