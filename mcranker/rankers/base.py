"""The Ranker interface: every ranker is used in the same way."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar, Self, Unpack

import anyio
import numpy as np
from numpy.typing import NDArray

from mcranker.config import RankerConfig
from mcranker.errors import BudgetExceeded, ConfigError, ModelError, ReplyError
from mcranker.estimate import Estimate, Forecast
from mcranker.events import Emit, Event, RankingDone
from mcranker.inputs import Docs, as_passages, as_query
from mcranker.logs import safe_logger
from mcranker.models import NO_MODELS, LedgerSpec, Models, ModelSpec, Roles, connect_roles
from mcranker.options import RankerOptions
from mcranker.rankers.dispatch import FATAL_ERRORS, RankedQuery, Work, dispatch, each_of
from mcranker.ranking import Ranking, check_first_stage
from mcranker.runtime.bridge import Bridge, Stream
from mcranker.tracing import ranking_span
from personas import PromptSet
from personas.errors import shown
from personas.ranking.types import Passage, Query, ScoreMatrix
from personas.ranking.usage import UsageTable

logger = safe_logger("mcranker")

_ROLE_OF = {
    "recruit": "recruiter",
    "criteria": "criteria",
    "score": "scoring",
    "assess": "assessor",
    "explain": "scoring",
}


class Ranker(ABC):
    """Ranks passages for a query. Subclasses say how, in `_rank`; see ``docs/extending.md``.

    Usable as ``with`` and ``async with``; closing releases connections and threads. A
    ranker may be used from several threads and event loops, and in processes that are forked
    from this one; each opens connections of its own.

    Args:
        model: answers its calls, as for `MCRanker`; `Roles` for several models. It is not
            looked at if the ranker needs none.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        ledger: the file that keeps every answer, as for `MCRanker`.
        config: all other choices as one object; `options` replace single fields.
        options: fields of `RankerConfig`.

    Attributes:
        config: the choices in effect.
        models: whom to ask. Their answers are kept in the ledger, their failures repeated, and
            the limits and the budget of `config` kept.

    Raises:
        ConfigError, ModelError: as `MCRanker`.
    """

    name: ClassVar[str]
    """The ranker's name in runs, reports and on the command line."""

    needs_model: ClassVar[bool] = True
    """True if it asks a model; if not, none is connected, fetched or recorded."""

    writes_rubrics: bool = False
    """True if personas write criteria for it, so that ``criteria_examples`` apply."""

    absolute: bool = False
    """True if its hits have a relevance, 0 to 1, that means the same for every query.

    `ranking_by_scores` takes the scores of such a ranker for relevance."""

    unexplained: ClassVar[str] = ""
    """Why its rankings have no reasons to ask for, as the end of a sentence; empty if they have."""

    takes_instruction: bool = False
    """True if an ``instruction`` counts; if not, rankings with one are refused."""

    def __init__(
        self,
        *,
        model: ModelSpec | Roles = None,
        base_url: str | None = None,
        api_key: str | None = None,
        ledger: LedgerSpec = "default",
        config: RankerConfig | None = None,
        **options: Unpack[RankerOptions],
    ) -> None:
        self.config = RankerConfig.of(config, options)
        self._share_is_given = "first_stage_weight" in self.config.model_fields_set
        if self.config.criteria_examples and not self.writes_rubrics:
            raise ConfigError(
                f"criteria_examples={self.config.criteria_examples} shows rubrics to those who "
                f"write criteria, and none do for ranker={self.name!r} as it is set up; leave "
                "it out, or use MCRanker"
            )
        self._check_relevance()
        self.models = NO_MODELS
        if self.needs_model:
            self.models = connect_roles(
                model if isinstance(model, Roles) else Roles(model),
                config=self.config,
                base_url=base_url,
                api_key=api_key,
                ledger=ledger,
            )
        self._bridge = Bridge(self.models.aclose)

    @classmethod
    def asks_models(cls, options: Mapping[str, Any]) -> bool:
        """True if a ranker with these options of its constructor asks the models they name."""
        return cls.needs_model

    @classmethod
    def takes(cls) -> dict[str, Any]:
        """Return the constructor's options and defaults; None for the fields of `RankerConfig`."""
        taken: dict[str, Any] = {}
        for owner in (each for each in cls.__mro__ if "__init__" in vars(each)):
            parameters = inspect.signature(owner).parameters.values()
            taken = {each.name: each.default for each in parameters} | taken
            rest = next((each for each in parameters if each.kind is each.VAR_KEYWORD), None)
            if rest is None:
                break
            del taken[rest.name]
            if "RankerOptions" in str(rest.annotation):
                return {**dict.fromkeys(RankerConfig.model_fields), **taken}
            # Other keywords are handed to the class above.
        return taken

    @property
    def parts(self) -> Sequence[Ranker]:
        """The rankers that ask models for it: itself, and for a fused one its members."""
        return (self,)

    @property
    def prompt_hashes(self) -> Mapping[str, str]:
        """Prompt -> SHA-256 of its text; empty for a ranker without prompts."""
        return {}

    @abstractmethod
    async def _rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        """Rank at least one passage; `emit`, if given, receives events.

        An estimate runs this too, with models that make up their replies.
        """

    def ranking_by_scores(
        self,
        query: Query,
        passages: Sequence[Passage],
        scores: Sequence[float | None],
        *,
        calls: UsageTable | None = None,
    ) -> Ranking:
        """Return a `Ranking` by falling score; equal scores keep their first-stage order.

        Args:
            query: what was asked.
            passages: in first-stage order.
            scores: of the first N passages, the higher the better. Passages with None,
                and those beyond the last score, follow in first-stage order without a score.
            calls: what was asked of models.

        Raises:
            ValueError: there are more scores than passages, one is not finite, or one of a ranker
                with `absolute` is not from 0 to 1.
        """
        known = {place: score for place, score in enumerate(scores) if score is not None}
        if len(scores) > len(passages) or not all(map(math.isfinite, known.values())):
            raise ValueError(
                f"{len(scores)} scores for {len(passages)} passages; give a finite number or "
                "None for each passage that was scored"
            )
        if self.absolute and not all(0 <= score <= 1 for score in known.values()):
            raise ValueError(
                f"scores from {min(known.values()):g} to {max(known.values()):g}; "
                f"{type(self).__name__}.absolute says that they are from 0 to 1"
            )
        final = np.full(len(passages), math.nan)
        final[list(known)] = list(known.values())
        ranking = self._ranking(query, passages, np.argsort(-final, kind="stable"), final, calls)
        return replace(ranking, relevances=known) if self.absolute else ranking

    def ranking_by_order(
        self,
        query: Query,
        passages: Sequence[Passage],
        order: Sequence[int],
        *,
        calls: UsageTable | None = None,
    ) -> Ranking:
        """Return a `Ranking` without scores.

        Args:
            query: what was asked.
            passages: in first-stage order.
            order: places in `passages`, best first. Passages that are not in it follow in
                first-stage order.
            calls: what was asked of models.

        Raises:
            ValueError: a place is not one of `passages`, or is repeated.
        """
        places = dict.fromkeys(order)
        if len(places) < len(order) or not all(0 <= place < len(passages) for place in order):
            raise ValueError(f"order={order!r}: give places from 0 to {len(passages) - 1}, once")
        whole = [*order, *(place for place in range(len(passages)) if place not in places)]
        final = np.full(len(passages), math.nan)
        return self._ranking(query, passages, np.array(whole, dtype=np.intp), final, calls)

    def rank(
        self,
        query: str | Query,
        docs: Docs,
        *,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        instruction: str | None = None,
    ) -> Ranking:
        """Rank `docs` for `query`, and wait for the result.

        Works in a plain script, in a thread, and where an event loop is running already,
        such as a notebook; that loop is blocked meanwhile (use `arank` there instead).

        Args:
            query: the text, or a `Query` with an id.
            docs: passages in first-stage order: texts, records with ``text`` and perhaps ``_id``,
                ``title`` and ``metadata``, documents of LangChain, LlamaIndex or Haystack,
                `Passage` objects, or a mapping id -> text; see `mcranker.inputs.as_passages`.
            top_n: return only the first N passages; None for what the configuration says,
                and so for the others.
            min_relevance: return only passages of this relevance or more, 0 to 1; only for rankers
                that give one (`absolute`).
            deadline: seconds, after which the passages are ranked by the scores that are there;
                `Ranking.partial` says so. What cannot be interrupted, such as the loading of a
                local model, is waited for.
            instruction: what else matters for this query; one more criterion for every judge, see
                ``docs/teams.md``.

        Returns:
            All passages that these options leave, each once, best first. An empty ranking for no
            passages.

        Raises:
            ConfigError: one of these options is impossible.
            InputError: query or docs cannot be ranked as given; raised before any call.
            ModelError: the model, or the way to it, failed. A passage whose calls fail while
                others are answered is none: its scores are missing, with the reason.
            MissingScoreError: a score is missing and ``missing="fail"``.
            BudgetExceeded: more calls would go beyond ``max_calls`` or ``max_cost``.
        """
        return self._bridge.call(
            lambda: self.arank(
                query,
                docs,
                top_n=top_n,
                min_relevance=min_relevance,
                deadline=deadline,
                instruction=instruction,
            )
        )

    async def arank(
        self,
        query: str | Query,
        docs: Docs,
        *,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        instruction: str | None = None,
    ) -> Ranking:
        """`rank` for callers with an event loop."""
        ranker = self._limited_to(top_n, min_relevance, deadline, instruction)
        return await ranker._ranked(query, docs, None)  # noqa: SLF001 - of this class

    def astream(
        self,
        query: str | Query,
        docs: Docs,
        *,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        instruction: str | None = None,
    ) -> Stream[Event]:
        """The events of ranking one query, the last of which is `RankingDone`.

        An async iterator; leaving it cancels the work. Arguments and errors are those of `rank`.
        """
        ranker = self._limited_to(top_n, min_relevance, deadline, instruction)
        checked, passages = as_query(query), as_passages(docs)

        async def produce(send: Callable[[Event], Awaitable[None]]) -> None:
            ranking = await ranker._checked_rank(  # noqa: SLF001 - of this class
                checked, passages, send
            )
            await send(RankingDone(checked.id, ranking))

        return Stream(produce)

    def explain(self, ranking: Ranking, top: int = 10, *, deadline: float | None = None) -> Ranking:
        """Ask why each judge gave the first passages what it gave them. Order and scores stay.

        >>> ranking = ranker.explain(ranking, top=5)
        >>> ranking[0].reasons["clinician"].text

        Each persona (the ranker, where there are none) gives a sentence and a quote, which are in
        `Hit.reasons`, about ten passages a call. A quote that is not in the passage is dropped and
        counted in ``false_quotes``. An encoder says nothing: its `Reason` is of the kind
        ``"words"``, the nearest sentence and the query's words in it. Answers are kept in the
        ledger, so that asking again costs nothing.

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
        from mcranker.method.reasons import explain  # needed by few

        self.check_reasons(top)
        return await explain(
            ranking,
            top,
            config=self.config,
            models=self.models,
            prompts=PromptSet.load(self.config.prompts),
            deadline=deadline,
        )

    def estimate_explain(self, ranking: Ranking, top: int = 10) -> Estimate:
        """Estimate calls, tokens and cost of `explain` without sending anything."""
        return self._bridge.call(lambda: self.aestimate_explain(ranking, top))

    async def aestimate_explain(self, ranking: Ranking, top: int = 10) -> Estimate:
        """`estimate_explain` for callers with an event loop."""
        forecast = Forecast(self.config)
        await self._double(forecast.models(self.models)).aexplain(ranking, top)
        forecast.end_query(ranking.passages)
        return forecast.estimate()

    def rank_many(self, work: Iterable[tuple[str | Query, Docs]]) -> Iterator[RankedQuery]:
        """Rank many queries; results come as they finish.

        ``config.query_concurrency`` queries are in progress at once, and `work` is read no
        faster than that; a ``deadline`` counts from the beginning of each query. Unless
        ``query_concurrency`` is set, they are no more than the prompt prefixes that the
        scoring model keeps, since queries that take turns would drive out each other's: one
        with the local engine. A query that fails is reported in its place; the others go on.
        """
        stream = self.arank_many(work)
        loop = self._bridge.loop()
        end = object()

        async def following() -> RankedQuery | object:
            return await anext(stream, end)

        try:
            while isinstance(item := loop.call(following), RankedQuery):
                yield item
        finally:
            loop.leave(stream.aclose)

    def arank_many(
        self, work: Work, *, emit: Emit | None = None, reasons: int = 0
    ) -> Stream[RankedQuery]:
        """`rank_many` as an async iterator; leaving it cancels what is in progress.

        Args:
            work: queries with their passages.
            emit: takes the events of all queries as they happen, without `RankingDone`.
            reasons: passages of each query to `explain`; where that fails, the log says why, and
                the ranking has none.

        Raises:
            ConfigError: as `explain`, if `reasons` are asked for.
        """
        self.check_reasons(reasons)

        async def rank(query: str | Query, docs: Docs) -> Ranking:
            ranking = await self._ranked(query, docs, emit)
            try:
                return await self.aexplain(ranking, reasons) if reasons else ranking
            except (ModelError, BudgetExceeded) as error:
                about = ranking.query.id or ranking.query.text[:80]
                logger.warning("query %r: there are no reasons: %s", about, error)
                return ranking

        return dispatch(work, rank, self._queries_at_once())

    def estimate(
        self, query: str | Query, docs: Docs, *, instruction: str | None = None, reasons: int = 0
    ) -> Estimate:
        """Estimate the calls, tokens and US dollars of `rank` without sending anything.

        With `reasons`, the calls that `explain` makes for that number of passages are added.

        Raises:
            ConfigError: the ranker takes no instruction, or as `explain`, if `reasons` are given.
            InputError: query or docs cannot be ranked as given.
            LedgerError: the ledger cannot be read.
        """
        return self._bridge.call(
            lambda: self.aestimate(query, docs, instruction=instruction, reasons=reasons)
        )

    async def aestimate(
        self, query: str | Query, docs: Docs, *, instruction: str | None = None, reasons: int = 0
    ) -> Estimate:
        """`estimate` for callers with an event loop."""
        ranker = self._limited_to(instruction=instruction)
        return await ranker.aestimate_many([(query, docs)], reasons=reasons)

    def estimate_many(
        self,
        work: Iterable[tuple[str | Query, Docs]],
        *,
        counted: set[bytes] | None = None,
        reasons: int = 0,
    ) -> Estimate:
        """Estimate `rank_many` for all of `work`, which is read to its end.

        Args:
            work: queries with their passages.
            counted: what estimates of other rankers with the same ledger have counted, and so
                is not counted again; what this one counts is added. One set for all of them.
            reasons: passages of each query to `explain` as well.

        Raises:
            ConfigError: as `explain`, if `reasons` are asked for.
            InputError: a query or its docs cannot be ranked as given.
            LedgerError: the ledger cannot be read.
        """
        return self._bridge.call(
            lambda: self.aestimate_many(work, counted=counted, reasons=reasons)
        )

    async def aestimate_many(
        self, work: Work, *, counted: set[bytes] | None = None, reasons: int = 0
    ) -> Estimate:
        """`estimate_many` for callers with an event loop."""
        self._check_instruction()
        self.check_reasons(reasons)
        forecast = Forecast(self.config, counted)
        double = self._double(forecast.models(self.models))
        async for query, docs in each_of(work):
            checked, passages = as_query(query), as_passages(docs)
            if passages and self.needs_model:
                ranker = double._with_share_of(passages)  # noqa: SLF001 - of this class
                # A query whose recruiter's unusable answers are in the ledger ends early.
                with contextlib.suppress(ReplyError):
                    ranking = await ranker._rank(  # noqa: SLF001 - of this class
                        checked, passages, None
                    )
                    if reasons:
                        await ranker.aexplain(ranking, reasons)
                forecast.end_query(passages, self._fewest(passages))
        return forecast.estimate()

    def _fewest(self, passages: Sequence[Passage]) -> int | None:
        """Return the fewest answers about passages that a judge gives; None if all are counted."""
        return None

    def _double(self, models: Models) -> Self:
        """Return a copy with other models, which makes every call and leaves no trace here."""
        double = copy.copy(self)
        double.models = models
        double.config = self.config.model_copy(
            update={"top_k": None, "missing": "lowest", "deadline": None, "on_failure": "error"}
        )
        return double

    def check_reasons(self, top: int) -> None:
        """Refuse to `explain` rankings without reasons; 0 passages are always allowed.

        Raises:
            ConfigError: nothing can be said of this ranker's rankings, or by its model.
        """
        offers = self.models.scoring.capabilities
        if isinstance(top, bool) or not isinstance(top, int) or top < 0:
            raise ConfigError(f"{top!r} passages cannot be explained; give a whole number from 1")
        if not top:
            return
        why = self.unexplained or ("it asks no model" if not self.needs_model else "")
        if not why and not offers.prompts and offers.reasons:
            why = f"{self.models.scoring.name} answers no prompts"
        if why:
            raise ConfigError(
                f"ranker={self.name!r} gives no reasons: {why}; leave them out, or use a ranker "
                "whose judges score passages, such as MCRanker, with a chat model"
            )

    def _check_instruction(self) -> None:
        if self.config.instruction and not self.takes_instruction:
            raise ConfigError(
                f"instruction={shown(self.config.instruction)}: ranker={self.name!r} as it is set "
                "up takes none; leave it out, or use a ranker whose judges have criteria, such as "
                "MCRanker or DirectRanker"
            )

    def _limited_to(
        self,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        instruction: str | None = None,
    ) -> Self:
        """This ranker with options of a single call; None for those of the configuration."""
        given = {
            "top_n": top_n,
            "min_relevance": min_relevance,
            "deadline": deadline,
            "instruction": instruction,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return self
        limited = copy.copy(self)
        limited.config = RankerConfig.of(self.config, given)
        limited._check_relevance()  # noqa: SLF001 - of this class
        return limited

    def _with_share_of(self, passages: Sequence[Passage]) -> Self:
        """This ranker without its default share of the first stage, if that gave no scores."""
        weight, judged = self.config.first_stage_weight, passages[: self.config.depth]
        if not weight or all(each.score is not None for each in judged):
            return self
        if self._share_is_given:
            check_first_stage(weight, judged)
        changed = copy.copy(self)
        changed.config = RankerConfig.of(self.config, {"first_stage_weight": 0.0})
        return changed

    def _check_relevance(self) -> None:
        """Refuse a threshold if this ranker gives no relevance."""
        if self.config.min_relevance is not None and not self.absolute:
            raise ConfigError(
                f"min_relevance={self.config.min_relevance} needs a relevance, and "
                f"ranker={self.name!r} gives an order alone; leave it out and set top_n=, or use "
                "a ranker that scores passages, such as 'mcranker' or 'direct'"
            )

    def _queries_at_once(self) -> int:
        wanted = self.config.queries_at_once
        slots = self.models.scoring.capabilities.prefix_slots
        if slots is None or "query_concurrency" in self.config.model_fields_set:
            return wanted
        return min(slots, wanted)

    async def _ranked(self, query: str | Query, docs: Docs, emit: Emit | None) -> Ranking:
        return await self._checked_rank(as_query(query), as_passages(docs), emit)

    async def _checked_rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        self._check_instruction()
        if not passages:
            empty = self.ranking_by_scores(query, (), ())
            return replace(empty, prompt_hashes={}, seconds={"total": 0.0})
        ranker = self._with_share_of(passages)
        with ranking_span(
            self.name, query, passages, config=ranker.config, models=self.models
        ) as done:
            ranking = await ranker._told_rank(query, passages, emit)  # noqa: SLF001 - of this class
            done(ranking)
            return ranking

    async def _told_rank(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        """Return `_rank_in_time`, and log what is missing."""
        started = time.perf_counter()
        try:
            ranking = await self._rank_in_time(query, passages, emit)
        except ModelError as error:
            ranking = self._instead_of(error, query, passages, None)
        if ranking.failure:
            logger.warning(
                "query %r keeps its first-stage order: %s",
                query.id or query.text[:80],
                ranking.failure,
            )
        if "total" not in ranking.seconds:
            seconds = {**ranking.seconds, "total": time.perf_counter() - started}
            ranking = replace(ranking, seconds=seconds)
        missing = ranking.missing
        if missing:
            logger.warning(
                "%d of %d scores are missing; the first: %s of passage %r: %s",
                len(missing),
                ranking.matrix.values.size,
                missing[0].persona,
                missing[0].doc_id,
                missing[0].reason,
            )
        return ranking

    async def _rank_in_time(
        self, query: Query, passages: tuple[Passage, ...], emit: Emit | None
    ) -> Ranking:
        """`_rank`, or the first-stage order at the deadline; overridden to keep partial results."""
        with anyio.move_on_after(self.config.deadline):
            return await self._rank(query, passages, emit)
        return replace(self.ranking_by_order(query, passages, range(len(passages))), partial=True)

    def _instead_of(
        self,
        error: ModelError,
        query: Query,
        passages: Sequence[Passage],
        calls: UsageTable | None,
    ) -> Ranking:
        """The first-stage order, with the failure noted, if the configuration wants that.

        Raises:
            ModelError: the error, if not, or if it is one that fails all queries alike.
        """
        if self.config.on_failure == "error" or isinstance(error, FATAL_ERRORS):
            raise error
        order = self.ranking_by_order(query, passages, range(len(passages)), calls=calls)
        return replace(order, failure=str(error))

    def _ranking(
        self,
        query: Query,
        passages: Sequence[Passage],
        order: NDArray[np.intp],
        final: NDArray[np.float64],
        calls: UsageTable | None,
    ) -> Ranking:
        calls = UsageTable() if calls is None else calls
        return Ranking(
            query=query,
            passages=tuple(passages),
            order=order,
            final=final,
            absolute=self.absolute,
            matrix=ScoreMatrix.empty(len(passages), 0),
            personas=(),
            team=None,
            ranker=self.name,
            config=self.config.recorded(),
            models=self._models_used(calls),
            prompt_hashes=self.prompt_hashes,
            calls=calls,
            seconds={},
        )

    def _models_used(self, calls: UsageTable) -> Mapping[str, str]:
        used = {stage for stage, _, _ in (*calls, *calls.reused)}
        return {role: self.models.names[role] for stage, role in _ROLE_OF.items() if stage in used}

    def close(self) -> None:
        """Release connections, processes and threads."""
        self._bridge.end()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await self.models.aclose()
        self._bridge.close(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
