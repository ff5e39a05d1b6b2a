"""What one ranked query looked like, and what can be worked out from it without a call.

An `Inspection` is read from the plain values that a ranking is stored as. Besides what is
stored it knows, for each passage, how far the personas disagree and where the passage would
stand without each of them. Pages and terminals only show what is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from personas.inspection.agreement import TeamAgreement
from personas.inspection.orders import points_of, tails_of
from personas.inspection.stored import (
    StoredCalls,
    StoredComparisons,
    StoredHit,
    StoredMember,
    StoredRanking,
)
from personas.inspection.suspicions import Suspicion, Watch
from personas.schema import Member, Team
from personas.weak_judges import WeakJudge, judge_note

_DEFAULT_TOP = 10.0


@dataclass(frozen=True, slots=True)
class OtherPlace:
    """Where another ranker has a passage: rank from 1, and score, None where it gave none."""

    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class OtherRanking:
    """What another ranker made of the same query.

    Attributes:
        name: how it is called, e.g. ``"DIRECT(0,10)"``.
        top: the highest score it could give; None if not known.
        places: document id -> where it has that passage.
    """

    name: str
    top: float | None
    places: Mapping[str, OtherPlace]

    @classmethod
    def of(cls, name: str, top: float | None, stored: StoredRanking | None) -> OtherRanking:
        """What a stored ranking holds; nothing if there is none."""
        hits = stored.hits if stored else ()
        return cls(name, top, {hit.doc_id: OtherPlace(hit.rank, hit.score) for hit in hits})


@dataclass(frozen=True, slots=True)
class InspectedHit:
    """One passage of the ranking.

    Attributes:
        rank: from 1, best first.
        doc_id: the passage's id.
        score: final score; None for a passage that was not judged, or not by all.
        scores: persona -> score, or None where there is none; in the order of the columns.
        missing: persona -> why its score is missing; ``"(assessor)"`` may be among them.
        criteria: persona -> criterion -> score, where criteria were scored one by one.
        first_stage_rank: rank in the order in which the passages were given, from 1.
        first_stage_score: the first stage's score, or None if not known.
        title: the passage's title, or empty.
        text: the passage's body.
        rank_of_all: rank by the arithmetic of `rank_without` with nobody left out; None for
            a passage that was not judged.
        rank_without: persona -> rank of the passage if that persona is left out. Empty for
            a passage that was not judged, and where fewer than two personas judged.
        disagreement: population standard deviation of the personas' scores, or ranks; None for
            fewer than two.
        skipped: personas who were not asked, because the passage could not reach the first
            ``top_k`` ranks any more.
        at_most: the highest final score it could have got from them, by which it is ranked;
            None if nobody was skipped.
        grade: the judgement, above 0 for relevant; None where there is none.
        confidence: persona -> how sure the model said it was, 0 to 1, where it said so.
        probabilities: persona -> probability of each level, from 0 to the highest score at equal
            distances, where the model gave them.
        other: where the ranker that this one is compared with has it; None if nowhere.
        imputed: persona -> what its missing score counts in the final one; empty where nothing is
            missing, or where that is not known here.
        dropped: the relevance for which the ranker dropped the passage, which then has no final
            score; None for others.
        relevance: 0 to 1, without regard to the other passages; None where there is none.
        shares: the personas' score and the first stage's, each from 0 to 1 over the passages, where
            the final score is made of both; None where the first stage has no part in it.
        members: of a fused ranking, member -> where that has the passage; without those that do
            not have it. `scores` then holds what each gave to the passage.
        ranks: persona -> rank in its order, from 1, where a team compared the passages; then nobody
            gave a score.
        points: persona -> what the ensemble makes of its rank, see `personas.orders.points`.
        cut: characters at the end of the passage that models did not see.
        suspicions: signs that the passage was written to be ranked high.
    """

    rank: int
    doc_id: str
    score: float | None
    scores: Mapping[str, float | None]
    missing: Mapping[str, str]
    criteria: Mapping[str, Mapping[str, float]]
    first_stage_rank: int
    first_stage_score: float | None
    title: str
    text: str
    rank_of_all: int | None
    rank_without: Mapping[str, int]
    disagreement: float | None = None
    skipped: tuple[str, ...] = ()
    at_most: float | None = None
    grade: int | None = None
    confidence: Mapping[str, float] = field(default_factory=dict)
    probabilities: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    other: OtherPlace | None = None
    imputed: Mapping[str, float] = field(default_factory=dict)
    dropped: float | None = None
    relevance: float | None = None
    shares: tuple[float, float] | None = None
    members: Mapping[str, OtherPlace] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)
    cut: int = 0
    suspicions: tuple[Suspicion, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether the passage has a final score."""
        return self.score is not None

    @property
    def moved(self) -> int:
        """How many ranks the passage rose (positive) or fell (negative)."""
        return self.first_stage_rank - self.rank

    @property
    def marks(self) -> Mapping[str, float | None]:
        """What the final score combines: the points where there are any, else the scores."""
        return self.points or self.scores

    @property
    def known_scores(self) -> tuple[float, ...]:
        """The personas' scores that are there, or their points."""
        return tuple([score for score in self.marks.values() if score is not None])

    @property
    def score_range(self) -> float | None:
        """Highest less lowest of the personas' scores, or points; None for fewer than two."""
        known = self.known_scores
        return max(known) - min(known) if len(known) > 1 else None

    @property
    def effects(self) -> Mapping[str, int]:
        """Persona -> by how many ranks it raised (positive) or sank (negative) the passage."""
        if self.rank_of_all is None:
            return {}
        return {name: rank - self.rank_of_all for name, rank in self.rank_without.items()}

    @property
    def raised_most_by(self) -> tuple[str, ...]:
        """Who raised the passage most, of those who scored it; several if they did equally."""
        return self._with_effect(max)

    @property
    def sunk_most_by(self) -> tuple[str, ...]:
        """Who sank the passage most, of those who scored it; several if they did equally."""
        return self._with_effect(min)

    def _with_effect(self, extreme: Callable[[Iterable[int]], int]) -> tuple[str, ...]:
        if not self.rank_without:
            return ()
        effects = self.effects
        # What stands in for a missing score has an effect too, but that is not the persona's.
        counted = [name for name in effects if self.marks[name] is not None]
        most = extreme([0, *[effects[name] for name in counted]])
        return tuple([name for name in counted if effects[name] == most]) if most else ()


