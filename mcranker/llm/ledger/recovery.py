"""SQLite's own recovery, for a ledger that SQLite cannot read at all.

Without the first page, or the one that leads to all others of a table, nothing can be read, even
where all answers are whole. The ``sqlite3`` program finds them by its command ``.recover``, which
not every build of it has.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from mcranker.errors import LedgerError
from mcranker.llm.ledger.rows import Row

_PAGE = 4096  # bytes
# A record as it is in the file: no number of the row, and whole seconds as an integer.
_ROWS = """
SELECT id, c1, c2, c3, c4, c5, c6, c7, c8, CAST(c9 AS REAL), c10, c11, c12
FROM lost_and_found WHERE nfield = 13 GROUP BY c1 ORDER BY id
"""


def unreadable(path: Path) -> LedgerError:
    """The error for a file of which SQLite reads nothing, with what can be done."""
    source, target = (shlex.quote(f"{os.fspath(path)}{end}") for end in ("", ".recovered"))
    return LedgerError(
        f"the ledger {os.fspath(path)!r} is damaged where all its pages are listed, or it is not a "
        "ledger: SQLite reads nothing of it; 'mcranker ledger export' saves what SQLite's recovery "
        f"finds, or run that yourself: sqlite3 {source} .recover | sqlite3 {target}; if 'mcranker "
        "ledger verify' finds the result whole, put it in the place of the ledger"
    )


def recovered(path: Path) -> Iterator[Row]:
    """``id``, `COLUMNS` and ``unusable`` of all rows that ``.recover`` finds in a copy of the file.

    The first page of the copy is emptied: half of it misleads, and without it all rows are found.

    Raises:
        LedgerError: it finds none, or there is no program that could.
        OSError: the file cannot be copied.
    """
    program = shutil.which("sqlite3")
    if program is None:
        raise LedgerError(f"{unreadable(path)}; there is no sqlite3 program here, install it")
    with tempfile.TemporaryDirectory() as folder:
        copy, target, said = (Path(folder, name) for name in ("copy", "target", "said"))
        shutil.copyfile(path, copy)
        with copy.open("r+b") as file:
            file.write(bytes(_PAGE))
        with (
            said.open("wb") as errors,
            subprocess.Popen(
                [program, copy, ".recover"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as recovery,
        ):
            subprocess.run(
                [program, target],
                check=False,
                stdin=recovery.stdout,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        with closing(sqlite3.connect(target)) as connection:
            connection.text_factory = bytes
            try:
                rows = connection.execute(_ROWS)
            except sqlite3.OperationalError as error:  # no such table
                problem = said.read_text(errors="replace").strip() or "no answer was found"
                raise LedgerError(
                    f"{unreadable(path)}; {program} .recover says {problem[:200]!r}; not every "
                    "sqlite3 program has that command, the one of sqlite.org does"
                ) from error
            yield from rows
