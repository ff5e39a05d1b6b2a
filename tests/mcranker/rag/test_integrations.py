"""Search and answers in other libraries, and their retrievers in ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcranker import ConfigError, InputError
from mcranker.integrations import retrieving
from mcranker.integrations.retrieving import BorrowedRetriever
from mcranker.rag.record import Citation, SourcePassage
from mcranker.rag.result import RAGResult

QUESTION = "What is NSP?"
CHUNKS = (
    SourcePassage(id="b#1", document="b", title="BERT", text="NSP is a task.", start=3, end=17),
    SourcePassage(id="p#1", document="p", title="PAL", text="Programs help.", start=0, end=14),
    SourcePassage(id="m#2", document="m", title="MMLU", text="57 tasks.", start=90, end=99),
)
PLACE = {"title": "BERT", "document": "b", "start": 3, "end": 17}
WHY = {"number": 2, "rank": 2, "relevance": 0.75, "quotes": ["NSP is"]}


class FakeIndex:
    """Finds the same chunks for every query."""

    def retrieve(self, queries: Mapping[str, str], k: int) -> Any:
        hits = [(chunk.id, 1 / place) for place, chunk in enumerate(CHUNKS, 1)]
        return dict.fromkeys(queries, hits[:k])

    def chunk(self, name: str, /) -> SourcePassage:
        return next(each for each in CHUNKS if each.id == name)


class FakePipeline:
    """Answers by the second and the first chunk; the third is dropped."""

    def answer(self, question: str, **options: Any) -> RAGResult:
        if not question:
            raise InputError("the question is empty")
        ranks = ((2, 0.75, 2), (1, 0.9, 1), (0, 0.2, 0))
        cited = [(2, "NSP is", "found"), (1, "NSP", "misattributed"), (2, "no", "invented")]
        return RAGResult(
            question=question,
            text=f"Next sentence prediction. {options}",
            kind="answer",
            passages=tuple(
                chunk.model_copy(update={"rank": rank, "relevance": relevance, "number": number})
                for chunk, (rank, relevance, number) in zip(CHUNKS, ranks, strict=True)
            ),
            all_citations=tuple(
                Citation(claim="", passage=number, quote=quote, verdict=cast("Any", verdict))
                for number, quote, verdict in cited
            ),
        )

    async def aanswer(self, question: str, **options: Any) -> RAGResult:
        return self.answer(question, **options)

    def answer_many(self, questions: list[str], **options: Any) -> Iterator[Any]:
        for place in reversed(range(len(questions))):
            result = self.answer(questions[place], **options)
            yield SimpleNamespace(place=place, result=lambda result=result: result)


INDEX, PIPELINE = cast("Any", FakeIndex()), cast("Any", FakePipeline())
ANSWER = "Next sentence prediction. {'deadline': 9}"


@pytest.mark.anyio
async def test_langchain_searches_and_answers() -> None:
    module = pytest.importorskip("mcranker.integrations.langchain")
    retriever = module.MCRankerRetriever(index=INDEX, k=2)
    for documents in (retriever.invoke(QUESTION), await retriever.ainvoke(QUESTION)):
        assert [(each.id, each.page_content) for each in documents] == [
            ("b#1", "NSP is a task."),
            ("p#1", "Programs help."),
        ]
        assert documents[0].metadata == {**PLACE, "score": 1.0}
    chain = module.MCRankerAnswerer(PIPELINE, deadline=9) | (lambda given: given)
    for given in (QUESTION, {"input": QUESTION, "chat_history": []}):
        for answered in (chain.invoke(given), await chain.ainvoke(given)):
            assert (answered["input"], answered["answer"]) == (QUESTION, ANSWER)
            assert [each.id for each in answered["context"]] == ["p#1", "b#1"]
            assert answered["context"][1].metadata == {**PLACE, "mcranker": WHY}
            assert answered["result"].question == QUESTION
    with pytest.raises(InputError, match="empty"):
        chain.invoke("")


@pytest.mark.anyio
async def test_llamaindex_searches_and_answers() -> None:
    module = pytest.importorskip("mcranker.integrations.llamaindex")
    retriever = module.MCRankerRetriever(INDEX, k=2)
    for nodes in (retriever.retrieve(QUESTION), await retriever.aretrieve(QUESTION)):
        assert [(each.node_id, each.text, each.score) for each in nodes] == [
            ("b#1", "NSP is a task.", 1.0),
            ("p#1", "Programs help.", 0.5),
        ]
        assert nodes[0].metadata == PLACE
    engine = module.MCRankerQueryEngine(PIPELINE, deadline=9)
    for response in (engine.query(QUESTION), await engine.aquery(QUESTION)):
        assert str(response) == ANSWER
        assert [(each.node_id, each.score) for each in response.source_nodes] == [
            ("p#1", 0.9),
            ("b#1", 0.75),
        ]
        assert response.source_nodes[1].metadata == {**PLACE, "mcranker": WHY}
        assert "quotes" not in response.source_nodes[1].get_content(metadata_mode="llm")
        assert response.metadata["mcranker"].text == ANSWER


@pytest.mark.anyio
async def test_haystack_searches_and_answers() -> None:
    haystack = pytest.importorskip("haystack")
    module = pytest.importorskip("mcranker.integrations.haystack")
    pipeline = haystack.Pipeline()
    pipeline.add_component("search", module.MCRankerRetriever(INDEX, top_k=2))
    pipeline.add_component("answer", module.MCRankerAnswerer(PIPELINE, deadline=9))
    asked = {"search": {"query": QUESTION}, "answer": {"query": QUESTION}}
    for done in (pipeline.run(asked), await pipeline.run_async(asked)):
        documents = done["search"]["documents"]
        assert [(each.id, each.content, each.score) for each in documents] == [
            ("b#1", "NSP is a task.", 1.0),
            ("p#1", "Programs help.", 0.5),
        ]
        assert documents[0].meta == PLACE
        (answer,) = done["answer"]["answers"]
        assert (answer.query, answer.data) == (QUESTION, ANSWER)
        assert [(each.id, each.score) for each in answer.documents] == [("p#1", 0.9), ("b#1", 0.75)]
        assert answer.documents[1].meta == {**PLACE, "mcranker": WHY}
        assert answer.meta["kind"] == "answer"
        assert done["answer"]["result"].text == ANSWER
    assert len(module.MCRankerRetriever(INDEX).run(QUESTION, top_k=1)["documents"]) == 1


def test_pyterrier_searches_and_answers_in_the_order_of_the_queries() -> None:
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
    answered = module.MCRankerAnswerer(PIPELINE, deadline=9)(topics)
    assert answered[["qid", "query", "qanswer"]].to_numpy().tolist() == [
        ["q2", QUESTION, ANSWER],
        ["q1", "And MLM?", ANSWER],
    ]
    assert [each.question for each in answered["mcranker"]] == [QUESTION, "And MLM?"]


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
