"""One passage of a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from personas.ranking.types import Passage


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage of a ranking.

    Attributes:
        rank: from 1, best first.
        doc_id: the passage's id.
        score: final score; None for a passage that nobody scored, such as one beyond ``depth``,
            and for one that `skipped` personas were not asked about.
        scores: persona -> score, 0 to k, or None where there is none; in team order.
        missing: persona -> why its score is missing.
        criteria: persona -> criterion -> score, only with ``scoring="per_criterion"``.
        first_stage_rank: rank in the order in which the passages were given, from 1.
        passage: title and text.
        skipped: personas who were not asked, because the passage could not reach the first
            ``top_k`` ranks any more.
        at_most: the highest final score it could have got from them; None if nobody was
            skipped.
        confidence: persona -> how sure the model is, 0 to 1, where it answers typed questions and
            says so.
        probabilities: persona -> probability of each level, from 0 to k at equal distances,
            where the model gives them.
        relevance: the mean judge's score by k, 0 to 1, with what stands in for missing scores; the
            assessor's, where there is one. It does not depend on other passages. None without a
            score, and where `Ranking.absolute` is false.
        imputed: persona -> what stands in for its missing score in `score`.
        cut: characters at the end of the passage that models did not see.
        dropped: the passage's relevance, 0 to 10, where REBEL dropped it for being too low: then it
            has no final score; else None.
        ranks: persona -> rank in its order, from 1, where a team compared passages; see `Orders`.
    """

    rank: int
    doc_id: str
    score: float | None
    scores: Mapping[str, float | None]
    missing: Mapping[str, str]
    criteria: Mapping[str, Mapping[str, float]]
    first_stage_rank: int
    passage: Passage
    skipped: tuple[str, ...] = ()
    at_most: float | None = None
    relevance: float | None = None
    cut: int = 0
    confidence: Mapping[str, float] = field(default_factory=dict)
    probabilities: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    dropped: float | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)
    imputed: Mapping[str, float] = field(default_factory=dict)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What came with the passage and is not shown to models."""
        return self.passage.metadata

    @property
    def index(self) -> int:
        """Place of the passage in the docs that were given, from 0."""
        return self.first_stage_rank - 1

    @property
    def moved(self) -> int:
        """How many ranks the passage rose (positive) or fell (negative)."""
        return self.first_stage_rank - self.rank
