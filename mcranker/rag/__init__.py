"""Retrieve, rerank, answer: pipelines over any ranker, with the reasons carried to the answer."""

from mcranker.rag.config import PipelineConfig
from mcranker.rag.result import RAGResult

__all__ = ["PipelineConfig", "RAGResult"]
