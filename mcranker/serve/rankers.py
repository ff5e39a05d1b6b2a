"""The rankers that are served, each with its models, places and options."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import orjson
from pydantic import ValidationError

from mcranker.errors import BudgetExceeded, ConfigError, ModelError, UnsupportedCapability
from mcranker.events import Emit, RankingDone
from mcranker.inputs.passages import as_query
from mcranker.llm.chat import tokenizer_of
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.models import MODEL_OPTIONS, ROLES
from mcranker.logs import safe_logger
from mcranker.rag.result import AnswerDone, EmitAnswer, RAGResult
from mcranker.rankers import RANKERS, Ranker
from mcranker.ranking import Ranking
from mcranker.runtime.service import Stream
from mcranker.serve.bodies import Problem
from mcranker.serve.metrics import Metrics
from mcranker.serve.requests import RankRequest, RerankRequest
from mcranker.serve.results import discreet, public_name
from mcranker.serve.settings import GRACE, Limits, RankerSettings, Settings
from personas import PersonasError, Team, library
from personas.errors import fault
from personas.ranking.types import Passage, Query, judge_note

if TYPE_CHECKING:
    from mcranker.rag.pipeline import RAGPipeline

L = TypeVar("L")
logger = safe_logger("mcranker.serve")
_MOST_VARIANTS = 64
ANSWER = "answer"  # name of the pipeline where metrics and the log name a ranker
SHORTEST = 0.001  # seconds that a late ranking still gets
_OF_MODELS = {*MODEL_OPTIONS, "base_url", "ledger"}


class Job:
    """A ranking to make by a ranker or a variant of it.

    Refused where the ranker takes no instruction, or gives no relevance or reasons.
    """

    def __init__(
        self, ranker: Ranker, request: RerankRequest | RankRequest, passages: tuple[Passage, ...]
    ) -> None:
        self.ranker, self.request, self.passages = ranker, request, passages
        self.query = as_query(request.query)
        the_ranker = f"the ranker {ranker.name!r}"
        if request.instruction and not ranker.takes_instruction:
            raise Problem("invalid", f"instruction: {the_ranker} takes none; leave it out")
        if request.min_relevance is not None and not ranker.absolute:
            raise Problem("invalid", f"min_relevance: {the_ranker} gives no relevance")
        try:
            ranker.check_reasons(request.reasons)
        except ConfigError as error:
            raise Problem("invalid", f"reasons: {discreet(str(error))}") from error


class Places:
    """A bounded number of simultaneous rankings, and of requests that wait."""

    def __init__(self, limits: Limits, places: int) -> None:
        self.limiter = anyio.CapacityLimiter(places)
        self._limits = limits

    @asynccontextmanager
    async def one(
        self, seconds: float | None, what: str = "ranking"
    ) -> AsyncIterator[Callable[[], float]]:
        """Hold a place in the block, which gets a function for the seconds left."""
        limits = self._limits
        within = min(seconds or limits.deadline, limits.deadline)
        end = time.monotonic() + within
        holder, places = object(), int(self.limiter.total_tokens)
        try:
            self.limiter.acquire_on_behalf_of_nowait(holder)
        except anyio.WouldBlock:
            waiting = self.limiter.statistics().tasks_waiting
            patience = min(within, limits.wait)
            expected = 1 + (waiting + 1) / places
            if waiting >= limits.waiting:
                said = (
                    f"{places} rankings are being made and {waiting} requests wait, which is as "
                    "many as may; try again later"
                )
                raise Problem("overloaded", said, retry_after=expected) from None
            try:
                with anyio.fail_after(patience):
                    await self.limiter.acquire_on_behalf_of(holder)
            except TimeoutError:
                said = f"no ranking ended within {patience:g} seconds; try again later"
                raise Problem("unavailable", said, retry_after=expected) from None

        def left() -> float:
            return max(end - time.monotonic(), SHORTEST)

        try:
            with anyio.fail_after(left() + GRACE):
                yield left
        except TimeoutError:
            raise Problem("timeout", f"no {what} after {within:g} seconds") from None
        finally:
            self.limiter.release_on_behalf_of(holder)


class ServedRanker:
    """A ranker with its places, and variants that share its models, ledger, budget and limits."""

    def __init__(
        self, settings: RankerSettings, ranker: Ranker, places: Places, metrics: Metrics
    ) -> None:
        self.settings = settings
        self.ranker = ranker
        self._places = places
        self._metrics = metrics
        self._variants: OrderedDict[bytes, Ranker] = OrderedDict()

    @property
    def name(self) -> str:
        return self.settings.name

    def with_options(self, options: Mapping[str, Any]) -> Ranker:
        """Return the ranker with a request's options: fields of `RankerConfig`, and ``team``."""
        allowed = self.settings.per_request
        for name in options:
            if name not in allowed:
                raise Problem(
                    "invalid",
                    f"options: {name[:100]!r} cannot be chosen; requests may choose of the "
                    f"ranker {self.name!r}: {', '.join(allowed) or 'none'}",
                )
        return self._variant(options)

    def cutting(self, tokens: int) -> Ranker | None:
        """Return the ranker cut to `tokens` of a passage; None if it has no tokenizer."""
        if tokenizer_of(self.ranker.models.scoring) is None:
            return None
        config = self.ranker.config
        # The operator's own limits hold as well.
        most = min(tokens, config.max_passage_tokens or tokens)
        words = config.max_passage_words
        return self._variant({"max_passage_tokens": most, "max_passage_words": words})

    def _variant(self, options: Mapping[str, Any]) -> Ranker:
        if not options:
            return self.ranker
        key = hashlib.sha256(orjson.dumps(options, option=orjson.OPT_SORT_KEYS)).digest()
        if key not in self._variants:
            try:
                self._variants[key] = self._made(options)
            except (ConfigError, UnsupportedCapability, PersonasError) as error:
                raise Problem("invalid", f"options: {error}") from error
            if len(self._variants) > _MOST_VARIANTS:
                self._variants.popitem(last=False)
        self._variants.move_to_end(key)
        return self._variants[key]

    async def rank(self, job: Job, emit: Emit | None = None) -> Ranking:
        """Wait for a place and rank; at the deadline the ranking is partial if that is allowed."""
        with self._metrics.counting("rankings", self.name):
            ranking = await self._rank(job, emit)
        self._metrics.ranked(self.name, ranking)
        return ranking

    async def _rank(self, job: Job, emit: Emit | None) -> Ranking:
        request = job.request
        async with self._places.one(request.timeout) as left:
            keeps_all = job.ranker.config.missing_policy == "fail"
            events = job.ranker.astream(
                job.query,
                job.passages,
                top_n=request.top_n or None,
                min_relevance=request.min_relevance,
                deadline=None if keeps_all else left(),
                instruction=request.instruction or None,
            )
            ranking = (await last_of(events, RankingDone, emit)).ranking
            if not request.reasons:
                return ranking
            if emit is not None:
                await emit(RankingDone(ranking.query.id, ranking))
            try:
                return await job.ranker.aexplain(ranking, request.reasons, deadline=left())
            except (ModelError, BudgetExceeded) as error:
                logger.warning("there are no reasons: %s", error)
                return ranking

    def _made(self, options: Mapping[str, Any]) -> Ranker:
        base = self.ranker
        chosen: dict[str, Any] = {**self.settings.arguments, **options}
        if "team" in options:
            chosen["team"] = team_of(options["team"])
        kept = {name: value for name, value in chosen.items() if name not in _OF_MODELS}
        make: Callable[..., Ranker] = type(base)
        # So that none is connected; then all of its models take the place of this one.
        kept |= {"model": base.models.scoring, "ledger": base.models.ledger}
        made = make(**kept)
        made.models = base.models
        return made


