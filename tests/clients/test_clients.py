"""The clients of other rerankers, as their packages have them, pointed at the service.

They are in no environment of this project's: `make clients` makes one for them. A package that is
not installed is skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcranker.serve import hash_key
from tests.support.serving import KEY, serving, settings

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore"),  # of packages that are not ours
]

TEXTS = ["cloth", "surgical", "N95"]
QUERY = "masks"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(settings(port=0, keys={"tests": hash_key(KEY)})) as found:
        yield found


@pytest.fixture(params=["", "/v1"], ids=["root", "v1"])
def base(address: str, request: pytest.FixtureRequest) -> str:
    """The address as users give it: some with /v1, some without."""
    return f"{address}{request.param}"


def check(found: list[tuple[Any, float]], *, names: list[Any] | None = None, top: int = 3) -> None:
    """Best first: the third text has 0.3, the second 0.2, the first 0.1."""
    names = [0, 1, 2] if names is None else names
    expected = [(names[2], 0.3), (names[1], 0.2), (names[0], 0.1)][:top]
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])


def scored(results: Any, name: str = "index", score: str = "relevance_score") -> list[Any]:
    return [(getattr(each, name), getattr(each, score)) for each in results]


# SDKs


def test_the_lines_of_the_guide() -> None:
    pytest.importorskip("cohere")
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import cohere.*?)```", page, re.DOTALL)
    with serving(settings(port=0)) as without_keys:
        found: dict[str, Any] = {}
        exec(code.replace("http://127.0.0.1:8080", without_keys), found)
    assert scored(found["found"].results) == [(1, pytest.approx(0.2))]


@pytest.mark.parametrize("kind", ["Client", "ClientV2"])
def test_cohere(base: str, kind: str) -> None:
    cohere = pytest.importorskip("cohere")
    if not hasattr(cohere, kind):
        pytest.skip(f"this version has no {kind}")
    client = getattr(cohere, kind)(KEY, base_url=base)
    found = client.rerank(model="m", query=QUERY, documents=TEXTS, top_n=2)
    check(scored(found.results), top=2)
    assert found.meta.tokens.input_tokens == 1300
    with pytest.raises(cohere.BadRequestError, match="must not be empty"):
        client.rerank(model="m", query=QUERY, documents=[])
    with pytest.raises(cohere.UnauthorizedError):
        getattr(cohere, kind)("mcr_wrong-key-0123456789", base_url=base).rerank(
            model="m", query=QUERY, documents=TEXTS
        )


def test_cohere_v1_with_records(address: str) -> None:
    cohere = pytest.importorskip("cohere")
    records = [{"title": text, "text": f"{text} masks"} for text in TEXTS]
    client = cohere.Client(KEY, base_url=address)
    found = client.rerank(
        model="m", query=QUERY, documents=records, return_documents=True, rank_fields=["title"]
    )
    check(scored(found.results))
    assert found.results[0].document.text == "N95 masks"
    assert [each.name for each in client.models.list().models] == ["team"]


def test_voyageai(base: str) -> None:
    voyageai = pytest.importorskip("voyageai")
    client = voyageai.Client(api_key=KEY, base_url=base, max_retries=0)
    found = client.rerank(QUERY, TEXTS, model="m", top_k=2)
    check(scored(found.results), top=2)
    assert found.total_tokens == 1365
    check(scored(client.rerank(QUERY, TEXTS, model="m").results))


def test_mixedbread(base: str) -> None:
    mixedbread = pytest.importorskip("mixedbread")
    client = mixedbread.Mixedbread(api_key=KEY, base_url=base)
    found = client.rerank(model="m", query=QUERY, input=TEXTS, top_k=2, return_input=True)
    check(scored(found.data, score="score"), top=2)
    assert found.data[0].input == "N95"
    assert (found.top_k, found.return_input, found.usage.total_tokens) == (2, True, 1365)


def test_pinecone(base: str) -> None:
    pinecone = pytest.importorskip("pinecone")
    client = pinecone.Pinecone(api_key=KEY, host=base)
    found = client.inference.rerank(model="m", query=QUERY, documents=TEXTS, top_n=2)
    check(scored(found.data, score="score"), top=2)
    assert found.data[0].document == {"text": "N95"}
    assert found.usage.rerank_units == 1
    bare = client.inference.rerank(
        model="m", query=QUERY, documents=TEXTS, return_documents=False, parameters={"a": 1}
    )
    assert bare.data[0].document is None


@pytest.mark.parametrize("path", ["", "/infinity"])
def test_infinity(address: str, path: str) -> None:
    package = pytest.importorskip("infinity_client")
    rerank = pytest.importorskip("infinity_client.api.default.rerank")
    models = pytest.importorskip("infinity_client.models")
    client = package.Client(base_url=address + path, headers={"Authorization": f"Bearer {KEY}"})
    asked = models.RerankInput(query=QUERY, documents=TEXTS, return_documents=True, top_n=2)
    found: Any = rerank.sync(client=client, body=asked)
    check(scored(found.results), top=2)
    assert [each.document for each in found.results] == ["N95", "surgical"]
    assert found.usage.total_tokens == 1365


def test_xinference(address: str) -> None:
    package = pytest.importorskip("xinference_client")
    client = package.RESTfulClient(address, api_key=KEY)
    model = client.get_model("bge-reranker")
    found = model.rerank(TEXTS, QUERY, top_n=2, return_documents=True, return_len=True)
    check([(each["index"], each["relevance_score"]) for each in found["results"]], top=2)
    assert found["results"][0]["document"]["text"] == "N95"
    assert found["meta"]["tokens"]["input_tokens"] == 1300
    with pytest.raises(RuntimeError, match="must not be empty"):
        model.rerank([], QUERY)


def test_zeroentropy(base: str) -> None:
    package = pytest.importorskip("zeroentropy")
    client = package.ZeroEntropy(api_key=KEY, base_url=base)
    found = client.models.rerank(model="m", query=QUERY, documents=TEXTS, top_n=2)
    check(scored(found.results), top=2)
    assert (found.total_bytes, found.total_tokens) == (5 + 5 + 8 + 3, 1365)


def test_together(base: str) -> None:
    package = pytest.importorskip("together")
    client = package.Together(api_key=KEY, base_url=base)
    found = client.rerank.create(model="m", query=QUERY, documents=TEXTS, top_n=2)
    check(scored(found.results), top=2)
    assert found.object == "rerank"


def test_contextual(base: str) -> None:
    package = pytest.importorskip("contextual")
    client = package.ContextualAI(api_key=KEY, base_url=base)
    found = client.rerank.create(
        model="m", query=QUERY, documents=TEXTS, top_n=2, instruction="Prefer what seals."
    )
    check(scored(found.results), top=2)


def test_dashscope(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dashscope = pytest.importorskip("dashscope")
    monkeypatch.setattr(dashscope, "base_http_api_url", f"{address}/api/v1")
    found = dashscope.TextReRank.call(
        api_key=KEY, model="m", query=QUERY, documents=TEXTS, top_n=2, return_documents=True
    )
    check(scored(found.output.results), top=2)
    assert found.output.results[0]["document"] == {"text": "N95"}
    assert found.usage.total_tokens == 1365
    refused = dashscope.TextReRank.call(api_key=KEY, model="m", query=" ", documents=TEXTS)
    assert refused.status_code == 400
    assert "must not be empty" in refused.message


def test_openai(address: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key=KEY, base_url=f"{address}/v1")
    assert [each.id for each in client.models.list().data] == ["team"]
    found = client.post(
        "/rerank", body={"query": QUERY, "documents": TEXTS}, cast_to=httpx.Response
    )
    results = found.json()["results"]
    check([(each["index"], each["relevance_score"]) for each in results])
    with pytest.raises(openai.BadRequestError, match="must not be empty"):
        client.post("/rerank", body={"query": QUERY, "documents": []}, cast_to=httpx.Response)


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("cohere", "/v1/rerank"),
        ("jina", "/v1/rerank"),
        ("voyage", "/v1/rerank"),
        ("mixedbread.ai", "/v1/reranking"),
        ("pinecone", "/rerank"),
        ("text-embeddings-inference", "/rerank"),
    ],
)
def test_rerankers(address: str, provider: str, path: str) -> None:
    package = pytest.importorskip("rerankers.models.api_rankers")
    ranker = package.APIRanker("m", KEY, provider, url=address + path)
    found = ranker.rank(QUERY, TEXTS).results
    check([(each.document.doc_id, each.score) for each in found])


# LangChain


@pytest.fixture
def documents() -> list[Any]:
    found = pytest.importorskip("langchain_core.documents")
    return [found.Document(text, metadata={"source": text}) for text in TEXTS]


def compressed(documents: Any, top: int = 2) -> None:
    found = [(each.metadata["source"], each.metadata["relevance_score"]) for each in documents]
    check(found, names=TEXTS, top=top)


def test_langchain_cohere(address: str, documents: list[Any]) -> None:
    package = pytest.importorskip("langchain_cohere")
    reranker = package.CohereRerank(model="m", top_n=2, cohere_api_key=KEY, base_url=address)
    compressed(reranker.compress_documents(documents, QUERY))


def test_langchain_jina(
    address: str, documents: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip("langchain_community.document_compressors.jina_rerank")
    monkeypatch.setattr(package, "JINA_API_URL", f"{address}/v1/rerank")  # it takes no other
    compressed(package.JinaRerank(top_n=2, jina_api_key=KEY).compress_documents(documents, QUERY))


def test_langchain_infinity(address: str, documents: list[Any]) -> None:
    pytest.importorskip("infinity_client")
    client = pytest.importorskip("infinity_client").Client(
        base_url=f"{address}/infinity", headers={"Authorization": f"Bearer {KEY}"}
    )
    package = pytest.importorskip("langchain_community.document_compressors.infinity_rerank")
    reranker = package.InfinityRerank(client=client, model="m", top_n=2)
    compressed(reranker.compress_documents(documents, QUERY))


def test_langchain_voyageai(
    address: str, documents: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip("langchain_voyageai")
    voyageai = pytest.importorskip("voyageai")
    reranker = package.VoyageAIRerank(model="m", top_k=2, voyage_api_key=KEY)
    reranker.client = voyageai.Client(api_key=KEY, base_url=f"{address}/v1")
    compressed(reranker.compress_documents(documents, QUERY))


def test_langchain_nvidia(address: str, documents: list[Any]) -> None:
    package = pytest.importorskip("langchain_nvidia_ai_endpoints")
    reranker = package.NVIDIARerank(
        model="team", base_url=f"{address}/v1", nvidia_api_key=KEY, top_n=2
    )
    found = reranker.compress_documents(documents, QUERY)
    logits = [each.metadata["relevance_score"] for each in found]
    assert [each.metadata["source"] for each in found] == ["N95", "surgical"]
    assert [1 / (1 + math.exp(-each)) for each in logits] == pytest.approx([0.3, 0.2])


# LlamaIndex


@pytest.fixture
def rerank_nodes() -> Callable[..., None]:
    schema = pytest.importorskip("llama_index.core.schema")
    nodes = [
        schema.NodeWithScore(node=schema.TextNode(text=text, id_=text), score=0.5) for text in TEXTS
    ]

    def rerank(reranker: Any, scale: Callable[[float], float] = float) -> None:
        found = reranker.postprocess_nodes(nodes, query_str=QUERY)
        check([(each.node_id, scale(each.score)) for each in found], names=TEXTS, top=2)

    return rerank


@pytest.mark.parametrize(
    ("module", "kind", "path"),
    [
        ("cohere_rerank", "CohereRerank", ""),
        ("jinaai_rerank", "JinaRerank", ""),
        ("jinaai_rerank", "JinaRerank", "/v1"),
        ("siliconflow_rerank", "SiliconFlowRerank", "/v1/rerank"),
        ("tei_rerank", "TextEmbeddingInference", ""),
    ],
)
def test_llamaindex(
    address: str, rerank_nodes: Callable[..., None], module: str, kind: str, path: str
) -> None:
    package = pytest.importorskip(f"llama_index.postprocessor.{module}")
    key = {"auth_token": f"Bearer {KEY}"} if module == "tei_rerank" else {"api_key": KEY}
    rerank_nodes(getattr(package, kind)(top_n=2, base_url=address + path, **key))


def test_llamaindex_voyageai(address: str, rerank_nodes: Callable[..., None]) -> None:
    package = pytest.importorskip("llama_index.postprocessor.voyageai_rerank")
    voyageai = pytest.importorskip("voyageai")
    reranker = package.VoyageAIRerank(model="m", top_k=2, api_key=KEY)
    reranker._client = voyageai.Client(api_key=KEY, base_url=f"{address}/v1")
    rerank_nodes(reranker)


def test_llamaindex_xinference(rerank_nodes: Callable[..., None]) -> None:
    package = pytest.importorskip("llama_index.postprocessor.xinference_rerank")
    with serving(settings(port=0)) as without_keys:  # it sends none
        rerank_nodes(package.XinferenceRerank(top_n=2, model="m", base_url=without_keys))


def test_llamaindex_nvidia(address: str, rerank_nodes: Callable[..., None]) -> None:
    package = pytest.importorskip("llama_index.postprocessor.nvidia_rerank")
    reranker = package.NVIDIARerank(
        model="team", base_url=f"{address}/v1", nvidia_api_key=KEY, top_n=2
    )
    rerank_nodes(reranker, lambda logit: 1 / (1 + math.exp(-logit)))


def test_llamaindex_dashscope(
    address: str, rerank_nodes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip("llama_index.postprocessor.dashscope_rerank")
    dashscope = pytest.importorskip("dashscope")
    monkeypatch.setattr(dashscope, "base_http_api_url", f"{address}/api/v1")
    rerank_nodes(package.DashScopeRerank(model="m", top_n=2, api_key=KEY))


# Haystack


@pytest.fixture
def rank_documents(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    haystack = pytest.importorskip("haystack")
    found = [haystack.Document(id=text, content=text) for text in TEXTS]
    for name in ("COHERE_API_KEY", "JINA_API_KEY", "NVIDIA_API_KEY", "HF_API_TOKEN"):
        monkeypatch.setenv(name, KEY)

    def rank(ranker: Any, scale: Callable[[float], float] = float) -> None:
        if hasattr(ranker, "warm_up"):
            ranker.warm_up()
        documents = ranker.run(query=QUERY, documents=found, top_k=2)["documents"]
        check([(each.id, scale(each.score)) for each in documents], names=TEXTS, top=2)

    return rank


def test_haystack_cohere(address: str, rank_documents: Callable[..., None]) -> None:
    package = pytest.importorskip("haystack_integrations.components.rankers.cohere")
    rank_documents(package.CohereRanker(model="m", api_base_url=address))


def test_haystack_jina(address: str, rank_documents: Callable[..., None]) -> None:
    package = pytest.importorskip("haystack_integrations.components.rankers.jina")
    rank_documents(package.JinaRanker(model="m", base_url=f"{address}/v1/rerank"))
    with pytest.raises(RuntimeError, match="Not found"):
        rank_documents(package.JinaRanker(model="m", base_url=f"{address}/nothing"))


def test_haystack_nvidia(address: str, rank_documents: Callable[..., None]) -> None:
    package = pytest.importorskip("haystack_integrations.components.rankers.nvidia")
    ranker = package.NvidiaRanker(model="team", api_url=f"{address}/v1")
    rank_documents(ranker, lambda logit: 1 / (1 + math.exp(-logit)))


def test_haystack_tei(address: str, rank_documents: Callable[..., None]) -> None:
    package = pytest.importorskip("haystack_integrations.components.rankers.huggingface_api")
    secret = pytest.importorskip("haystack.utils").Secret.from_token(KEY)
    rank_documents(package.HuggingFaceTEIRanker(url=address, token=secret))


# LiteLLM, which is not in the lists of `make clients`: it pins other packages


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("cohere", "/v2/rerank"),
        ("jina_ai", "/v1/rerank"),
        ("hosted_vllm", ""),
        ("hosted_vllm", "/v1"),
        ("huggingface", ""),
        ("infinity", "/infinity"),
        ("voyage", "/v1"),
        ("nvidia_nim", ""),
        ("fireworks_ai", ""),
        ("litellm_proxy", ""),
    ],
)
def test_litellm(address: str, provider: str, path: str) -> None:
    litellm = pytest.importorskip("litellm")
    found = litellm.rerank(
        model=f"{provider}/m",
        query=QUERY,
        documents=TEXTS,
        top_n=2,
        return_documents=True,
        api_base=address + path,
        api_key=KEY,
    )
    results = [(each["index"], each["relevance_score"]) for each in found.results]
    if provider == "nvidia_nim":
        results = [(index, 1 / (1 + math.exp(-logit))) for index, logit in results]
    check(results[:2], top=2)
