"""Compressor for LangChain; needs ``mcranker[langchain]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcranker.integrations.reranking import KEY, RerankingModel, explanation, not_installed
from mcranker.ranking import Ranking

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from pydantic import ConfigDict
except ModuleNotFoundError as error:
    raise not_installed(__name__, "langchain", error) from error


class MCRankerCompressor(RerankingModel, BaseDocumentCompressor):
    """Reranks the documents of a retriever, for example in a ``ContextualCompressionRetriever``."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    __init__ = RerankingModel.__init__  # type checkers would make one of keywords alone

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        """The documents, best first."""
        return _ranked(documents, self._rank(query, documents))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        """`compress_documents` for callers with an event loop."""
        return _ranked(documents, await self._arank(query, documents))


def _ranked(documents: Sequence[Document], ranking: Ranking) -> list[Document]:
    ranked = []
    for hit in ranking:
        document = documents[hit.index]
        own = {"relevance_score": hit.relevance, KEY: explanation(ranking, hit)}
        ranked.append(document.model_copy(update={"metadata": {**document.metadata, **own}}))
    return ranked
