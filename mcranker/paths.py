"""Paths in users' texts, where a text that no file can have as its name is none; caches."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def is_file(path: str | os.PathLike[str]) -> bool:
    """True if there is such a file. `Path.is_file` fails where the text is too long for a name."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """True if there is such a folder."""
    return os.path.isdir(path)  # noqa: PTH112


def cache_root() -> Path:
    """The folder of all caches: MCRANKER_CACHE, or the user's cache folder."""
    root = os.environ.get("MCRANKER_CACHE")
    return Path(root).expanduser() if root else platformdirs.user_cache_path("mcranker")
