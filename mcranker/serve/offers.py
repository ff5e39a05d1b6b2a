"""The rankers that the service offers, each with the models, places and options it has."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.wrapper import tokenizer_of
from mcranker.logs import safe_logger
from mcranker.models import MODEL_OPTIONS
from mcranker.rankers import RANKERS, Ranker
from mcranker.ranking import Ranking
from mcranker.serve.metrics import Metrics
from mcranker.serve.places import Places
from mcranker.serve.problems import Problem
from mcranker.serve.settings import RankerSettings, Settings
from personas import PersonasError, Team, library
from personas.inspection.stored import (
    StoredCalls,
    StoredComparisons,
    StoredHit,
    StoredOrder,
    StoredRanking,
)
from personas.words import counted

C = TypeVar("C", bound=StoredComparisons)

logger = safe_logger("mcranker.serve")

ORDER_ALONE = (
    "it gives an order and no relevance, which rerank clients need; ask POST /v1/rank, or have it "
    "served with rank_scores = true"
)
"""Why a ranker does not serve the shapes of other rerankers."""

_MOST_VARIANTS = 64
_ADDRESS = re.compile(
    r"(?<!\w)\w++://[^\s\"'>)]++|\[[0-9a-fA-F:]++\]:\d++|(?<![\w.-])[\w.-]++:\d{2,5}\b"
    r"|(?<!\d)\d++(\.\d++){3}\b"
)
_PATH = re.compile(r"(?<![\w.])(~|[A-Za-z]:)?([\\/][\w.@+-]+){2,}[\\/]?")
_OF_MODELS = {*MODEL_OPTIONS, "base_url", "ledger"}


class Offer:
    """A ranker as requests find it.

    Variants of it with other options share its models, and with them its ledger, budget and
    limits.

    Args:
        settings: which ranker it is.
        ranker: it, made and connected.
        places: rankings at once.
    """

    def __init__(self, settings: RankerSettings, ranker: Ranker, places: Places) -> None:
        self.settings = settings
        self.ranker = ranker
        self.places = places
        self._variants: OrderedDict[bytes, Ranker] = OrderedDict()

    @property
    def name(self) -> str:
        """By which requests choose it."""
        return self.settings.name

    def with_options(self, options: Mapping[str, Any]) -> Ranker:
        """The ranker with other options.

        Args:
            options: of a request: fields of `RankerConfig`, and ``team``, as JSON values.

        Raises:
            Problem: an option may not be chosen, or has a value that it cannot have.
        """
        for name in options:
            if name not in self.settings.per_request:
                choices = ", ".join(self.settings.per_request) or "none"
                raise Problem(
                    "invalid",
                    f"options: {name[:100]!r} cannot be chosen; requests may choose of the "
                    f"ranker {self.name!r}: {choices}",
                )
        return self._variant(options)

    def cutting(self, tokens: int) -> Ranker | None:
        """The ranker that sees so many tokens of a passage; None if it has no tokenizer."""
        if tokenizer_of(self.ranker.models.scoring) is None:
            return None
        config = self.ranker.config
        # The operator's own limits hold as well, those for weak models among them.
        most = min(tokens, config.max_passage_tokens or tokens)
        words = config.max_passage_words
        return self._variant({"max_passage_tokens": most, "max_passage_words": words})

    def stored(self, ranking: Ranking) -> StoredRanking:
        """Everything that a ranking holds, without paths and addresses of the operator's."""
        stored = ranking.stored()
        config = dict(stored.config)
        if isinstance(config.get("prompts"), str):
            config["prompts"] = PurePath(config["prompts"]).name
        return stored.model_copy(
            update={
                "config": config,
                "models": {role: public_name(name) for role, name in stored.models.items()},
                "hits": [_discreet(hit) for hit in stored.hits],
                "failure": discreet(stored.failure),
                "members": [
                    each.model_copy(update={"failure": discreet(each.failure)})
                    for each in stored.members
                ],
                "comparisons": stored.comparisons and _discreet_counts(stored.comparisons),
                "orders": {name: _discreet_counts(each) for name, each in stored.orders.items()},
                "usage": stored.usage.model_copy(
                    update={
                        "by_stage": [_of_public_model(each) for each in stored.usage.by_stage],
                        "reused": [_of_public_model(each) for each in stored.usage.reused],
                    }
                ),
            }
        )

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

    def _made(self, options: Mapping[str, Any]) -> Ranker:
        base = self.ranker
        chosen: dict[str, Any] = {**self.settings.options, **options}
        if "team" in options:
            chosen["team"] = team_of(options["team"])
        kept = {name: value for name, value in chosen.items() if name not in _OF_MODELS}
        if "model" in type(base).takes():
            # So that none is connected; then all of its models take the place of this one.
            models = next((part.models for part in base.parts), base.models)
            kept |= {"model": models.scoring, "ledger": models.ledger}
        make: Callable[..., Ranker] = type(base)
        made = make(**kept)
        made.models = base.models
        for part, known in zip(made.parts, base.parts, strict=True):
            part.models = known.models
        return made


