"""Every error this package raises on purpose, as one tree.

    BeirEvalError
    ├── DatasetError    a data set that is not there, or a bad file of it (ValueError)
    ├── RunFolderError  a run folder that is none, or does not fit what is asked (ValueError)
    ├── SuiteError      a suite that is unknown, or a bad file of one (ValueError)
    ├── MeasureError    a measure that does not exist or cannot be computed (ValueError)
    ├── SettingError    an option with a value it cannot have (ValueError)
    └── ExtraMissing    an optional package is not installed (ImportError)

Runs and their files raise `mcranker.RunError`. Errors about a file name it, and the line where
there is one, as ``FILE:LINE``.
"""

from __future__ import annotations


class BeirEvalError(Exception):
    """Base of every error of this package; its text says what happened and what to do.

    Attributes:
        for_users: tells the command that the text is for people as it is.
    """

    for_users = True


class DatasetError(BeirEvalError, ValueError):
    """A data set is unknown or incomplete, or one of its files is not in BEIR format."""


class RunFolderError(BeirEvalError, ValueError):
    """A run folder is not there, is damaged or unfinished, or holds something else."""


class SuiteError(BeirEvalError, ValueError):
    """A suite is unknown, or its file has a key or a value that it cannot have."""


class MeasureError(BeirEvalError, ValueError):
    """A measure is unknown, lacks a parameter, or needs a package that is not installed."""


class SettingError(BeirEvalError, ValueError):
    """An option has a value outside its range."""


class ExtraMissing(BeirEvalError, ImportError):
    """Something was asked for that needs a package outside the core installation."""

    def __init__(self, package: str, purpose: str, *, extra: str = "eval") -> None:
        super().__init__(
            f'{purpose} needs the package {package!r}; run: pip install "mcranker[{extra}]"',
            name=package,
        )
