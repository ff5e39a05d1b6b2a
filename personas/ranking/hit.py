"""A passage of a ranking: what it got, and what follows from that."""

# ruff: noqa: SLF001 - what several hits need is worked out once, in private names of the ranking

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from personas.format import exact
from personas.ranking.columns import OtherPlace, RankingColumns
from personas.ranking.types import ASSESSOR, Passage, Reason

if TYPE_CHECKING:
    from personas.ranking.suspicions import Suspicion

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Hit:
    """One passage of a ranking. Two are equal if what is stored of them is.

    Attributes:
        ranking: of which it is a part.
        row: place of the passage in `RankingColumns.passages`, and so in the docs that were given.
        rank: from 1, best first.
    """

    ranking: RankingColumns
    row: int
    rank: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hit) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.row, self.rank))

    def __repr__(self) -> str:
        return f"<Hit {self.rank}: {self.doc_id!r}, score {self.score}>"

    # The passage

    @property
    def passage(self) -> Passage:
        """Title, text, the first stage's score and what else came with it."""
        return self.ranking.passages[self.row]

    @property
    def doc_id(self) -> str:
        """The passage's id."""
        return self.passage.id

    @property
    def title(self) -> str:
        """The passage's title, or empty."""
        return self.passage.title

    @property
    def text(self) -> str:
        """The passage's body."""
        return self.passage.text

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the passage, which models do not see."""
        return self.passage.metadata

    @property
    def index(self) -> int:
        """Place of the passage in the docs that were given, from 0."""
        return self.row

    @property
    def first_stage_rank(self) -> int:
        """Rank in the order in which the passages were given, from 1."""
        return self.row + 1

    @property
    def first_stage_score(self) -> float | None:
        """The first stage's score; None if not known."""
        return self.passage.score

    @property
    def moved(self) -> int:
        """Ranks that the passage rose (positive) or fell (negative)."""
        return self.first_stage_rank - self.rank

    @property
    def cut(self) -> int:
        """Characters at the end of the passage that models did not see."""
        return self.ranking.cut.get(self.row, 0)

    @property
    def grade(self) -> int | None:
        """The judgement, above 0 for relevant; None where none is known."""
        return (self.ranking.grades or {}).get(self.doc_id)

    @property
    def other(self) -> OtherPlace | None:
        """Where the ranker that this one is compared with has it; None if nowhere."""
        return self.ranking.other.places.get(self.doc_id) if self.ranking.other else None

    @cached_property
    def suspicions(self) -> tuple[Suspicion, ...]:
        """Signs that the passage was written to be ranked high."""
        return self.ranking._suspicions_of(self.title, self.text)

    # What it got

    @property
    def score(self) -> float | None:
        """Final score; None for a passage that no judge scored."""
        final = float(self.ranking.final[self.row])
        return None if math.isnan(final) else final

    @property
    def judged(self) -> bool:
        """True if the passage has a final score."""
        return self.score is not None

    @property
    def relevance(self) -> float | None:
        """The mean judge's score, or the assessor's, by k: 0 to 1, with what is imputed.

        Other passages do not change it. None without a score, and unless `ranking.absolute`.
        """
        return self.ranking.relevances.get(self.row)

    @cached_property
    def scores(self) -> Mapping[str, float | None]:
        """Persona -> score, 0 to k, None where there is none; see `ranks` of those who compared."""
        values = self.ranking.matrix.values[self.row].tolist()
        scores = zip(self.ranking.personas, values, strict=True)
        return {name: None if math.isnan(score) else score for name, score in scores}

    @cached_property
    def missing(self) -> Mapping[str, str]:
        """Persona, or `ASSESSOR`, -> why its score is missing."""
        why = self.ranking.assessor_reasons.get(self.row)
        by_assessor = {} if why is None else {ASSESSOR: why}
        return self._of(self.ranking.matrix.reasons) | by_assessor

    @cached_property
    def imputed(self) -> Mapping[str, float]:
        """Persona -> what is taken for its missing score in `score`; empty without one."""
        ranking = self.ranking
        if not self.missing or not self.judged or ranking.ensemble is None:
            return {}
        import numpy as np

        rule = ranking.rule
        filled = rule.filled(np.array([list(self.scores.values())], dtype=np.float64))
        if not rule.ensemble.asks:
            found = zip(self.scores, filled[0].tolist(), strict=True)
            return {name: score for name, score in found if name in self.missing}
        # The model that combined the scores saw that some are missing.
        if ASSESSOR not in self.missing:
            return {}
        by_team = rule.missing_policy == "mean_of_team"
        return {ASSESSOR: float((filled if by_team else rule.filled(np.array([[np.nan]]))).mean())}

    @property
    def criteria(self) -> Mapping[str, Mapping[str, float]]:
        """Persona -> criterion -> score, where criteria were scored one by one."""
        from personas.ranking.stored import criteria_names

        return {
            name: dict(zip(criteria_names(self.ranking.team, name), scores, strict=True))
            for name, scores in self._of(self.ranking.matrix.criteria).items()
        }

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """Persona, or the ranker where none judged, -> why it scored the passage so, if asked."""
        reasons, judges = self.ranking.reasons, self.ranking.judges or (self.ranking.ranker,)
        return {name: reasons[self.row, name] for name in judges if (self.row, name) in reasons}

    @property
    def confidence(self) -> Mapping[str, float]:
        """Persona -> how sure the model said it was, 0 to 1, where it said so."""
        return self._of(self.ranking.matrix.confidence)

    @property
    def probabilities(self) -> Mapping[str, tuple[float, ...]]:
        """Persona -> probability of each level, from 0 to k at equal distances, where known."""
        return self._of(self.ranking.matrix.probabilities)

    @property
    def dropped(self) -> float | None:
        """The relevance, 0 to 10, for which REBEL dropped the passage; None for others."""
        return self.ranking.dropped.get(self.row)

    @property
    def why_left_out(self) -> str:
        """Reason why the ranking does not return the passage; empty if it does."""
        ranking, config = self.ranking, self.ranking.config
        if self.dropped is not None:
            least = config.get("min_relevance_score")
            return f"relevance {self.dropped:g} of 10 is below min_relevance_score={least}"
        if self.rank - 1 in ranking._returned:
            return ""
        least, relevance = config.get("min_relevance"), ranking.relevances.get(self.row)
        if least is not None and ranking.relevances and relevance is None:
            return f"it has no score, and min_relevance={least:g} asks for one"
        if least is not None and relevance is not None and relevance < least:
            return f"relevance {exact(relevance)} is below min_relevance={least:g}"
        return f"it is beyond the first {config.get('top_n')} (top_n)"

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Persona -> rank in its order, from 1, where a team compared passages; see `Orders`."""
        if (orders := self.ranking.orders) is None:
            return {}
        ranks = zip(orders.personas, orders.ranks[self.row].tolist(), strict=True)
        return {name: int(rank) for name, rank in ranks if not math.isnan(rank)}

    # What follows from that

    @property
    def points(self) -> Mapping[str, float]:
        """Persona -> what the ensemble makes of its rank, see `personas.ranking.orders.points`."""
        return self.ranking._points_and_rule[0].get(self.row, {})

    @property
    def marks(self) -> Mapping[str, float | None]:
        """Values that the final score combines: points if there are any, else scores."""
        return self.points or (
            dict.fromkeys(self.ranking.judges) if self.ranking.orders else self.scores
        )

    @property
    def known_scores(self) -> tuple[float, ...]:
        """The personas' scores that are there, or their points."""
        return tuple([score for score in self.marks.values() if score is not None])

    @property
    def score_range(self) -> float | None:
        """Highest less lowest of the personas' scores, or points; None for fewer than two."""
        known = self.known_scores
        return max(known) - min(known) if len(known) > 1 else None

    @cached_property
    def disagreement(self) -> float | None:
        """Population standard deviation of the scores, or points; None for fewer than two."""
        known = self.known_scores
        if len(known) < 2:
            return None
        mean = math.fsum(known) / len(known)
        return math.sqrt(math.fsum([(each - mean) ** 2 for each in known]) / len(known))

    @property
    def rank_of_all(self) -> int | None:
        """Rank by the arithmetic of `rank_without` with all personas; None without a score."""
        return self.ranking._leave_one_out.get(self.row, (None, {}))[0]

    @property
    def rank_without(self) -> Mapping[str, int]:
        """Persona -> rank without that persona; empty without a score, or another persona."""
        return self.ranking._leave_one_out.get(self.row, (None, {}))[1]

    @property
    def effects(self) -> Mapping[str, int]:
        """Persona -> by how many ranks it raised (positive) or sank (negative) the passage."""
        of_all, without = self.ranking._leave_one_out.get(self.row, (0, {}))
        return {name: rank - of_all for name, rank in without.items()}

    @property
    def raised_most_by(self) -> tuple[str, ...]:
        """The personas that raised the passage most, by scores they gave; equals together."""
        return self._with_effect(max)

    @property
    def sunk_most_by(self) -> tuple[str, ...]:
        """The personas that sank the passage most, by scores they gave; equals together."""
        return self._with_effect(min)

    @property
    def shares(self) -> tuple[float, float] | None:
        """The personas' score and the first stage's, each from 0 to 1 over the passages.

        None where the final score is not made of both.
        """
        return self.ranking._shares.get(self.row)

    @property
    def formula(self) -> str:
        """Formula of the final score by `shares`, or by weights; empty if it has none."""
        rule = self.ranking.rule
        if self.score is None or (self.shares is None and not rule.weights):
            return ""
        if self.shares is None:
            import numpy as np

            filled = rule.filled(np.array([list(self.marks.values())], dtype=np.float64))[0]
            pairs = zip(rule.weights, filled.tolist(), strict=True)
            terms = " + ".join(f"{weight:.3g} × {exact(each)}" for weight, each in pairs)  # noqa: RUF001
            return f"{terms} = {exact(self.score)}"
        weight, (own, first) = rule.first_stage_weight, self.shares
        return f"{1 - weight:.2f} × {own:.2f} + {weight:.2f} × {first:.2f} = {self.score:.3f}"  # noqa: RUF001

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return its stored fields as plain values; title and text only with `texts`."""
        from personas.ranking.stored import stored_hit

        return stored_hit(self, texts=texts)

    def _with_effect(self, extreme: Callable[[Iterable[int]], int]) -> tuple[str, ...]:
        # What is imputed for a missing score has an effect too, but that is not the persona's.
        effects = {
            name: ranks for name, ranks in self.effects.items() if self.marks[name] is not None
        }
        most = extreme([0, *effects.values()])
        return tuple([name for name, ranks in effects.items() if ranks == most]) if most else ()

    def _of(self, cells: Mapping[tuple[int, int], T]) -> dict[str, T]:
        places = {name: (self.row, column) for column, name in enumerate(self.ranking.personas)}
        return {name: cells[place] for name, place in places.items() if place in cells}
