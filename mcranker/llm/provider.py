"""Providers of models, found by the prefix of a model's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcranker.errors import ConfigError
from personas.registry import Registry

if TYPE_CHECKING:
    from mcranker.llm.chat import ChatModel
    from personas.ranking.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A source of models: ``acme:NAME`` is a model of the provider ``acme``.

    A package adds one with an entry point in its ``pyproject.toml``. Then rankers, the command
    line, suites and the service take its models by name, and price their calls::

        [project.entry-points."mcranker.models"]
        acme = "my_provider:ACME"

    Attributes:
        connect: makes the model of a name without the prefix, as ``connect(name, base_url=None,
            api_key=None, timeout=120.0, concurrency=64)``: seconds a call, most calls at once.
            Sends nothing. A class whose constructor takes these will do.
        note: what it offers, for the list of ``mcranker models``.
        key_variable: the environment variable with its API key; empty for none.
        url_variable: the environment variable with another address; empty for none.
        price: US dollars of calls, by the model's name without the prefix; None where unknown.
        in_process: its models run in this process, and take no address and no key.
    """

    connect: Callable[..., ChatModel]
    note: str = ""
    key_variable: str = ""
    url_variable: str = ""
    price: Callable[[str, Usage], float | None] = lambda _, usage: None
    in_process: bool = False


PROVIDERS: Registry[Provider] = Registry(
    "provider",
    "mcranker.models",
    {
        "openai": "mcranker.llm.providers.openai_chat:OPENAI",
        "anthropic": "mcranker.llm.providers.anthropic_messages:ANTHROPIC",
        "local": "mcranker.llm.local.provider:LOCAL",
        "rerank": "mcranker.llm.providers.rerank:RERANK",
        "rerank-tei": "mcranker.llm.providers.rerank:RERANK_TEI",
        "rerank-logits": "mcranker.llm.providers.rerank:RERANK_LOGITS",
        "embed": "mcranker.llm.local.provider:EMBEDDINGS",
        "crossencoder": "mcranker.llm.local.provider:CROSS_ENCODER",
        "recording": "mcranker.llm.recording:RECORDING",
    },
    ConfigError,
    lambda found: isinstance(found, Provider),
)
"""Every provider, by prefix."""


def provider_of(model: str) -> Provider | None:
    """Return the provider of a model's name; None if it has none that can be loaded."""
    prefix = model.partition(":")[0]
    try:
        return PROVIDERS.get(prefix) if prefix in PROVIDERS else None
    except ConfigError:
        return None
