"""Queries, passages, and what judges say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from personas.ensembles import HIGHEST_SCORE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# As rankings are read; see personas.ranking.stored.
Count = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
Rank = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[
    float, Field(strict=True, ge=-HIGHEST_SCORE, le=HIGHEST_SCORE, allow_inf_nan=False)
]
_AS_MARKED = ConfigDict()

ASSESSOR = "(assessor)"
"""The name under which the assessor's own missing scores are listed."""

DEADLINE = "deadline"
"""Why a score is missing that had not come when the deadline did."""


@dataclass(frozen=True, slots=True)
class Query:
    """Search text. `id` names it in runs and reports and may be empty.

    `turns` are the earlier messages of a conversation, a role and a text each.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _AS_MARKED
    text: str
    id: str = ""
    turns: tuple[tuple[str, str], ...] = ()

    @property
    def conversation(self) -> str:
        """The text; behind the earlier messages, if any, each with its role."""
        # In one line: prompts let no text begin a line as a turn does.
        said = (f"{role.title()}: {text}" for role, text in (*self.turns, ("user", self.text)))
        return " ".join(said) if self.turns else self.text

    @property
    def all_texts(self) -> str:
        """The texts of all messages, to search with."""
        return " ".join((*(text for _, text in self.turns), self.text))


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage to rank.

    Attributes:
        id: names it; unique among the passages of one query.
        text: its body.
        title: its title, or empty.
        score: the first stage's score, the higher the better, or None if not known.
        metadata: what else came with it; models are not shown it.
    """

    id: str
    text: str
    title: str = ""
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def content(self) -> tuple[str, str]:
        """The text to judge; passages with equal text are judged once."""
        return self.title, self.text


@dataclass(frozen=True, slots=True)
class Score:
    """One persona's score of one passage (s_ij of Eq. 3).

    Attributes:
        value: 0 to k, or None if it is missing.
        reason: why it is missing; empty otherwise.
        criteria: of each criterion, 0 to k, in the rubric's order, where they are scored apart.
        failure: the error, where the call failed in a way that others may not.
        confidence: 0 to 1, as a model of typed questions reports it.
        probabilities: of each level, from 0 to k at equal distances, where the model gave them.
    """

    value: float | None
    reason: str = ""
    criteria: tuple[float, ...] = ()
    failure: Any = field(default=None, compare=False, repr=False)
    confidence: float | None = None
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a persona scored a passage as it did."""

    __pydantic_config__: ClassVar[ConfigDict] = _AS_MARKED
    text: str
    quote: str = ""
    kind: Literal["said", "words"] = "said"


@dataclass(frozen=True, slots=True)
class MissingScore:
    """A score that was asked for and did not come, and why."""

    doc_id: str
    persona: str
    reason: str


@dataclass(slots=True)
class ScoreMatrix:
    """Scores by passage (rows, first-stage order) and persona (columns, team order)."""

    values: NDArray[np.float64]
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)
    criteria: dict[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    confidence: dict[tuple[int, int], float] = field(default_factory=dict)
    probabilities: dict[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)

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
        if score.confidence is not None:
            self.confidence[row, column] = score.confidence
        if score.probabilities:
            self.probabilities[row, column] = score.probabilities

    @property
    def unasked(self) -> NDArray[np.bool_]:
        """Where no score was asked for: none is there, and none is known to be missing."""
        import numpy as np

        empty = np.isnan(self.values)
        for place in self.reasons:
            empty[place] = False
        return empty

    def close(self, reason: str) -> None:
        """Note that no score will come any more where none has: it is missing for `reason`."""
        import numpy as np

        for row, column in np.argwhere(self.unasked).tolist():
            self.reasons[row, column] = reason

    def take(self, rows: NDArray[np.intp]) -> ScoreMatrix:
        """The matrix whose row i is this one's row ``rows[i]``; rows may repeat."""
        import numpy as np

        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows.tolist()):
            places.setdefault(row, []).append(place)
        values = self.values[rows]
        values[rows < 0] = np.nan

        def taken(cells: Mapping[tuple[int, int], Any]) -> dict[tuple[int, int], Any]:
            return {
                (i, column): each
                for (row, column), each in cells.items()
                for i in places.get(row, ())
            }

        cells = (self.reasons, self.criteria, self.confidence, self.probabilities)
        return ScoreMatrix(values, *[taken(each) for each in cells])


@dataclass(frozen=True, slots=True, eq=False)
class Orders:
    """The orders in which the personas of a team have put the passages.

    Attributes:
        personas: names of the columns, in team order.
        ranks: of shape (passages, personas), rows in first-stage order: ranks from 1, best first.
            Those whose order a persona has not decided share the first of their ranks. NaN for
            passages beyond ``depth``, and for all of a persona in `left_out`.
        comparisons: persona -> what came of its replies.
        left_out: persona -> why its order does not count.
    """

    personas: tuple[str, ...]
    ranks: NDArray[np.float64]
    comparisons: Mapping[str, Comparisons]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> NDArray[np.float64]:
        """The columns of the personas whose orders count."""
        return self.ranks[:, [name not in self.left_out for name in self.personas]]


@dataclass(frozen=True, slots=True)
class Replies:
    """Counts of replies about several passages."""

    __pydantic_config__: ClassVar[ConfigDict] = _AS_MARKED
    asked: Count = 0
    odd: Count = 0
    missing: Count = 0
    repeated: Count = 0
    unknown: Count = 0
    failed: Count = 0


@dataclass(frozen=True, slots=True)
class Comparisons(Replies):
    """Counts of the replies of a ranker that compares passages, one comparison each.

    Passages of replies that failed keep their order.

    Attributes:
        as_shown: replies that gave the order, or chose the first, as the passages were shown.
        reason: why the first of those that failed did; else empty.
    """

    as_shown: Count = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WindowCounts(Replies):
    """Counts of the replies of a ranker that scores several passages in one call.

    Attributes:
        unreadable: passages with a score that is missing, or is none of the scale.
        sums: final scores that the model added up itself.
        differing: those of them that are not what its scores add up to. What they add up to counts.
    """

    unreadable: Count = 0
    sums: Count = 0
    differing: Count = 0
