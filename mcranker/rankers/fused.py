"""Fusion: several rankers, runs and the first stage, as one ranker."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, Unpack, cast

import numpy as np

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, InputError, ModelError
from mcranker.estimate import Estimate
from mcranker.events import Emit, Event, PassagesCompared, PassageScored, RankingStarted
from mcranker.job import Job
from mcranker.llm.limits.budget import Budget
from mcranker.logs import safe_logger
from mcranker.models import Models, joined, paid_from
from mcranker.options import CallOptions, EstimateOptions, RankerKeywords
from mcranker.paths import is_file
from mcranker.rankers import RANKERS
from mcranker.rankers.base import Ranker
from mcranker.rankers.comparative import added_up
from mcranker.rankers.dispatch import FATAL_ERRORS, Work, each_of
from mcranker.ranking import Ranking
from mcranker.retrieval.fusion import min_max, reciprocal_rank, summed, weighted
from mcranker.runtime.bridge import Bridge, task_group
from mcranker.trec import Run, read_trec
from personas.errors import shown
from personas.ranking.types import MemberRanking, Passage, Query, Score, ScoreMatrix

logger = safe_logger("mcranker")

Method: TypeAlias = Literal["rrf", "interpolate"]
MemberSpec: TypeAlias = Ranker | str | os.PathLike[str] | Mapping[str, Any]
"""A ranker, or its name; ``"bm25"`` or ``"first_stage"``; the path of a run's file; or a table with
``ranker`` and its options, or with ``run``, and perhaps a ``label``."""

METHODS: tuple[Method, ...] = ("rrf", "interpolate")
FIRST_STAGE = ("bm25", "first_stage")
_OWN = ("top_n", "min_relevance", "on_failure", "deadline")
"""Options applied to the fused ranking itself, not to its members."""


class FusedRanker(Ranker):
    """Ranks by several lists: of rankers, of runs, and of the first stage.

    Each list gives a passage its weight times ``1 / (60 + rank)`` (``"rrf"``, Cormack et al.
    2009), or times its score, scaled from the list's lowest, 0, to its highest, 1
    (``"interpolate"``); a list without scores counts by its places there. The score of a passage is
    the sum. A list that does not have a passage, or did not judge it, gives it nothing, and
    `Hit.missing` says so; passages that no list has follow in first-stage order.

    Rankers work at the same time. Those that are given as objects keep their models, ledgers,
    budgets and limits; those that are made by name share `model`, `ledger`, the options and one
    budget. Closing the fused ranker closes its members.

    >>> fuse(MCRanker(model="openai:gpt-5-mini"), "bm25")
    >>> FusedRanker(members=["mcranker", "bm25"], method="interpolate", weights=[0.7, 0.3])
    >>> FusedRanker(members=["rankgpt", {"ranker": "direct", "scale": 20}, "others.trec"])

    Args:
        members: two or more, see `MemberSpec`. Runs are read by query id.
        method: ``"rrf"`` or ``"interpolate"``.
        weights: one a member, 0 or more, at least one of them above 0; None for 1 each.
        shared: the keywords of all rankers, see `Ranker`: for members that are made by name.
            ``top_n``, ``min_relevance``, ``on_failure`` and ``deadline`` are about the fused
            ranking.

    Raises:
        ConfigError: fewer than two members; one that is unknown, or refuses an option; a method or
            weights that cannot be.
        RunError: the file of a run cannot be read.
        ModelError, PersonasError: as the members' classes.
    """

    name: ClassVar[str] = "fused"
    unexplained: ClassVar[str] = "it joins rankings, whose judges are not its own"
    keeps_deadline = True  # the members do, and so what each has by then
    writes_rubrics = True  # a member may; others refuse to

    def __init__(
        self,
        *,
        members: Sequence[MemberSpec] = (),
        method: Method = "rrf",
        weights: Sequence[float] | None = None,
        **shared: Unpack[RankerKeywords],
    ) -> None:
        self.method, self.weights = _checked(members, method, weights)
        self._specs = members
        super().__init__(**shared)
        self.takes_instruction = all(part.takes_instruction for part in self.parts)
        parts = self.parts

        async def release() -> None:
            for part in parts:
                await part.models.aclose()

        self._bridge = Bridge(release)

    def _connect(self, given: Mapping[str, Any]) -> Models:
        shared = {name: given[name] for name in ("model", "base_url", "api_key", "ledger")}
        kept = {
            each: getattr(self.config, each)
            for each in self.config.model_fields_set
            if each not in _OWN
        }
        self.members = _named_apart([_made(spec, shared, kept) for spec in self._specs])
        made = [each.ranker for each in self.members if each.ranker is not None and each.made]
        for part in made[1:]:
            part.models = paid_from(part.models, made[0].models.budget)
        return joined([part.models for part in self.parts if part.needs_model])

    @property
    def parts(self) -> tuple[Ranker, ...]:
        return tuple(each.ranker for each in self.members if each.ranker is not None)

    @classmethod
    def asks_models(cls, options: Mapping[str, Any]) -> bool:
        kinds = [
            spec.get("ranker") if isinstance(spec, Mapping) else spec
            for spec in options.get("members") or ()
        ]
        return any(kind in RANKERS.names and RANKERS.get(kind).needs_model for kind in kinds)

    def within(self, budget: Budget) -> Self:
        ranker = copy.copy(self)
        ranker.members = tuple(
            dataclasses.replace(each, ranker=each.ranker and each.ranker.within(budget))
            for each in self.members
        )
        return ranker

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        hashes: dict[str, str] = {}
        for member in self.members:
            for prompt, value in member.ranker.prompt_hashes.items() if member.ranker else ():
                same = hashes.setdefault(prompt, value) == value
                if not same:
                    hashes[f"{member.label}: {prompt}"] = value
        return hashes

    async def aestimate_many(self, work: Work, **options: Unpack[EstimateOptions]) -> Estimate:
        self.check_reasons(options.get("reasons", 0))
        for_call = CallOptions(instruction=options.get("instruction"))
        jobs = [self._job(query, docs, for_call) async for query, docs in each_of(work)]
        given = [(job.query, job.passages[: job.config.depth]) for job in jobs]
        counted = options.get("counted")
        for_members = EstimateOptions(
            instruction=jobs[0].config.instruction or None if jobs else None,
            counted=set() if counted is None else counted,
        )
        estimate = Estimate()
        for part in self.parts:
            estimate += await part.aestimate_many(given, **for_members)
        return estimate

    async def _rank(self, job: Job) -> Ranking:
        query = job.query
        judged = job.passages[: job.config.depth]
        if job.emit is not None:
            await job.emit(RankingStarted(query.id, query.text, len(judged)))
        counts: _Counts = {}
        found: dict[int, _List] = {}

        async def ask(place: int, member: _Member) -> None:
            emit = job.emit and _added_up(job.emit, counts, place)
            found[place] = await self._list_of(member, job, judged, emit)

        async with task_group() as group:
            for place, member in enumerate(self.members):
                group.start_soon(ask, place, member)
        lists = [found[place] for place in range(len(self.members))]
        asked = [each for each in lists if each.failure or each.ranking is not None]
        for each in lists:
            if each.ranking is not None:
                job.calls.add_all(each.ranking.calls)
        if asked and all(each.failure for each in asked):
            return dataclasses.replace(self.ranking_by_order(job), failure=asked[0].failure)
        return self._fused(job, len(judged), lists)

    def _queries_at_once(self) -> int:
        parts = (part._queries_at_once() for part in self.parts)  # noqa: SLF001 - rankers too
        return min([super()._queries_at_once(), *parts])

    async def _list_of(
        self, member: _Member, job: Job, judged: tuple[Passage, ...], emit: Emit | None
    ) -> _List:
        if member.run is not None:
            return _of_run(member.run, job.query, judged)
        if member.ranker is None:
            return _of_first_stage(judged)
        ranker, limit = member.ranker, job.config.deadline
        own = ranker.config.deadline
        sooner = limit if own is None or (limit is not None and limit < own) else None
        options = CallOptions(deadline=sooner, instruction=job.config.instruction or None)
        part = ranker._job(job.query, judged, options, emit)  # noqa: SLF001 - a ranker too
        try:
            ranking = await ranker._ranked(part)  # noqa: SLF001 - likewise
        except ModelError as error:
            if job.config.on_failure == "error" or isinstance(error, FATAL_ERRORS):
                raise
            logger.warning("%s is left out of the fusion: %s", member.label, error)
            return _List(failure=str(error))
        return _of_ranking(ranking)

    def _fused(self, job: Job, judged: int, lists: Sequence[_List]) -> Ranking:
        passages = job.passages
        given = [
            weighted(each.given(self.method), weight)
            for each, weight in zip(lists, self.weights, strict=True)
        ]
        known = sorted({place for each in given for place in each})
        final = np.full(len(passages), math.nan)
        for place, score in summed(given, known).items():
            final[place] = score
        matrix = ScoreMatrix.empty(len(passages), len(lists))
        for column, (each, scores) in enumerate(zip(lists, given, strict=True)):
            for place in range(judged):
                why = "" if place in scores else each.reason(place)
                matrix.put(place, column, Score(scores.get(place), why))
        best = reciprocal_rank(1) if self.method == "rrf" else 1.0
        labels = [member.label for member in self.members]
        rankings = [each.ranking for each in lists if each.ranking is not None]
        counts = [each.comparisons for each in rankings if each.comparisons is not None]
        cuts = [each.cut for each in rankings]
        plain = self._ranking(job, np.argsort(-final, kind="stable"), final)
        return dataclasses.replace(
            plain,
            matrix=matrix,
            personas=tuple(labels),
            config={
                **plain.config,
                "ensemble": "sum",
                "missing_policy": "lowest",
                "first_stage_weight": 0.0,
                "top_k": None,
                "top_score": best * max(self.weights),
                "members": labels,
                "method": self.method,
                "weights": list(self.weights),
            },
            weak_judge=self.models.scoring.capabilities.weak_judge,
            partial=any(each.partial for each in rankings),
            cut={place: max(cut.get(place, 0) for cut in cuts) for cut in cuts for place in cut},
            comparisons=added_up(counts) if counts else None,
            members=tuple(
                each.record(member, weight, len(passages))
                for member, each, weight in zip(self.members, lists, self.weights, strict=True)
            ),
        )

    def close(self) -> None:
        super().close()
        for part in self.parts:
            part.close()

    async def aclose(self) -> None:
        for part in self.parts:
            await part.aclose()
        self._bridge.close(wait=False)


def fuse(
    *members: MemberSpec,
    method: Method = "rrf",
    weights: Sequence[float] | None = None,
    **shared: Unpack[RankerKeywords],
) -> FusedRanker:
    """Return a `FusedRanker` of these members, see `MemberSpec`; the other arguments are its own.

    >>> fuse(MCRanker(model="openai:gpt-5-mini"), "bm25")
    >>> fuse("direct", "rankgpt", "first_stage", method="interpolate", weights=[2, 1, 1])

    Raises:
        ConfigError, RunError, ModelError, PersonasError: as `FusedRanker`.
    """
    return FusedRanker(members=members, method=method, weights=weights, **shared)


@dataclass(frozen=True, slots=True)
class _Member:
    """A fused list: of a ranker, which may be made here, of a run, or else of the first stage."""

    label: str
    ranker: Ranker | None = None
    run: Run | None = None
    made: bool = False


@dataclass(frozen=True, slots=True)
class _List:
    """A member's result for one query; passages by their place.

    Attributes:
        ranks: from 1, of passages that it has and has judged.
        scores: of the same, where it gives any; then of all of them.
        reasons: place -> why it has no rank.
        absent: why it has not the other passages.
        ranking: of a ranker that has not failed.
        failure: why it says nothing.
    """

    ranks: Mapping[int, int] = field(default_factory=dict)
    scores: Mapping[int, float] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    absent: str = "it is not in its list"
    ranking: Ranking | None = None
    failure: str = ""

    def given(self, method: Method) -> dict[int, float]:
        """Return the contribution to each passage that it has, before its weight."""
        if method == "rrf":
            return {place: reciprocal_rank(rank) for place, rank in self.ranks.items()}
        return min_max(self.scores or {place: -rank for place, rank in self.ranks.items()})

    def reason(self, place: int) -> str:
        """Return the reason that a passage gets nothing from it."""
        return self.failure or self.reasons.get(place, self.absent)

    def record(self, member: _Member, weight: float, passages: int) -> MemberRanking:
        """Return the form kept in rankings."""
        kind = "run" if member.run is not None else "first stage"
        given = self.ranking
        missing = len(given.missing) if given is not None else 0
        scored = int(np.isfinite(given.matrix.values).sum()) if given is not None else 0
        return MemberRanking(
            label=member.label,
            ranker=member.ranker.name if member.ranker else kind,
            weight=weight,
            ranks=tuple(self.ranks.get(place) for place in range(passages)),
            scores=tuple(self.scores.get(place) for place in range(passages)),
            undecided=given.undecided if given is not None else (),
            missing=missing,
            asked=missing + scored,
            partial=given is not None and given.partial,
            failure=self.failure,
        )


_Counts: TypeAlias = dict[tuple[int, type[Event]], tuple[int, int]]


def _added_up(emit: Emit, counts: _Counts, place: int) -> Emit:
    """Return a receiver of one member's events; done and total become sums over all members."""

    async def take(event: Event) -> None:
        if isinstance(event, RankingStarted):
            return
        if isinstance(event, PassageScored | PassagesCompared):
            kind = type(event)
            counts[place, kind] = event.done, event.total
            known = [each for (_, of), each in counts.items() if of is kind]
            done, total = (sum(each) for each in zip(*known, strict=True))
            event = dataclasses.replace(event, done=done, total=total)
        await emit(event)

    return take


