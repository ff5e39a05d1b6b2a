"""The postprocessor in LlamaIndex itself."""

from __future__ import annotations

import pytest

from mcranker import ConfigError, MCRanker
from tests.support.adapting import QUERY, LlamaIndex, scripted_options

pytest.importorskip("llama_index.core")

from llama_index.core.base.response.schema import Response
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import Accumulate
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo

from mcranker.integrations.llamaindex import MCRankerPostprocessor


class Fixed(BaseRetriever):
    """Finds the same nodes whatever is asked."""

    def _retrieve(self, query_bundle: object) -> list[NodeWithScore]:
        nodes: list[NodeWithScore] = LlamaIndex().few(page=7)
        return nodes


@pytest.mark.anyio
async def test_a_query_engine_answers_from_reranked_nodes() -> None:
    with MCRanker(**scripted_options()) as ranker:
        engine = RetrieverQueryEngine(
            Fixed(),
            response_synthesizer=Accumulate(llm=MockLLM()),
            node_postprocessors=[MCRankerPostprocessor(ranker, top_n=2)],
        )
        answers: list[Response] = [engine.query(QUERY), await engine.aquery(QUERY)]
    for answer in answers:
        assert [(each.node_id, each.score) for each in answer.source_nodes] == [
            ("n", pytest.approx(0.9)),
            ("c", pytest.approx(0.4)),
        ]
        assert str(answer).index("N95") < str(answer).index("Cloth")
        assert "Virologist" not in str(answer)


def test_relationships_stay_and_models_never_see_the_explanation() -> None:
    nodes = LlamaIndex().few(page=7)
    nodes[1].node.relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="whole")}
    with MCRanker(**scripted_options()) as ranker:
        found = MCRankerPostprocessor(ranker).postprocess_nodes(nodes, query_str=QUERY)
    assert found[0].node.ref_doc_id == "whole"
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert "page: 7" in found[0].get_content(mode)
        assert "Virologist" not in found[0].get_content(mode)


def test_it_is_serialized_by_its_options() -> None:
    made = MCRankerPostprocessor(options={"team_size": 2, "ledger": None}, top_n=3, deadline=20)
    stored = made.to_dict()
    assert stored["class_name"] == "MCRankerPostprocessor"
    copy = MCRankerPostprocessor.from_dict(stored)
    assert (copy.options, copy.top_n, copy.deadline) == (made.options, 3, 20)
    assert copy._source.options == {"team_size": 2, "ledger": None}
    assert MCRankerPostprocessor.from_json(made.to_json()).top_n == 3


def test_what_cannot_be_serialized_is_refused() -> None:
    with MCRanker(**scripted_options()) as ranker, pytest.raises(ConfigError, match="options="):
        MCRankerPostprocessor(ranker).to_dict()
    with pytest.raises(ConfigError, match="api_key"):
        MCRankerPostprocessor(options={"model": "openai:m", "api_key": "k"}).to_json()


def test_a_query_is_needed() -> None:
    with pytest.raises(ValueError, match="there is no query"):
        MCRankerPostprocessor().postprocess_nodes(LlamaIndex().few())
