"""A Haystack pipeline in which a team of personas reranks what BM25 finds.

pip install ".[haystack,local,eval]"
python examples/haystack_rerank.py                    # embedded local model
python examples/haystack_rerank.py openai:gpt-6-luna  # needs OPENAI_API_KEY
"""

from __future__ import annotations

import sys

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

import beir_eval
from mcranker.integrations.haystack import MCRankerComponent

MINI = beir_eval.load("mini")


def main() -> None:
    store = InMemoryDocumentStore()
    store.write_documents(
        [
            Document(id=name, content=doc.text, meta={"title": doc.title})
            for name, doc in MINI.corpus.items()
        ]
    )
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=12))
    pipeline.add_component(
        "ranker",
        MCRankerComponent(
            options={"model": sys.argv[1]} if len(sys.argv) > 1 else None,
            top_n=5,
            deadline=60,
            title_key="title",
        ),
    )
    pipeline.connect("retriever.documents", "ranker.documents")
    query = next(iter(MINI.queries.values()))
    print(query)
    found = pipeline.run({"retriever": {"query": query}, "ranker": {"query": query}})["ranker"]
    for document in found["documents"]:
        why = document.meta["mcranker"]
        print(f"{why['relevance']:.3f}  was {why['first_stage_rank']:2}", document.meta["title"])
        print("      ", {name: round(score, 1) for name, score in why["scores"].items()})
    found["ranking"].to_html("why.html")
    print("wrote why.html")
    pipeline.close()


if __name__ == "__main__":
    main()
