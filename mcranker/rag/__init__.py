"""Retrieve, rerank, answer: pipelines over any ranker, with the reasons carried to the answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcranker.rag.config import PipelineConfig
    from mcranker.rag.pipeline import RAGPipeline
    from mcranker.rag.result import AnsweredQuestion, RAGResult

__all__ = ["AnsweredQuestion", "PipelineConfig", "RAGPipeline", "RAGResult"]

_MODULE_OF = {"PipelineConfig": "config", "RAGPipeline": "pipeline"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULE_OF.get(name, 'result')}")
    return getattr(module, name)
