"""Numbers as flags take them: none that 64 bits cannot hold, and none that is not finite."""

from __future__ import annotations

import math
from typing import Any

import click

from mcranker.config import LARGEST


class WholeNumber(click.IntRange):
    """A whole number, within 64 bits if nothing narrower is asked for; that limit is no help."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if abs(number) > LARGEST:
            self.fail(f"{value!r} is beyond 64 bits; give one of up to {LARGEST}.", param, ctx)
        return number


class RealNumber(click.FloatRange):
    """A number that is finite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number.", param, ctx)
        return number
