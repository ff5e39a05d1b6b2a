"""Components for Haystack's pipelines; needs ``pip install 'mcranker[haystack]'``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcranker.integrations.reranking import (
    KEY,
    RankerSource,
    explanation,
    limits_of,
    not_installed,
    passages_of,
)
from mcranker.rankers.base import Ranker
from mcranker.ranking import Ranking
from personas.ranking.types import Passage

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ModuleNotFoundError as error:
    raise not_installed(__name__, "haystack", error) from error


@component
class MCRankerComponent:
    """Reranks documents in a pipeline."""

    def __init__(
        self,
        ranker: Ranker | None = None,
        *,
        options: dict[str, Any] | None = None,
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
        title_key: str | None = None,
    ) -> None:
        self._source = RankerSource(ranker, options)
        limits_of(top_n, min_relevance, deadline)
        self.top_n = top_n
        self.min_relevance = min_relevance
        self.deadline = deadline
        self.title_key = title_key

    @component.output_types(documents=list[Document], ranking=Ranking)
    def run(
        self,
        query: str,
        documents: list[Document],
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
    ) -> dict[str, Any]:
        """Rank the documents."""
        given = limits_of(top_n, min_relevance, deadline)
        distinct, passages, limits = self._given(documents, given)
        return _output(distinct, self._source.get().rank(query, passages, **limits))

    @component.output_types(documents=list[Document], ranking=Ranking)
    async def run_async(
        self,
        query: str,
        documents: list[Document],
        top_n: int | None = None,
        min_relevance: float | None = None,
        deadline: float | None = None,
    ) -> dict[str, Any]:
        """`run` for pipelines in an event loop."""
        given = limits_of(top_n, min_relevance, deadline)
        distinct, passages, limits = self._given(documents, given)
        ranker = await self._source.aget()
        return _output(distinct, await ranker.arank(query, passages, **limits))

    def warm_up(self) -> None:
        """Make the ranker, which may fetch a model; nothing is asked yet."""
        self._source.get()

    async def warm_up_async(self) -> None:
        """`warm_up` for pipelines in an event loop."""
        await self._source.aget()

    def close(self) -> None:
        """Close the ranker that was made of options."""
        self._source.close()

    async def close_async(self) -> None:
        """`close` for pipelines in an event loop."""
        await self._source.aclose()

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for `from_dict`, as pipelines write them to files."""
        own = {name: getattr(self, name) for name in (*limits_of(), "title_key")}
        made: dict[str, Any] = default_to_dict(self, options=self._source.plain_options(), **own)
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MCRankerComponent:
        """The component that `to_dict` was called on."""
        made: MCRankerComponent = default_from_dict(cls, data)
        return made

    def _given(
        self, documents: Sequence[Document], given: Mapping[str, Any]
    ) -> tuple[list[Document], tuple[Passage, ...], dict[str, Any]]:
        limits = {name: getattr(self, name) if v is None else v for name, v in given.items()}
        # The first document of each id, as Haystack's own rankers do.
        first: dict[str, Document] = {}
        for document in documents:
            first.setdefault(document.id, document)
        distinct = list(first.values())
        return distinct, passages_of(distinct, self.title_key), limits


def _output(documents: Sequence[Document], ranking: Ranking) -> dict[str, Any]:
    ranked = []
    for hit in ranking:
        document = documents[hit.index]
        meta = {**document.meta, KEY: explanation(ranking, hit)}
        ranked.append(replace(document, score=hit.relevance, meta=meta))
    return {"documents": ranked, "ranking": ranking}