@dataclass(frozen=True, slots=True)
class Inspection:
    """One ranked query.

    >>> inspection = Inspection.from_dict(ranking.to_dict())

    Attributes:
        query: what was asked.
        query_id: the query's id, or empty.
        ranker: the ranker's name.
        team: who judged, with rubrics; None for rankers without a team.
        personas: names of the score columns. Without personas of their own, rankers name
            one column, e.g. ``DIRECT``. Where a team compared, those whose orders count.
        hits: all passages, best first.
        config: the configuration in effect, as plain values.
        models: role -> model name.
        prompt_hashes: prompt -> SHA-256 of its text.
        calls: calls and tokens by stage, persona and model.
        total: all calls together; its stage, persona and model are empty.
        reused: answers that were in the ledger and took no call.
        seconds: wall time by stage, and ``total``.
        agreement: how far the personas agree.
        grades: document id -> judgement, of passages that were not found as well; None if no
            judgements are known.
        other: the ranking that this one is compared with; None if there is none.
        partial: whether the deadline came before all scores.
        failure: why no passage was judged and the order is the first stage's; else empty.
        comparisons: what came of the replies of a ranker that compares; None for others.
        left_out: persona -> why its order does not count, where a team compared.
        tails: persona -> rank that all passages share which it has not sorted out; without those
            who have sorted out all.
        weak_judge: why the model that judged is weak; empty where it is not known to be.
    """

    query: str
    query_id: str
    ranker: str
    team: Team | None
    personas: tuple[str, ...]
    hits: tuple[InspectedHit, ...]
    config: Mapping[str, Any]
    models: Mapping[str, str]
    prompt_hashes: Mapping[str, str]
    calls: tuple[StoredCalls, ...]
    total: StoredCalls
    reused: int
    seconds: Mapping[str, float]
    agreement: TeamAgreement
    grades: Mapping[str, int] | None = None
    other: OtherRanking | None = None
    partial: bool = False
    failure: str = ""
    comparisons: StoredComparisons | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    tails: Mapping[str, int] = field(default_factory=dict)
    weak_judge: WeakJudge = ""

    @classmethod
    def from_dict(
        cls,
        data: StoredRanking | Mapping[str, Any],
        *,
        grades: Mapping[str, int] | None = None,
        other: OtherRanking | None = None,
    ) -> Inspection:
        """An inspection of what ``Ranking.to_dict()`` made, or of the same read already.

        Args:
            data: the ranking.
            grades: document id -> judgement for this query, above 0 for relevant.
            other: what another ranker, such as DIRECT, made of the query.

        Raises:
            SchemaError: it is something else, is not complete, or contradicts itself.
        """
        stored = StoredRanking.read(data)
        usage, names = stored.usage, stored.ordered_by or tuple(stored.personas)
        hits = _inspected(stored, grades or {}, other.places if other else {})
        return cls(
            query=stored.query.text,
            query_id=stored.query.id,
            ranker=stored.ranker,
            team=stored.team,
            personas=names,
            hits=hits,
            config=stored.config,
            models=stored.models,
            prompt_hashes=stored.prompt_hashes,
            calls=tuple(usage.by_stage),
            total=StoredCalls(
                stage="",
                persona="",
                model="",
                **usage.model_dump(exclude={"by_stage", "reused"}),
            ),
            reused=sum(row.calls for row in usage.reused),
            seconds=stored.seconds,
            agreement=TeamAgreement.of({name: [hit.marks[name] for hit in hits] for name in names}),
            grades=grades,
            other=other,
            partial=stored.partial,
            failure=stored.failure,
            comparisons=stored.comparisons,
            left_out={name: each.left_out for name, each in stored.orders.items() if each.left_out},
            tails=tails_of(stored.hits, names) if stored.orders else {},
            weak_judge=stored.weak_judge,
        )

    @property
    def unfinished(self) -> str:
        """Why the ranking is not all that it was to be, in a sentence; else empty."""
        if self.failure:
            return f"No passage was judged, so they keep their first-stage order: {self.failure}"
        return "The deadline came before all scores." if self.partial else ""

    @property
    def judge_note(self) -> str:
        """What to know of a weak judge, in a sentence; empty where it is not known to be weak."""
        return judge_note(self.weak_judge, self.models.get("scoring", ""))

    @property
    def by_rank(self) -> bool:
        """Whether the personas have put the passages in order, instead of scoring them."""
        return any(hit.ranks for hit in self.hits)

    @property
    def unscored(self) -> bool:
        """Whether the ranker compared the passages and gives an order without scores."""
        return self.comparisons is not None and not self.failure and not self.judged

    @property
    def top(self) -> float:
        """The highest score one persona could give, or the most points."""
        said = None if self.by_rank else highest_score(self.config)
        known = [score for hit in self.hits for score in hit.known_scores] if said is None else ()
        return said or max(known, default=0.0) or _DEFAULT_TOP

    @property
    def ensemble(self) -> Ensemble | None:
        """How the scores became one a passage; None if that is not known here."""
        return find_ensemble(self.config)

    @property
    def judged(self) -> tuple[InspectedHit, ...]:
        """The passages that have a final score, best first."""
        return tuple(hit for hit in self.hits if hit.judged)

    @property
    def partly_judged(self) -> tuple[InspectedHit, ...]:
        """The passages about which somebody was not asked, because of ``top_k``."""
        return tuple(hit for hit in self.hits if hit.skipped)

    @property
    def skipped(self) -> int:
        """How many scores were not asked for, because of ``top_k``."""
        return sum(len(hit.skipped) for hit in self.hits)

    @property
    def dropped(self) -> int:
        """How many passages the ranker dropped, because their relevance was too low."""
        return sum(hit.dropped is not None for hit in self.hits)

    @property
    def missing(self) -> int:
        """How many scores were asked for and did not come."""
        return sum(len(hit.missing) for hit in self.hits)

    @property
    def top_k(self) -> int | None:
        """How many ranks had to be right; None if all."""
        top_k = self.config.get("top_k")
        return top_k if isinstance(top_k, int) and top_k > 0 else None

    @property
    def last_sure_rank(self) -> int | None:
        """The last rank that was asked for; None if that is the last of all.

        Below it stand passages by what they could have got at most, or in first-stage order.
        """
        asked = self.config.get("ranks") if self.comparisons else self.top_k
        last = asked if isinstance(asked, int) else len(self.judged)
        return last if 0 < last < len(self.hits) else None

    @property
    def ranked_for_sure(self) -> tuple[InspectedHit, ...]:
        """The passages that were judged and whose ranks were asked for, best first."""
        last = self.last_sure_rank
        hits = self.judged if self.personas else self.hits
        return tuple(hit for hit in hits if last is None or hit.rank <= last)

    @property
    def leave_one_out_exact(self) -> bool:
        """Whether the arithmetic of `InspectedHit.rank_without` gives this very ranking.

        An assessor would have to be asked again; for its rankings, and where the ensemble is not
        known here, the sum of the remaining scores stands in. Passages that were not judged by
        all are left out of the arithmetic.
        """
        if len(self.judged) > 1 and (self.ensemble is None or self.ensemble.asks):
            return False
        return all(place == hit.rank_of_all for place, hit in enumerate(self.judged, start=1))

    @property
    def most_disputed(self) -> InspectedHit | None:
        """The passage on which the personas disagree most; None if they never do."""
        found = max(self.hits, key=lambda hit: hit.disagreement or 0.0, default=None)
        return found if found is not None and found.disagreement else None

    @property
    def climbed_most(self) -> InspectedHit | None:
        """The passage that rose most ranks, of those `ranked_for_sure`; None if none rose."""
        found = max(self.ranked_for_sure, key=lambda hit: hit.moved, default=None)
        return found if found is not None and found.moved > 0 else None

    @property
    def fell_most(self) -> InspectedHit | None:
        """The passage that fell most ranks, of those `ranked_for_sure`; None if none fell."""
        found = min(self.ranked_for_sure, key=lambda hit: hit.moved, default=None)
        return found if found is not None and found.moved < 0 else None

    def formula(self, hit: InspectedHit) -> str:
        """How a final score is made of the personas' and the first stage's; empty if it is not."""
        if hit.shares is None or hit.score is None:
            return ""
        weight = Rule.of(self.config).first_stage_weight
        own, first = hit.shares
        return f"{1 - weight:.2f} × {own:.2f} + {weight:.2f} × {first:.2f} = {hit.score:.3f}"  # noqa: RUF001

    def member(self, persona: str) -> Member | None:
        """The team's member of that name; None if there is none."""
        members = self.team.members if self.team else ()
        return next((member for member in members if member.name == persona), None)


