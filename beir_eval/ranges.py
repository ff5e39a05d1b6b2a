"""Numbers that callers set, checked: of the right kind, finite, and within their range."""

from __future__ import annotations

import math
import numbers

from beir_eval.errors import SettingError
from personas.errors import shown

LARGEST = 2**63 - 1


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
