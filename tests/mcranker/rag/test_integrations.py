"""Search in other libraries, and their retrievers in ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from mcranker import ConfigError, InputError
from mcranker.integrations import retrieving
from mcranker.integrations.retrieving import BorrowedRetriever
from mcranker.rag.record import SourcePassage

QUESTION = "What is NSP?"
CHUNKS = (
    SourcePassage(id="b#1", document="b", title="BERT", text="NSP is a task.", start=3, end=17),
    SourcePassage(id="p#1", document="p", title="PAL", text="Programs help.", start=0, end=14),
    SourcePassage(id="m#2", document="m", title="MMLU", text="57 tasks.", start=90, end=99),
)
PLACE = {"title": "BERT", "document": "b", "start": 3, "end": 17}


class FakeIndex:
    """Finds the same chunks for every query."""

    def retrieve(self, queries: Mapping[str, str], k: int) -> Any:
        hits = [(chunk.id, 1 / place) for place, chunk in enumerate(CHUNKS, 1)]
        return dict.fromkeys(queries, hits[:k])

    def chunk(self, name: str, /) -> SourcePassage:
        return next(each for each in CHUNKS if each.id == name)


INDEX = cast("Any", FakeIndex())


@pytest.mark.anyio
async def test_langchain_searches() -> None:
    module = pytest.importorskip("mcranker.integrations.langchain")
    retriever = module.MCRankerRetriever(index=INDEX, k=2)
    for documents in (retriever.invoke(QUESTION), await retriever.ainvoke(QUESTION)):
        assert [(each.id, each.page_content) for each in documents] == [
            ("b#1", "NSP is a task."),
            ("p#1", "Programs help."),
        ]
        assert documents[0].metadata == {**PLACE, "score": 1.0}


@pytest.mark.anyio
async def test_llamaindex_searches() -> None:
    module = pytest.importorskip("mcranker.integrations.llamaindex")
    retriever = module.MCRankerRetriever(INDEX, k=2)
    for nodes in (retriever.retrieve(QUESTION), await retriever.aretrieve(QUESTION)):
        assert [(each.node_id, each.text, each.score) for each in nodes] == [
            ("b#1", "NSP is a task.", 1.0),
            ("p#1", "Programs help.", 0.5),
        ]
        assert nodes[0].metadata == PLACE


@pytest.mark.anyio
async def test_haystack_searches() -> None:
    haystack = pytest.importorskip("haystack")
    module = pytest.importorskip("mcranker.integrations.haystack")
    pipeline = haystack.Pipeline()
    pipeline.add_component("search", module.MCRankerRetriever(INDEX, top_k=2))
    asked = {"search": {"query": QUESTION}}
    for done in (pipeline.run(asked), await pipeline.run_async(asked)):
        documents = done["search"]["documents"]
        assert [(each.id, each.content, each.score) for each in documents] == [
            ("b#1", "NSP is a task.", 1.0),
            ("p#1", "Programs help.", 0.5),
        ]
        assert documents[0].meta == PLACE
    assert len(module.MCRankerRetriever(INDEX).run(QUESTION, top_k=1)["documents"]) == 1


def test_pyterrier_searches_in_the_order_of_the_queries() -> None:
    module = pytest.importorskip("mcranker.integrations.pyterrier")
    import pandas as pd

    topics = pd.DataFrame([("q2", QUESTION), ("q1", "And MLM?")], columns=["qid", "query"])
    found = module.MCRankerRetriever(INDEX, k=2)(topics)
    assert found[["qid", "query", "docno", "rank", "score"]].to_numpy().tolist() == [
        ["q2", QUESTION, "b#1", 0, 1.0],
        ["q2", QUESTION, "p#1", 1, 0.5],
        ["q1", "And MLM?", "b#1", 0, 1.0],
        ["q1", "And MLM?", "p#1", 1, 0.5],
    ]
    first = found.iloc[0]
    assert {name: first[name] for name in ("text", *PLACE)} == {"text": "NSP is a task.", **PLACE}
    assert list(module.MCRankerRetriever(INDEX)(topics[:0]).columns) == list(found.columns)


def borrowed(library: str) -> Any:
    """A retriever of a library that searches the chunks."""
    match library:
        case "langchain_core":
            from mcranker.integrations.langchain import MCRankerRetriever as LangChains

            return LangChains(index=INDEX)
        case "llama_index.core":
            from mcranker.integrations.llamaindex import MCRankerRetriever as LlamaIndexes

            return LlamaIndexes(INDEX)
        case "haystack":
            from mcranker.integrations.haystack import MCRankerRetriever as Haystacks

            return Haystacks(INDEX)
        case _:
            from mcranker.integrations.pyterrier import MCRankerRetriever as PyTerriers

            return PyTerriers(INDEX)


@pytest.mark.parametrize("library", ["langchain_core", "llama_index.core", "haystack", "pyterrier"])
def test_a_retriever_of_a_library_searches_for_ours(library: str) -> None:
    pytest.importorskip(library)
    retriever = BorrowedRetriever(borrowed(library), document_key="document")
    found = retriever.retrieve({"a": QUESTION, "b": "MLM?"}, 2)
    # LangChain's documents have no score of their own: 1 / place, which the index gives too.
    assert found == {name: [("b#1", 1.0), ("p#1", 0.5)] for name in "ab"}
    chunk = retriever.chunk("p#1")
    assert (chunk.id, chunk.document, chunk.title) == ("p#1", "p", "PAL")
    assert (chunk.text, chunk.start, chunk.end) == ("Programs help.", 0, 14)


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
