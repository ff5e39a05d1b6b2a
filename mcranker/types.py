"""What goes into a ranker and what it keeps count of: queries, passages, scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mcranker.llm.chat import Stage, Usage

__all__ = ["MissingScore", "Passage", "Query", "Score", "ScoreMatrix", "UsageTable"]


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for. `id` names it in runs and reports and may be empty."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage to rank.

    Attributes:
        id: names it; unique among the passages of one query.
        text: its body.
        title: its title, or empty.
        score: the first stage's score, the higher the better, or None if not known.
    """

    id: str
    text: str
    title: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One persona's score of one passage (s_ij of Eq. 3).

    Attributes:
        value: 0 to k, or None if it is missing.
        reason: why it is missing; empty otherwise.
        criteria: score of each criterion, 0 to k, in the order of the rubric; only with
            ``scoring="per_criterion"``.
    """

    value: float | None
    reason: str = ""
    criteria: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingScore:
    """A score that was asked for and did not come, and why."""

    doc_id: str
    persona: str
    reason: str


@dataclass(slots=True)
class ScoreMatrix:
    """Scores by passage (rows, first-stage order) and persona (columns, team order).

    Attributes:
        values: float array of shape (passages, personas); NaN where a score is missing.
        reasons: (row, column) -> why that score is missing.
        criteria: (row, column) -> score of each criterion, where there are any.
    """

    values: NDArray[np.float64]
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)
    criteria: dict[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def empty(cls, passages: int, personas: int) -> ScoreMatrix:
        """A matrix in which no score has come yet."""
        import numpy as np

        return cls(np.full((passages, personas), np.nan))

    def put(self, row: int, column: int, score: Score) -> None:
        """Write one score."""
        if score.value is None:
            self.reasons[row, column] = score.reason
        else:
            self.values[row, column] = score.value
        if score.criteria:
            self.criteria[row, column] = score.criteria

    def take(self, rows: NDArray[np.intp]) -> ScoreMatrix:
        """The matrix whose row i is this one's row ``rows[i]``; rows may repeat.

        Where ``rows[i]`` is -1 there is no such row, and row i has no scores.
        """
        import numpy as np

        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            places.setdefault(row, []).append(place)
        values = self.values[rows]
        values[rows < 0] = np.nan
        return ScoreMatrix(
            values,
            {
                (i, column): why
                for (row, column), why in self.reasons.items()
                for i in places.get(row, ())
            },
            {
                (i, column): each
                for (row, column), each in self.criteria.items()
                for i in places.get(row, ())
            },
        )


class UsageTable(Mapping[tuple["Stage", str, str], "Usage"]):
    """Calls and tokens by stage, persona (empty where there is none) and model."""

    def __init__(self, rows: Mapping[tuple[Stage, str, str], Usage] | None = None) -> None:
        self._rows: dict[tuple[Stage, str, str], Usage] = dict(rows or {})

    def add(self, stage: Stage, persona: str, model: str, usage: Usage) -> None:
        """Count one call."""
        key = (stage, persona, model)
        known = self._rows.get(key)
        self._rows[key] = usage if known is None else known + usage

    @property
    def total(self) -> Usage:
        """Everything together."""
        from mcranker.llm.chat import Usage

        return sum(self._rows.values(), start=Usage())

    def __getitem__(self, key: tuple[Stage, str, str]) -> Usage:
        return self._rows[key]

    def __iter__(self) -> Iterator[tuple[Stage, str, str]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