class ServedRankers:
    """All rankers of a service, found by name, with their models connected."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        limits = settings.limits
        self.all: list[ServedRanker] = []
        for each in settings.rankers:
            make: Callable[..., Ranker] = RANKERS.get(each.ranker)
            ranker = make(**each.arguments)
            slots = ranker.models.scoring.capabilities.prefix_slots or limits.rankings
            # Rankings that take turns would drive out each other's prompt prefixes.
            places = Places(limits, min(limits.rankings, slots))
            ranker.models = metrics.metered(each.name, ranker.models)
            metrics.watch(each.name, places.limiter)
            names = ", ".join(dict.fromkeys(map(public_name, ranker.models.names.values())))
            logger.info("ranker %r: %s with %s", each.name, each.ranker, names)
            self.all.append(ServedRanker(each, ranker, places, metrics))

    @property
    def described(self) -> tuple[str, str]:
        """The models that judge and the ledgers that keep their answers, a line each."""
        models = [served.ranker.models for served in self.all]
        names = []
        for chat in (getattr(each, role) for each in models for role in ROLES):
            name = public_name(chat.name)
            note = judge_note(chat.capabilities.weak_judge, name)
            names.append(note.removeprefix("Judged by ").rstrip(".") or name)
        kept = [each.name if each else "none" for each in self.ledgers]
        return (
            f"model: {'; '.join(dict.fromkeys(names))}",
            f"ledger: {', '.join(dict.fromkeys(kept))}",
        )

    @property
    def ledgers(self) -> list[Ledger | None]:
        """The ledger of each ranker, None for one without."""
        return [served.ranker.models.ledger for served in self.all]

    def find(self, name: str | None) -> ServedRanker:
        """The ranker of that name; the first one for None."""
        if name is None:
            return self.all[0]
        exact = (each for each in self.all if name in (each.name, *each.settings.names))
        by_pattern = (
            each for each in self.all if any(fnmatchcase(name, one) for one in each.settings.names)
        )
        if found := next(chain(exact, by_pattern), None):
            return found
        known = ", ".join(served.name for served in self.all)
        raise Problem("not_found", f"model {name[:100]!r} not found; available: {known}")

    async def aclose(self) -> None:
        for served in self.all:
            await served.ranker.aclose()


class Answering:
    """The pipeline of a service, with its places."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.pipeline = settings.answer.make() if settings.answer else None
        self._places = Places(settings.limits, settings.limits.rankings)
        self._metrics = metrics
        if self.pipeline is not None:
            metrics.watch(ANSWER, self._places.limiter)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger of the pipeline's own calls, if it has one."""
        return self.pipeline.ledger if self.pipeline is not None else None

    def ready(self) -> RAGPipeline:
        if self.pipeline is None:
            raise Problem(
                "not_found", "this service has no index to answer from; start it with --index"
            )
        return self.pipeline

    async def answer(
        self, question: Query, seconds: float | None, emit: EmitAnswer | None = None
    ) -> RAGResult:
        """Wait for a place and answer; at the deadline the answer is of what is there."""
        pipeline = self.ready()
        with self._metrics.counting("answers"):
            async with self._places.one(seconds, "answer") as left:
                events = pipeline.astream(question, deadline=left())
                result = (await last_of(events, AnswerDone, emit)).result
        self._metrics.add("answers", "partial" if result.partial else result.kind)
        self._metrics.staged(ANSWER, {each.name: each.seconds for each in result.stages})
        return result

    async def aclose(self) -> None:
        """Close the pipeline, if there is one."""
        if self.pipeline is not None:
            await self.pipeline.aclose()


async def last_of(
    events: Stream[Any], last: type[L], emit: Callable[[Any], Awaitable[None]] | None
) -> L:
    """Return the last event of a stream; the others are emitted."""
    async with events:
        async for event in events:
            if isinstance(event, last):
                return event
            if emit is not None:
                await emit(event)
    raise AssertionError("a stream of events ended without a result")


def team_of(value: object) -> Team:
    """Return the team of a request: a whole one, or a name in the library; never a file."""
    if isinstance(value, str):
        if value in library.member_names():
            return Team(members=(library.member(value),))
        return library.team(value)
    try:
        return Team.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part)[:60] for part in ("team", *first["loc"]))
        raise Problem("invalid", f"options: {fault(first, where)}") from error
