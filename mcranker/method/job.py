"""One query to be ranked, with all that is in effect for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mcranker.config import RankerConfig
from mcranker.events import Emit
from mcranker.llm.models import Models
from personas import Member, Rubric
from personas.ranking.types import Passage, Query
from personas.ranking.usage import UsageTable


@dataclass(frozen=True, slots=True)
class Memory:
    """A ranker's memory between queries."""

    dataset_rubrics: dict[str, Rubric] = field(default_factory=dict)
    dataset_team: list[Member] = field(default_factory=list)

    def copy(self) -> Memory:
        """Return a copy to be changed separately."""
        return Memory(dict(self.dataset_rubrics), list(self.dataset_team))


@dataclass(frozen=True, slots=True)
class Job:
    """One query to be ranked: what a ranker's `_rank` gets.

    Attributes:
        query: as the caller gave it.
        passages: all of them, at least one, in first-stage order.
        config: the ranker's choices, and those of this call.
        models: for its calls; in an estimate, models that make up their replies.
        emit: takes events; None if there is no listener.
        deadline: when nothing is waited for any more, on the clock of `anyio.current_time`.
        calls: what was asked of models so far; to be added to.
        memory: of the ranker, between queries.
        estimated: whether this only counts the calls, of which there must be as many as possible.
    """

    query: Query
    passages: tuple[Passage, ...]
    config: RankerConfig
    models: Models
    emit: Emit | None = None
    deadline: float = math.inf
    calls: UsageTable = field(default_factory=UsageTable)
    memory: Memory = field(default_factory=Memory)
    estimated: bool = False
