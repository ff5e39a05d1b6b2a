"""Every error this package raises on purpose, a `BeirEvalError`; and checks of numbers.

Runs and their files raise `mcranker.RunError`. Errors about a file name it, and the line where
there is one, as ``FILE:LINE``.
"""

from __future__ import annotations

import math
import numbers

from personas.errors import shown

LARGEST = 2**63 - 1


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


def check_whole(name: str, value: object, low: int, high: int = LARGEST) -> None:
    """Refuse what is no whole number from `low` to `high`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not (whole and low <= int(value) <= high):  # type: ignore[call-overload]  # it is whole
        to = f" to {high:,}" if high < LARGEST else ""
        raise SettingError(
            f"{name}={shown(value)} is out of range; give a whole number from {low:,}{to}"
        )


def check_number(
    name: str, value: object, low: float, high: float = math.inf, *, example: float | None = None
) -> None:
    """Refuse what is no finite number from `low` to `high`."""
    try:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        number = float(value) if is_number else math.nan  # type: ignore[arg-type]  # it is one
    except OverflowError:
        number = math.inf
    if not (low <= number <= high and math.isfinite(number)):
        to = f" to {high:g}" if math.isfinite(high) else ""
        hint = "" if example is None else f", e.g. {example:g}"
        raise SettingError(
            f"{name}={shown(value)} is out of range; give a number from {low:g}{to}{hint}"
        )