class Offers:
    """All rankers of a service, found by name."""

    def __init__(self, offers: tuple[Offer, ...]) -> None:
        self.all = offers

    @classmethod
    def open(cls, settings: Settings, metrics: Metrics) -> Offers:
        """Make the rankers and connect their models; nothing is sent yet.

        Raises:
            MCRankerError, PersonasError: a ranker cannot be made as it is set up.
        """
        return cls(tuple(_opened(each, settings, metrics) for each in settings.rankers))

    def find(self, name: str | None) -> Offer:
        """The ranker of that name; the first one for None.

        Raises:
            Problem: there is none.
        """
        if name is None:
            return self.all[0]
        for offer in self.all:
            if name == offer.name or name in offer.settings.names:
                return offer
        for offer in self.all:
            if any(fnmatchcase(name, pattern) for pattern in offer.settings.names):
                return offer
        known = ", ".join(offer.name for offer in self.all)
        raise Problem("not_found", f"model {name[:100]!r} not found; there are {known}")

    async def aclose(self) -> None:
        """Close all models."""
        for offer in self.all:
            await offer.ranker.aclose()


def team_of(value: object) -> Team:
    """A team that a request brings, or names in the library; files are not looked for.

    Raises:
        Problem: it is none.
    """
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


def notes_of(ranking: Ranking) -> tuple[str, ...]:
    """What a client should know of a ranking."""
    notes = []
    if ranking.partial:
        notes.append("partial: the deadline came before all scores")
    if ranking.failure:
        notes.append("not ranked: no model answered, and the order is the one that was given")
    if missing := len(ranking.missing):
        notes.append(f"{counted(missing, 'score')} of {ranking.matrix.values.size} missing")
    # Without their names: notes stand in headers, and names are a model's.
    if ranking.orders is not None and (left_out := len(ranking.orders.left_out)):
        judges = counted(len(ranking.orders.personas), "judge")
        notes.append(f"left out: {left_out} of {judges} gave no order")
    return tuple(notes)


def public_name(model: str) -> str:
    """A model's name without the folders of its file."""
    kind, colon, name = model.partition(":")
    return f"{kind}:{PurePath(name).name}" if colon and kind == "local" else model


def discreet(message: str) -> str:
    """What a message about a model says, without addresses and paths."""
    return _PATH.sub("[path]", _ADDRESS.sub("[address]", message))


def _opened(settings: RankerSettings, service: Settings, metrics: Metrics) -> Offer:
    make: Callable[..., Ranker] = RANKERS.get(settings.ranker)
    ranker = make(**settings.options)
    known = [part.models.scoring.capabilities.prefix_slots for part in ranker.parts]
    slots = min((each for each in known if each is not None), default=None)
    limits = service.limits
    # Rankings that take turns would drive out each other's prompt prefixes.
    places = Places(min(limits.rankings, slots or limits.rankings), limits.waiting, limits.wait)
    for part in ranker.parts:
        part.models = metrics.metered(settings.name, part.models, public_name)
    metrics.watch(settings.name, places)
    names = ", ".join(dict.fromkeys(map(public_name, ranker.models.names.values())))
    logger.info("ranker %r: %s with %s", settings.name, settings.ranker, names)
    if not (ranker.absolute or settings.rank_scores):
        logger.warning("ranker %r: %s", settings.name, ORDER_ALONE)
    return Offer(settings, ranker, places)


def _of_public_model(calls: StoredCalls) -> StoredCalls:
    return calls.model_copy(update={"model": public_name(calls.model)})


def _discreet_counts(counts: C) -> C:
    changed = {"reason": discreet(counts.reason)}
    if isinstance(counts, StoredOrder):
        changed["left_out"] = discreet(counts.left_out)
    return counts.model_copy(update=changed)


def _discreet(hit: StoredHit) -> StoredHit:
    if not hit.missing:
        return hit
    missing = {persona: discreet(reason) for persona, reason in hit.missing.items()}
    return hit.model_copy(update={"missing": missing})
