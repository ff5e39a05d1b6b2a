"""The compressor in LangChain itself."""

from __future__ import annotations

import pytest

from tests.support.adapting import QUERY, LangChain, scripted_options

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
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


def test_errors_show_no_key() -> None:
    with pytest.raises(ValidationError) as error:
        MCRankerCompressor(options={"api_key": "sk-secret"}, title_key=3)
    assert "sk-secret" not in str(error.value)
