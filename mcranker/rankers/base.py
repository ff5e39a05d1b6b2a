"""The Ranker interface: every ranker is used in the same way."""

from __future__ import annotations

import contextlib
import math
import time
from abc import abstractmethod
from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, Self, TypeAlias, Unpack

import anyio

from mcranker.config import CallOptions, RankerConfig
from mcranker.errors import (
    FATAL_ERRORS,
    BudgetExceeded,
    ConfigError,
    InputError,
    MCRankerError,
    ModelError,
    ReplyError,
)
from mcranker.estimate import Estimate, Estimator
from mcranker.events import Emit, Event, RankedQuery, RankingDone
from mcranker.inputs.passages import Docs, as_passages, as_query
from mcranker.llm.limits.budget import Budget
from mcranker.llm.models import (
    NO_MODELS,
    ROLES,
    LedgerSpec,
    Models,
    ModelSpec,
    connect_roles,
    limited,
)
from mcranker.logs import safe_logger
from mcranker.method.session import Job, Memory
from mcranker.method.team_plan import TeamPlan, TeamSpec, as_team
from mcranker.ranking import Ranking, check_first_stage, in_order
from mcranker.runtime.bridge import Bridge, check_loop
from mcranker.runtime.service import Service, Stream, dispatch, each_of, named, note_failure
from mcranker.tracing import ranking_span
from personas import PromptSet
from personas.errors import shown
from personas.ranking.hit import Hit
from personas.ranking.types import Passage, Query

logger = safe_logger("mcranker")

_ROLE_OF = {
    "recruit": "recruiter",
    "criteria": "criteria",
    "score": "scoring",
    "assess": "assessor",
    "explain": "scoring",
}
_BETWEEN_UPDATES = 0.2  # seconds
_WHILE_ESTIMATING = {"missing_policy": "lowest", "deadline": None, "on_failure": "error"}

Work: TypeAlias = Iterable[tuple[str | Query, Docs]] | AsyncIterable[tuple[str | Query, Docs]]
"""Queries with their passages; read only as fast as they are ranked."""