def _inspected(
    stored: StoredRanking, grades: Mapping[str, int], other: Mapping[str, OtherPlace]
) -> tuple[InspectedHit, ...]:
    names = stored.ordered_by or tuple(stored.personas)
    given = sorted(stored.hits, key=lambda hit: hit.first_stage_rank)
    if any(hit.text is None or hit.title is None for hit in given):
        raise SchemaError(
            "a ranking without texts, as run folders keep them; give the run folder itself, with "
            "the folder 'data' beside it"
        )
    judged = [hit for hit in given if hit.score is not None]
    rule = Rule.of(stored.config)
    by_rank: dict[int, dict[str, float]] = {}
    if stored.ordered_by:
        ranked = [hit for hit in judged if hit.ranks]
        by_rank, rule = points_of(ranked, names, rule)
    # Without a persona, a passage that only it has scored comes among those that nobody has.
    asked = [
        hit
        for hit in given
        if hit.score is not None or (hit.missing and hit.dropped is None and not hit.skipped)
    ]
    marks = {hit.rank: by_rank.get(hit.rank) or hit.scores for hit in asked}
    places = _leave_one_out(asked, marks, names, rule)
    shares = _shares(judged, rule.first_stage_weight)
    nowhere: tuple[None, dict[str, int]] = (None, {})
    suspicions_of = Watch(stored.query.text).suspicions
    return tuple(
        InspectedHit(
            rank=hit.rank,
            doc_id=hit.doc_id,
            score=hit.score,
            scores={name: hit.scores.get(name) for name in names},
            missing=hit.missing,
            criteria=hit.criteria,
            first_stage_rank=hit.first_stage_rank,
            first_stage_score=hit.first_stage_score,
            title=hit.title or "",
            text=hit.text or "",
            rank_of_all=places.get(hit.rank, nowhere)[0],
            rank_without=places.get(hit.rank, nowhere)[1],
            disagreement=_spread(
                [score for score in marks.get(hit.rank, hit.scores).values() if score is not None]
            ),
            skipped=hit.skipped,
            at_most=hit.at_most,
            confidence=hit.confidence,
            probabilities=hit.probabilities,
            grade=grades.get(hit.doc_id),
            other=other.get(hit.doc_id),
            imputed=hit.imputed,
            dropped=hit.dropped,
            relevance=hit.relevance,
            shares=shares.get(hit.rank),
            members=_placed(stored.members, hit.first_stage_rank - 1),
            ranks=hit.ranks,
            points=by_rank.get(hit.rank, {}),
            cut=hit.cut,
            suspicions=suspicions_of(hit.title or "", hit.text or ""),
        )
        for hit in sorted(given, key=lambda hit: hit.rank)
    )


