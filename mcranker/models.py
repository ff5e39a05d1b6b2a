"""Which model plays which role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mcranker.config import RankerConfig
from mcranker.errors import UnsupportedCapability
from mcranker.llm.chat import ChatModel
from mcranker.llm.connect import connect
from mcranker.llm.limits import MOST_LEARNED, Limited
from mcranker.llm.retries import Retrying

__all__ = ["ModelSpec", "Models", "check_capabilities", "connect_roles"]

ModelSpec = str | ChatModel | None


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a ranker; one object may play several roles (§5.3.3)."""

    recruiter: ChatModel
    criteria: ChatModel
    scoring: ChatModel
    assessor: ChatModel

    @property
    def names(self) -> Mapping[str, str]:
        """Role -> model name."""
        return {
            "recruiter": self.recruiter.name,
            "criteria": self.criteria.name,
            "scoring": self.scoring.name,
            "assessor": self.assessor.name,
        }

    async def aclose(self) -> None:
        """Close every model once."""
        closed: set[int] = set()
        for model in (self.recruiter, self.criteria, self.scoring, self.assessor):
            if id(model) not in closed:
                closed.add(id(model))
                await model.aclose()


def connect_roles(
    model: ModelSpec,
    roles: Mapping[str, ModelSpec],
    *,
    concurrency: int | None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Models:
    """Connect the models of all roles; roles without one of their own get `model`.

    The same name or object in two roles is one model with one limit of `concurrency`. Models
    that are given by name are asked again where that can help, see `Retrying`.

    Args:
        model: ``"openai:NAME"``, ``"anthropic:NAME"``, ``"local:NAME"``, a `ChatModel`, or
            None for the default (see `mcranker.llm.connect.connect`).
        roles: keys ``recruiter``, ``criteria``, ``scoring``, ``assessor``.
        concurrency: calls in flight at once, for each model.
        base_url: of an OpenAI- or Anthropic-compatible server, for `model` and for those of
            the other models that have the same prefix.
        api_key: instead of the environment's, likewise.

    Raises:
        ConfigError, AuthenticationFailed, ModelNotFound: as `connect` does.
    """
    made: dict[object, ChatModel] = {}

    def limited(spec: ModelSpec) -> ChatModel:
        key: object = spec if spec is None or isinstance(spec, str) else id(spec)
        if key not in made:
            same = spec is model or (isinstance(spec, str) and _kind(spec) == _kind(model))
            chat = connect(
                spec,
                base_url=base_url if same else None,
                api_key=api_key if same else None,
                concurrency=concurrency or MOST_LEARNED,
            )
            # A model of the user's own is taken as it is: its failures may be meant.
            tried = Retrying(chat) if spec is None or isinstance(spec, str) else chat
            made[key] = Limited(tried, concurrency=concurrency)
        return made[key]

    specs = {
        role: model if roles.get(role) is None else roles[role]
        for role in ("recruiter", "criteria", "scoring", "assessor")
    }
    return Models(**{role: limited(spec) for role, spec in specs.items()})


def _kind(spec: ModelSpec) -> str:
    return spec.partition(":")[0] if isinstance(spec, str) else ""


def check_capabilities(config: RankerConfig, models: Models) -> None:
    """Refuse a configuration that the scoring model cannot serve, before any call.

    Raises:
        UnsupportedCapability: ``scoring="expected"`` without log-probabilities.
    """
    if config.scoring == "expected" and not models.scoring.capabilities.label_logprobs:
        raise UnsupportedCapability(
            f'{models.scoring.name} gives no log-probabilities, which scoring="expected" needs; '
            'use scoring="integer" or another scoring_model',
            model=models.scoring.name,
        )
