"""Roles of models in a ranker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, UnsupportedCapability
from mcranker.llm.chat import ChatModel, ChatRequest, tokenizer_of
from mcranker.llm.connect import connect
from mcranker.llm.ledger.ledger import Ledger, Ledgered, place_of
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.limits.budget import Budget, Budgeted
from mcranker.llm.limits.rate_limiter import RateLimiter
from mcranker.llm.limits.retries import ATTEMPTS, FIRST_WAIT, Retrying
from mcranker.llm.recording import Recording
from mcranker.llm.scripted import ScriptedChat

ModelSpec = str | ChatModel | None
LedgerSpec = str | os.PathLike[str] | Ledger | None

ROLES = ("recruiter", "criteria", "scoring", "assessor")  # tasks of models for a ranker
MODEL_OPTIONS = ("model", *(f"{role}_model" for role in ROLES))


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a ranker; one object may play several roles (5.3.3)."""

    recruiter: ChatModel
    criteria: ChatModel
    scoring: ChatModel
    assessor: ChatModel
    ledger: Ledger | None = None
    budget: Budget | None = None

    @property
    def names(self) -> Mapping[str, str]:
        """Role -> model name."""
        return {role: getattr(self, role).name for role in ROLES}

    async def aclose(self) -> None:
        """Close every model once, and the ledger."""
        closed: set[int] = set()
        for role in ROLES:
            model = getattr(self, role)
            if id(model) not in closed:
                closed.add(id(model))
                await model.aclose()
        if self.ledger is not None:
            await self.ledger.aclose()


def _refuse(request: ChatRequest) -> str:
    raise ConfigError(f"a ranker with needs_model=False asks a model ({request.tag.stage!r})")


_NO_MODEL = ScriptedChat(_refuse, name="none")
NO_MODELS = Models(_NO_MODEL, _NO_MODEL, _NO_MODEL, _NO_MODEL)  # of rankers that ask none


def connect_roles(
    model: ModelSpec,
    own: Mapping[str, ModelSpec] = MappingProxyType({}),
    *,
    config: RankerConfig,
    base_url: str | None = None,
    api_key: str | None = None,
    ledger: LedgerSpec = "default",
) -> Models:
    """Connect the models of all roles; those without one of their own get `model`."""
    layers = Layers(config, ledger)
    specs = {role: model if own.get(role) is None else own[role] for role in ROLES}
    made = layers.connect(specs, model, base_url=base_url, api_key=api_key)
    return Models(**made, ledger=layers.ledger, budget=layers.budget)


def limited(models: Models, budget: Budget) -> Models:
    """Return the models with their calls paid from that budget besides their own."""

    def around(model: ChatModel) -> ChatModel:
        if isinstance(model, Ledgered):  # what it has is free
            return model.around(Budgeted(model.inner, budget))
        return Budgeted(model, budget)

    recruiter, criteria, scoring, assessor = (around(getattr(models, role)) for role in ROLES)
    return Models(recruiter, criteria, scoring, assessor, models.ledger, models.budget)


def layered(chat: ChatModel, *, config: RankerConfig, budget: Budget | None = None) -> ChatModel:
    """Put limits, retries and the budget around a model whose answers no ledger keeps."""
    layers = Layers(config.model_copy(update={"batch": False, "offline": False}), None, budget)
    return layers.around(chat, retried=True)


