"""Rerankers of LangChain and LlamaIndex that call other services, pointed at this one.

Where their packages are installed. Those of Cohere need a Cohere SDK before 6, so they cannot be
where the newest one is; they ran with cohere 5.21.1, langchain-cohere 0.6.0 and
llama-index-postprocessor-cohere-rerank 0.10.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcranker.serve import hash_key
from tests.support.serving import KEY, serving, settings

TEXTS = ["cloth", "surgical", "N95"]
QUERY = "masks"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(settings(port=0, keys={"tests": hash_key(KEY)})) as found:
        yield found


@pytest.fixture
def nodes() -> Any:
    schema = pytest.importorskip("llama_index.core.schema")
    return [
        schema.NodeWithScore(node=schema.TextNode(text=text, id_=text), score=0.5) for text in TEXTS
    ]


@pytest.fixture
def documents() -> Any:
    found = pytest.importorskip("langchain_core.documents")
    return [found.Document(text, metadata={"source": text}) for text in TEXTS]


def are_the_best_two(nodes: Any) -> bool:
    expected = [("N95", pytest.approx(0.3)), ("surgical", pytest.approx(0.2))]
    return bool([(each.node_id, each.score) for each in nodes] == expected)


def are_the_best_two_documents(documents: Any) -> bool:
    found = [(each.metadata["source"], each.metadata["relevance_score"]) for each in documents]
    return bool(found == [("N95", pytest.approx(0.3)), ("surgical", pytest.approx(0.2))])


def test_cohere_of_llamaindex(address: str, nodes: Any) -> None:
    package = pytest.importorskip("llama_index.postprocessor.cohere_rerank")
    reranker = package.CohereRerank(top_n=2, api_key=KEY, base_url=address)
    assert are_the_best_two(reranker.postprocess_nodes(nodes, query_str=QUERY))


def test_jina_of_llamaindex(address: str, nodes: Any) -> None:
    package = pytest.importorskip("llama_index.postprocessor.jinaai_rerank")
    reranker = package.JinaRerank(top_n=2, api_key=KEY, base_url=f"{address}/v1")
    try:
        assert are_the_best_two(reranker.postprocess_nodes(nodes, query_str=QUERY))
        reranker._session.headers["Authorization"] = "Bearer mcr_wrong-key-0123456789"
        with pytest.raises(RuntimeError, match="invalid api token"):
            reranker.postprocess_nodes(nodes, query_str=QUERY)
    finally:
        reranker._session.close()


def test_tei_of_llamaindex(address: str, nodes: Any) -> None:
    package = pytest.importorskip("llama_index.postprocessor.tei_rerank")
    reranker = package.TextEmbeddingInference(top_n=2, base_url=address, auth_token=f"Bearer {KEY}")
    assert are_the_best_two(reranker.postprocess_nodes(nodes, query_str=QUERY))


def test_cohere_of_langchain(address: str, documents: Any) -> None:
    package = pytest.importorskip("langchain_cohere")
    reranker = package.CohereRerank(
        model="rerank-v3.5", top_n=2, cohere_api_key=KEY, base_url=address
    )
    assert are_the_best_two_documents(reranker.compress_documents(documents, QUERY))


def test_jina_of_langchain(address: str, documents: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("langchain_community.document_compressors.jina_rerank")
    monkeypatch.setattr(package, "JINA_API_URL", f"{address}/v1/rerank")  # it takes no other
    reranker = package.JinaRerank(top_n=2, jina_api_key=KEY)
    try:
        assert are_the_best_two_documents(reranker.compress_documents(documents, QUERY))
    finally:
        reranker.session.close()
