"""Embedders of each kind; services are played by a server on the loopback device."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcranker.config import RankerConfig
from mcranker.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ConfigError,
    ContextTooLong,
    ModelFileError,
    ModelNotFound,
    ServerFailed,
)
from mcranker.llm.connect import connect
from mcranker.llm.limits.budget import Budget
from mcranker.llm.prices import cost
from mcranker.retrieval.embedders import Embedder, connect_embedder
from personas.ranking.usage import Usage, UsageTable
from tests.support.loopback import Answer, Body, Loopback, Reply, serve_in_thread
from tests.support.tiny_encoder import use

pytestmark = pytest.mark.anyio

NAME = "embed:tiny"
ROW = [3.0, 0.0, 4.0]  # of length 5, so the vector is 0.6, 0, 0.8


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Vectors are kept in a folder of the test."""
    monkeypatch.setenv("MCRANKER_VECTORS", str(tmp_path / "vectors"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "EMBEDDINGS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "vectors"


def vectors_in(folder: Path) -> int:
    count = 0
    for path in folder.glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as db:
            count += db.execute("SELECT count(*) FROM vectors").fetchone()[0]
    return count


def answer(body: Body, row: Callable[[str], Any] = lambda text: ROW) -> Body:
    rows = [{"index": place, "embedding": row(text)} for place, text in enumerate(body["input"])]
    return {"data": rows[::-1], "model": "tiny", "usage": {"prompt_tokens": 10 * len(rows)}}


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serve_in_thread(answer) as made:
        yield made


def connected(server: Loopback, name: str = NAME, **options: Any) -> Embedder:
    return connect_embedder(name, base_url=server.url, **options)


async def test_a_service_gives_vectors_of_length_1_in_the_order_of_the_texts(
    server: Loopback,
) -> None:
    def script(body: Body) -> Reply:
        return answer(body, lambda text: [float(len(text)), 0, -float(len(text)), 0])

    server.script = script
    made = connected(server, api_key="secret")
    assert (made.name, made.dimensions) == (NAME, 0)
    usage = UsageTable()
    vectors = await made.embed_passages(["a", "bcd", "a"], usage)
    assert np.allclose(vectors, [[0.5**0.5, 0, -(0.5**0.5), 0]] * 3, atol=1e-3)
    assert vectors.dtype == np.float32
    assert made.dimensions == 4
    (asked,) = server.requests
    assert (asked.path, asked.body) == ("/v1/embeddings", {"model": "tiny", "input": ["a", "bcd"]})
    assert asked.headers["authorization"] == "Bearer secret"
    # 20 tokens for two texts, of 1 and of 3 characters: each is counted once.
    assert dict(usage) == {("embed", "", NAME): Usage(calls=1, input_tokens=20)}
    assert usage.total.seconds > 0
    assert (await made.embed_queries([])).shape == (0, 4)
    await made.aclose()
    await made.aclose()


async def test_floats_in_base64_are_read_too(server: Loopback) -> None:
    packed = base64.b64encode(np.array(ROW, "<f4").tobytes()).decode()
    server.script = lambda body: answer(body, lambda text: packed)
    made = connected(server)
    assert (await made.embed_queries(["a"]))[0] == pytest.approx([0.6, 0, 0.8], abs=1e-3)
    await made.aclose()


async def test_no_vector_is_paid_twice(server: Loopback, folder: Path) -> None:
    first = connected(server)
    await first.embed_passages(["a", "b"])
    assert vectors_in(folder) == 2  # before it is closed
    usage = UsageTable()
    await first.embed_passages(["b", "c"], usage)
    await first.aclose()
    second = connected(server)
    again = await second.embed_passages(["c", "a"], usage)
    assert [body["input"] for body in server.bodies] == [["a", "b"], ["c"]]
    assert again[0] == pytest.approx([0.6, 0, 0.8], abs=1e-3)
    assert second.dimensions == 3
    assert usage.total == Usage(calls=1, input_tokens=10)
    # "b" at 10 tokens, then "c" and "a".
    assert usage.reused.total == Usage(input_tokens=30)
    other = connected(server, "embed:other")
    await other.embed_passages(["a"])
    assert len(server.requests) == 3
    await second.aclose()
    await other.aclose()


async def test_a_service_that_takes_fewer_texts_gets_fewer(server: Loopback) -> None:
    def script(body: Body) -> Reply:
        if (count := len(body["input"])) > 10:
            said = f"batch size {count} > maximum allowed batch size 10"
            return Answer(422, {"error": said, "error_type": "Validation"})
        return answer(body)

    server.script = script
    made = connected(server)
    await made.embed_passages([str(number) for number in range(32)])
    # 32, then 16 and 8 and 8, then 16 and 8 and 8.
    assert [len(body["input"]) for body in server.bodies] == [32, 16, 8, 8, 16, 8, 8]
    server.requests.clear()
    await made.embed_passages([f"n{number}" for number in range(16)])
    assert [len(body["input"]) for body in server.bodies] == [8, 8]
    await made.aclose()


async def test_a_text_that_is_too_long_is_sent_shorter(
    server: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    def script(body: Body) -> Reply:
        long = max(map(len, body["input"])) > 300
        return Answer(400, {"error": "maximum context length"}) if long else answer(body)

    server.script = script
    made = connected(server)
    await made.embed_passages(["a", "b" * 1000])
    assert [[len(text) for text in body["input"]] for body in server.bodies] == [
        [1, 1000],
        [1],
        [1000],
        [500],
        [250],
    ]
    assert "a text of 1000 characters is too long for the model" in caplog.text
    server.script = lambda body: Answer(400, {"error": "maximum context length"})
    with pytest.raises(ContextTooLong, match="begins 'short'"):
        await made.embed_passages(["short"])
    await made.aclose()


def one(embedding: Any, **more: Any) -> Body:
    return {"data": [{"index": 0, "embedding": embedding, **more}]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (one([1.0] * 1_000_000), "vectors of 1000000 numbers"),
        (one([0.0, 0.0]), "no list of finite numbers"),
        (one([1.0, None]), "no list of finite numbers"),
        (one("?"), "no list of finite numbers"),
        (one(base64.b64encode(np.array([np.nan], "<f4").tobytes()).decode()), "finite"),
        (one([1.0], index=1), "indexes are not 0 to 0"),
        ({"data": []}, "0 vectors for 1 texts"),
        (Answer(body=b"<html>Sign in</html>"), "not JSON.*<html>Sign in"),
        (Answer(body=b'{"data": [{"index": 0, "embedding": [1e999]}]}'), "unreadable answer"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error(
    server: Loopback, folder: Path, body: Reply, said: str
) -> None:
    server.script = lambda _: body
    made = connected(server)
    with pytest.raises(ServerFailed, match=said):
        await made.embed_passages(["a"])
    assert len(server.requests) == 2
    assert vectors_in(folder) == 0
    server.script = answer
    assert (await made.embed_passages(["a"])).shape == (1, 3)
    await made.aclose()


@pytest.mark.parametrize(
    "body",
    [
        {
            "data": [
                {"index": "1", "embedding": [0.0, 1.0]},
                {"index": 0.0, "embedding": [1.0, 0.0]},
            ]
        },
        [{"index": 1, "embedding": [0.0, 1.0]}, {"index": 0, "embedding": [1.0, 0.0]}],
        [[1.0, 0.0], [0.0, 1.0]],
    ],
    ids=["other indexes", "a bare list", "bare vectors"],
)
async def test_vectors_in_other_forms_are_read(server: Loopback, body: Any) -> None:
    server.script = lambda _: Answer(body=body)
    made = connected(server)
    assert (await made.embed_passages(["a", "b"])).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    await made.aclose()


async def test_what_passes_is_tried_again_and_what_stays_is_told(server: Loopback) -> None:
    replies: Iterator[Reply] = iter([Answer(429, {}, {"retry-after": "0"}), Answer(503)])
    server.script = lambda body: next(replies, None) or answer(body)
    made = connected(server, api_key="sk-secret-of-mine")
    assert (await made.embed_passages(["a"])).shape == (1, 3)
    assert len(server.requests) == 3
    server.script = lambda body: Answer(401, {"error": "no such key: sk-secret-of-mine"})
    with pytest.raises(AuthenticationFailed) as raised:
        await made.embed_passages(["b", "c"])
    assert "secret-of-mine" not in str(raised.value)
    assert "EMBEDDINGS_API_KEY" in str(raised.value)
    assert len(server.requests) == 4  # a batch is not halved for that
    await made.aclose()


async def test_a_budget_is_kept(server: Loopback) -> None:
    budget = Budget(max_calls=1)
    made = connected(server, budget=budget)
    await made.embed_passages(["a"])
    await made.embed_passages(["a"])
    with pytest.raises(BudgetExceeded, match="max_calls=1"):
        await made.embed_passages(["b"])
    assert budget.spent_calls == len(server.requests) == 1
    await made.aclose()
    with pytest.raises(ConfigError, match="no price is known for 'embed:tiny'"):
        connected(server, config=RankerConfig(max_cost=1.0))
    priced = connected(server, "openai:text-embedding-3-small", config=RankerConfig(max_cost=1e-9))
    with pytest.raises(BudgetExceeded, match="max_cost"):
        await priced.embed_passages(["a"])
    await priced.aclose()
    # 0.02 dollars for a million tokens, of which a tenth was known.
    usage = Usage(calls=1, input_tokens=1_000_000, cached_input_tokens=100_000)
    assert cost("embed:text-embedding-3-small", usage) == pytest.approx(0.018)


@pytest.mark.parametrize(
    ("name", "prefixes", "query", "passage"),
    [
        ("embed:tiny", None, "q", "p"),
        ("embed:intfloat/multilingual-e5-small", None, "query: q", "passage: p"),
        ("embed:e5-mistral-7b-instruct", None, "Instruct: Given a web search query, ", "p"),
        ("embed:nomic", ("search_query: ", "search_document: "), "search_query: q", "search_d"),
    ],
)
async def test_prefixes_are_known_by_name_or_given(
    server: Loopback, name: str, prefixes: Any, query: str, passage: str
) -> None:
    made = connected(server, name, prefixes=prefixes)
    await made.embed_queries(["q"])
    await made.embed_passages(["p"])
    sent = [body["input"][0] for body in server.bodies]
    assert sent[0].startswith(query)
    assert sent[1].startswith(passage)
    assert (made.mark == connected(server, name, prefixes=("", "")).mark) == (sent == ["q", "p"])
    await made.aclose()


async def test_the_embedded_encoder_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)
    monkeypatch.setattr(
        "mcranker.encoders.open_encoder.resolve_encoder",
        lambda entry: (Path("/no/m"), Path("/no/t")),
    )
    made = connect_embedder(None)
    assert (made.name, made.dimensions, made.max_tokens) == ("local:minilm", 384, 256)
    usage = UsageTable()
    assert (await made.embed_queries(["one two"], usage)).shape == (1, 384)
    assert dict(usage) == {("embed", "", "local:minilm"): Usage(calls=1, input_tokens=3)}
    assert connect_embedder(made) is made
    await made.aclose()


def onnx_folder(tmp_path: Path, **config: Any) -> Path:
    folder = tmp_path / "multilingual-e5-tiny"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "model.onnx").write_bytes(b"model")
    (folder / "tokenizer.json").write_bytes(b"tokenizer")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


async def test_a_folder_says_what_its_model_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = use(monkeypatch)
    folder = onnx_folder(
        tmp_path, hidden_size=384, max_position_embeddings=514, model_type="xlm-roberta"
    )
    made = connect_embedder(f"local:{folder}")
    assert (made.dimensions, made.max_tokens) == (384, 512)
    mean = await made.embed_queries(["one two"])
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    other = connect_embedder(f"local:{folder}")
    assert other.mark != made.mark
    await made.aclose()
    other = connect_embedder(f"local:{folder}")
    first = await other.embed_queries(["one two", "one three"])
    assert not np.allclose(first[0], mean[0])
    assert np.allclose(first[0], first[1])  # the token that begins every text
    assert engine.loads == 2
    await other.aclose()
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"config\.json is no JSON"):
        connect_embedder(f"local:{folder}")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match=r"no tokenizer\.json"):
        connect_embedder(f"local:{folder}")


def at_each_token(rows: Any) -> Callable[[Any], Any]:
    return lambda ids: np.array([rows[: ids.shape[1]]] * len(ids), np.float32)


TOKENS = at_each_token([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])  # of "one two" and its beginning


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"1_Pooling/config.json": {"pooling_mode_mean_tokens": True}}, [4, 6]),
        ({"1_Pooling/config.json": {"pooling_mode": ["cls"]}}, [1, 0]),
        ({"1_Pooling/config.json": {"pooling_mode_cls_token": True}}, [1, 0]),
        ({"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}, [3, 4]),
        (
            {
                "modules.json": [
                    {"path": "", "type": "sentence_transformers.models.Transformer"},
                    {"path": "1_P", "type": "sentence_transformers.models.Pooling"},
                    {"path": "2_N", "type": "sentence_transformers.models.Normalize"},
                ],
                "1_P/config.json": {"pooling_mode_lasttoken": True, "include_prompt": True},
            },
            [3, 4],
        ),
    ],
)
async def test_tokens_become_a_text_as_the_folder_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, Any], expected: list[float]
) -> None:
    """Of the vectors 1 0, 0 2 and 3 4; a longer text beside it does not count."""
    use(monkeypatch).session.given = {"last_hidden_state": TOKENS, "pooler_output": TOKENS}
    folder = onnx_folder(tmp_path)
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    made = connect_embedder(f"local:{folder}", prefixes=("", ""))
    vectors = await made.embed_passages(["one two"])
    assert np.allclose(vectors[0], np.array(expected) / np.linalg.norm(expected), atol=1e-3)
    await made.aclose()


