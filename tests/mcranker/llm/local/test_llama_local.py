"""The engine in this process: the smallest chat model, and rerankers in GGUF."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import pytest

from mcranker import Passage
from mcranker.errors import (
    ConfigError,
    ContextTooLong,
    ModelFileError,
    ModelNotFound,
    UnsupportedCapability,
)
from mcranker.llm.chat import ChatRequest, Message, Question, ReplySchema, State, Tag
from mcranker.llm.local import llama_local
from mcranker.llm.local.llama_local import LocalChat, is_reranker
from mcranker.rankers.direct import RerankRanker
from mcranker.rankers.likelihood import QGRanker
from tests.support.shallow_model import shallow_model
from tests.support.tiny_reranker import WORDS, expected_logit, reranker, write_reranker

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["reranker", "shallow_model"]

pytest.importorskip("xllamacpp")

MODEL = "smollm2-135m"
SCALE = tuple(str(n) for n in range(11))

needs_model = pytest.mark.local_model
pytestmark = pytest.mark.anyio


def ask(text: str, *, begin: str = "", stage: Any = "score", **options: Any) -> ChatRequest:
    messages = [Message("user", text)]
    if begin:
        messages.append(Message("assistant", begin))
    return ChatRequest(tuple(messages), Tag(stage), **options)


@pytest.fixture(scope="session")
def chat() -> Iterator[LocalChat]:
    chat = LocalChat(MODEL)
    yield chat
    anyio.run(chat.aclose)


@pytest.fixture(scope="session")
def quick(shallow_model: Path) -> Iterator[LocalChat]:
    """For what does not depend on the weights."""
    chat = LocalChat(str(shallow_model))
    yield chat
    anyio.run(chat.aclose)


@needs_model
async def test_a_label_is_chosen_by_its_probability(chat: LocalChat) -> None:
    question = "Is this a fruit: apple? Answer Yes or No."
    reply = await chat.complete(ask(question, begin="Answer:", labels=("Yes", "No")))
    assert reply.label_logprobs is not None
    assert set(reply.label_logprobs) == {"Yes", "No"}
    better = max(reply.label_logprobs, key=reply.label_logprobs.__getitem__)
    assert better in reply.text
    assert 0.3 < sum(map(math.exp, reply.label_logprobs.values())) <= 1.0 + 1e-9
    assert reply.usage.calls == 1


@needs_model
@pytest.mark.parametrize("begin", ["Score: ", "Score:"])
async def test_labels_of_one_token_and_two_have_probabilities(chat: LocalChat, begin: str) -> None:
    text = "Score from 0 to 10 how good this mask is: N95."
    reply = await chat.complete(ask(text, begin=begin, labels=SCALE))
    assert reply.label_logprobs is not None
    assert set(reply.label_logprobs) <= set(SCALE)
    assert 0.3 < sum(map(math.exp, reply.label_logprobs.values())) <= 1.0 + 1e-9


@needs_model
async def test_replies_have_the_form_of_a_schema(quick: LocalChat) -> None:
    schema = {
        "type": "object",
        "properties": {
            "Reason": {"type": "string", "maxLength": 20},
            "Score": {"type": "integer", "minimum": 0, "maximum": 10},
        },
        "required": ["Reason", "Score"],
        "additionalProperties": False,
    }
    request = ask("Rate the mask in JSON.", schema=ReplySchema("rating", schema), max_tokens=200)
    reply = await quick.complete(request)
    assert reply.finish_reason == "stop"
    content = json.loads(reply.text)
    assert list(content) == ["Reason", "Score"]
    assert 0 <= content["Score"] <= 10


def test_the_likelihood_of_a_text_is_refused_before_a_call(shallow_model: Path) -> None:
    with pytest.raises(UnsupportedCapability, match="rg_yn"):
        QGRanker(model=f"local:{shallow_model}")


@needs_model
async def test_a_prompt_that_does_not_fit_is_said_to_be_too_long(quick: LocalChat) -> None:
    with pytest.raises(ContextTooLong, match="cut the passages shorter"):
        await quick.complete(ask("word " * 9000, labels=("Yes", "No")))


@needs_model
async def test_a_cancelled_call_ends(quick: LocalChat) -> None:
    await quick.complete(ask("Hello", stage="probe", max_tokens=1))
    with anyio.move_on_after(0.05) as scope:
        await quick.complete(ask("Tell a long story.", stage="probe", max_tokens=2000))
    assert scope.cancelled_caught
    reply = await quick.complete(ask("Hello", stage="probe", max_tokens=1))
    assert reply.usage.output_tokens == 1


@needs_model
async def test_calls_of_one_file_share_one_engine(quick: LocalChat) -> None:
    other = LocalChat(str(quick._path))
    client = await quick.connected()
    assert (await other.connected()).service.url == client.service.url
    request = ask("Hello", stage="probe", max_tokens=1)
    await other.complete(request)
    await other.aclose()
    await other.aclose()
    await quick.complete(request)


@needs_model
def test_loops_and_threads_share_one_engine(quick: LocalChat) -> None:
    def work() -> str:
        used = LocalChat(str(quick._path))

        async def once() -> str:
            await used.complete(ask("Hello", stage="probe", max_tokens=1))
            return (await used.connected()).service.url

        urls = {asyncio.run(once()), asyncio.run(once())}
        asyncio.run(used.aclose())
        return "".join(urls)

    with ThreadPoolExecutor(3) as threads:
        urls = {each.result() for each in [threads.submit(work) for _ in range(3)]}
    assert urls == {anyio.run(quick.connected).service.url}


@needs_model
async def test_others_cannot_ask(quick: LocalChat) -> None:
    address = (await quick.connected()).service.url
    assert address.startswith("http://127.0.0.1:")
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    url = f"{address}/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        assert response.status == 401


@needs_model
async def test_it_can_be_used_again_after_it_was_closed(
    tmp_path: Path, shallow_model: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.hardlink_to(shallow_model)
    again = LocalChat(str(copy))
    for _ in range(2):
        await again.complete(ask("Hello", stage="probe", max_tokens=1))
        assert copy in llama_local._engines.open
        await again.aclose()
        assert copy not in llama_local._engines.open


@pytest.mark.parametrize("kept", [4, 20, 200, 5000, -1000, None])
def test_a_broken_model_file_is_reported_at_the_first_call(
    tmp_path: Path, shallow_model: Path, kept: int | None
) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(500) if kept is None else shallow_model.read_bytes()[:kept])
    chat = LocalChat(str(path))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        anyio.run(chat.complete, ask("Hello"))
    anyio.run(chat.aclose)
    assert path not in llama_local._engines.open


def test_a_missing_engine_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[local\]'"):
        LocalChat(MODEL)


def test_an_engine_that_does_not_load_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "xllamacpp":
                raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(ConfigError, match="apt install libgomp1"):
        llama_local._load(Path("tiny.gguf"), 8192, "local:tiny", reranks=False)


FORKED = """
import os, signal, sys
from mcranker.rankers.direct import DirectRanker

