"""Events of a ranking, as frozen records.

Progress bars, servers and tests read these; how they are shown is elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from mcranker.errors import MCRankerError
from personas import Persona, Rubric
from personas.ranking.usage import UsageTable

if TYPE_CHECKING:
    from mcranker.ranking import Ranking
    from personas.ranking.types import Query


@dataclass(frozen=True, slots=True)
class RankingStarted:
    """Work on a query begins; `passages` is how many will be scored.

    `usage` has the calls and tokens of this query, and grows while it is ranked.
    """

    query_id: str
    query: str
    passages: int
    usage: UsageTable = field(default_factory=UsageTable, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TeamRecruited:
    """The team is complete; `personas` in the order in which scores are listed."""

    query_id: str
    personas: tuple[Persona, ...]


@dataclass(frozen=True, slots=True)
class RubricWritten:
    """A persona has written its criteria."""

    query_id: str
    persona: str
    rubric: Rubric


@dataclass(frozen=True, slots=True)
class PassageScored:
    """A persona scored a passage; `value` is None and `reason` says why if it is missing.

    `done` of `total` scores of this query have come, or are known to be missing.
    """

    query_id: str
    doc_id: str
    persona: str
    value: float | None
    reason: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PassageAssessed:
    """The assessor gave a passage its final score; as `PassageScored` otherwise."""

    query_id: str
    doc_id: str
    value: float | None
    reason: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class PassagesCompared:
    """Passages were put in order; `doc_ids` names them, best first.

    If that `failed`, they are in the order that they keep. `done` of `total` comparisons of this
    query have been made; `total` is the most that there may be.
    """

    query_id: str
    doc_ids: tuple[str, ...]
    failed: bool
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RankingDone:
    """The ranking is complete; always the last event."""

    query_id: str
    ranking: Ranking


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """One query of many: its ranking, or the error that stopped it.

    Attributes:
        place: place of the query among those given, from 0.
        query: the query; its text is empty if it could not be read.
        ranking: the ranking, or None.
        error: what went wrong, or None.
    """

    place: int
    query: Query
    ranking: Ranking | None = None
    error: MCRankerError | None = None

    def result(self) -> Ranking:
        """The ranking; raises the error if there is none."""
        if self.ranking is None:
            raise self.error or MCRankerError("the query was not ranked")
        return self.ranking


Event: TypeAlias = (
    RankingStarted
    | TeamRecruited
    | RubricWritten
    | PassageScored
    | PassageAssessed
    | PassagesCompared
    | RankingDone
)

Emit: TypeAlias = Callable[[Event], Awaitable[None]]
"""Takes an event; waits if its reader is slow."""