async def test_what_a_model_pools_itself_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    session, folder = use(monkeypatch).session, onnx_folder(tmp_path)
    (folder / "1_Pooling/config.json").unlink()
    session.given = {
        "token_embeddings": TOKENS,
        "sentence_embedding": lambda ids: np.array([ROW] * len(ids), np.float32),
    }
    made = connect_embedder(f"local:{folder}")
    assert (await made.embed_queries(["a"]))[0] == pytest.approx([0.6, 0, 0.8], abs=1e-3)
    await made.aclose()


def rows(*shape: int, kind: str = "f4") -> Callable[[Any], Any]:
    return lambda ids: np.ones((len(ids), *(each or ids.shape[1] for each in shape)), kind)


@pytest.mark.parametrize("pooling", ["", "mean"])
@pytest.mark.parametrize(
    "given",
    [
        {"logits": rows(1)},
        {"output_0": rows(0, 1)},
        {"output": rows()},
        {"scores": rows(2), "attentions": rows(0, 12, 12)},
    ],
)
async def test_scores_are_no_vectors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, Any], pooling: str
) -> None:
    use(monkeypatch).session.given = given
    folder = onnx_folder(tmp_path)
    if not pooling:
        (folder / "1_Pooling/config.json").unlink()
    made = connect_embedder(f"local:{folder}")
    with pytest.raises(ModelFileError, match="is no vectors"):
        await made.embed_passages(["one two", "three"])
    await made.aclose()


