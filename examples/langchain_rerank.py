"""A LangChain retriever whose documents a team of personas reranks.

pip install ".[langchain,local,eval]" langchain-classic
python examples/langchain_rerank.py                    # embedded local model
python examples/langchain_rerank.py openai:gpt-6-luna  # needs OPENAI_API_KEY
"""

from __future__ import annotations

import asyncio
import sys

from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

import beir_eval
from mcranker.integrations.langchain import MCRankerCompressor

MINI = beir_eval.load("mini")
INDEX = beir_eval.BM25((name, f"{doc.title} {doc.text}") for name, doc in MINI.corpus.items())


class BM25Retriever(BaseRetriever):
    """Replaces your retriever: BM25 over the mini collection."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = [(name, MINI.corpus[name]) for name, _ in INDEX.search(query, 12)]
        return [
            Document(doc.text, id=name, metadata={"title": doc.title, "source": f"mini/{name}"})
            for name, doc in found
        ]


async def main() -> None:
    compressor = MCRankerCompressor(
        options={"model": sys.argv[1]} if len(sys.argv) > 1 else None,
        top_n=5,
        deadline=60,
        title_key="title",
    )
    retriever = ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=BM25Retriever()
    )
    query = next(iter(MINI.queries.values()))
    print(query)
    for document in await retriever.ainvoke(query):
        why = document.metadata["mcranker"]
        print(
            f"{why['relevance']:.3f}  was {why['first_stage_rank']:2}", document.metadata["title"]
        )
        print("      ", {name: round(score, 1) for name, score in why["scores"].items()})
    await compressor.aclose()


if __name__ == "__main__":
    asyncio.run(main())
