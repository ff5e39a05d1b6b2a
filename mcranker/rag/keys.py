"""Options of a pipeline by name, as ``-o KEY=VALUE`` and the service's file give them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mcranker.llm.connect import DEFAULT_LOCAL, choose_default
from mcranker.rag.config import PipelineConfig
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import Key, keys_of, needed_models, sentences_of, shared_keys

SHARED = (
    *("model", "base_url", "ledger", "prompts", "max_calls", "max_cost", "deadline", "batch"),
    *("concurrency", "query_concurrency", "timeout", "requests_per_minute", "tokens_per_minute"),
    *("temperature", "seed", "cache_variant", "repair_attempts"),
)
"""Options of every ranker that `RAGPipeline` takes as well, for all of its stages together."""

_OWN = {
    "query_model": Key("query_model", help="Transforms queries, instead of model."),
    "answer_model": Key("answer_model", help="Writes the answer, instead of model."),
    "embedder_url": Key(
        "embedder_url", help="Address of the service whose vectors an index of embed:NAME has."
    ),
}

_CHUNKS = "chunks"


def own_keys() -> dict[str, Key]:
    """Options of `RAGPipeline` that a text can name."""
    shared = shared_keys()
    return _OWN | {name: shared[name] for name in SHARED}


def stage_keys(*, of_rankers: bool = True) -> dict[str, Key]:
    """Values of stages, as ``answer.style``, and the options of `RAGPipeline` alone."""
    found = dict(_OWN)
    of_pipeline = sentences_of(PipelineConfig)
    for stage, field in PipelineConfig.model_fields.items():
        kind = field.annotation
        if stage == _CHUNKS:
            found[stage] = Key(stage, kind, field.default, of_pipeline[stage])
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            sentences = sentences_of(kind)
            for name, value in kind.model_fields.items():
                key, limits = f"{stage}.{name}", tuple(value.metadata)
                found[key] = Key(key, value.annotation, value.default, sentences[name], limits)
    del found["rerank.options"]
    own = keys_of(*RANKERS.names) if of_rankers else {}
    return found | {f"rerank.options.{name}": key for name, key in own.items()}


def models_of(config: PipelineConfig, options: Mapping[str, Any]) -> list[str]:
    """Return the models that a pipeline with these options of `RAGPipeline` asks."""
    ranker, writer = config.rerank.ranker, choose_default(os.environ)[0]
    if not options.get("model") and not options.get("answer_model"):
        config = without_writer(config)
    found = needed_models([(ranker, {**options, **config.rerank.options})] if ranker else ())
    specs = [
        options.get(f"{task}_model") or options.get("model") or writer for task in config.tasks
    ]
    return [each for each in dict.fromkeys([*found, *specs]) if isinstance(each, str)]


def without_writer(config: PipelineConfig) -> PipelineConfig:
    """The configuration with extracts for answers, if the default model is an encoder."""
    if choose_default(os.environ)[0] != DEFAULT_LOCAL or "answer" not in config.tasks:
        return config
    changes = {"style": "extract", "by_team": False, "check_support": False}
    return PipelineConfig.load(config, answer=changes)


def divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide options of any of these names."""
    own: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for name, value in options.items():
        if name in (*_OWN, *SHARED):
            own[name] = value
            continue
        path = name if "." in name or name == _CHUNKS else f"rerank.options.{name}"
        *tables, last = path.split(".")
        table = changes
        for each in tables:
            table = table.setdefault(each, {})
        table[last] = value
    return own, changes
