"""Retrievers of other libraries in our pipelines."""

from __future__ import annotations

from typing import Any

import pytest

from mcranker import ConfigError, InputError
from mcranker.integrations import retrieving
from mcranker.integrations.retrieving import BorrowedRetriever
from mcranker.rag.result import SourcePassage

QUESTION = "What is NSP?"
CHUNKS = (
    SourcePassage(id="b#1", document="b", title="BERT", text="NSP is a task.", start=0, end=14),
    SourcePassage(id="p#1", document="p", title="PAL", text="Programs help.", start=0, end=14),
    SourcePassage(id="m#2", document="m", title="MMLU", text="57 tasks.", start=0, end=9),
)


def of_library(library: str) -> Any:
    """A retriever of a library that finds the chunks."""
    match library:
        case "langchain_core":
            from langchain_core.documents import Document
            from langchain_core.runnables import RunnableLambda

            found = [Document(each.text, id=each.id, metadata=metadata_of(each)) for each in CHUNKS]
            return RunnableLambda(lambda _: found)
        case "llama_index.core":
            from llama_index.core.retrievers import BaseRetriever
            from llama_index.core.schema import NodeWithScore, TextNode

            class Fixed(BaseRetriever):
                def _retrieve(self, query_bundle: object) -> list[NodeWithScore]:
                    nodes = (
                        TextNode(id_=each.id, text=each.text, metadata=metadata_of(each))
                        for each in CHUNKS
                    )
                    return [
                        NodeWithScore(node=node, score=1 / n) for n, node in enumerate(nodes, 1)
                    ]

            return Fixed()
        case "haystack":
            from haystack import Document as HaystackDocument
            from haystack import component

            @component
            class Found:
                @component.output_types(documents=list[HaystackDocument])
                def run(self, query: str, top_k: int) -> dict[str, Any]:
                    found = [
                        HaystackDocument(
                            id=each.id, content=each.text, meta=metadata_of(each), score=1 / n
                        )
                        for n, each in enumerate(CHUNKS, 1)
                    ]
                    return {"documents": found[:top_k]}

            return Found()
        case _:
            import pandas as pd
            import pyterrier as pt

            rows = [
                {"docno": each.id, "text": each.text, "score": 1 / n, **metadata_of(each)}
                for n, each in enumerate(CHUNKS, 1)
            ]
            return pt.apply.generic(lambda _: pd.DataFrame(rows))


def metadata_of(chunk: SourcePassage) -> dict[str, str]:
    return {"title": chunk.title, "document": chunk.document}


@pytest.mark.parametrize("library", ["langchain_core", "llama_index.core", "haystack", "pyterrier"])
def test_a_retriever_of_a_library_searches_for_ours(library: str) -> None:
    pytest.importorskip(library)
    retriever = BorrowedRetriever(of_library(library), document_key="document")
    found = retriever.retrieve({"a": QUESTION, "b": "MLM?"}, 2)
    # LangChain's documents have no score of their own: 1 / place.
    assert found == {name: [("b#1", 1.0), ("p#1", 0.5)] for name in "ab"}
    chunk = retriever.chunk("p#1")
    assert (chunk.id, chunk.document, chunk.title) == ("p#1", "p", "PAL")
    assert chunk.text == "Programs help."


def test_a_function_searches_for_ours_and_texts_name_documents_without_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["one", "two", "one", "three"]
    retriever = BorrowedRetriever(lambda _: [{"text": text, "url": "u"} for text in texts])
    (hits,) = retriever.retrieve({"q": QUESTION}, 3).values()
    assert [score for _, score in hits] == [1, 1 / 2, 1 / 4]  # the second "one" is the first again
    assert [retriever.chunk(name).text for name, _ in hits] == ["one", "two", "three"]
    assert retriever.chunk(hits[0][0]).document == hits[0][0]
    monkeypatch.setattr(retrieving, "LONGEST_MEMORY", 2)
    retriever.retrieve({"q": QUESTION}, 1)
    with pytest.raises(InputError, match="search for it first"):
        retriever.chunk(hits[1][0])


def test_what_is_no_retriever_is_refused() -> None:
    with pytest.raises(ConfigError, match="'papers/' is no retriever"):
        BorrowedRetriever("papers/")