def rank():
    with DirectRanker(model=f"local:{sys.argv[1]}", scoring="integer", ledger=None) as made:
        return [hit.doc_id for hit in made.rank("masks", ["cloth masks", "soup"])]

used = DirectRanker(model=f"local:{sys.argv[1]}", scoring="integer", ledger=None)
found = [hit.doc_id for hit in used.rank("masks", ["cloth masks", "soup"])]
children = []
for work in (rank, lambda: None):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        assert work() in (found, None)
        sys.exit(0)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], rank() == found)
"""


@needs_model
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_forked_process_loads_the_model_again_and_ends(shallow_model: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(shallow_model)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (0, "[0, 0] True\n"), done.stderr


QUERY = "masks against viruses"
TEXTS = ("masks help against viruses", "bread rises in the oven", "viruses spread")


def relevance(text: str) -> float:
    """The model's logit through the logistic function."""
    return 1 / (1 + math.exp(-expected_logit(QUERY, text)))


def test_the_header_says_what_a_model_is(
    shallow_model: Path, reranker: Path, tmp_path: Path
) -> None:
    unpooled = tmp_path / "unpooled.gguf"
    write_reranker(unpooled, bert__pooling_type=0)
    models = (shallow_model, reranker, unpooled)
    assert [is_reranker(each, "m") for each in models] == [False, True, False]


@pytest.mark.parametrize("pooling", [1, 2, 3])
def test_an_encoder_neither_chats_nor_ranks(tmp_path: Path, pooling: int) -> None:
    path = tmp_path / "embeddings.gguf"
    write_reranker(path, bert__pooling_type=pooling)
    with pytest.raises(ModelFileError, match="is an encoder"):
        LocalChat(str(path))


@pytest.mark.parametrize(("content", "error"), [(b"", ModelFileError), (None, ModelNotFound)])
def test_a_file_that_is_no_model(
    tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    path = tmp_path / "odd.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=r"odd\.gguf"):
        is_reranker(path, "m")


async def test_the_engine_answers_with_the_models_own_relevance(reranker: Path) -> None:
    chat = LocalChat(str(reranker))
    names = {f"p{place}": text for place, text in enumerate(TEXTS)}
    questions = tuple(Question(name, "", passage=name) for name in names)
    request = ChatRequest((), Tag("score"), questions=questions, state=State(QUERY, names))
    reply = await chat.complete(request)
    long = State(QUERY, {**names, "p0": "masks " * 600})
    with pytest.raises(ContextTooLong, match="512 tokens"):
        await chat.complete(ChatRequest((), Tag("score"), questions=questions, state=long))
    with pytest.raises(UnsupportedCapability, match="answers no prompts"):
        await chat.complete(ChatRequest((Message("user", "Who?"),), Tag("recruit")))
    await chat.aclose()
    assert reply.answers is not None
    values = [answer.value for answer in reply.answers]
    # The engine computes in 16 bits here and there.
    assert values == pytest.approx([relevance(text) for text in TEXTS], rel=0.01)
    # [CLS] and [SEP], 3 words of the query each time, and 4, 5 and 2 of the texts.
    assert reply.usage.input_tokens == 3 * (2 + 3) + 4 + 5 + 2


def test_a_reranker_ranks(reranker: Path) -> None:
    # 105 passages: two calls.
    texts = [f"{a} {b}" for a in WORDS for b in WORDS] + list(TEXTS) + ["masks " * 600, TEXTS[0]]
    docs = [Passage(str(place), text) for place, text in enumerate(texts)]
    with RerankRanker(model=f"local:{reranker}", ledger=None) as ranker:
        ranking = ranker.rank(QUERY, docs)
    scored = [hit for hit in ranking if hit.score]
    assert [hit.score for hit in scored] == pytest.approx(
        [relevance(hit.passage.text) for hit in scored], rel=0.01
    )
    assert len(scored) == 104
    assert [hit.score for hit in scored] == sorted((h.score or 0 for h in scored), reverse=True)
    (lost,) = ranking.missing
    assert lost.doc_id == "103"
    assert "larger than the max context size" in lost.reason
    assert ranking.cost == 0.0