def _checked(
    members: Sequence[MemberSpec], method: str, weights: Sequence[float] | None
) -> tuple[Method, tuple[float, ...]]:
    if isinstance(members, str) or not isinstance(members, Sequence) or len(members) < 2:
        raise ConfigError(
            f"members={shown(members)}: fusion takes two or more, e.g. members=['mcranker', 'bm25']"
        )
    if method not in METHODS:
        raise ConfigError(f"method={method!r} is unknown; give one of {', '.join(METHODS)}")
    if weights is None:
        return method, (1.0,) * len(members)
    found = list(weights) if isinstance(weights, Iterable) else []
    numbers = [
        float(each)
        for each in found
        if isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each <= 1e6
    ]
    if not len(members) == len(found) == len(numbers) or not any(numbers):
        raise ConfigError(
            f"weights={shown(weights)}: give {len(members)} numbers, one for each member, from 0 "
            "to 1,000,000, at least one above 0"
        )
    return method, tuple(numbers)


def _made(spec: MemberSpec, shared: Mapping[str, Any], kept: Mapping[str, Any]) -> _Member:
    """Return the member of a spec."""
    if isinstance(spec, Ranker):
        return _Member(spec.name, ranker=spec)
    if isinstance(spec, Mapping):
        options = {str(name): value for name, value in spec.items()}
    else:
        options = {"run" if isinstance(spec, os.PathLike) else "ranker": spec}
    label, is_run = str(options.pop("label", "")), "run" in options
    given = options.pop("run" if is_run else "ranker", None)
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(name, str):
        raise ConfigError(
            f"the member {shown(spec)} is neither a ranker, nor a name, nor a run; give e.g. "
            "'direct', {'ranker': 'rankgpt', 'window': 10} or 'others.trec'"
        )
    if options and (is_run or name in FIRST_STAGE):
        what = "a run" if is_run else "the first stage"
        raise ConfigError(f"{what} takes no options, and this has {', '.join(options)}")
    if name in FIRST_STAGE and not is_run:
        return _Member(label or name)
    if name in RANKERS.names and not is_run:
        kind = RANKERS.get(name)
        takes = kind.takes()
        if strange := [each for each in options if each not in takes]:
            raise ConfigError(f"the ranker {name!r} takes no option {strange[0]!r}")
        make = cast("Callable[..., Ranker]", kind)
        # Members rank all that they are given; how many come back is up to the fused ranker.
        unlimited = {**shared, "top_n": None}
        defaults = {each: value for each, value in unlimited.items() if each in takes}
        return _Member(label or name, ranker=make(**{**defaults, **kept, **options}), made=True)
    if is_file(Path(name)):
        return _Member(label or Path(name).stem, run=read_trec(name))
    raise ConfigError(
        f"the member {shown(name)} is neither the first stage ('bm25'), nor a ranker "
        f"({', '.join(RANKERS.names)}), nor the file of a TREC run"
    )


