"""Weights as people and models write them, made to sum to 100."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from personas.errors import shown
from personas.format import weight as percent

_NUMBER = re.compile(r"([0-9]++(?:\.[0-9]++)?|\.[0-9]++)\s*+%?+")
_TOTAL = 100.0
_TOLERANCE = 1e-9
_LARGEST = 1e12
_LEAST_PERCENT = 10  # a weight from which on they are taken to be meant as percentages

RawWeight = float | int | str | None


def normalize_weights(weights: Sequence[RawWeight]) -> tuple[float, ...]:
    """Weights in percent that sum to 100, in the order given.

    Accepts percent (``35``, ``"35%"``), fractions (``0.35``), any other positive proportions
    (``3, 2, 1``), and missing weights (None or an empty string): those share equally what the
    others leave of the whole. Weights that sum to 100 come back unchanged.

    Raises:
        ValueError: nothing to weigh; a weight that is negative, above 10^12 or no number; percent
            signs next to fractions; all weights zero; or a weight missing where the others leave
            nothing. The text names the weight by its position, counted from 1.
    """
    if not weights:
        raise ValueError("there is no criterion to weigh; write at least one")
    numbers = [_number(weight, place) for place, weight in enumerate(weights, start=1)]
    given = [number for number in numbers if number is not None]
    if not given:
        return (_TOTAL / len(numbers),) * len(numbers)
    signs = [_has_sign(weight) for weight in weights]
    if any(signs) and any(
        not sign and 0 < (number or 0) < 1 for sign, number in zip(signs, numbers, strict=True)
    ):
        raise ValueError("percent signs and fractions are mixed; write all weights one way")
    total = math.fsum(given)
    missing = len(numbers) - len(given)
    share = 0.0
    if missing:
        whole = 1.0 if not any(signs) and max(given) < 1 else _TOTAL
        share = (whole - total) / missing
        if share <= _TOLERANCE * whole:
            raise ValueError(
                f"the weights given sum to {total:g}, which leaves nothing for the {missing} "
                "without one; give every criterion a weight"
            )
        total = whole
    if total <= 0:
        raise ValueError("all weights are zero; give at least one criterion a positive weight")
    filled = [share if number is None else number for number in numbers]
    if abs(total - _TOTAL) <= _TOLERANCE:
        return tuple(filled)
    return tuple(number / total * _TOTAL for number in filled)


def scaled_weights(weights: Sequence[RawWeight]) -> list[tuple[str, str]]:
    """Each weight as given and in percent, where `normalize_weights` changes percentages."""
    try:
        normal = normalize_weights(weights)
        numbers = [_number(weight, place) for place, weight in enumerate(weights, start=1)]
    except ValueError:
        return []
    given = [number for number in numbers if number is not None]
    as_percent = max(given, default=0) >= _LEAST_PERCENT or any(map(_has_sign, weights))
    if len(given) < len(numbers) or not as_percent:
        return []
    if all(abs(one - other) < 1 for one, other in zip(given, normal, strict=True)):
        return []
    return [(f"{one:.6g}", percent(other)) for one, other in zip(given, normal, strict=True)]


def _has_sign(weight: RawWeight) -> bool:
    return isinstance(weight, str) and "%" in weight


def _number(weight: RawWeight, place: int) -> float | None:
    if weight is None or (isinstance(weight, str) and not weight.strip()):
        return None
    match = _NUMBER.fullmatch(weight.strip()) if isinstance(weight, str) else None
    value = float(match[1]) if match else weight
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        said = f"weight {place} is {shown(weight)}; write a number, as 35, '35%' or 0.35"
        raise ValueError(said)  # noqa: TRY004 - a wrong value of a file
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"weight {place} is {shown(weight)}; a weight is a number from 0 to 10^12")
    return float(value)
