"""Fusion: several rankers, runs and the first stage, as one ranker."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, Unpack, cast

import numpy as np

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, InputError, ModelError
from mcranker.estimate import Estimate
from mcranker.events import Emit, Event, PassagesCompared, PassageScored, RankingStarted
from mcranker.job import Job
from mcranker.logs import safe_logger
from mcranker.models import Models, joined, paid_from
from mcranker.options import CallOptions, RankerKeywords
from mcranker.paths import is_file
from mcranker.rankers import RANKERS
from mcranker.rankers.base import Ranker
from mcranker.rankers.dispatch import FATAL_ERRORS, Work, each_of
from mcranker.rankers.sorting import added_up
from mcranker.ranking import Ranking
from mcranker.retrieval.fusion import min_max, reciprocal_rank, summed, weighted
from mcranker.runtime.bridge import Bridge, task_group
from mcranker.trec import Run, read_trec
from personas.errors import shown
from personas.ranking.types import Comparisons, MemberRanking, Passage, Query, Score, ScoreMatrix
from personas.ranking.usage import UsageTable

logger = safe_logger("mcranker")

Method: TypeAlias = Literal["rrf", "interpolate"]
MemberSpec: TypeAlias = Ranker | str | os.PathLike[str] | Mapping[str, Any]
"""A ranker, or its name; ``"bm25"`` or ``"first_stage"``; a run, or the path of its file; or a
table with ``ranker`` and its options, or with ``run``, and perhaps a ``label``."""

METHODS: tuple[Method, ...] = ("rrf", "interpolate")
FIRST_STAGE = ("bm25", "first_stage")
_NO_RANKER = "first stage", "run"
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

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        hashes: dict[str, str] = {}
        for member in self.members:
            for prompt, value in member.ranker.prompt_hashes.items() if member.ranker else ():
                same = hashes.setdefault(prompt, value) == value
                if not same:
                    hashes[f"{member.label}: {prompt}"] = value
        return hashes

    async def _estimated(
        self, work: Work, options: CallOptions, counted: set[bytes] | None, reasons: int
    ) -> Estimate:
        self.check_reasons(reasons)
        jobs = [self._job(query, docs, options) async for query, docs in each_of(work)]
        given = [(job.query, job.passages[: job.config.depth]) for job in jobs]
        for_members = CallOptions(instruction=jobs[0].config.instruction or None) if jobs else {}
        counted = set() if counted is None else counted
        estimate = Estimate()
        for part in self.parts:
            estimate += await part._estimated(  # noqa: SLF001 - a ranker too
                given, for_members, counted, 0
            )
        return estimate

    async def _rank(self, job: Job) -> Ranking:
        started, query = time.perf_counter(), job.query
        judged = job.passages[: job.config.depth]
        if job.emit is not None:
            await job.emit(RankingStarted(query.id, query.text, len(judged)))
        events = _Events(job.emit)
        found: dict[int, _List] = {}

        async def ask(place: int, member: _Member) -> None:
            found[place] = await self._list_of(member, job, judged, events.of(place))

        async with task_group() as group:
            for place, member in enumerate(self.members):
                group.start_soon(ask, place, member)
        lists = [found[place] for place in range(len(self.members))]
        failures = [each.failure for each in lists if each.asked]
        for each in lists:
            job.calls.add_all(each.calls)
        if failures and all(failures):
            ranking = dataclasses.replace(self.ranking_by_order(job), failure=failures[0])
        else:
            ranking = self._fused(job, len(judged), lists)
        return dataclasses.replace(ranking, seconds={"total": time.perf_counter() - started})

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
            return _List(asked=True, failure=str(error))
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
        counts = [each.comparisons for each in lists if each.comparisons is not None]
        cuts = [each.cut for each in lists]
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
            partial=any(each.partial for each in lists),
            cut={place: max(cut.get(place, 0) for cut in cuts) for cut in cuts for place in cut},
            comparisons=added_up(counts) if counts else None,
            members=tuple(
                each.told(member, weight, len(passages))
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
    """A `FusedRanker` of these members.

    >>> fuse(MCRanker(model="openai:gpt-5-mini"), "bm25")
    >>> fuse("direct", "rankgpt", "first_stage", method="interpolate", weights=[2, 1, 1])

    Args:
        members: see `MemberSpec`.
        method: as for `FusedRanker`, and so for the others.
        weights: one a member.
        shared: as for `FusedRanker`.

    Raises:
        ConfigError, RunError, ModelError, PersonasError: as `FusedRanker`.
    """
    return FusedRanker(members=members, method=method, weights=weights, **shared)


@dataclass(frozen=True, slots=True)
class _Member:
    """A fused list; neither a ranker nor a run for the first stage.

    Attributes:
        label: names its column.
        ranker: ranks.
        run: has the ranking of each query already.
        made: whether the ranker was made here.
    """

    label: str
    ranker: Ranker | None = None
    run: Run | None = None
    made: bool = False

    @property
    def kind(self) -> str:
        """The ranker's name, or the kind of its replacement."""
        return self.ranker.name if self.ranker else _NO_RANKER[self.run is not None]


