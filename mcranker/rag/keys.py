"""Options of a pipeline by name, as ``-o KEY=VALUE`` and the service's file give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mcranker.rag.config import PipelineConfig
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import Key, keys_of, shared_keys

SHARED = (
    *("model", "base_url", "ledger", "prompts", "max_calls", "max_cost", "deadline", "batch"),
    *("concurrency", "query_concurrency", "timeout", "requests_per_minute", "tokens_per_minute"),
)
"""Options of every ranker that `RAGPipeline` takes as well, for all of its stages together."""

_MODELS = ("query_model", "answer_model")


def own_keys() -> dict[str, Key]:
    """Options of `RAGPipeline` that a text can name."""
    shared = shared_keys()
    return {name: Key(name) for name in _MODELS} | {name: shared[name] for name in SHARED}


def stage_keys() -> dict[str, Key]:
    """Values of stages, as ``answer.style``, and the two models of `RAGPipeline` alone.

    An option of the pipeline's ranker is ``rerank.options.NAME``.
    """
    found = {name: Key(name) for name in _MODELS}
    for stage, field in PipelineConfig.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, value in kind.model_fields.items():
                key = f"{stage}.{name}"
                limits = tuple(value.metadata)
                found[key] = Key(key, value.annotation, value.default, limits=limits)
    del found["rerank.options"]
    of_rankers = keys_of(*RANKERS.names)
    return found | {f"rerank.options.{name}": key for name, key in of_rankers.items()}


def divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide options of any of these names.

    Returns:
        Those of `RAGPipeline`, and the changes that `PipelineConfig.load` takes: of a stage, or,
        by a name without one, of the pipeline's ranker.
    """
    own: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for name, value in options.items():
        if name in (*_MODELS, *SHARED):
            own[name] = value
            continue
        path = name if "." in name else f"rerank.options.{name}"
        *tables, last = path.split(".")
        table = changes
        for each in tables:
            table = table.setdefault(each, {})
        table[last] = value
    return own, changes
