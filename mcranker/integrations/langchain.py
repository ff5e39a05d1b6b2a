"""A document compressor for LangChain; needs ``pip install 'mcranker[langchain]'``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcranker.integrations.reranking import (
    KEY,
    Limits,
    RankerSource,
    check_limits,
    explanation,
    not_installed,
    passages_of,
)
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking

try:
    from langchain_core.documents import BaseDocumentCompressor, Document
    from pydantic import ConfigDict, PrivateAttr
except ModuleNotFoundError as error:
    raise not_installed(__name__, "langchain", error) from error


class MCRankerCompressor(BaseDocumentCompressor):
    """Reranks the documents of a retriever, for example in a ``ContextualCompressionRetriever``.

    >>> compressor = MCRankerCompressor(options={"team_size": 4}, top_n=5)
    >>> best = compressor.compress_documents(documents, "best masks against covid")

    Copies of the documents come back, best first, with their ids and metadata, and two keys more
    in the metadata: ``relevance_score``, from 0 to 1 or None, as other rerankers of LangChain
    name it, and ``mcranker``, see `mcranker.integrations.reranking.explanation`.

    Args:
        ranker: any `Ranker`; its maker closes it.
        options: arguments of `MCRanker`, if no ranker is given; it is made at the first call,
            and `close` or `aclose` closes it.
        top_n: return only the first N documents.
        min_relevance: return only documents of this relevance or more, 0 to 1.
        deadline: seconds for a ranking; what is known by then counts.
        title_key: the key of metadata that holds a title, to be shown to models.
        on_ranking: called with each `Ranking`: the whole of it, with team, cost and report.

    Raises:
        ConfigError: a value is impossible.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

    ranker: Any = None
    options: dict[str, Any] | None = None
    top_n: int | None = None
    min_relevance: float | None = None
    deadline: float | None = None
    title_key: str | None = None
    on_ranking: Callable[[Ranking], object] | None = None

    _source: RankerSource = PrivateAttr()

    def __init__(
        self,
        ranker: Ranker | None = None,
        *,
        options: dict[str, Any] | None = None,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        title_key: str | None = None,
        on_ranking: Callable[[Ranking], object] | None = None,
    ) -> None:
        # First of all: pydantic would put what was given, with keys, into the error.
        source = RankerSource(ranker, options)
        limits = Limits(top_n=top_n, min_relevance=min_relevance, deadline=deadline)
        check_limits(**limits)
        super().__init__(
            ranker=ranker,
            options=options,
            title_key=title_key,
            on_ranking=on_ranking,
            **limits,
        )
        self._source = source

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Any = None,
    ) -> Sequence[Document]:
        """The documents, best first.

        Raises:
            InputError: the query is empty, or a document cannot be ranked.
            ConfigError, ModelError, BudgetExceeded: as `Ranker.rank`.
        """
        ranking = self._source.get().rank(
            query, passages_of(documents, self.title_key), **self._limits()
        )
        return self._told(documents, ranking)

    async def acompress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Any = None,
    ) -> Sequence[Document]:
        """`compress_documents` for callers with an event loop."""
        ranker = await self._source.aget()
        ranking = await ranker.arank(
            query, passages_of(documents, self.title_key), **self._limits()
        )
        return self._told(documents, ranking)

    def close(self) -> None:
        """Close the ranker that was made of options."""
        self._source.close()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await self._source.aclose()

    def __getstate__(self) -> dict[Any, Any]:
        self._source.check_copied()
        state: dict[Any, Any] = super().__getstate__()
        return state

    def _limits(self) -> Limits:
        return Limits(top_n=self.top_n, min_relevance=self.min_relevance, deadline=self.deadline)

    def _told(self, documents: Sequence[Document], ranking: Ranking) -> list[Document]:
        if self.on_ranking is not None:
            self.on_ranking(ranking)
        return [
            document.model_copy(
                update={
                    "metadata": {
                        **document.metadata,
                        "relevance_score": hit.relevance,
                        KEY: explanation(ranking, hit),
                    }
                }
            )
            for hit in ranking
            for document in [documents[hit.index]]
        ]
