"""A ranking: what led to the order of a query's passages, and what follows from it without a call.

What is stored is what is shown. A `RankingRecord` holds what was asked, answered and counted; it
and its hits work out the rest when it is asked for: moves, agreement, ranks without a persona.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload

from personas.ensembles import (
    highest_score,
)
from personas.errors import SchemaError
from personas.ranking.columns import OtherPlace, OtherRanking, RankingColumns
from personas.ranking.hit import Hit
from personas.ranking.types import (
    ASSESSOR,
    MissingScore,
)
from personas.ranking.usage import Calls, Usage

if TYPE_CHECKING:
    from personas.ranking.agreement import TeamAgreement

_DEFAULT_TOP = 10.0

__all__ = ["OtherPlace", "OtherRanking", "RankingRecord"]


@dataclass(frozen=True, eq=False, repr=False)
class RankingRecord(RankingColumns, Sequence[Hit]):
    """Passages in their new order, best first, with everything that led to it."""

    # A sequence of what is returned

    def __len__(self) -> int:
        return len(self._returned)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        if isinstance(place, slice):
            return [self.hits[rank] for rank in self._returned[place]]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no hit {place}; the ranking has {len(self)}")
        return self.hits[self._returned[place]]

    def __repr__(self) -> str:
        lost = f", {len(self.missing)} scores missing" if self.missing else ""
        lost += f", {self.unfilled} recruits too few" if self.unfilled else ""
        all_of = "" if len(self) == len(self.passages) else f"{len(self)} of "
        count = f"{all_of}{len(self.passages)} passages"
        note = f". {self.judge_note}" if self.judge_note else ""
        return f"<Ranking of {count} for {self.query.text!r} by {self.ranker}{lost}{note}>"

    @property
    def ids(self) -> list[str]:
        """The passages' ids, best first."""
        return [doc_id for doc_id, _ in self.run]

    @property
    def run(self) -> list[tuple[str, float]]:
        """Id and final score of each passage that is returned, best first."""
        rows = [int(self.order[place]) for place in self._returned]
        return [(self.passages[row].id, float(self.final[row])) for row in rows]

    @cached_property
    def hits(self) -> tuple[Hit, ...]:
        """All passages, best first."""
        return tuple([Hit(self, row, rank) for rank, row in enumerate(self.order.tolist(), 1)])

    # What was used

    @property
    def usage(self) -> Usage:
        """Calls and tokens that this ranking took, everything together."""
        return self.calls.total

    @property
    def reused(self) -> Usage:
        """Answers that were in the ledger already, and what they had taken when they came."""
        return self.calls.reused.total

    def price(self, model: str, usage: Usage) -> float | None:
        """US dollars for these tokens; None where no price is known."""
        return None

    def rows_of_calls(self, *, reused: bool = False) -> list[Calls]:
        """Calls by stage, persona and model, with what they cost; or answers of the ledger."""
        table = self.calls.reused if reused else self.calls
        known = table.costs
        return [
            Calls(*key, usage, known[key] if key in known else self.price(key[2], usage))
            for key, usage in table.items()
        ]

    @property
    def cost(self) -> float | None:
        """US dollars for all calls; None if a model's price is not known."""
        rows = self.rows_of_calls()  # reused answers cost nothing now
        known = [row.cost for row in rows if row.cost is not None]
        return math.fsum(known) if len(known) == len(rows) else None

    # What scores mean

    @property
    def by_rank(self) -> bool:
        """True if the personas have put the passages in order, instead of scoring them."""
        return self.orders is not None and bool(self.judges) and bool(self.passages)

    @property
    def unscored(self) -> bool:
        """True if the ranker compared the passages and gives an order without scores."""
        return self.comparisons is not None and not self.failure and not self.judged

    @cached_property
    def top(self) -> float:
        """The highest score one persona could give, or the most points."""
        if not self.by_rank and (said := highest_score(self.config)):
            return said
        given = (score for hit in self.hits for score in hit.known_scores)
        return max(given, default=0.0) or _DEFAULT_TOP

    @property
    def relevance_note(self) -> str:
        """Why hits have no relevance, in a sentence; empty where they can have one."""
        of_ranker = f"{self.ranker} gives an order and no relevance"
        why = "its scores cannot be compared from query to query."
        return "" if self.absolute else f"{of_ranker}: {why}"

    # What is not there

    @property
    def missing(self) -> list[MissingScore]:
        """Every score that was asked for and did not come, by first-stage order."""
        places = [(row, column, why) for (row, column), why in self.matrix.reasons.items()]
        places += [(row, len(self.personas), why) for row, why in self.assessor_reasons.items()]
        names = (*self.personas, ASSESSOR)
        return [
            MissingScore(self.passages[row].id, names[column], why)
            for row, column, why in sorted(places)
        ]

    @property
    def was_judged(self) -> bool:
        """True if the order comes from judges; false if nothing was scored or compared."""
        import numpy as np

        if np.isfinite(self.final).any():
            return True
        if self.failure or self.matrix.reasons or self.orders is not None:
            return False
        answered = self.comparisons is not None and self.comparisons.asked > self.comparisons.failed
        return answered or not (self.partial or self.dropped)

    @property
    def unfinished(self) -> str:
        """Why the ranking is not all that it was to be, in a sentence; else empty."""
        if self.failure:
            return f"No passage was judged, so they keep their first-stage order: {self.failure}"
        return "The deadline came before all scores." if self.partial else ""

    @cached_property
    def tails(self) -> Mapping[str, int]:
        """Persona -> rank shared by all passages that it has not sorted out, if there are any."""
        tails = {}
        for name in self.judges if self.orders else ():
            ranked = [(hit.ranks[name], hit.passage.content) for hit in self.hits if hit.ranks]
            last = max(ranked, default=(0,))[0]
            if len({content for rank, content in ranked if rank == last}) > 1:
                tails[name] = last
        return tails

    # Passages of some kind

    @cached_property
    def judged(self) -> tuple[Hit, ...]:
        """The passages that have a final score, best first."""
        return tuple(hit for hit in self.hits if hit.judged)

    @property
    def last_sure_rank(self) -> int | None:
        """The last rank that was asked for; None if that is the last of all."""
        asked = self.config.get("ranks") if self.comparisons else None
        last = asked if isinstance(asked, int) else len(self.judged)
        return last if 0 < last < len(self.hits) else None

    @property
    def ranked_for_sure(self) -> tuple[Hit, ...]:
        """The passages that were judged and whose ranks were asked for, best first."""
        last = self.last_sure_rank
        hits = self.judged if self.judges else self.hits
        return tuple(hit for hit in hits if last is None or hit.rank <= last)

    @property
    def most_disputed(self) -> Hit | None:
        """The passage on which the personas disagree most; None if they never do."""
        disputed = [hit for hit in self.hits if hit.disagreement]
        return max(disputed, key=lambda hit: hit.disagreement or 0.0, default=None)

    @property
    def climbed_most(self) -> Hit | None:
        """The passage that rose most ranks, of those `ranked_for_sure`; None if none rose."""
        risen = [hit for hit in self.ranked_for_sure if hit.moved > 0]
        return max(risen, key=lambda hit: hit.moved, default=None)

    @property
    def fell_most(self) -> Hit | None:
        """The passage that fell most ranks, of those `ranked_for_sure`; None if none fell."""
        fallen = [hit for hit in self.ranked_for_sure if hit.moved < 0]
        return min(fallen, key=lambda hit: hit.moved, default=None)

    # What follows from the scores

    @cached_property
    def agreement(self) -> TeamAgreement:
        """Agreement of the personas."""
        from personas.ranking.agreement import TeamAgreement

        marks = [hit.marks for hit in self.hits]
        return TeamAgreement.of({name: [each[name] for each in marks] for name in self.judges})

    @property
    def leave_one_out_exact(self) -> bool:
        """True if the arithmetic of `Hit.rank_without` gives this very ranking."""
        if len(self.judged) > 1 and (self.ensemble is None or self.ensemble.asks):
            return False
        return all(place == hit.rank_of_all for place, hit in enumerate(self.judged, start=1))

    # Other forms

    def beside(
        self, *, grades: Mapping[str, int] | None = None, other: OtherRanking | None = None
    ) -> Self:
        """The ranking with judgements and another one beside it; a `SchemaError` without texts."""
        if not self.has_texts:
            raise SchemaError(
                "a ranking without texts, as run folders keep them; give the run folder itself, "
                "with the folder 'data' beside it"
            )
        return replace(self, grades=grades, other=other)

    def with_texts(self, texts: Mapping[str, tuple[str, str]]) -> Self:
        """The ranking with title and text of each passage, by document id, all of them there."""
        found = [(each, *texts[each.id]) for each in self.passages]
        passages = tuple(replace(each, title=title, text=text) for each, title, text in found)
        return replace(self, passages=passages, has_texts=True)

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` takes it back."""
        from personas.ranking.stored import stored

        return stored(self, texts=texts)

    @classmethod
    def of(cls, data: object) -> Self:
        """The ranking itself, or as `from_dict` reads it."""
        return data if isinstance(data, cls) else cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """A ranking from what `to_dict` made, or from its JSON text."""
        from personas.ranking.stored import read_fields

        return cls(**read_fields(data))