@dataclass(frozen=True, slots=True)
class _List:
    """A member's result for one query; passages by their place.

    Attributes:
        ranks: from 1, of passages that it has and has judged.
        scores: of the same, where it gives any; then of all of them.
        undecided: first and last rank of each group whose order it has not decided.
        asked: whether a ranker was asked.
        failure: why it says nothing.
        absent: why it has not those that it has not, where `reasons` says nothing.
        reasons: place -> why it has no rank.
        calls: what the ranker asked of models.
        comparisons: what came of its replies.
        cut: place -> characters that it left out.
        missing: scores that it missed, of its personas.
        wanted: scores that were asked of it, those included.
        partial: whether it came to the deadline.
    """

    ranks: Mapping[int, int] = field(default_factory=dict)
    scores: Mapping[int, float] = field(default_factory=dict)
    undecided: tuple[tuple[int, int], ...] = ()
    asked: bool = False
    failure: str = ""
    absent: str = "it is not in its list"
    reasons: Mapping[int, str] = field(default_factory=dict)
    calls: UsageTable = field(default_factory=UsageTable)
    comparisons: Comparisons | None = None
    cut: Mapping[int, int] = field(default_factory=dict)
    missing: int = 0
    wanted: int = 0
    partial: bool = False

    def given(self, method: Method) -> dict[int, float]:
        """Return the contribution to each passage that it has, before its weight."""
        if method == "rrf":
            return {place: reciprocal_rank(rank) for place, rank in self.ranks.items()}
        return min_max(self.scores or {place: -rank for place, rank in self.ranks.items()})

    def reason(self, place: int) -> str:
        """Return the reason that a passage gets nothing from it."""
        return self.failure or self.reasons.get(place, self.absent)

    def told(self, member: _Member, weight: float, passages: int) -> MemberRanking:
        """Return the form kept in rankings."""
        return MemberRanking(
            label=member.label,
            ranker=member.kind,
            weight=weight,
            ranks=tuple(self.ranks.get(place) for place in range(passages)),
            scores=tuple(self.scores.get(place) for place in range(passages)),
            undecided=self.undecided,
            missing=self.missing,
            asked=self.wanted,
            partial=self.partial,
            failure=self.failure,
        )


class _Events:
    """Merges the events of all members into those of one query: done and total are sums."""

    def __init__(self, emit: Emit | None) -> None:
        self._emit = emit
        self._counts: dict[tuple[int, type[Event]], tuple[int, int]] = {}

    def of(self, place: int) -> Emit | None:
        """Return the receiver of a member's events."""
        emit = self._emit
        if emit is None:
            return None

        async def take(event: Event) -> None:
            if isinstance(event, RankingStarted):
                return
            if isinstance(event, PassageScored | PassagesCompared):
                kind = type(event)
                self._counts[place, kind] = event.done, event.total
                counts = [each for (_, of), each in self._counts.items() if of is kind]
                done, total = (sum(each) for each in zip(*counts, strict=True))
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
    if weights is not None and not isinstance(weights, Iterable):
        raise ConfigError(f"weights={weights!r}: give a list with a number for each member")
    found = tuple(repeat(1.0, len(members)) if weights is None else weights)
    if len(found) != len(members):
        raise ConfigError(f"{len(found)} weights for {len(members)} members; give one for each")
    numbers = [
        each
        for each in found
        if isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each <= 1e6
    ]
    if len(numbers) < len(found) or not any(numbers):
        raise ConfigError(
            f"weights={list(found)!r}: give numbers from 0 to 1,000,000, at least one above 0"
        )
    return method, tuple(map(float, numbers))


