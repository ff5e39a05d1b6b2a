"""What a survey of many ranked queries has found; pages and terminals only show what is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from personas.schema import Origin
from personas.weak_judges import WeakJudge

CaseKind: TypeAlias = Literal["saw_through", "recognised", "fooled", "overlooked"]
"""What the team made of a passage, against the other ranker.

``saw_through``: not relevant, the other ranker had it near the top, the team did not (the
paper's Fig. 5). ``recognised``: relevant, the other had it far down, the team near the top
(Fig. 6). ``fooled`` and ``overlooked`` are the same the other way round: the team was wrong.
Near the top is rank 10 or above, far down is below. Passages that are not judged are no case.
"""
CASE_KINDS: tuple[CaseKind, ...] = get_args(CaseKind)
SIGNIFICANT = 0.05
"""Corrected p-values below it are significant."""


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One query: a row of the index. nDCG@10 is None where the query has no judgements.

    Attributes:
        place: place among the queries, from 1; names the query's page.
        query_id: its id, cut to 200 characters.
        query: its text, cut to 300 characters.
        personas: who judged; empty for rankers without a team.
        passages: how many were ranked.
        missing: scores that were asked for and did not come.
        skipped: scores left out because of ``top_k``.
        calls: calls that were made, reused answers apart.
        cost: US dollars; None if a model's price is not known.
        human: whether a person wrote a part of the team.
        disagreement: mean over the passages of the standard deviation of the personas' scores,
            as a share of the highest score possible, 0 to 0.5; None with fewer than two.
        alpha: Krippendorff's alpha of the personas' scores; None where it is not defined.
        tau: mean of Kendall's tau-b over the pairs of personas; None where it is not defined.
        ndcg: nDCG@10 of the ranking, 0 to 1.
        first_stage_ndcg: of the first stage.
        other_ndcg: of the ranker compared with; None if there is none.
        error: why the query was not ranked, cut to 300 characters; empty if it was. Then all
            else is 0 or None, but for the nDCG@10 of the other rankers where that is known;
            `ndcg` is 0 if the query has judgements, else None.
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
    """Mean nDCG@10 with and without somebody, over the queries for which that can be told.

    Attributes:
        queries: judged queries with that persona and at least one other on the team.
        with_all: mean nDCG@10 of the whole team there.
        without: mean nDCG@10 of the team without the persona.
        exact: False where the ensemble could not be recomputed (a model combines the scores, or
            it is not installed) and the sum of the other scores stands in, with and without.
    """

    queries: int
    with_all: float
    without: float
    exact: bool

    @property
    def worth(self) -> float:
        """What the persona adds to nDCG@10; negative if the team is better without."""
        return self.with_all - self.without


@dataclass(frozen=True, slots=True)
class PersonaFigures:
    """One persona, by name without regard to case.

    Attributes:
        name: as it was written most often.
        origins: origin -> in how many queries.
        queries: in how many queries it judged.
        recruited: for how many of them a recruiter chose it: wrote it, or took it from the library.
        human: in how many of them a person wrote a part of it.
        mean_score: mean of its scores as a share of the highest possible, 0 to 1; None if it
            gave none.
        missing: scores it did not give.
        tau: mean of Kendall's tau-b with its team mates, over pairs and queries; None if it is
            never defined.
        without: nDCG@10 with and without it; None where no judged query has it.
        examples: places of up to 20 queries in which it judged, first ones first.
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
        rubrics: in how many rubrics (a persona and query each) it stands.
        human: in how many of them a person wrote it.
        personas: persona -> rubrics, of up to 20 personas, most first.
        mean_weight: percent of the rubric, 0 to 100.
        least_weight: the lowest.
        most_weight: the highest.
        examples: places of up to 20 queries, first ones first.
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
    """A passage that the team and the ranker compared with see differently.

    Attributes:
        kind: what happened.
        place: of the query.
        query: its text, cut to 300 characters.
        doc_id: the passage, cut to 200 characters.
        rank: in the team's ranking; its place on the query's page.
        title: of the passage, cut to 300 characters.
        excerpt: of its text, cut to 400 characters.
        grade: the judgement.
        scores: persona -> score, or None where it is missing.
        top: the highest score a persona could give.
        effects: persona -> by how many ranks it raised (positive) or sank (negative) the passage,
            as `Hit.effects`; empty where nobody can be left out.
        other_rank: in the other ranker's ranking.
        other_score: None where it gave none.
        first_stage_rank: in the first stage.
        strength: by how much the discounts 1 / log2(1 + rank) of the two ranks differ, 0 to 1.
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
    """What the team has over another order in nDCG@10, query by query, ties drawn by lot.

    Attributes:
        against: what it is compared with.
        queries: judged ones.
        ours: the team's mean over them, 0 to 1.
        theirs: the other's.
        low: lower end of the 95% confidence interval of the mean difference.
        high: the upper end.
        p_value: two-sided, corrected for all differences of the report; None without a test.
        why_not: why there is none; else empty.
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
    """What all queries took together, and how they went.

    Attributes:
        queries: those given, failed ones included.
        failed: queries that were not ranked.
        judged: ranked queries that have judgements; the means below are theirs.
        passages: ranked, over all queries.
        missing: scores that did not come.
        skipped: scores left out because of ``top_k``.
        calls: made, reused answers apart.
        reused: answers that were in the ledger.
        cost: US dollars; None if a model's price is not known.
        ndcg: mean nDCG@10 of the ranking, None without judgements. Failed queries that have
            judgements count 0.
        first_stage_ndcg: of the first stage, over the queries for which it is known.
        other_ndcg: of the ranker compared with, over the queries for which it is known; None if
            there is none.
        alpha: Krippendorff's alpha over all passages of all queries, the interval metric.
        tau: mean over the queries of their mean tau-b.
        disagreement: mean over the queries of theirs.
        locked: queries whose team was locked.
        human: queries in whose team a person wrote a part.
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
        first_stage: how the first stage is called, e.g. ``"BM25"``.
        other: name of the ranker compared with; empty if there is none.
        models: role -> model.
        settings: choices worth a line at the top, by name.
        notes: what a reader must know: an unfinished run, queries without judgements.
        totals: over all queries.
        queries: in the order of the data set.
        personas: most frequent first (Fig. 7), then by name.
        personas_in_all: how many different personas there were; `personas` may hold fewer.
        pairs: most frequent first, up to 200.
        criteria: most frequent first.
        criteria_in_all: how many different criteria there were; `criteria` may hold fewer.
        cases: kind -> the strongest, strongest first; empty without another ranker.
        recruits: nDCG@10 with and without one recruit, averaged over recruits and queries: each
            recruit of each query is left out once. Members of the library for whom a recruiter
            gave a reason are recruits too. None if it cannot be told.
        weak_judge: why the model that judged is weak, as `RankingRecord.weak_judge`.
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