class Layers:
    """The wrappers around each model of one ranker or pipeline."""

    def __init__(
        self, config: RankerConfig, ledger: LedgerSpec, budget: Budget | None = None
    ) -> None:
        self.config = config
        self._every_model = ledger is not None and ledger != "default"
        self.ledger = ledger if isinstance(ledger, Ledger) else None
        if self.ledger is None and (place := place_of(ledger)) is not None:
            self.ledger = Ledger(place)
        if config.offline and (self.ledger is None or not _exists(self.ledger)):
            raise ConfigError(
                "offline, answers come from a ledger alone, and there is none; name it: ledger=FILE"
            )
        self.budget = budget or Budget(max_calls=config.max_calls, max_cost=config.max_cost)

    def connect(
        self,
        specs: Mapping[str, ModelSpec],
        main: ModelSpec,
        *,
        base_url: str | None,
        api_key: str | None,
        known: Mapping[object, ChatModel] = MappingProxyType({}),
    ) -> dict[str, ChatModel]:
        """Connect the model of each task; the same name or object in two of them is one model."""
        config = self.config
        made = dict(known)

        found: dict[str, ChatModel] = {}
        for task, spec in specs.items():
            by_name = spec is None or isinstance(spec, str)
            key: object = spec if by_name else id(spec)
            if key not in made:
                same = spec is main or (isinstance(spec, str) and _kind(spec) == _kind(main))
                chat = connect(
                    spec,
                    base_url=base_url if same else None,
                    api_key=api_key if same else None,
                    concurrency=config.workers,
                    timeout=config.timeout,
                    offline=config.offline,
                )
                # A model of the user's own is taken as it is: its failures may be meant.
                made[key] = self.around(chat, retried=by_name)
            found[task] = made[key]
        return found

    def around(self, chat: ChatModel, *, retried: bool) -> ChatModel:
        """Put the layers around one model; `retried` if its calls may be sent again."""
        config = self.config
        limiter = RateLimiter(
            concurrency=config.concurrency,
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
        )
        if self.ledger is not None and isinstance(self.ledger.store, PostgresStore):
            name = f"{chat.name} {getattr(chat, 'endpoint', '')}"
            limiter.share(partial(self.ledger.store.lease_limits, name))
        model: ChatModel
        if config.batch:
            from mcranker.llm.batch.batched import batched  # needed by few

            model = batched(chat, *self._batch_place())
        else:
            attempts = ATTEMPTS if retried else 1
            model = Retrying(chat, limiter, attempts=attempts, first_wait=FIRST_WAIT)
        if self.budget.limited:
            model = Budgeted(model, self.budget)
        kept = self._every_model or config.offline or hasattr(chat, "endpoint")
        if self.ledger is not None and kept:
            # Processes find each other's batches by their notes.
            model = Ledgered(
                model,
                self.ledger,
                asked=chat,
                among_processes=not config.batch,
                offline=config.offline or isinstance(chat, Recording),
            )
        return model

    def _batch_place(self) -> tuple[Path, Ledger]:
        if self.ledger is None or self.ledger.path is None:
            raise ConfigError(
                "batch=True needs a ledger in a file, beside which batches under way are noted; "
                "leave out ledger=, or give it a path"
            )
        path = self.ledger.path.resolve()  # as its log and its locks, beside the file itself
        return path.with_name(f"{path.name}.batches"), self.ledger


def _exists(ledger: Ledger) -> bool:
    return ledger.path is None or ledger.path.exists()


def _kind(spec: ModelSpec) -> str:
    return spec.partition(":")[0] if isinstance(spec, str) else ""


def check_capabilities(config: RankerConfig, models: Models, *, recruits: int) -> None:
    """Refuse what the models of the roles cannot serve, before any call."""
    model = models.scoring
    offers, typed = model.capabilities, config.questions
    lack = "" if typed is not None else config.scoring_class.lack(offers)
    refused: list[tuple[object, ChatModel, str]] = [
        (
            config.max_passage_tokens is not None and tokenizer_of(model) is None,
            model,
            "has a tokenizer that is not known here, which "
            f"max_passage_tokens={config.max_passage_tokens} needs; use max_passage_words= instead",
        ),
        (
            lack,
            model,
            f'{lack}, which scoring="{config.scoring}" needs; use scoring="integer" or another '
            "scoring_model",
        ),
        (
            typed and not offers.max_questions and config.scoring == "expected",
            model,
            f"answers questions={typed!r} in one text, without probabilities, which "
            'scoring="expected" needs; use scoring="integer" or another scoring_model',
        ),
    ]
    tasks = {
        "criteria": (config.criteria in ("query", "dataset"), 'criteria="library"'),
        "recruiter": (recruits > 0 and config.recruiting == "invent", 'recruiting="library"'),
        "assessor": (config.rule.ensemble.asks, 'ensemble="sum"'),
    }
    for role, (writes, instead) in tasks.items():
        chat: ChatModel = getattr(models, role)
        name = "criteria role" if role == "criteria" else role
        why = f"answers typed questions and writes nothing, as the {name} has to; use {instead}"
        why += f" or another {role}_model"
        refused.append((writes and not chat.capabilities.prompts, chat, why))
    for unable, chat, why in refused:
        if unable:
            raise UnsupportedCapability(f"{chat.name} {why}", model=chat.name)