class Ranker(Service):
    """Ranks passages for a query. Subclasses say how, in `_rank`; see ``docs/extending.md``.

    Usable as ``with`` and ``async with``; closing releases connections and threads. A ranker may
    be used from several threads and event loops of asyncio, and pickled: then it is made again,
    with the same arguments, its `api_key` among them.

    Args:
        config: all choices that concern the ranking, as one object; other arguments replace single
            fields of it. `RankerConfig`, or the ranker's own, such as `SetwiseConfig`.
        model: plays all roles that have no model of their own. ``"openai:NAME"``,
            ``"anthropic:NAME"``, ``"local:NAME-or-path.gguf"``, a `ChatModel`, or None: then
            ``MCRANKER_MODEL``, an API key in the environment, or the embedded local model decide,
            and a log line says which and why. Ignored if the ranker asks no model.
        recruiter_model: guesses who would ask the query.
        criteria_model: writes the rubrics; a strong one rescues a weak scorer (5.3.3).
        scoring_model: scores the passages.
        assessor_model: combines the scores with ``ensemble="assessor"``. A ranker takes the models
            of its `roles`.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        ledger: the file that keeps every answer, so that none is paid for twice; shared by any
            number of rankers and processes. ``"default"`` for ``MCRANKER_LEDGER`` or a file in the
            user's cache folder; a path; or None for none. A `ChatModel` of your own takes part if
            a path is given, and then its name must tell it from others.
        team: judges instead of a recruited team, if `takes_team`: a `Team`, a file, the name of a
            team of the library, or a list of personas. Members with a rubric keep it. Where
            `team_size` is larger and the team is not locked, recruits join it.
        team_size: personas on the team, the NLP scientist included; if not given 3, or those
            of `team`.
        criteria, scoring, scale, ensemble, max_cost: fields of `config`; None for its own.
        fields: any other fields of `config`, such as ``top_n=10``.

    Attributes:
        models: whom to ask, within the limits and the budget of `config`.

    Raises:
        ConfigError: an option is unknown, impossible, or does not go with another.
        AuthenticationFailed, ModelNotFound, DownloadError: there is no such model for you.
        UnsupportedCapability: the model cannot do what the configuration needs.
        PersonasError: the team or the prompt folder cannot be used.
    """

    name: ClassVar[str]
    """The ranker's name in runs, reports and on the command line."""
    config_class: ClassVar[type[RankerConfig]] = RankerConfig
    """The class of its configuration: `RankerConfig`, or a subclass with options of its own."""
    needs_model: ClassVar[bool] = True
    """True if it asks a model; if not, none is connected, fetched or recorded."""
    roles: ClassVar[tuple[str, ...]] = ()
    """The roles that may have a model of their own, out of `mcranker.llm.models.ROLES`."""
    takes_team: ClassVar[bool] = False
    """True if ``team`` may be given."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values of fields of `RankerConfig` that are not given, where they differ from its own."""
    _keeps_deadline: ClassVar[bool] = False
    """True if `_rank` returns by ``job.deadline`` what is known then; else it is cancelled."""
    absolute: bool = False
    """True if its hits have a relevance, 0 to 1, that means the same for every query.

    `ranking_by_scores` takes the scores of such a ranker for relevance."""
    _unexplained: ClassVar[str] = ""
    """Why its rankings have no reasons to ask for, as the end of a sentence; empty if they have."""
    config: RankerConfig
    """The choices in effect."""
    plan: TeamPlan = TeamPlan()
    """Plan of its team; empty without one."""
    takes_instruction: bool = False
    """True if an ``instruction`` counts; if not, rankings with one are refused."""

    def __init__(
        self,
        config: RankerConfig | None = None,
        *,
        model: ModelSpec = None,
        recruiter_model: ModelSpec = None,
        criteria_model: ModelSpec = None,
        scoring_model: ModelSpec = None,
        assessor_model: ModelSpec = None,
        base_url: str | None = None,
        api_key: str | None = None,
        ledger: LedgerSpec = "default",
        team: TeamSpec | None = None,
        team_size: int | None = None,
        criteria: Literal["query", "dataset", "library", "none"] | None = None,
        scoring: Literal["integer", "expected", "peak", "per_criterion"] | None = None,
        scale: int | None = None,
        ensemble: Literal["sum", "reciprocal_rank", "rrf", "assessor"] | None = None,
        max_cost: float | None = None,
        **fields: Any,
    ) -> None:
        usual: dict[str, Any] = {"team_size": team_size, "criteria": criteria, "scoring": scoring}
        usual |= {"scale": scale, "ensemble": ensemble, "max_cost": max_cost}
        fields |= {name: value for name, value in usual.items() if value is not None}
        specs = (recruiter_model, criteria_model, scoring_model, assessor_model)
        roles = dict(zip(ROLES, specs, strict=True))
        own = {"team": team} | {f"{role}_model": spec for role, spec in roles.items()}
        where: Any = {"base_url": base_url, "api_key": api_key, "ledger": ledger}
        self._made_of: Any = {"config": config, "model": model, **own, **where, **fields}
        for name, value in own.items():
            if value is not None and name not in self.keywords():
                or_else = ", or rank with MCRanker" if name == "team" else ""
                raise ConfigError(f"ranker={self.name!r} takes no {name}; leave it out{or_else}")
        known = getattr(config, "model_fields_set", ())
        unset = {name: value for name, value in self.defaults.items() if name not in known}
        self.team = None if team is None else as_team(team).counted
        self.given_roles = roles
        self.config = self._prepare(self.config_class.of(config, {**unset, **fields}))
        self._check_relevance(self.config)
        self._memory = Memory()
        self.models = NO_MODELS
        if self.needs_model:
            self.models = connect_roles(model, roles, config=self.config, **where)
        self._bridge = Bridge(self.models.aclose)  # not of the ranker, which could not be dropped
        self._adapt()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._made_of is None:
            hint = "as its budget would be lost; pickle the one it was made of"
            raise ConfigError(f"a ranker within a budget cannot be pickled, {hint}")
        return partial(type(self), **self._made_of), ()

    def _prepare(self, config: Any) -> Any:
        """Check the configuration and complete it, before any model is connected."""
        return config

    def _adapt(self) -> None:
        """Adapt the configuration to what the models can do."""

    @classmethod
    def keywords(cls) -> tuple[str, ...]:
        """Names of its arguments that are no fields of the configuration."""
        team = ("team",) if cls.takes_team else ()
        models = ("model", *(f"{role}_model" for role in cls.roles))
        return (*models, "base_url", "api_key", "ledger", *team)

    @property
    def prompt_hashes(self) -> Mapping[str, str]:
        """Prompt -> SHA-256 of its text; empty for a ranker without prompts."""
        return self.hashes_for(self.config)

    def hashes_for(self, config: RankerConfig) -> Mapping[str, str]:
        """`prompt_hashes` with that configuration, which has the options of a call."""
        return {}

    @abstractmethod
    async def _rank(self, job: Job) -> Ranking:
        """Rank at least one passage."""

    def ranking_by_scores(self, job: Job, scores: Sequence[float | None]) -> Ranking:
        """Return a `Ranking` by falling score; equal scores keep their first-stage order.

        `scores` are those of the first N passages of the job. Passages with None, and those beyond
        the last score, follow in first-stage order without a score. More scores than passages, one
        that is not finite, or with `absolute` not from 0 to 1, are a `ValueError`.
        """
        count = len(job.passages)
        known = {place: score for place, score in enumerate(scores) if score is not None}
        if len(scores) > count or not all(map(math.isfinite, known.values())):
            raise ValueError(
                f"{len(scores)} scores for {count} passages; give a finite number or "
                "None for each passage that was scored"
            )
        if self.absolute and not all(0 <= score <= 1 for score in known.values()):
            said = f"scores from {min(known.values()):g} to {max(known.values()):g}"
            hint = f"{type(self).__name__}.absolute says that they are from 0 to 1"
            raise ValueError(f"{said}; {hint}")
        hits = [Hit.of(passage, place) for place, passage in enumerate(job.passages)]
        final = [known.get(place) for place in range(count)]
        return self._ranking(job, in_order(hits, final, final if self.absolute else [None] * count))

    def ranking_by_order(self, job: Job, order: Sequence[int] = ()) -> Ranking:
        """Return a `Ranking` without scores, with the calls of `job`.

        `order` has places in ``job.passages``, best first; passages that are not in it follow in
        first-stage order. A place of no passage, or one that is repeated, is a `ValueError`.
        """
        count, places = len(job.passages), dict.fromkeys(order)
        if len(places) < len(order) or not all(0 <= place < count for place in order):
            raise ValueError(f"order={order!r}: give places from 0 to {count - 1}, once")
        whole = [*order, *(place for place in range(count) if place not in places)]
        ranked = enumerate(whole, 1)
        return self._ranking(job, [Hit.of(job.passages[n], n, rank=rank) for rank, n in ranked])

    def rank(self, query: str | Query, docs: Docs, **options: Unpack[CallOptions]) -> Ranking:
        """Rank `docs` for `query`, and wait for the result.

        Works in a plain script, in a thread, and where an event loop is running already, such as a
        notebook; that loop is blocked meanwhile (use `arank` there instead).

        Args:
            query: the text, or a `Query` with an id.
            docs: passages in first-stage order: texts, records with ``text`` and perhaps ``_id``,
                ``title`` and ``metadata``, documents of LangChain, LlamaIndex or Haystack,
                `Passage` objects, a mapping id -> text, or another ranking, or hits of it; see
                `mcranker.inputs.as_passages`.
            options: for this call, instead of the configuration's. ``top_n``: return only the
                first N passages. ``min_relevance``: only those of this relevance or more, 0 to 1,
                from rankers that give one (`absolute`). ``deadline``: seconds, after which
                passages are ranked by the scores that are there (`Ranking.partial` says so); what
                cannot be interrupted, such as loading a local model, is waited for.
                ``instruction``: what else matters for this query, one more criterion for every
                judge; see ``docs/teams.md``.

        Returns:
            All passages that these options leave, each once, best first. An empty ranking for no
            passages.

        Raises:
            ConfigError: one of these options is impossible.
            InputError: query or docs cannot be ranked as given; raised before any call.
            ModelError: the model, or the way to it, failed. Where calls about single passages fail
                and others are answered, those scores are missing instead, with the reason.
            MissingScoreError: a score is missing and ``missing_policy="fail"``.
            BudgetExceeded: more calls would go beyond ``max_calls`` or ``max_cost``.
        """
        return self._bridge.call(partial(self.arank, query, docs, **options))

    async def arank(
        self, query: str | Query, docs: Docs, **options: Unpack[CallOptions]
    ) -> Ranking:
        """`rank` for callers with an event loop."""
        return await self._ranked(self._job(query, docs, options))

    def astream(
        self, query: str | Query, docs: Docs, **options: Unpack[CallOptions]
    ) -> Stream[Event]:
        """The events of ranking one query, the last of which is `RankingDone`.

        An async iterator; leaving it cancels the work. Arguments and errors are those of `rank`.
        """
        job = self._job(query, docs, options)

        async def produce(send: Callable[[Event], Awaitable[None]]) -> None:
            ranking = await self._ranked(replace(job, emit=send))
            await send(RankingDone(job.query.id, ranking))

        return Stream(produce)

    def show(self, query: str | Query, docs: Docs, **options: Unpack[CallOptions]) -> Ranking:
        """`rank` with its progress, and then the ranking, as one output of notebook or terminal."""
        from personas.console import Output
        from personas.report.terminal import show_ranking

        output, shown_at = Output(), -math.inf
        try:
            for event in self._items(self.astream(query, docs, **options)):
                if isinstance(event, RankingDone):
                    found = event.ranking
                elif (now := time.monotonic()) > shown_at + _BETWEEN_UPDATES:
                    done, total = getattr(event, "done", 0), getattr(event, "total", 0)
                    output.progress(f"ranking: {done:,} of {total:,}" if total else "ranking")
                    shown_at = now
            output.page(lambda console: show_ranking(console, found, found, top=20))
        finally:
            output.end()
        return found

    def explain(self, ranking: Ranking, top: int = 10, *, deadline: float | None = None) -> Ranking:
        """Ask why each judge gave the first passages what it gave them. Order and scores stay.

        >>> ranking = ranker.explain(ranking, top=5)
        >>> ranking[0].reasons["clinician"].text

        Each persona (the ranker, where there are none) gives a sentence and a quote, which are in
        `Hit.reasons`, about ten passages a call. A quote that is not in the passage is dropped and
        counted in ``false_quotes``.

        Args:
            ranking: one of this ranker, of another one or a stored one.
            top: passages that are asked about; those that a judge gave no score are left out.
            deadline: seconds, after which the reasons that have come are all; None to wait.

        Returns:
            The ranking with reasons, in place of those that it had. Calls, tokens and seconds are
            added to its own. Reasons that could not be had are left out, and logged.

        Raises:
            ConfigError: the model writes nothing, or nothing can be said of such rankings.
            InputError: the ranking has no texts.
            ModelError, BudgetExceeded: as for `rank`; the ranking stays as it is.
        """
        return self._bridge.call(lambda: self.aexplain(ranking, top, deadline=deadline))

    async def aexplain(
        self, ranking: Ranking, top: int = 10, *, deadline: float | None = None
    ) -> Ranking:
        """`explain` for callers with an event loop."""
        check_loop()
        self.check_reasons(top)
        return await self._explained(ranking, top, self.models, deadline)

    async def _explained(
        self, ranking: Ranking, top: int, models: Models, deadline: float | None = None
    ) -> Ranking:
        from mcranker.method.reasons import explain  # needed by few

        prompts = PromptSet.load(self.config.prompts)
        return await explain(
            ranking, top, config=self.config, models=models, prompts=prompts, deadline=deadline
        )

    def rank_many(
        self, work: Iterable[tuple[str | Query, Docs]], **options: Unpack[CallOptions]
    ) -> Iterator[RankedQuery]:
        """Rank many queries; results come as they finish.

        ``config.query_concurrency`` queries are in progress at once, and `work` is read no faster
        than that; a ``deadline`` counts from the beginning of each query. Unless it is set, that is
        no more than the prompt prefixes that the scoring model keeps (one with the local engine).
        A query that fails is reported in its place; the others go on. `options` are those of
        `rank`, for each query.
        """
        return self._items(self.arank_many(work, **options))

    def arank_many(
        self,
        work: Work,
        *,
        emit: Emit | None = None,
        reasons: int = 0,
        **options: Unpack[CallOptions],
    ) -> Stream[RankedQuery]:
        """`rank_many` as an async iterator; leaving it cancels what is in progress.

        `emit` takes the events of all queries as they happen, without `RankingDone`. With `reasons`
        that many passages of each query are explained; where that fails, the log says why, and the
        ranking has none. `options` are those of `rank`, for each query.

        Raises:
            ConfigError: as `explain`, if `reasons` are asked for.
        """
        self.check_reasons(reasons)

        async def rank(place: int, piece: tuple[str | Query, Docs]) -> RankedQuery:
            known = named("")
            try:
                query, docs = _pair(piece)
                known = named(query)
                ranking = await self._ranked(self._job(query, docs, options, emit))
                try:
                    ranking = await self.aexplain(ranking, reasons) if reasons else ranking
                except (ModelError, BudgetExceeded) as error:
                    about = known.id or known.text[:80]
                    logger.warning("query %r: there are no reasons: %s", about, error)
            except MCRankerError as error:
                note_failure(known, error, "was not ranked")
                return RankedQuery(place, known, error=error)
            return RankedQuery(place, known, ranking=ranking)

        return dispatch(work, rank, self._queries_at_once())

    def estimate(
        self, query: str | Query, docs: Docs, *, reasons: int = 0, instruction: str | None = None
    ) -> Estimate:
        """Estimate the calls, tokens and US dollars of `rank` without sending anything.

        With `reasons`, those of `explain` for that many passages as well.

        Raises:
            ConfigError: the ranker takes no instruction, or as `explain`, if `reasons` are given.
            InputError: query or docs cannot be ranked as given.
            LedgerError: the ledger cannot be read.
        """
        return self.estimate_many([(query, docs)], reasons=reasons, instruction=instruction)

    async def aestimate(
        self, query: str | Query, docs: Docs, *, reasons: int = 0, instruction: str | None = None
    ) -> Estimate:
        """`estimate` for callers with an event loop."""
        return await self.aestimate_many([(query, docs)], reasons=reasons, instruction=instruction)

    def estimate_many(
        self,
        work: Iterable[tuple[str | Query, Docs]],
        *,
        reasons: int = 0,
        instruction: str | None = None,
        counted: set[bytes] | None = None,
    ) -> Estimate:
        """`estimate` for `rank_many` and all of `work`, which is read to its end.

        `counted` has the ledger's keys of calls that another estimate has counted, and gets more.
        """
        given: Any = {"reasons": reasons, "instruction": instruction, "counted": counted}
        return self._bridge.call(partial(self.aestimate_many, work, **given))

    async def aestimate_many(
        self,
        work: Work,
        *,
        reasons: int = 0,
        instruction: str | None = None,
        counted: set[bytes] | None = None,
    ) -> Estimate:
        """`estimate_many` for callers with an event loop."""
        check_loop()
        self.check_reasons(reasons)
        estimator = Estimator(self.config, counted)
        models, memory = estimator.models(self.models), self._memory.copy()
        async for piece in each_of(work):
            job = self._job(*_pair(piece), {"instruction": instruction})
            if not (job.passages and self.needs_model):
                continue
            config = job.config.model_copy(update=_WHILE_ESTIMATING)
            job = replace(job, config=config, models=models, memory=memory, estimated=True)
            # A query whose recruiter's unusable answers are in the ledger ends early.
            with contextlib.suppress(ReplyError):
                ranking = await self._rank(job)
                if reasons:
                    await self._explained(ranking, reasons, models)
            estimator.end_query(self._fewest(job.passages))
        return estimator.estimate()

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        """Return the fewest answers about passages that a judge gives; None if all are counted."""
        return None

    def within(self, budget: Budget) -> Self:
        """Return this ranker with its calls paid from that budget besides its own.

        Connections are those of this one, which is to be closed. A `ConfigError` says that the
        budget has a ``max_cost``, and a model's price is not known.
        """
        ranker = object.__new__(type(self))
        vars(ranker).update(vars(self), _made_of=None)
        if self.needs_model:
            ranker.models = limited(self.models, budget)
        return ranker

    def check_reasons(self, top: int) -> None:
        """Refuse to `explain` rankings without reasons; 0 passages are always allowed."""
        if isinstance(top, bool) or not isinstance(top, int) or top < 0:
            raise ConfigError(f"{top!r} passages cannot be explained; give a whole number from 1")
        why = self._unexplained or ("" if self.needs_model else "it asks no model")
        if not why and not self.models.scoring.capabilities.prompts:
            why = f"{self.models.scoring.name} answers no prompts"
        if top and why:
            raise ConfigError(
                f"ranker={self.name!r} gives no reasons: {why}; leave them out, or use a ranker "
                "whose judges score passages, such as MCRanker, with a chat model"
            )

    def _shown(self, query: Query) -> Query:
        """Return the query as prompts show it: a conversation as one text."""
        return Query(query.conversation, query.id) if query.turns else query

    def _job(
        self,
        query: str | Query,
        docs: Docs,
        options: CallOptions | None = None,
        emit: Emit | None = None,
    ) -> Job:
        """Return the job of a call, checked."""
        config = self.config
        if options:
            given = {name: value for name, value in options.items() if value is not None}
            if strange := given.keys() - CallOptions.__annotations__.keys():
                raise TypeError(f"a call takes no option {min(strange)!r}; give it to the ranker")
            config = config.replaced(given)
            self._check_relevance(config)
        asked = self._shown(as_query(query))
        job = Job(asked, as_passages(docs), config, self.models, emit, memory=self._memory)
        if config.instruction and not self.takes_instruction:
            raise ConfigError(
                f"instruction={shown(config.instruction)}: ranker={self.name!r} as it is set "
                "up takes none; leave it out, or use a ranker whose judges have criteria, such as "
                "MCRanker or DirectRanker"
            )
        if config.first_stage_weight:
            check_first_stage(config.first_stage_weight, job.passages[: config.depth])
        return job

    def _check_relevance(self, config: RankerConfig) -> None:
        """Refuse a threshold if this ranker gives no relevance."""
        if config.min_relevance is not None and not self.absolute:
            raise ConfigError(
                f"min_relevance={config.min_relevance} needs a relevance, and "
                f"ranker={self.name!r} gives an order alone; leave it out and set top_n=, or use "
                "a ranker that scores passages, such as 'mcranker' or 'direct'"
            )

    def _queries_at_once(self) -> int:
        wanted, slots = self.config.queries_at_once, self.models.scoring.capabilities.prefix_slots
        chosen = "query_concurrency" in self.config.model_fields_set
        return wanted if slots is None or chosen else min(slots, wanted)

    async def _ranked(self, job: Job) -> Ranking:
        """Return what `_rank` returns in time, or the first-stage order; log what is missing."""
        check_loop()
        if not job.passages:
            empty = self.ranking_by_order(job)
            return replace(empty, prompt_hashes={}, seconds={"total": 0.0})
        config, query, started = job.config, job.query, time.perf_counter()
        if config.deadline is not None:
            job = replace(job, deadline=anyio.current_time() + config.deadline)
        with ranking_span(self.name, job) as (job, done):
            ranking, failure = None, ""
            try:
                with anyio.CancelScope(deadline=math.inf if self._keeps_deadline else job.deadline):
                    ranking = await self._rank(job)
            except ModelError as error:
                if config.on_failure == "error" or isinstance(error, FATAL_ERRORS):
                    raise
                failure = str(error)
                about = query.id or query.text[:80]
                logger.warning("query %r keeps its first-stage order: %s", about, failure)
            if ranking is None:
                kept = self.ranking_by_order(job)
                ranking = replace(kept, failure=failure, partial=not failure)
            seconds = {**ranking.seconds, "total": time.perf_counter() - started}
            ranking = replace(ranking, seconds=seconds)
            if missing := ranking.missing:
                said = f"{missing[0].persona} of passage {missing[0].doc_id!r}: {missing[0].reason}"
                count = f"{len(missing)} of {ranking.matrix.size}"
                logger.warning("%s scores are missing; the first: %s", count, said)
            done(ranking)
            return ranking

    def _ranking(self, job: Job, hits: Sequence[Hit], **more: Any) -> Ranking:
        used = {stage for stage, _, _ in chain(job.calls, job.calls.reused)}
        roles = [role for stage, role in _ROLE_OF.items() if stage in used]
        parts: dict[str, Any] = {"personas": (), "team": None, "seconds": {}, **more}
        return Ranking(
            query=job.query,
            hits=tuple(hits),
            absolute=self.absolute,
            ranker=self.name,
            models={role: getattr(job.models, role).name for role in roles},
            config=job.config.recorded(),
            prompt_hashes=dict(self.hashes_for(job.config)),
            calls=job.calls,
            **parts,
        )


def _pair(piece: tuple[str | Query, Docs]) -> tuple[str | Query, Docs]:
    """A piece of `Work`, checked."""
    if isinstance(piece, tuple | list) and len(piece) == 2:
        return piece[0], piece[1]
    raise InputError(f"there is {shown(piece)}; give pairs of a query and its passages")
