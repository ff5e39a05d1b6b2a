"""Postprocessor for LlamaIndex; needs ``mcranker[llamaindex]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcranker.errors import InputError
from mcranker.integrations.reranking import KEY, RerankingModel, explanation, not_installed
from mcranker.ranking import Ranking

try:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle
except ModuleNotFoundError as error:
    raise not_installed(__name__, "llamaindex", error) from error


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

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _ranked(nodes, self._rank(_text(query_bundle), nodes))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _ranked(nodes, await self._arank(_text(query_bundle), nodes))


def _text(query_bundle: QueryBundle | None) -> str:
    if query_bundle is None:
        raise InputError("there is no query; give query_str= or query_bundle=")
    return str(query_bundle.query_str)


def _ranked(nodes: Sequence[NodeWithScore], ranking: Ranking) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=_with(nodes[hit.index].node, explanation(ranking, hit)), score=hit.relevance
        )
        for hit in ranking
    ]


def _with(node: Any, why: dict[str, Any]) -> Any:
    """A copy of a node; the index may hold the node itself."""
    unseen = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    return node.model_copy(
        update={
            "metadata": {**node.metadata, KEY: why},
            **{name: sorted({*getattr(node, name), KEY}) for name in unseen},
        }
    )
