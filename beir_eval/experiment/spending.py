"""``max_calls`` and ``max_cost`` of a whole experiment: what each ranker leaves to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcranker.models import Models

__all__ = ["Spending"]


class Spending:
    """What may still be spent.

    Args:
        options: of all rankers; those limits count that are there and not None.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        names = ("max_calls", "max_cost")
        self._left = {name: options[name] for name in names if options.get(name) is not None}

    def left(self) -> dict[str, Any]:
        """The limits of the next ranker: calls, and US dollars; empty without limits."""
        return {name: max(0, value) for name, value in self._left.items()}

    def take(self, models: Models) -> None:
        """Take off what a ranker spent, for queries that failed as well as for the others."""
        # Rankings tell what they took; what a query took that failed, only the budget knows.
        spent = models.budget
        if spent is None:
            return
        if "max_calls" in self._left:
            self._left["max_calls"] -= spent.spent_calls
        if "max_cost" in self._left:
            self._left["max_cost"] -= spent.spent_cost
