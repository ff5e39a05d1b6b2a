"""A ranking: what led to the order of a query's passages, and what follows from it without a call.

What is stored is what is shown. A `RankingRecord` holds what was asked, answered and counted; its
`Hit` works out the rest when it is asked for: moves, agreement, ranks without a persona, signs of
manipulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from personas.ensembles import (
    Ensemble,
    Rule,
    descending,
    distinct,
    find_ensemble,
    highest_score,
    unit_range,
)
from personas.errors import SchemaError
from personas.ranking.orders import points, rule_of_points
from personas.ranking.types import (
    ASSESSOR,
    Comparisons,
    MemberRanking,
    MissingScore,
    Orders,
    Passage,
    Query,
    Reason,
    ScoreMatrix,
    WindowCounts,
)
from personas.ranking.usage import Calls, Usage, UsageTable
from personas.schema import Member, Team
from personas.weak_judges import WeakJudge, judge_note

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from personas.ranking.agreement import TeamAgreement
    from personas.ranking.suspicions import Suspicion

_DEFAULT_TOP = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OtherPlace:
    """Where another ranker has a passage: rank from 1, and score, None where it gave none."""

    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class OtherRanking:
    """Another ranker's result for the same query.

    Attributes:
        name: how it is called, e.g. ``"DIRECT(0,10)"``.
        top: the highest score it could give; None if not known.
        places: document id -> where it has that passage.
    """

    name: str
    top: float | None
    places: Mapping[str, OtherPlace]

    @classmethod
    def of(cls, name: str, top: float | None, ranking: RankingRecord | None) -> OtherRanking:
        """The places of a ranking; none if there is none."""
        hits = ranking.hits if ranking else ()
        return cls(name, top, {hit.doc_id: OtherPlace(hit.rank, hit.score) for hit in hits})


@dataclass(frozen=True, eq=False)
class RankingRecord(Sequence["Hit"]):
    """Passages in their new order, best first, with everything that led to it.

    As a sequence it has the hits that the ranker and the options ``top_n`` and ``min_relevance``
    leave, and so has `ids`. `hits` and the arrays have all passages.

    Attributes:
        query: what was asked.
        passages: in first-stage order.
        order: places in `passages`, best first; an integer array of length n.
        final: final score by place in `passages`; NaN beyond ``depth``, for passages that no judge
            scored, which follow the others, and for the places in `bounds`; length n.
        matrix: scores by passage (rows as `passages`) and persona.
        personas: names of the matrix's columns.
        team: who judged, with rubrics; None for rankers without a team.
        ranker: the ranker's name, e.g. ``"mcranker"``.
        config: the configuration in effect, as plain values.
        models: role -> model name, for the roles that were needed.
        prompt_hashes: prompt -> SHA-256 of its text.
        calls: usage by stage, persona and model.
        seconds: wall time by stage, and ``total``.
        assessor_reasons: place in `passages` -> why the assessor's score is missing.
        bounds: place in `passages` -> the highest final score possible, for passages that
            ``top_k`` left without some of their scores; they are ranked by it.
        absolute: whether hits have a relevance, 0 to 1, that does not depend on the other passages,
            so that a threshold means the same for every query; see `relevance_note`.
        relevances: place in `passages` -> relevance, for those that were scored; empty for rankers
            that give none.
        partial: whether the ``deadline`` came before all scores. What was not answered by then is
            missing with the reason ``"deadline"``.
        failure: why no passage was judged and the order is the first stage's, with
            ``on_failure="first_stage"``; else empty.
        cut: place in `passages` -> characters that ``max_passage_words`` or
            ``max_passage_tokens`` took off its end before models saw it.
        comparisons: what came of the replies, for rankers that compare passages; None for others.
        dropped: place in `passages` -> the relevance, 0 to 10, for which REBEL dropped it. Dropped
            passages have no final score and are no hits; here they follow the others, in
            first-stage order.
        windows: what came of the replies, for rankers that score several passages in one call; None
            for others.
        members: what was fused; empty for rankings that are of one ranker. The columns of `matrix`
            then hold what each member gave to a passage, and `personas` its labels.
        orders: the order of each persona, where a team compared passages: then `matrix` has no
            columns, and `final` combines the ranks. None for others.
        undecided: first and last rank of each group of passages that a ranker has compared and
            whose order among each other its replies have not decided: they failed or contradict
            each other, or those ranks were not asked for. Empty for what is ordered by scores.
        weak_judge: why the model that judged is weak: ``"small"``, or ``"encoder"``, which does
            not reason; empty where it is not known to be.
        reasons: (place in `passages`, persona) -> why it scored the passage so, for those that
            were asked for; see `mcranker.Ranking.explain`.
        false_quotes: reasons whose quote was dropped, because it is not in the passage.
        has_texts: whether the passages have titles and texts; run folders keep them elsewhere.
        grades: document id -> judgement, above 0 for relevant, of passages that were not found as
            well; None if no judgements are known. Not stored.
        other: a ranking of the same query by another ranker, such as DIRECT. Not stored.
    """

    query: Query
    passages: tuple[Passage, ...]
    order: NDArray[np.intp]
    final: NDArray[np.float64]
    matrix: ScoreMatrix
    personas: tuple[str, ...]
    team: Team | None
    ranker: str
    config: Mapping[str, Any]
    models: Mapping[str, str]
    prompt_hashes: Mapping[str, str]
    calls: UsageTable
    seconds: Mapping[str, float]
    assessor_reasons: Mapping[int, str] = field(default_factory=dict)
    bounds: Mapping[int, float] = field(default_factory=dict)
    absolute: bool = False
    relevances: Mapping[int, float] = field(default_factory=dict)
    partial: bool = False
    failure: str = ""
    cut: Mapping[int, int] = field(default_factory=dict)
    comparisons: Comparisons | None = None
    dropped: Mapping[int, float] = field(default_factory=dict)
    windows: WindowCounts | None = None
    members: tuple[MemberRanking, ...] = ()
    orders: Orders | None = None
    undecided: tuple[tuple[int, int], ...] = ()
    weak_judge: WeakJudge = ""
    reasons: Mapping[tuple[int, str], Reason] = field(default_factory=dict)
    false_quotes: int = 0
    has_texts: bool = True
    grades: Mapping[str, int] | None = None
    other: OtherRanking | None = None

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
        """Id and final score of each passage that is returned, best first.

        The score is the highest that was possible for a passage of `bounds`, and NaN without one.
        """
        rows = [int(self.order[place]) for place in self._returned]
        return [
            (self.passages[row].id, self.bounds.get(row, float(self.final[row]))) for row in rows
        ]

    @cached_property
    def hits(self) -> tuple[Hit, ...]:
        """All passages, best first."""
        return tuple([Hit(self, row, rank) for rank, row in enumerate(self.order.tolist(), 1)])

    @cached_property
    def _returned(self) -> Sequence[int]:
        """Places in `hits` of those that the ranker, ``min_relevance`` and ``top_n`` leave.

        ``min_relevance`` leaves out what has a lower relevance and what was not judged, unless
        nothing was judged at all; ``top_n`` then leaves the first ones.
        """
        least, most = self.config.get("min_relevance"), self.config.get("top_n")
        rows = enumerate(self.order.tolist())
        places = [(place, row) for place, row in rows if row not in self.dropped]
        if isinstance(least, int | float) and self.relevances:
            places = [each for each in places if self.relevances.get(each[1], -1.0) >= least]
        few = most if isinstance(most, int) and most > 0 else None
        return [place for place, _ in places[:few]]

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
        rows = []
        for key, usage in table.items():
            known = key in table.costs
            rows.append(
                Calls(*key, usage, table.costs[key] if known else self.price(key[2], usage))
            )
        return rows

    @property
    def cost(self) -> float | None:
        """US dollars for all calls; None if a model's price is not known."""
        # Reused answers cost nothing now.
        costs = [row.cost for row in self.rows_of_calls()]
        known = [each for each in costs if each is not None]
        return math.fsum(known) if len(known) == len(costs) else None

    # Who judged

    @property
    def judges(self) -> tuple[str, ...]:
        """The personas whose scores count, or whose orders do, in team order."""
        if self.orders is None:
            return self.personas
        return tuple(name for name in self.orders.personas if name not in self.orders.left_out)

    @property
    def left_out(self) -> Mapping[str, str]:
        """Persona -> why its order does not count, where a team compared."""
        return self.orders.left_out if self.orders else {}

    @property
    def unfilled(self) -> int:
        """Number of missing recruits, because fewer were named than asked for."""
        size = self.config.get("team_size")
        if self.team is None or not isinstance(size, int):
            return 0
        return max(0, size - len(self.team.members))

    @property
    def judge_note(self) -> str:
        """Note on a weak judge, in a sentence; empty where it is not known to be weak."""
        return judge_note(self.weak_judge, self.models.get("scoring", ""))

    def member(self, persona: str) -> Member | None:
        """The team's member of that name; None if there is none."""
        members = self.team.members if self.team else ()
        return next((member for member in members if member.name == persona), None)

    def criteria_of(self, persona: str) -> tuple[str, ...]:
        """Names of a persona's criteria, in their order; none where it has no rubric."""
        member = self.member(persona)
        rubric = member.rubric if member else None
        return tuple(each.name for each in rubric.criteria) if rubric else ()

    # What scores mean

    @property
    def ensemble(self) -> Ensemble | None:
        """Way from the scores to one a passage; None if that is not known here."""
        return find_ensemble(self.config)

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
        said = None if self.by_rank else highest_score(self.config)
        known = chain.from_iterable(hit.known_scores for hit in self.hits) if said is None else ()
        return said or max(known, default=0.0) or _DEFAULT_TOP

    @property
    def relevance_note(self) -> str:
        """Why hits have no relevance, in a sentence; empty where they can have one."""
        if self.absolute:
            return ""
        return (
            f"{self.ranker} gives an order and no relevance: its scores cannot be compared from "
            "query to query."
        )

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
    def skipped(self) -> int:
        """Number of scores not asked for, because of ``top_k``."""
        unasked = self.matrix.unasked
        return sum(int(unasked[row].sum()) for row in self.bounds)

    @property
    def was_judged(self) -> bool:
        """True if the order comes from judges, not from the first stage.

        False where nothing was scored and no comparison was answered: replies or calls failed, or
        the deadline came first.
        """
        import numpy as np

        if np.isfinite(self.final).any() or self.bounds:
            return True
        if self.failure or self.matrix.reasons or self.orders is not None:
            return False
        counts = self.comparisons
        if counts is not None and counts.asked > counts.failed:
            return True
        return not (self.partial or self.dropped)

    @property
    def unfinished(self) -> str:
        """Why the ranking is not all that it was to be, in a sentence; else empty."""
        if self.failure:
            return f"No passage was judged, so they keep their first-stage order: {self.failure}"
        return "The deadline came before all scores." if self.partial else ""

    @cached_property
    def tails(self) -> Mapping[str, int]:
        """Persona -> rank that all passages share which it has not sorted out.

        Without those who have sorted out all.
        """
        tails = {}
        for name in self.judges if self.orders else ():
            last = max((hit.ranks.get(name, 0) for hit in self.hits), default=0)
            same = {hit.passage.content for hit in self.hits if hit.ranks.get(name) == last}
            if len(same) > 1:
                tails[name] = last
        return tails

    # Passages of some kind

    @cached_property
    def judged(self) -> tuple[Hit, ...]:
        """The passages that have a final score, best first."""
        return tuple(hit for hit in self.hits if hit.judged)

    @property
    def partly_judged(self) -> tuple[Hit, ...]:
        """The passages of which scores were not asked for, because of ``top_k``, best first."""
        return tuple(hit for hit in self.hits if hit.skipped)

    @property
    def top_k(self) -> int | None:
        """Number of ranks that had to be right; None if all."""
        top_k = self.config.get("top_k")
        return top_k if isinstance(top_k, int) and top_k > 0 else None

    @property
    def last_sure_rank(self) -> int | None:
        """The last rank that was asked for; None if that is the last of all.

        Passages below it are ordered by what they could have got at most, or by the first stage.
        """
        asked = self.config.get("ranks") if self.comparisons else self.top_k
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
        found = max(self.hits, key=lambda hit: hit.disagreement or 0.0, default=None)
        return found if found is not None and found.disagreement else None

    @property
    def climbed_most(self) -> Hit | None:
        """The passage that rose most ranks, of those `ranked_for_sure`; None if none rose."""
        found = max(self.ranked_for_sure, key=lambda hit: hit.moved, default=None)
        return found if found is not None and found.moved > 0 else None

    @property
    def fell_most(self) -> Hit | None:
        """The passage that fell most ranks, of those `ranked_for_sure`; None if none fell."""
        found = min(self.ranked_for_sure, key=lambda hit: hit.moved, default=None)
        return found if found is not None and found.moved < 0 else None

    # What follows from the scores

    @cached_property
    def agreement(self) -> TeamAgreement:
        """Agreement of the personas."""
        from personas.ranking.agreement import TeamAgreement

        marks = [hit.marks for hit in self.hits]
        return TeamAgreement.of({name: [each[name] for each in marks] for name in self.judges})

    @property
    def leave_one_out_exact(self) -> bool:
        """True if the arithmetic of `Hit.rank_without` gives this very ranking.

        An assessor would have to be asked again; for its rankings, and where the ensemble is not
        known here, the sum of the remaining scores is used. Passages that were not judged by all
        are left out of the arithmetic.
        """
        if len(self.judged) > 1 and (self.ensemble is None or self.ensemble.asks):
            return False
        return all(place == hit.rank_of_all for place, hit in enumerate(self.judged, start=1))

    @cached_property
    def rule(self) -> Rule:
        """Rule from scores, or points, to final scores."""
        return self._points_and_rule[1]

    @cached_property
    def _points_and_rule(self) -> tuple[Mapping[int, Mapping[str, float]], Rule]:
        """Row -> persona -> its points, where a team compared passages; and the rule for them."""
        rule = Rule.of(self.config)
        if self.orders is None or not self.judges:
            return {}, rule
        import numpy as np

        ranks = self.orders.counted
        judged = np.flatnonzero(np.isfinite(self.final) & ~np.isnan(ranks).any(axis=1))
        rows, group_of = distinct(self.passages[row].content for row in judged.tolist())
        found = points(ranks[judged[rows]])[group_of].tolist()
        by_row = {
            row: dict(zip(self.judges, each, strict=True))
            for row, each in zip(judged.tolist(), found, strict=True)
        }
        return by_row, rule_of_points(rule, len(rows))

    @cached_property
    def _leave_one_out(self) -> Mapping[int, tuple[int, Mapping[str, int]]]:
        """Row -> rank by all scores, and for each persona by those of the others."""
        import numpy as np

        # Without a persona, a passage that only it has scored comes among those without a score.
        asked = [
            hit
            for hit in sorted(self.hits, key=lambda hit: hit.row)
            if hit.judged or (hit.missing and hit.dropped is None and not hit.skipped)
        ]
        names = self.judges
        # Passages that were judged as one have the same scores.
        scores = [tuple([hit.marks[name] for name in names]) for hit in asked]
        rows, group_of = distinct(
            (hit.title, hit.text, *each) for hit, each in zip(asked, scores, strict=True)
        )
        values = np.array([scores[row] for row in rows], dtype=np.float64)
        values = values.reshape(len(rows), len(names))
        first_stage = [hit.first_stage_score for hit in asked]

        def ranks(values: NDArray[np.float64]) -> list[int]:
            order = descending(self.rule.final(values, group_of, first_stage))
            return [int(place) + 1 for place in np.argsort(order)]

        left_out = names if len(names) > 1 else ()
        without = [ranks(np.delete(values, place, axis=1)) for place in range(len(left_out))]
        return {
            hit.row: (of_all, dict(zip(left_out, others, strict=True)))
            for hit, of_all, *others in zip(asked, ranks(values), *without, strict=True)
        }

    @cached_property
    def _shares(self) -> Mapping[int, tuple[float, float]]:
        """Row -> what of the final score is the personas', and what the first stage's, 0 to 1."""
        weight = Rule.of(self.config).first_stage_weight
        given = [hit.first_stage_score for hit in self.judged if hit.first_stage_score is not None]
        if not weight or len(given) < len(self.judged):
            return {}
        import numpy as np

        found = {}
        for hit, first in zip(self.judged, unit_range(np.array(given)).tolist(), strict=True):
            assert hit.score is not None, "those that were judged have one"
            own = (hit.score - weight * first) / (1 - weight) if weight < 1 else 0.0
            found[hit.row] = min(max(own, 0.0), 1.0), first
        return found

    @cached_property
    def _suspicions_of(self) -> Callable[[str, str], tuple[Suspicion, ...]]:
        from personas.ranking.suspicions import Watch

        return Watch(self.query.text).suspicions

    # Other forms

    def beside(
        self, *, grades: Mapping[str, int] | None = None, other: OtherRanking | None = None
    ) -> Self:
        """The ranking with judgements and another ranking to be shown beside it.

        Raises:
            SchemaError: it has no texts.
        """
        if not self.has_texts:
            raise SchemaError(
                "a ranking without texts, as run folders keep them; give the run folder itself, "
                "with the folder 'data' beside it"
            )
        return replace(self, grades=grades, other=other)

    def with_texts(self, texts: Mapping[str, tuple[str, str]]) -> Self:
        """The ranking with title and text of each passage, by document id.

        Raises:
            KeyError: those of a passage are not there.
        """
        passages = []
        for each in self.passages:
            title, text = texts[each.id]
            passages.append(replace(each, title=title, text=text))
        return replace(self, passages=tuple(passages), has_texts=True)

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `from_dict` takes it back.

        Metadata that JSON cannot hold, such as dates, is stored as text.

        Args:
            texts: whether titles and texts of the passages are in it.
        """
        from personas.ranking.stored import stored

        return stored(self, texts=texts)

    @classmethod
    def of(cls, data: object) -> Self:
        """The ranking itself, or from what `to_dict` made.

        Raises:
            SchemaError: as `from_dict`.
        """
        return data if isinstance(data, cls) else cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """A ranking from what `to_dict` made, or from its JSON text.

        Raises:
            SchemaError: it is of another version, or is not a ranking.
        """
        from personas.ranking.stored import read_fields

        return cls(**read_fields(data))


@dataclass(frozen=True, eq=False, repr=False)
class Hit:
    """One passage of a ranking. Two are equal if what is stored of them is.

    Attributes:
        ranking: of which it is a part.
        row: place of the passage in `RankingRecord.passages`, and so in the docs that were given.
        rank: from 1, best first.
    """

    ranking: RankingRecord
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
        """Data that came with the passage and is not shown to models."""
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
        """Ranks the passage rose (positive) or fell (negative)."""
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
        return self.ranking._suspicions_of(self.title, self.text)  # noqa: SLF001 - part of it

    # What it got

    @property
    def score(self) -> float | None:
        """Final score; None for a passage that no judge scored, and with `skipped` personas."""
        final = float(self.ranking.final[self.row])
        return None if math.isnan(final) else final

    @property
    def judged(self) -> bool:
        """True if the passage has a final score."""
        return self.score is not None

    @property
    def relevance(self) -> float | None:
        """The mean judge's score by k, 0 to 1, with what is imputed for missing scores.

        The assessor's, where there is one. It does not depend on other passages. None without a
        score, and where `RankingRecord.absolute` is false.
        """
        return self.ranking.relevances.get(self.row)

    @cached_property
    def scores(self) -> Mapping[str, float | None]:
        """Persona -> score, 0 to k, or None where there is none; in team order.

        Where a team compared passages the personas have `ranks` instead.
        """
        values = self.ranking.matrix.values[self.row].tolist()
        return {
            name: None if math.isnan(value) else value
            for name, value in zip(self.ranking.personas, values, strict=True)
        }

    @cached_property
    def missing(self) -> Mapping[str, str]:
        """Persona, or `ASSESSOR`, -> why its score is missing."""
        found = self._of(self.ranking.matrix.reasons)
        if (why := self.ranking.assessor_reasons.get(self.row)) is not None:
            found[ASSESSOR] = why
        return found

    @cached_property
    def imputed(self) -> Mapping[str, float]:
        """Persona -> what is taken for its missing score in `score`; empty without one."""
        ranking = self.ranking
        if not self.missing or not self.judged or ranking.members or ranking.ensemble is None:
            return {}
        import numpy as np

        rule = ranking.rule
        filled = rule.filled(np.array([list(self.scores.values())], dtype=np.float64))
        if rule.ensemble.asks:
            # The model that combined the scores saw that some are missing.
            if ASSESSOR not in self.missing:
                return {}
            if rule.missing == "mean_of_team":
                return {ASSESSOR: float(filled.mean())}
            return {ASSESSOR: float(rule.filled(np.array([[np.nan]]))[0, 0])}
        found = zip(self.scores, filled[0].tolist(), strict=True)
        return {name: score for name, score in found if name in self.missing}

    @property
    def criteria(self) -> Mapping[str, Mapping[str, float]]:
        """Persona -> criterion -> score, where criteria were scored one by one."""
        return {
            name: dict(zip(self.ranking.criteria_of(name), scores, strict=True))
            for name, scores in self._of(self.ranking.matrix.criteria).items()
        }

    @property
    def reasons(self) -> Mapping[str, Reason]:
        """Persona -> why it scored the passage so, for those that were asked for; in team order.

        The ranker's name is there instead where no persona judged.
        """
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

    @cached_property
    def skipped(self) -> tuple[str, ...]:
        """Personas who were not asked, as it could not reach the first ``top_k`` ranks any more."""
        if self.row not in self.ranking.bounds:
            return ()
        missing = self._of(self.ranking.matrix.reasons)
        return tuple(
            name for name, score in self.scores.items() if score is None and name not in missing
        )

    @property
    def at_most(self) -> float | None:
        """The highest final score it could have got from them; None if none was skipped."""
        return self.ranking.bounds.get(self.row)

    @property
    def dropped(self) -> float | None:
        """The relevance, 0 to 10, for which REBEL dropped the passage; None for others."""
        return self.ranking.dropped.get(self.row)

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Persona -> rank in its order, from 1, where a team compared passages; see `Orders`."""
        orders = self.ranking.orders
        ranks = zip(orders.personas, orders.ranks[self.row].tolist(), strict=True) if orders else ()
        return {name: int(rank) for name, rank in ranks if not math.isnan(rank)}

    @property
    def members(self) -> Mapping[str, OtherPlace]:
        """Member of a fused ranking -> where that has the passage, if it has it."""
        return {
            each.label: OtherPlace(rank, each.scores[self.row])
            for each in self.ranking.members
            if (rank := each.ranks[self.row]) is not None
        }

    # What follows from that

    @property
    def points(self) -> Mapping[str, float]:
        """Persona -> what the ensemble makes of its rank, see `personas.ranking.orders.points`."""
        return self.ranking._points_and_rule[0].get(self.row, {})  # noqa: SLF001 - part of it

    @property
    def marks(self) -> Mapping[str, float | None]:
        """Values that the final score combines: the points where there are any, else the scores."""
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
        found = self.ranking._leave_one_out.get(self.row)  # noqa: SLF001 - part of it
        return found[0] if found else None

    @property
    def rank_without(self) -> Mapping[str, int]:
        """Persona -> rank of the passage if that persona is left out.

        Empty for a passage without a score, and where fewer than two personas judged.
        """
        found = self.ranking._leave_one_out.get(self.row)  # noqa: SLF001 - part of it
        return found[1] if found else {}

    @property
    def effects(self) -> Mapping[str, int]:
        """Persona -> by how many ranks it raised (positive) or sank (negative) the passage."""
        if self.rank_of_all is None:
            return {}
        return {name: rank - self.rank_of_all for name, rank in self.rank_without.items()}

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
        return self.ranking._shares.get(self.row)  # noqa: SLF001 - part of it

    @property
    def formula(self) -> str:
        """Formula of the final score from `shares`, with its numbers; empty if there is none."""
        if self.shares is None or self.score is None:
            return ""
        weight = Rule.of(self.ranking.config).first_stage_weight
        own, first = self.shares
        return f"{1 - weight:.2f} × {own:.2f} + {weight:.2f} × {first:.2f} = {self.score:.3f}"  # noqa: RUF001

    def to_dict(self, *, texts: bool = True) -> dict[str, Any]:
        """Return its stored form, as plain values that JSON can hold.

        Args:
            texts: whether title and text are in it.
        """
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
