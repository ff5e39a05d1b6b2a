"""The rankers that are served, each with the models, places and options it has."""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import PurePath
from typing import Any, TypeVar

import anyio
import orjson
from pydantic import ValidationError

from mcranker.errors import BudgetExceeded, ConfigError, ModelError, UnsupportedCapability
from mcranker.estimate import Estimate
from mcranker.events import Emit, RankingDone
from mcranker.llm.chat import tokenizer_of
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.masking import HOST_MARK, without_hosts
from mcranker.llm.models import MODEL_OPTIONS, ROLES
from mcranker.logs import safe_logger
from mcranker.rankers import RANKERS, Ranker
from mcranker.ranking import Ranking
from mcranker.runtime.service import Stream
from mcranker.serve.bodies import Problem
from mcranker.serve.metrics import Metrics
from mcranker.serve.settings import GRACE, RankerSettings, Settings
from personas import PersonasError, Team, library
from personas.ranking.types import Passage, Query, judge_note

L = TypeVar("L")
logger = safe_logger("mcranker.serve")
_MOST_VARIANTS = 64
SHORTEST = 0.001  # seconds that a late ranking still gets
_ADDRESS = re.compile(
    r"(?<!\w)\w++://[^\s\"'>)]++|\[[0-9a-fA-F:]++\]:\d++|(?<![\w.-])[\w.-]++:\d{2,5}\b"
    r"|(?<!\d)\d++(\.\d++){3}\b"
)
_PATH = re.compile(r"(?<![\w.])(~|[A-Za-z]:)?([\\/][\w.@+-]+){2,}[\\/]?")
_OF_MODELS = {*MODEL_OPTIONS, "base_url", "ledger"}


@dataclass(frozen=True, slots=True)
class Job:
    """A ranking to make by a ranker or a variant of it, within `seconds`, waiting included.

    Refused where the ranker takes no instruction, or gives no relevance or reasons.
    """

    ranker: Ranker
    query: Query
    passages: tuple[Passage, ...]
    seconds: float
    top_n: int = 0
    min_relevance: float | None = None
    instruction: str = ""
    reasons: int = 0

    def __post_init__(self) -> None:
        ranker = self.ranker
        the_ranker = f"the ranker {ranker.name!r}"
        if self.instruction and not ranker.takes_instruction:
            raise Problem("invalid", f"instruction: {the_ranker} takes none; leave it out")
        if self.min_relevance is not None and not ranker.absolute:
            raise Problem("invalid", f"min_relevance: {the_ranker} gives no relevance")
        try:
            ranker.check_reasons(self.reasons)
        except ConfigError as error:
            raise Problem("invalid", f"reasons: {discreet(str(error))}") from error

    async def estimate(self) -> Estimate:
        instruction, reasons = self.instruction or None, self.reasons
        return await self.ranker.aestimate(
            self.query, self.passages, instruction=instruction, reasons=reasons
        )