def _made(spec: MemberSpec, shared: Mapping[str, Any], kept: Mapping[str, Any]) -> _Member:
    """Return the member of a spec."""
    if isinstance(spec, Ranker):
        return _Member(spec.name, ranker=spec)
    label = ""
    options: dict[str, Any] = {}
    if isinstance(spec, Mapping):
        if not isinstance(spec.get("ranker", spec.get("run")), str | os.PathLike):
            return _Member("run", run=_checked_run(spec))
        options = {str(name): value for name, value in spec.items()}
        label = str(options.pop("label", ""))
        name, is_run = options.pop("run", None), "run" in spec
        spec = name if is_run else options.pop("ranker")
    else:
        is_run = isinstance(spec, os.PathLike)
    name = os.fspath(spec) if isinstance(spec, str | os.PathLike) else None
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


def _checked_run(run: Mapping[Any, Any]) -> Run:
    """Check a run given as a mapping.

    Raises:
        ConfigError: it is not of the form of `Run`, has a score that is not finite, or has a
            document twice.
    """
    for query_id, listed in run.items():
        pairs = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else [None]
        known = {_scored_doc(each) for each in pairs} - {None}
        if not isinstance(query_id, str) or len(known) < len(pairs):
            raise ConfigError(
                f"{shown(query_id)}: {shown(listed)} among members is no run; give query id -> "
                "[(document id, score), ...], each document once, or a table with 'ranker' or 'run'"
            )
    return run


def _scored_doc(pair: object) -> str | None:
    match pair:
        case (str() as doc_id, Real() as score) if math.isfinite(score):
            return doc_id
    return None


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
    return _List(
        ranks={place: place + 1 for place in range(len(judged))},
        # Some scores and some places make no list.
        scores=scores if len(scores) == len(judged) else {},
    )


def _of_run(run: Run, query: Query, judged: Sequence[Passage]) -> _List:
    if not query.id:
        raise InputError(
            "the query has no id, by which a run says what belongs to it; rank a Query with an id "
            "(-o query_id=ID)"
        )
    listed = run.get(query.id)
    if listed is None:
        return _List(absent=f"the run has no query {query.id!r}")
    known = {doc_id: (rank, score) for rank, (doc_id, score) in enumerate(listed, start=1)}
    found = {place: known[each.id] for place, each in enumerate(judged) if each.id in known}
    return _List(
        ranks={place: rank for place, (rank, _) in found.items()},
        scores={place: float(score) for place, (_, score) in found.items()},
        absent="it is not in the run",
    )


def _of_ranking(ranking: Ranking) -> _List:
    hits = list(ranking)
    scores = {hit.index: hit.at_most if hit.score is None else hit.score for hit in hits}
    by_score = {place: score for place, score in scores.items() if score is not None}
    compared = range(0)
    if not by_score and ranking.was_judged:
        compared = range(ranking.config.get("depth") or len(ranking.passages))
    judged = [hit for hit in hits if hit.index in by_score or hit.index in compared]
    why = "deadline" if ranking.partial else "it was not judged"
    unscored = [hit for hit in hits if hit.index not in by_score]
    dropped = {
        place: f"dropped: its relevance is {relevance:g}"
        for place, relevance in ranking.dropped.items()
    }
    return _List(
        ranks={} if ranking.failure else {hit.index: hit.rank for hit in judged},
        scores={} if ranking.failure else by_score,
        undecided=ranking.undecided,
        asked=True,
        failure=ranking.failure,
        absent="it was not returned",
        reasons={
            **dropped,
            **{hit.index: next(iter(hit.missing.values()), why) for hit in unscored},
        },
        calls=ranking.calls,
        comparisons=ranking.comparisons,
        cut=ranking.cut,
        missing=len(ranking.missing),
        wanted=len(ranking.missing) + int(np.isfinite(ranking.matrix.values).sum()),
        partial=ranking.partial,
    )
