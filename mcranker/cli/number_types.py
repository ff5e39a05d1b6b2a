"""Number types of flags: finite, and within 64 bits."""

from __future__ import annotations

import math
from typing import Any

import click

from mcranker.config import LARGEST


class WholeNumber(click.IntRange):
    """A whole number, within 64 bits unless limited further; the help leaves that limit out."""

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
