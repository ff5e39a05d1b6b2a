"""The standard streams, where the command was started without them or nobody reads them."""

from __future__ import annotations

import contextlib
import os
import sys


def mend_streams() -> None:
    """Open the standard streams that are closed (``>&-``), before a file gets their number.

    What is written to standard output then meets a closed pipe, as if its reader had gone;
    messages for standard error go nowhere.
    """
    if os.name != "posix":
        return
    if sys.stdin is None and _is_free(0):
        os.open(os.devnull, os.O_RDONLY)
    if sys.stdout is None:
        reader, writer = os.pipe()
        if _is_free(1) or reader == 1:
            os.dup2(writer, 1)
            os.close(writer)
            writer = 1
        if reader != 1:
            os.close(reader)
        sys.stdout = os.fdopen(
            writer, "w", encoding="utf-8", errors="backslashreplace", closefd=False
        )
    if sys.stderr is None:
        sys.stderr = os.fdopen(
            os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False
        )


def leave_unwritten() -> None:
    """Let what cannot be written go nowhere, or the interpreter complains of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _is_free(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False
