"""Adapters behind one interface, for what is the same in all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytest

from mcranker import ChatRequest, ScriptedChat
from tests.support.scripted import RECRUITS, RUBRIC

QUERY = "best masks against covid"
TEXTS = ("Cloth masks let most through.", "N95 masks filter 95%.", "Gloves keep hands clean.")
SCORES = {"Cloth": 4, "N95": 9, "Gloves": 1, "Lamp": 3}


def by_word(request: ChatRequest) -> str:
    """Two recruits, a rubric, and the score of the first word that the prompt holds."""
    prompt = request.messages[-1].content
    match request.tag.stage:
        case "recruit":
            return RECRUITS
        case "criteria":
            return RUBRIC
        case _:
            return json.dumps({"Score": next(SCORES[word] for word in SCORES if word in prompt)})


def scripted_options(answer: Any = by_word, **options: Any) -> dict[str, Any]:
    """Arguments of `MCRanker` with a scripted model."""
    return {"model": ScriptedChat(answer), "ledger": None, **options}


Read = list[tuple[str, float | None, Mapping[str, Any]]]
"""Id, relevance and metadata of each document."""


class Adapter:
    """One library's way to give documents to its adapter, and to read what comes back."""

    package: str
    """What has to be installed."""
    made: str
    """Module and class of the adapter."""
    documents: Any
    """Makes the library's documents of texts and ids, all with the same metadata."""
    rank: Any
    arank: Any
    read: Any

    def make(self, **given: Any) -> Any:
        module, name = self.made.split(".")
        return getattr(import_module(f"mcranker.integrations.{module}"), name)(**given)

    def few(self, **kept: Any) -> Any:
        """Three documents, of which the second is the best and the third the worst."""
        return self.documents(TEXTS, ("c", "n", "g"), kept)


class LangChain(Adapter):
    package = "langchain_core"
    made = "langchain.MCRankerCompressor"

    def documents(self, texts: Sequence[str], ids: Sequence[str], kept: Mapping[str, Any]) -> Any:
        from langchain_core.documents import Document

        return [
            Document(text, id=name, metadata=dict(kept))
            for text, name in zip(texts, ids, strict=True)
        ]

    def rank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return made.compress_documents(documents, query)

    async def arank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return await made.acompress_documents(documents, query)

    def read(self, returned: Any) -> Read:
        return [(each.id, each.metadata["relevance_score"], each.metadata) for each in returned]


class LlamaIndex(Adapter):
    package = "llama_index.core"
    made = "llamaindex.MCRankerPostprocessor"

    def documents(self, texts: Sequence[str], ids: Sequence[str], kept: Mapping[str, Any]) -> Any:
        from llama_index.core.schema import NodeWithScore, TextNode

        return [
            NodeWithScore(node=TextNode(text=text, id_=name, metadata=dict(kept)), score=0.5)
            for text, name in zip(texts, ids, strict=True)
        ]

    def rank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return made.postprocess_nodes(documents, query_str=query)

    async def arank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return await made.apostprocess_nodes(documents, query_str=query)

    def read(self, returned: Any) -> Read:
        return [(each.node_id, each.score, each.metadata) for each in returned]


class Haystack(Adapter):
    package = "haystack"
    made = "haystack.MCRankerComponent"

    def documents(self, texts: Sequence[str], ids: Sequence[str], kept: Mapping[str, Any]) -> Any:
        from haystack import Document

        return [
            Document(id=name, content=text, meta=dict(kept), score=0.5)
            for text, name in zip(texts, ids, strict=True)
        ]

    def rank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return made.run(query=query, documents=documents)["documents"]

    async def arank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return (await made.run_async(query=query, documents=documents))["documents"]

    def read(self, returned: Any) -> Read:
        return [(each.id, each.score, each.meta) for each in returned]


class PyTerrier(Adapter):
    package = "pyterrier"
    made = "pyterrier.MCRankerTransformer"

    def documents(self, texts: Sequence[str], ids: Sequence[str], kept: Mapping[str, Any]) -> Any:
        import pandas as pd

        rows = [
            {"qid": "q1", "query": QUERY, "docno": name, "text": text, "score": 0.5, **kept}
            for text, name in zip(texts, ids, strict=True)
        ]
        return pd.DataFrame(rows)

    def rank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        return made.transform(documents.assign(query=query))

    async def arank(self, made: Any, documents: Any, query: str = QUERY) -> Any:
        pytest.skip("PyTerrier has no asynchronous calls")

    def read(self, returned: Any) -> Read:
        rows = returned.to_dict("records")
        return [
            (row["docno"], None if row["relevance"] != row["relevance"] else row["relevance"], row)
            for row in rows
        ]


ADAPTERS = (LangChain, LlamaIndex, Haystack, PyTerrier)