class Places:
    """A bounded number of simultaneous rankings, and of requests that wait up to `seconds`."""

    def __init__(self, places: int, waiting: int, seconds: float) -> None:
        self.limiter = anyio.CapacityLimiter(places)
        self._most_waiting = waiting
        self._seconds = seconds

    @asynccontextmanager
    async def one(self, within: float, what: str = "ranking") -> AsyncIterator[Callable[[], float]]:
        """Hold a place in the block, which gets a function for the seconds left."""
        end = time.monotonic() + within
        holder, places = object(), int(self.limiter.total_tokens)
        try:
            self.limiter.acquire_on_behalf_of_nowait(holder)
        except anyio.WouldBlock:
            waiting = self.limiter.statistics().tasks_waiting
            seconds = min(within, self._seconds)
            expected = 1 + (waiting + 1) / places
            if waiting >= self._most_waiting:
                said = (
                    f"{places} rankings are being made and {waiting} requests wait, which is as "
                    "many as may; try again later"
                )
                raise Problem("overloaded", said, retry_after=expected) from None
            try:
                with anyio.fail_after(seconds):
                    await self.limiter.acquire_on_behalf_of(holder)
            except TimeoutError:
                said = f"no ranking ended within {seconds:g} seconds; try again later"
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

    def __init__(self, settings: RankerSettings, ranker: Ranker, places: Places) -> None:
        self.settings = settings
        self.ranker = ranker
        self.places = places
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
        async with self.places.one(job.seconds) as left:
            keeps_all = job.ranker.config.missing_policy == "fail"
            events = job.ranker.astream(
                job.query,
                job.passages,
                top_n=job.top_n or None,
                min_relevance=job.min_relevance,
                deadline=None if keeps_all else left(),
                instruction=job.instruction or None,
            )
            ranking = (await last_of(events, RankingDone, emit)).ranking
            if not job.reasons:
                return ranking
            if emit is not None:
                await emit(RankingDone(ranking.query.id, ranking))
            try:
                return await job.ranker.aexplain(ranking, job.reasons, deadline=left())
            except (ModelError, BudgetExceeded) as error:
                logger.warning("there are no reasons: %s", error)
                return ranking

    def _made(self, options: Mapping[str, Any]) -> Ranker:
        base = self.ranker
        chosen: dict[str, Any] = {**self.settings.options, **options}
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

    def __init__(self, settings: Settings, metrics: Metrics | None = None) -> None:
        limits = settings.limits
        self.all: list[ServedRanker] = []
        for each in settings.rankers:
            make: Callable[..., Ranker] = RANKERS.get(each.ranker)
            ranker = make(**each.options)
            slots = ranker.models.scoring.capabilities.prefix_slots or limits.rankings
            # Rankings that take turns would drive out each other's prompt prefixes.
            places = Places(min(limits.rankings, slots), limits.waiting, limits.wait)
            if metrics is not None:
                ranker.models = metrics.metered(each.name, ranker.models, public_name)
                metrics.watch(each.name, places.limiter)
            names = ", ".join(dict.fromkeys(map(public_name, ranker.models.names.values())))
            logger.info("ranker %r: %s with %s", each.name, each.ranker, names)
            self.all.append(ServedRanker(each, ranker, places))

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
        raise Problem("invalid", f"options: {where}: {first['msg']}") from error


def public_form(ranking: Ranking) -> dict[str, Any]:
    """Everything a ranking holds, as JSON values, without paths and addresses of the operator's."""
    return public(ranking.to_dict())


def public(form: dict[str, Any]) -> dict[str, Any]:
    """Take paths and addresses of the operator's out of what `Ranking.to_dict` gave."""
    form["models"] = {role: public_name(name) for role, name in form["models"].items()}
    if isinstance(prompts := form["config"].get("prompts"), str):
        form["config"]["prompts"] = PurePath(prompts).name
    for calls in (*form["usage"]["by_stage"], *form["usage"].get("reused", ())):
        calls["model"] = public_name(calls["model"])
    for holder in (form, form.get("comparisons") or {}):
        for name in ("failure", "reason"):
            if holder.get(name):
                holder[name] = discreet(holder[name])
    for hit in form["hits"]:
        if missing := hit.get("missing"):
            hit["missing"] = {persona: discreet(reason) for persona, reason in missing.items()}
    return form


def public_name(model: str) -> str:
    """A model's name without the folders of its file."""
    kind, colon, name = model.partition(":")
    return f"{kind}:{PurePath(name).name}" if colon and kind == "local" else model


def discreet(message: str) -> str:
    """Return a message about a model without addresses and paths."""
    return _PATH.sub("[path]", without_hosts(_ADDRESS.sub(HOST_MARK, message)))


def discreetly(value: Any) -> Any:
    """JSON values without addresses and paths in any text."""
    match value:
        case str():
            return discreet(value)
        case list():
            return [discreetly(each) for each in value]
        case dict():
            return {name: discreetly(each) for name, each in value.items()}
    return value
