"""What a comparison of two runs says, before it has a form.

nDCG is a sum over passages, each with its gain, discounted by its rank. So the difference of two
runs on a query is a sum over passages too: the *effect* of a passage is the change of its gain
divided by log2(1 + rank), from one run to the other, over the same sum for the ideal order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beir_eval.measures.significance import Comparison


@dataclass(frozen=True, slots=True)
class PersonaScore:
    """What one persona gave one passage.

    Attributes:
        persona: its name.
        score: 0 to k; None if there is none.
        absent: why there is none: ``"missing: REASON"``, ``"skipped"`` because of ``top_k``, or
            ``"not judged"`` beyond ``depth``; empty if there is one.
        mean: of the persona's scores over the query's passages in this run; None if it gave none.
        criteria: criterion -> score, where it scored by criterion.
    """

    persona: str
    score: float | None
    absent: str
    mean: float | None
    criteria: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run put a passage, and by which scores.

    Attributes:
        rank: from 1; None if the run does not have the passage.
        score: final score; None if the run gave none.
        at_most: the highest final score possible, for a passage with skipped scores.
        tied: how many other passages of the query have the same final score.
        scores: in the team's order; empty where no personas scored.
        pull: the score furthest from its persona's mean; None if none differs from it.
    """

    rank: int | None
    score: float | None
    at_most: float | None
    tied: int
    scores: tuple[PersonaScore, ...]
    pull: PersonaScore | None


@dataclass(frozen=True, slots=True)
class MovedPassage:
    """A passage that accounts for a query's difference.

    Attributes:
        doc_id: its id.
        title: its title; may be empty.
        text: its first characters; empty if it is not at hand.
        grade: the judgement; None if there is none.
        first_stage_rank: from 1; None if it was not found there, or there is no first stage.
        a: its place in the first run.
        b: its place in the second run.
        effect: what its move adds to nDCG; 0 for a passage that is not relevant.
    """

    doc_id: str
    title: str
    text: str
    grade: int | None
    first_stage_rank: int | None
    a: Place
    b: Place
    effect: float


@dataclass(frozen=True, slots=True)
class TeamMember:
    """A persona and its rubric: criterion -> weight in percent; empty without a rubric."""

    persona: str
    criteria: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class QuerySide:
    """One run on one query.

    Attributes:
        value: of the measure.
        failed: why the run did not rank the query; empty if it did.
        team: who scored, in the order of the scores; empty without a team.
    """

    value: float
    failed: str
    team: tuple[TeamMember, ...]


@dataclass(frozen=True, slots=True)
class ChangedQuery:
    """A query on which the runs differ.

    Attributes:
        query_id: its id.
        text: its words; empty if they are not at hand.
        difference: value of the second run less that of the first.
        a: the first run.
        b: the second run.
        passages: relevant ones by falling size of their effect, then others that took or left
            ranks of theirs.
    """

    query_id: str
    text: str
    difference: float
    a: QuerySide
    b: QuerySide
    passages: tuple[MovedPassage, ...]


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the two runs.

    Attributes:
        name: as it was given.
        label: of its row in tables.
        models: their names, role by role where they differ; empty if not known or none.
        mean: of the measure over the queries compared.
        note: why there are no scores by persona; empty if there are.
        warnings: what to know of it: its judge, changed files, ties and what is missing.
    """

    name: str
    label: str
    models: str
    mean: float
    note: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that the runs do not share, as text; empty where a run has none."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs of a data set, query by query; every difference is the second less the first.

    Attributes:
        dataset: its name.
        first_stage: what found the passages, e.g. ``"BM25"``; empty if not known.
        measure: what was compared.
        effect_measure: whose change the passages' effects add up to.
        queries: how many were compared.
        left_out: judged queries that only one of the runs has, or that were judged otherwise.
        a: the first run.
        b: the second run.
        comparison: of the second run with the first as the baseline, ties drawn by lot.
        overlap: mean rank-biased overlap of both, 0 to 1.
        settings: in which the runs differ; empty if they are not two runs with settings.
        losses: queries on which the second run is worse, the greatest difference first.
        gains: queries on which it is better, the greatest difference first.
    """

    dataset: str
    first_stage: str
    measure: str
    effect_measure: str
    queries: int
    left_out: int
    a: RunSide
    b: RunSide
    comparison: Comparison
    overlap: float
    settings: tuple[SettingChange, ...]
    losses: tuple[ChangedQuery, ...]
    gains: tuple[ChangedQuery, ...]
