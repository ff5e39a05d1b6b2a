"""A node postprocessor for LlamaIndex; needs ``pip install 'mcranker[llamaindex]'``."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from mcranker.errors import InputError
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
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle
except ModuleNotFoundError as error:
    raise not_installed(__name__, "llamaindex", error) from error

_dispatcher = get_dispatcher(__name__)


class MCRankerPostprocessor(BaseNodePostprocessor):
    """Reranks the nodes of a retriever, for example in a query engine.

    >>> postprocessor = MCRankerPostprocessor(options={"team_size": 4}, top_n=5)
    >>> engine = index.as_query_engine(node_postprocessors=[postprocessor])

    Copies of the nodes come back, best first, with their ids, metadata and relationships; the
    score is the relevance, from 0 to 1, or None. The metadata has one key more, ``mcranker``, see
    `mcranker.integrations.reranking.explanation`, which prompts and embeddings leave out.

    Args:
        ranker: any `Ranker`; its maker closes it.
        options: arguments of `MCRanker`, if no ranker is given; it is made at the first call,
            and `close` or `aclose` closes it.
        top_n: return only the first N nodes.
        min_relevance: return only nodes of this relevance or more, 0 to 1.
        deadline: seconds for a ranking; what is known by then counts.
        title_key: the key of metadata that holds a title, to be shown to models.
        on_ranking: called with each `Ranking`: the whole of it, with team, cost and report. Not
            among what `to_dict` gives.

    Raises:
        ConfigError: a value is impossible.
    """

    ranker: Any = Field(default=None, exclude=True)
    options: dict[str, Any] | None = None
    top_n: int | None = None
    min_relevance: float | None = None
    deadline: float | None = None
    title_key: str | None = None
    on_ranking: Callable[[Ranking], object] | None = Field(default=None, exclude=True)

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
        **others: Any,
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
            **others,
        )
        self._source = source

    @classmethod
    def class_name(cls) -> str:
        return "MCRankerPostprocessor"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings for `from_dict`.

        Raises:
            ConfigError: a ranker was given, or the options hold a key.
        """
        self._source.plain_options()
        made: dict[str, Any] = super().to_dict(**kwargs)
        return made

    def close(self) -> None:
        """Close the ranker that was made of options."""
        self._source.close()

    async def aclose(self) -> None:
        """`close` for callers with an event loop."""
        await self._source.aclose()

    def __getstate__(self) -> dict[str, Any]:
        # LlamaIndex leaves out what cannot be pickled; the copy would have another ranker.
        pickle.dumps(self._source)
        state: dict[str, Any] = super().__getstate__()
        return state

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = _text(query_bundle)
        ranker = self._source.get()
        self._tell_start(ranker, nodes, query)
        passages = passages_of(nodes, self.title_key)
        return self._told(nodes, ranker.rank(query, passages, **self._limits()))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = _text(query_bundle)
        ranker = await self._source.aget()
        self._tell_start(ranker, nodes, query)
        passages = passages_of(nodes, self.title_key)
        return self._told(nodes, await ranker.arank(query, passages, **self._limits()))

    def _limits(self) -> Limits:
        return Limits(top_n=self.top_n, min_relevance=self.min_relevance, deadline=self.deadline)

    def _tell_start(self, ranker: Ranker, nodes: list[NodeWithScore], query: str) -> None:
        top_n = len(nodes) if self.top_n is None else self.top_n
        model = ranker.models.names.get("scoring", "") if ranker.needs_model else ""
        _dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=model))

    def _told(self, nodes: Sequence[NodeWithScore], ranking: Ranking) -> list[NodeWithScore]:
        if self.on_ranking is not None:
            self.on_ranking(ranking)
        told = [
            NodeWithScore(
                node=_with(nodes[hit.index].node, explanation(ranking, hit)), score=hit.relevance
            )
            for hit in ranking
        ]
        _dispatcher.event(ReRankEndEvent(nodes=told))
        return told


def _with(node: Any, why: dict[str, Any]) -> Any:
    """A copy of a node; the index may hold the node itself."""
    unseen = ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys")
    return node.model_copy(
        update={
            "metadata": {**node.metadata, KEY: why},
            **{name: sorted({*getattr(node, name), KEY}) for name in unseen},
        }
    )


def _text(query: QueryBundle | None) -> str:
    if query is None:
        raise InputError("there is no query; give query_str= or query_bundle=")
    return str(query.query_str)
