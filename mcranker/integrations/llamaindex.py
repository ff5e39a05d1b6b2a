"""Postprocessor for LlamaIndex; needs ``mcranker[llamaindex]``."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from mcranker.errors import InputError
from mcranker.integrations.reranking import KEY, RerankingModel, explanation, not_installed
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking

try:
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle
except ModuleNotFoundError as error:
    raise not_installed(__name__, "llamaindex", error) from error

_dispatcher = get_dispatcher(__name__)


class MCRankerPostprocessor(RerankingModel, BaseNodePostprocessor):
    """Reranks the nodes of a retriever, for example in a query engine."""

    __init__ = RerankingModel.__init__  # type checkers would make one of keywords alone

    @classmethod
    def class_name(cls) -> str:
        return "MCRankerPostprocessor"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings for `from_dict`."""
        self._source.plain_options()
        made: dict[str, Any] = super().to_dict(**kwargs)
        return made

    def __getstate__(self) -> dict[str, Any]:
        # LlamaIndex leaves out what cannot be pickled; the copy would have another ranker.
        pickle.dumps(self._source)
        state: dict[str, Any] = super().__getstate__()
        return state

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = self._begun(nodes, query_bundle, self._source.get())
        return _ranked(nodes, self._rank(query, nodes))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = self._begun(nodes, query_bundle, await self._source.aget())
        return _ranked(nodes, await self._arank(query, nodes))

    def _begun(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None, ranker: Ranker
    ) -> str:
        """Report the start and return the query."""
        if query_bundle is None:
            raise InputError("there is no query; give query_str= or query_bundle=")
        query, top_n = str(query_bundle.query_str), self.top_n
        top_n = len(nodes) if top_n is None else top_n
        model = ranker.models.names.get("scoring", "") if ranker.needs_model else ""
        _dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=model))
        return query


def _ranked(nodes: Sequence[NodeWithScore], ranking: Ranking) -> list[NodeWithScore]:
    ranked = [
        NodeWithScore(
            node=_with(nodes[hit.index].node, explanation(ranking, hit)), score=hit.relevance
        )
        for hit in ranking
    ]
    _dispatcher.event(ReRankEndEvent(nodes=ranked))
    return ranked


def _with(node: Any, why: dict[str, Any]) -> Any:
    """A copy of a node; the index may hold the node itself."""
    unseen = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    return node.model_copy(
        update={
            "metadata": {**node.metadata, KEY: why},
            **{name: sorted({*getattr(node, name), KEY}) for name in unseen},
        }
    )
