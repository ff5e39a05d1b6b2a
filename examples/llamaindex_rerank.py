"""A LlamaIndex retriever whose nodes a team of personas reranks.

pip install ".[llamaindex,local,eval]"
python examples/llamaindex_rerank.py                    # embedded local model
python examples/llamaindex_rerank.py openai:gpt-6-luna  # needs OPENAI_API_KEY
"""

from __future__ import annotations

import sys

from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

import beir_eval
from mcranker.integrations.llamaindex import MCRankerPostprocessor

MINI = beir_eval.load("mini")
INDEX = beir_eval.BM25((name, f"{doc.title} {doc.text}") for name, doc in MINI.corpus.items())
NODES = {
    name: TextNode(id_=name, text=doc.text, metadata={"title": doc.title})
    for name, doc in MINI.corpus.items()
}


class BM25Retriever(BaseRetriever):
    """Replaces your retriever: BM25 over the mini collection."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = INDEX.search(query_bundle.query_str, 12)
        return [NodeWithScore(node=NODES[name], score=score) for name, score in found]


def main() -> None:
    postprocessor = MCRankerPostprocessor(
        options={"model": sys.argv[1]} if len(sys.argv) > 1 else None,
        top_n=5,
        deadline=60,
        title_key="title",
    )
    Settings.llm = MockLLM()  # your model, and a response mode in which it answers
    engine = RetrieverQueryEngine.from_args(
        BM25Retriever(),
        response_mode=ResponseMode.NO_TEXT,
        node_postprocessors=[postprocessor],
    )
    query = next(iter(MINI.queries.values()))
    print(query)
    for node in engine.query(query).source_nodes:
        why = node.metadata["mcranker"]
        print(f"{why['relevance']:.3f}  was {why['first_stage_rank']:2}", node.metadata["title"])
        print("      ", {name: round(score, 1) for name, score in why["scores"].items()})
    postprocessor.close()


if __name__ == "__main__":
    main()
