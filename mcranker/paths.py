"""Tests for paths in users' texts; a text that no file can have as its name is none."""

from __future__ import annotations

import os


def is_file(path: str | os.PathLike[str]) -> bool:
    """True if there is such a file. `Path.is_file` fails where the text is too long for a name."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """True if there is such a folder."""
    return os.path.isdir(path)  # noqa: PTH112
