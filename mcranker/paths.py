"""Whether a text that users gave is the name of a file; one that no file can have is not."""

from __future__ import annotations

import os


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a file. `Path.is_file` fails where the text is too long for a name."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a folder."""
    return os.path.isdir(path)  # noqa: PTH112