def _shares(judged: Sequence[StoredHit], weight: float) -> dict[int, tuple[float, float]]:
    """Rank -> what of the final score is the personas', and what the first stage's, 0 to 1 each."""
    given = [hit.first_stage_score for hit in judged if hit.first_stage_score is not None]
    if not weight or len(given) < len(judged):
        return {}
    found: dict[int, tuple[float, float]] = {}
    for hit, first in zip(judged, unit_range(np.array(given)).tolist(), strict=True):
        assert hit.score is not None, "those that were judged have one"
        own = (hit.score - weight * first) / (1 - weight) if weight < 1 else 0.0
        found[hit.rank] = min(max(own, 0.0), 1.0), first
    return found


def _placed(members: Sequence[StoredMember], place: int) -> dict[str, OtherPlace]:
    found = ((each.label, each.ranks[place], each.scores[place]) for each in members)
    return {label: OtherPlace(rank, score) for label, rank, score in found if rank is not None}


def _leave_one_out(
    judged: Sequence[StoredHit],
    marks: Mapping[int, Mapping[str, float | None]],
    names: Sequence[str],
    rule: Rule,
) -> dict[int, tuple[int, dict[str, int]]]:
    """Rank -> rank by all scores, and for each persona by those of the others.

    Args:
        judged: the passages that all were asked about, in first-stage order.
        marks: rank -> the scores of the passage, or its points.
        names: the personas.
        rule: of the ranking.
    """
    # Passages that were judged as one have the same scores.
    scores = [tuple([marks[hit.rank][name] for name in names]) for hit in judged]
    rows, group_of = distinct(
        (hit.title, hit.text, *each) for hit, each in zip(judged, scores, strict=True)
    )
    values = np.array([scores[row] for row in rows], dtype=np.float64)
    values = values.reshape(len(rows), len(names))
    first_stage = [hit.first_stage_score for hit in judged]

    def ranks(values: NDArray[np.float64]) -> list[int]:
        order = descending(rule.final(values, group_of, first_stage))
        return [int(place) + 1 for place in np.argsort(order)]

    left_out = names if len(names) > 1 else ()
    without = [ranks(np.delete(values, place, axis=1)) for place in range(len(left_out))]
    return {
        hit.rank: (of_all, dict(zip(left_out, others, strict=True)))
        for hit, of_all, *others in zip(judged, ranks(values), *without, strict=True)
    }


def _spread(scores: Sequence[float]) -> float | None:
    """The population standard deviation; None for fewer than two scores."""
    if len(scores) < 2:
        return None
    mean = math.fsum(scores) / len(scores)
    return math.sqrt(math.fsum([(score - mean) ** 2 for score in scores]) / len(scores))
