"""A survey of many ranked queries; pages and terminals only show what is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from personas.ranking.weak_judges import WeakJudge
from personas.schema import Origin

CaseKind: TypeAlias = Literal["saw_through", "recognised", "fooled", "overlooked"]
"""A judged passage that the team and the other ranker see differently.

``saw_through``: not relevant, the other ranker had it near the top, the team did not (the
paper's Fig. 5). ``recognised``: relevant, the other had it far down, the team near the top
(Fig. 6). ``fooled`` and ``overlooked`` are the same the other way round: the team was wrong.
Near the top is rank 10 or above, far down is below.
"""
CASE_KINDS: tuple[CaseKind, ...] = get_args(CaseKind)
SIGNIFICANT = 0.05
"""Corrected p-values below it are significant."""


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One query. Figures that cannot be computed are None; nDCG@10 needs judgements.

    Attributes:
        place: among the queries, from 1; names the query's page.
        query_id: cut to 200 characters.
        query: cut to 300 characters.
        personas: the judges; empty for rankers without a team.
        passages: ranked ones.
        missing: scores that were asked for and did not come.
        skipped: scores left out because of ``top_k``.
        calls: made, reused answers apart.
        cost: US dollars; None if a model's price is not known.
        human: a person wrote a part of the team.
        disagreement: mean over the passages of the standard deviation of the personas' scores,
            as a share of the highest score possible, 0 to 0.5.
        alpha: Krippendorff's, of the personas' scores.
        tau: mean of Kendall's tau-b over the pairs of personas.
        ndcg: nDCG@10 of the ranking, 0 to 1; 0 for a failed query with judgements.
        first_stage_ndcg: of the first stage.
        other_ndcg: of the ranker compared with.
        error: the reason for a query that was not ranked, cut to 300 characters, else empty.
    """

    place: int
    query_id: str
    query: str
    personas: tuple[str, ...] = ()
    passages: int = 0
    missing: int = 0
    skipped: int = 0
    calls: int = 0
    cost: float | None = 0.0
    human: bool = False
    disagreement: float | None = None
    alpha: float | None = None
    tau: float | None = None
    ndcg: float | None = None
    first_stage_ndcg: float | None = None
    other_ndcg: float | None = None
    error: str = ""

    @property
    def gain(self) -> float | None:
        """nDCG@10 over the first stage's, -1 to 1."""
        return _difference(self.ndcg, self.first_stage_ndcg)

    @property
    def gain_over_other(self) -> float | None:
        """nDCG@10 over that of the ranker compared with, -1 to 1."""
        return _difference(self.ndcg, self.other_ndcg)


@dataclass(frozen=True, slots=True)
class Without:
    """Mean nDCG@10 with and without a persona, over the judged queries where both exist.

    Not `exact` where the ensemble could not be recomputed (a model combines the scores, or it is
    not installed); then both are by the sum of the scores.
    """

    queries: int
    with_all: float
    without: float
    exact: bool

    @property
    def worth(self) -> float:
        """The persona's part of nDCG@10; negative if the team is better without."""
        return self.with_all - self.without


@dataclass(frozen=True, slots=True)
class PersonaFigures:
    """One persona, by name without regard to case.

    Attributes:
        name: as it was written most often.
        origins: origin -> in how many queries.
        queries: judged ones.
        recruited: those for which a recruiter wrote it, or took it from the library.
        human: those in which a person wrote a part of it.
        mean_score: as a share of the highest possible, 0 to 1; None if it gave none.
        missing: scores it did not give.
        tau: mean of Kendall's tau-b with its team mates, over pairs and queries.
        without: None where no judged query has it.
        examples: places of the first 20 queries in which it judged.
    """

    name: str
    origins: Mapping[Origin, int]
    queries: int
    recruited: int
    human: int
    mean_score: float | None
    missing: int
    tau: float | None
    without: Without | None
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PairFigures:
    """Two personas who judged together: in how many queries, and the mean of their tau-b."""

    first: str
    second: str
    queries: int
    tau: float | None


@dataclass(frozen=True, slots=True)
class CriterionFigures:
    """One criterion, by name without regard to case.

    Attributes:
        name: as it was written most often.
        rubrics: those with it; a rubric is of one persona and query.
        human: those in which a person wrote it.
        personas: persona -> rubrics, of the first 20 personas, most first.
        mean_weight: percent of the rubric, 0 to 100.
        least_weight: the lowest.
        most_weight: the highest.
        examples: places of the first 20 queries.
    """

    name: str
    rubrics: int
    human: int
    personas: Mapping[str, int]
    mean_weight: float
    least_weight: float
    most_weight: float
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A judged passage that the team and the ranker compared with see differently.

    Attributes:
        kind: of case.
        place: of the query.
        query: cut to 300 characters.
        doc_id: cut to 200 characters.
        rank: in the team's ranking; its place on the query's page.
        title: of the passage, cut to 300 characters.
        excerpt: of its text, cut to 400 characters.
        grade: the judgement.
        scores: persona -> score, or None where it is missing.
        top: the highest score possible.
        effects: persona -> ranks by which it raised (positive) or lowered (negative) the passage,
            as `Hit.effects`; empty where no persona can be left out.
        other_rank: in the other ranker's ranking.
        other_score: None where it gave none.
        first_stage_rank: in the first stage.
        strength: difference of the discounts 1 / log2(1 + rank) of the two ranks, 0 to 1.
    """

    kind: CaseKind
    place: int
    query: str
    doc_id: str
    rank: int
    title: str
    excerpt: str
    grade: int
    scores: Mapping[str, float | None]
    top: float
    effects: Mapping[str, int]
    other_rank: int
    other_score: float | None
    first_stage_rank: int
    strength: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The team's nDCG@10 and that of another order, over judged queries, with ties by lot.

    Attributes:
        against: the other order's name.
        queries: judged ones.
        ours: the team's mean over them, 0 to 1.
        theirs: the other's.
        low: lower end of the 95% confidence interval of the mean difference.
        high: the upper end.
        p_value: two-sided, corrected for all differences of the report; None without a test.
        why_not: the reason why there is no test; else empty.
    """

    against: str
    queries: int
    ours: float
    theirs: float
    low: float
    high: float
    p_value: float | None
    why_not: str = ""

    @property
    def mean(self) -> float:
        """Of the differences, -1 to 1."""
        return self.ours - self.theirs

    @property
    def sign(self) -> int:
        """1 where the team is significantly better, -1 where it is worse, else 0."""
        if self.p_value is None or self.p_value >= SIGNIFICANT:
            return 0
        return (self.mean > 0) - (self.mean < 0)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums and means over all queries, of the fields of `QueryFigures`.

    Attributes:
        queries: all, failed ones included.
        failed: those not ranked.
        judged: ranked ones that have judgements.
        reused: answers that were in the ledger.
        ndcg: mean over the judged queries; failed ones that have judgements count 0.
        alpha: over all passages of all queries, the interval metric.
        locked: queries with a locked team.
        human: queries with a team of which a person wrote a part.
    """

    queries: int
    failed: int
    judged: int
    passages: int
    missing: int
    skipped: int
    calls: int
    reused: int
    cost: float | None
    ndcg: float | None
    first_stage_ndcg: float | None
    other_ndcg: float | None
    alpha: float | None
    tau: float | None
    disagreement: float | None
    locked: int
    human: int


@dataclass(frozen=True, slots=True)
class Survey:
    """One run of a team over a data set.

    Attributes:
        title: of the run, e.g. ``"MC: NLP scientist + 2 recruits"``.
        dataset: what was ranked, in a few words; may be empty.
        first_stage: its name, e.g. ``"BM25"``.
        other: name of the ranker compared with; empty if there is none.
        models: role -> model.
        settings: choices that shape scores, by name.
        notes: on the run: it is not finished, queries have no judgements.
        totals: over all queries.
        queries: in the order of the data set.
        personas: most frequent first (Fig. 7), then by name; up to 5,000.
        personas_in_all: number of different ones.
        pairs: most frequent first, up to 200.
        criteria: most frequent first; up to 5,000.
        criteria_in_all: number of different ones.
        cases: kind -> the strongest, strongest first; empty without another ranker.
        recruits: nDCG@10 with and without one recruit, over recruits and queries: each recruit of
            each query is left out once. Members of the library for whom a recruiter gave a
            reason are recruits too. None without any.
        weak_judge: as `RankingRecord.weak_judge`.
        collection: the data set's name; may be empty.
        differences: over the first stage and the other ranker, where that is known.
    """

    title: str
    dataset: str
    first_stage: str
    other: str
    models: Mapping[str, str]
    settings: Mapping[str, str]
    notes: tuple[str, ...]
    totals: Totals
    queries: tuple[QueryFigures, ...]
    personas: tuple[PersonaFigures, ...]
    personas_in_all: int
    pairs: tuple[PairFigures, ...]
    criteria: tuple[CriterionFigures, ...]
    criteria_in_all: int
    cases: Mapping[CaseKind, tuple[Case, ...]]
    recruits: Without | None
    weak_judge: WeakJudge = ""
    collection: str = ""
    differences: tuple[Difference, ...] = ()


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
