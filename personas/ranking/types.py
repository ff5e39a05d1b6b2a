"""Queries, passages, and what judges say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from personas.ensembles import HIGHEST_SCORE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# As rankings are read.
Count = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
Rank = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[
    float, Field(strict=True, ge=-HIGHEST_SCORE, le=HIGHEST_SCORE, allow_inf_nan=False)
]
_AS_MARKED = ConfigDict()

WeakJudge = Literal["", "encoder"]
"""Why the model that judged is weak: an encoder compares meaning, and reads no criteria."""

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


class ScoreMatrix:
    """Scores by passage (rows) and persona (columns); None where none has come."""

    def __init__(self, rows: list[list[Score | None]]) -> None:
        self.rows = rows

    @classmethod
    def empty(cls, passages: int, personas: int) -> ScoreMatrix:
        """A matrix in which no score has come yet."""
        return cls([[None] * personas for _ in range(passages)])

    def keep(self, columns: int) -> None:
        """Leave the first columns."""
        self.rows = [row[:columns] for row in self.rows]

    def close(self, reason: str) -> None:
        """Note that no score will come any more where none has: it is missing for `reason`."""
        missing = Score(None, reason)
        self.rows = [[each or missing for each in row] for row in self.rows]

    @property
    def missing(self) -> int:
        """Number of scores that were asked for and did not come."""
        return sum(each is not None and each.value is None for row in self.rows for each in row)

    @property
    def values(self) -> NDArray[np.float64]:
        """The scores as an array; NaN where there is none."""
        columns = len(self.rows[0]) if self.rows else 0
        found = [each.value if each else None for row in self.rows for each in row]
        return as_array([found]).reshape(len(self.rows), columns)


def as_array(rows: Sequence[Sequence[float | None]], columns: int = 0) -> NDArray[np.float64]:
    """Rows of numbers as an array, NaN for None; without rows it has that number of columns."""
    import numpy as np

    found = np.array(rows, dtype=np.float64)
    return found if len(rows) else found.reshape(0, columns)


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
    """

    unreadable: Count = 0


def judge_note(weak: WeakJudge, model: str = "") -> str:
    """A sentence about a weak judge, for whatever shows a ranking; empty for other judges."""
    if not weak:
        return ""
    by = f"{model}, " if model else ""
    return (
        f"Judged by {by}an encoder: compares meaning, does not reason. It does not read criteria; "
        "with a model that reasons they decide."
    )
