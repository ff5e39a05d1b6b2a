"""Other libraries' retrievers as ours."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from mcranker.errors import ConfigError, InputError
from mcranker.inputs.documents import entries, of_object, of_record
from mcranker.retrieval.bm25 import Found
from mcranker.retrieval.chunks import Chunk

LONGEST_MEMORY = 100_000
"""Texts that a `BorrowedRetriever` remembers; the oldest are forgotten first."""


class BorrowedRetriever:
    """A retriever of another library, for a `RAGPipeline` to search with."""

    def __init__(self, retriever: object, *, document_key: str | None = None) -> None:
        names = ("invoke", "retrieve", "run", "search", "__call__")
        known = next((name for name in names if callable(getattr(retriever, name, None))), "")
        if not known:
            raise ConfigError(
                f"{retriever!r} is no retriever; give one of LangChain, LlamaIndex, Haystack or "
                "PyTerrier, or a function from a query to documents"
            )
        self._retriever: Any = retriever
        self._method = known
        self._document_key = document_key
        self._chunks: OrderedDict[str, Chunk] = OrderedDict()

    def retrieve(self, queries: Mapping[str, str], k: int) -> Found:
        """Return up to `k` chunks for each query, best first. Blocks."""
        return {name: list(self._search(query, k)) for name, query in queries.items()}

    def chunk(self, name: str, /) -> Chunk:
        """Return a chunk that was found lately."""
        if (found := self._chunks.get(name)) is None:
            raise InputError(f"{name!r} was not found by this retriever; search for it first")
        return found

    def _search(self, query: str, k: int) -> Iterator[tuple[str, float]]:
        seen = set[str]()
        for place, each in enumerate(entries(self._documents(query, k))):
            fields = of_record if isinstance(each, Mapping) else of_object
            parts = fields(each, f"document {place} of {query!r}")
            text, metadata = str(parts["text"]), parts["metadata"]
            name = str(parts["id"] or hashlib.sha256(text.encode()).hexdigest()[:16])
            if name in seen:
                continue
            seen.add(name)
            title = str(parts["title"] or metadata.get("title") or "")
            document = str(metadata.get(self._document_key) or name)
            self._chunks.pop(name, None)
            self._chunks[name] = Chunk(name, document, title, text, start=0, end=len(text))
            if len(self._chunks) > LONGEST_MEMORY:
                self._chunks.popitem(last=False)
            score = parts["score"]
            yield name, 1 / (place + 1) if score is None else float(score)
            if len(seen) == k:
                return

    def _documents(self, query: str, k: int) -> Any:
        search = getattr(self._retriever, self._method)
        match self._method:
            case "run":
                return search(query=query, top_k=k)["documents"]
            case "search":
                return search(query).to_dict("records")
            case _:
                return search(query)
