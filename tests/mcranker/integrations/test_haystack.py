"""The component in Haystack's pipelines."""

from __future__ import annotations

import pytest

from mcranker import ConfigError, MCRanker, Ranking
from tests.support.adapting import QUERY, TEXTS, Haystack, scripted_options

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.core.errors import DeserializationError
from haystack.document_stores.in_memory import InMemoryDocumentStore

from mcranker.integrations.haystack import MCRankerComponent


def pipeline_with(component: MCRankerComponent) -> Pipeline:
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=f"{text} covid", meta={"n": 1}) for text in TEXTS])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("ranker", component)
    pipeline.connect("retriever.documents", "ranker.documents")
    return pipeline


@pytest.mark.anyio
async def test_a_pipeline_ranks_what_its_retriever_found() -> None:
    pipeline = pipeline_with(MCRankerComponent(options=scripted_options(), top_n=2))
    asked = {"retriever": {"query": QUERY}, "ranker": {"query": QUERY}}
    for found in (pipeline.run(asked), await pipeline.run_async(asked)):
        documents = found["ranker"]["documents"]
        assert [document.content.split()[0] for document in documents] == ["N95", "Cloth"]
        assert [document.score for document in documents] == pytest.approx([0.9, 0.4])
        assert documents[0].meta["n"] == 1
        assert isinstance(found["ranker"]["ranking"], Ranking)
    await pipeline.close_async()
    assert pipeline.get_component("ranker")._source._made is None


def test_a_pipeline_is_written_and_read() -> None:
    options = {"model": "local:minilm", "ledger": None, "on_failure": "keep_order"}
    pipeline = pipeline_with(MCRankerComponent(options=options, top_n=2, title_key="title"))
    text = pipeline.dumps()
    assert "mcranker.integrations.haystack.MCRankerComponent" in text
    with pytest.raises(DeserializationError, match="allowed_modules="):
        Pipeline.loads(text)
    read = Pipeline.loads(text, allowed_modules=["mcranker.integrations.haystack"])
    component = read.get_component("ranker")
    assert component._source.options == options
    assert (component.top_n, component.title_key) == (2, "title")


def test_what_cannot_be_written_is_refused() -> None:
    with MCRanker(**scripted_options()) as ranker, pytest.raises(ConfigError, match="options="):
        MCRankerComponent(ranker).to_dict()
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as error:
        MCRankerComponent(options={"model": "openai:m", "api_key": "sk-secret"}).to_dict()
    assert "sk-secret" not in str(error.value)


def test_of_documents_with_one_id_the_first_is_ranked() -> None:
    kept = Document(id="n", content="N95", embedding=[1.0, 2.0])
    first, _, last = Haystack().few()
    twice = [first, kept, last, Document(id="n", content="Lamp")]
    with MCRanker(**scripted_options()) as ranker:
        found = MCRankerComponent(ranker).run(QUERY, twice)["documents"]
    assert [each.content[:3] for each in found] == ["N95", "Clo", "Glo"]
    assert [each.embedding for each in found] == [[1.0, 2.0], None, None]