def _named_apart(members: Sequence[_Member]) -> tuple[_Member, ...]:
    """Number members that share a label."""
    found: dict[str, _Member] = {}
    for member in members:
        label, number = member.label, 1
        while label in found:
            number += 1
            label = f"{member.label} {number}"
        found[label] = dataclasses.replace(member, label=label)
    return tuple(found.values())


def _of_first_stage(judged: Sequence[Passage]) -> _List:
    scores = {place: each.score for place, each in enumerate(judged) if each.score is not None}
    # Some scores and some places make no list.
    scores = scores if len(scores) == len(judged) else {}
    return _List({place: place + 1 for place in range(len(judged))}, scores)


def _of_run(run: Run, query: Query, judged: Sequence[Passage]) -> _List:
    if not query.id:
        raise InputError(
            "the query has no id, by which a run says what belongs to it; rank a Query with an id "
            "(-o query_id=ID)"
        )
    if (listed := run.get(query.id)) is None:
        return _List(absent=f"the run has no query {query.id!r}")
    known = {doc_id: (rank, score) for rank, (doc_id, score) in enumerate(listed, start=1)}
    found = {place: known[each.id] for place, each in enumerate(judged) if each.id in known}
    return _List(
        ranks={place: rank for place, (rank, _) in found.items()},
        scores={place: float(score) for place, (_, score) in found.items()},
        absent="it is not in the run",
    )


def _of_ranking(ranking: Ranking) -> _List:
    if ranking.failure:
        return _List(ranking=ranking, failure=ranking.failure)
    hits = list(ranking)
    scores = {hit.index: hit.at_most if hit.score is None else hit.score for hit in hits}
    by_score = {place: score for place, score in scores.items() if score is not None}
    compared = range(0)
    if not by_score and ranking.was_judged:
        compared = range(ranking.config.get("depth") or len(ranking.passages))
    why = "deadline" if ranking.partial else "it was not judged"
    reasons = {
        place: f"dropped: its relevance is {each:g}" for place, each in ranking.dropped.items()
    }
    for hit in hits:
        if hit.index not in by_score:
            reasons[hit.index] = next(iter(hit.missing.values()), why)
    return _List(
        ranks={
            hit.index: hit.rank for hit in hits if hit.index in by_score or hit.index in compared
        },
        scores=by_score,
        reasons=reasons,
        absent="it was not returned",
        ranking=ranking,
    )
