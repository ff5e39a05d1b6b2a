"""Retrieve, rerank, answer: pipelines over any ranker, with the reasons carried to the answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcranker.rag.config import PipelineConfig
from mcranker.rag.result import RAGResult

if TYPE_CHECKING:
    from mcranker.rag.pipeline import AnsweredQuestion, RAGPipeline

__all__ = ["AnsweredQuestion", "PipelineConfig", "RAGPipeline", "RAGResult"]


def __getattr__(name: str) -> Any:
    if name not in ("AnsweredQuestion", "RAGPipeline"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("mcranker.rag.pipeline"), name)
