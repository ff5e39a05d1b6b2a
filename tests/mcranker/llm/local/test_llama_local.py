"""The engine in this process, with the smallest chat model."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import pytest

from mcranker.errors import (
    ConfigError,
    ModelFileError,
    ModelNotFound,
    UnsupportedCapability,
)
from mcranker.llm.chat import ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.local import llama_local
from mcranker.llm.local.llama_local import LocalChat
from mcranker.llm.local.model_files import resolve
from mcranker.rankers.likelihood import QGRanker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("xllamacpp")

MODEL = "smollm2-135m"

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
async def test_replies_have_the_form_of_a_schema(chat: LocalChat) -> None:
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
    reply = await chat.complete(request)
    assert reply.finish_reason == "stop"
    content = json.loads(reply.text)
    assert list(content) == ["Reason", "Score"]
    assert 0 <= content["Score"] <= 10


@needs_model
def test_the_likelihood_of_a_text_is_refused_before_a_call() -> None:
    with pytest.raises(UnsupportedCapability, match="rg_yn"):
        QGRanker(model=f"local:{MODEL}")


@needs_model
async def test_calls_of_one_file_share_one_engine(chat: LocalChat) -> None:
    other = LocalChat(str(chat._path))
    client = await chat.connected()
    assert (await other.connected()).service.url == client.service.url
    request = ask("Hello", stage="probe", max_tokens=1)
    await other.complete(request)
    await other.aclose()
    await other.aclose()
    await chat.complete(request)


@needs_model
async def test_others_cannot_ask(chat: LocalChat) -> None:
    address = (await chat.connected()).service.url
    assert address.startswith("http://127.0.0.1:")
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    url = f"{address}/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        assert response.status == 401


@pytest.mark.parametrize("kept", [4, 20, 200, 5000, -1000, None])
def test_a_broken_model_file_is_reported_at_the_first_call(
    tmp_path: Path, kept: int | None
) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(500) if kept is None else resolve(MODEL).read_bytes()[:kept])
    chat = LocalChat(str(path))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        anyio.run(chat.complete, ask("Hello"))
    anyio.run(chat.aclose)
    assert path not in llama_local._engines.open


def test_an_engine_that_does_not_load_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "xllamacpp":
                raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(ConfigError, match="apt install libgomp1"):
        llama_local._load(Path("tiny.gguf"), 8192, "local:tiny")


FORKED = """
import os, signal, sys
from mcranker.rankers.direct import DirectRanker

def rank():
    with DirectRanker(model=f"local:{sys.argv[1]}", scoring="integer", ledger=None) as made:
        return [hit.score for hit in made.rank("masks", ["cloth masks"])]

used = DirectRanker(model=f"local:{sys.argv[1]}", scoring="integer", ledger=None)
found = [hit.score for hit in used.rank("masks", ["cloth masks"])]
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
def test_a_forked_process_loads_the_model_again_and_ends() -> None:
    command = [sys.executable, "-c", FORKED, str(resolve(MODEL))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (0, "[0, 0] True\n"), done.stderr


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", ModelFileError),
        (None, ModelNotFound),
        (b"GGUF bert.pooling_type\x04\0\0\0\x01\0\0\0", ModelFileError),
    ],
)
def test_a_file_that_is_no_chat_model(
    tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    path = tmp_path / "odd.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=r"odd\.gguf"):
        llama_local._check_header(path, "m")
