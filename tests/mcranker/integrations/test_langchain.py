"""The compressor in LangChain itself."""

from __future__ import annotations

import pytest

from mcranker import MCRanker
from tests.support.adapting import QUERY, LangChain, scripted_options

pytest.importorskip("langchain_core")

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ValidationError

from mcranker.integrations.langchain import MCRankerCompressor


class Fixed(BaseRetriever):
    """Finds the same documents whatever is asked."""

    found: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
        return self.found


@pytest.mark.anyio
async def test_a_contextual_compression_retriever_gives_reranked_documents() -> None:
    retrievers = pytest.importorskip("langchain_classic.retrievers")
    compressor = MCRankerCompressor(options=scripted_options(), top_n=2)
    retriever = retrievers.ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=Fixed(found=LangChain().few(source="a.pdf"))
    )
    found = retriever.invoke(QUERY)
    assert [(each.id, each.metadata["source"]) for each in found] == [
        ("n", "a.pdf"),
        ("c", "a.pdf"),
    ]
    assert [each.id for each in await retriever.ainvoke(QUERY)] == ["n", "c"]
    await compressor.aclose()


def test_it_is_a_document_compressor_with_fields() -> None:
    compressor = MCRankerCompressor(top_n=2)
    assert isinstance(compressor, BaseDocumentCompressor)
    compressor = compressor.model_copy(update={"top_n": 1})
    with MCRanker(**scripted_options()) as ranker:
        made = MCRankerCompressor(ranker)
        made.top_n = 1
        assert [each.id for each in made.compress_documents(LangChain().few(), QUERY)] == ["n"]


def test_an_older_score_does_not_outlive_a_ranking_without_one() -> None:
    documents = LangChain().few(relevance_score=0.99)
    with MCRanker(**scripted_options(depth=1)) as ranker:
        found = MCRankerCompressor(ranker).compress_documents(documents, QUERY)
    assert [each.metadata["relevance_score"] for each in found][1:] == [None, None]


def test_subclasses_of_documents_stay_what_they_are() -> None:
    class Page(Document):
        number: int

    pages = [Page("N95", number=3), Page("Gloves", number=4)]
    with MCRanker(**scripted_options()) as ranker:
        found = MCRankerCompressor(ranker).compress_documents(pages, QUERY)
    assert [(type(each), each.number) for each in found] == [(Page, 3), (Page, 4)]


def test_errors_show_no_key() -> None:
    with pytest.raises(ValidationError) as error:
        MCRankerCompressor(options={"api_key": "sk-secret"}, title_key=3)
    assert "sk-secret" not in str(error.value)