async def test_how_tokens_become_a_text_is_not_guessed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch)
    folder = onnx_folder(tmp_path, hidden_size=384, architectures=["BertModel"])
    (folder / "1_Pooling/config.json").unlink()
    made = connect_embedder(f"local:{folder}")
    with pytest.raises(ModelFileError, match=r"no 1_Pooling/config\.json says how"):
        await made.embed_passages(["one two"])
    await made.aclose()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("1_Pooling/config.json", {}),
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "include_prompt": False}),
        ("modules.json", [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]),
    ],
)
def test_modules_that_are_not_run_here_are_refused(tmp_path: Path, path: str, content: Any) -> None:
    folder = onnx_folder(tmp_path)
    (folder / path).write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match="or use another model"):
        connect_embedder(f"local:{folder}")


@pytest.mark.parametrize("kind", ["Bert", "XLMRoberta", "DebertaV2"])
def test_a_cross_encoder_in_an_onnx_file_is_no_encoder(tmp_path: Path, kind: str) -> None:
    folder = onnx_folder(tmp_path, architectures=[f"{kind}ForSequenceClassification"])
    (folder / "1_Pooling/config.json").unlink()
    for open_it in (connect_embedder, connect):
        with pytest.raises(ModelFileError, match=f"{kind}ForSequenceClassification.*'crossencoder"):
            open_it(f"local:{folder}")


@pytest.mark.parametrize(
    ("spec", "options", "error", "said"),
    [
        ("minilm", {}, ConfigError, "names no embedder"),
        ("local:smollm2-135m", {}, ConfigError, "is a chat model"),
        ("local:minilmm", {}, ModelNotFound, "Did you mean 'minilm'"),
        ("local:minilm", {"base_url": "http://localhost/v1"}, ConfigError, "takes no base_url="),
        ("embed:x", {}, ConfigError, "needs base_url="),
        ("openai:x", {}, AuthenticationFailed, "OPENAI_API_KEY"),
        (3, {}, ConfigError, "is a int"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    spec: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        connect_embedder(spec, **options)
