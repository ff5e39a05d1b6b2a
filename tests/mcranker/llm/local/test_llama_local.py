"""The engine and the smallest model. Log-probabilities move by 0.1 to 0.2 with what the
engine has cached, so they are compared with that tolerance."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import anyio
import pytest

from mcranker.errors import ConfigError, ContextTooLong, ModelFileError, ReplyError, RequestRejected
from mcranker.llm.chat import ChatRequest, Message, ReplySchema, Tag
from mcranker.llm.local import llama_local
from mcranker.llm.local.llama_local import LONGEST_LIST, LONGEST_TEXT, LocalChat
from tests.support.shallow_model import shallow_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["shallow_model"]

pytest.importorskip("xllamacpp")

MODEL = "smollm2-135m"
TOLERANCE = 0.2
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
    chat = LocalChat.open(MODEL)
    yield chat
    anyio.run(chat.aclose)


@pytest.fixture(scope="session")
def quick(shallow_model: Path) -> Iterator[LocalChat]:
    """For what does not depend on the weights."""
    chat = LocalChat.open(str(shallow_model))
    yield chat
    anyio.run(chat.aclose)


@needs_model
async def test_a_label_is_chosen_by_its_probability(chat: LocalChat) -> None:
    question = "Is this a fruit: apple? Answer Yes or No."
    reply = await chat.complete(ask(question, begin="Answer:", labels=("Yes", "No")))
    assert reply.label_logprobs is not None
    assert set(reply.label_logprobs) == {"Yes", "No"}
    better, _ = sorted(reply.label_logprobs, key=reply.label_logprobs.__getitem__, reverse=True)
    assert reply.text == better
    assert 0.3 < sum(map(math.exp, reply.label_logprobs.values())) <= 1.0
    assert reply.usage.calls == 1
    assert reply.usage.output_tokens == 1


@needs_model
async def test_ten_is_told_from_one(chat: LocalChat) -> None:
    text = "Score from 0 to 10 how good this mask is: N95."
    reply = await chat.complete(ask(text, begin="Score: ", labels=SCALE))
    one = await chat.complete(ask(text, begin="Score: ", labels=("1",)))
    zero = await chat.complete(ask(text, begin="Score: 1", labels=("0",)))
    assert reply.label_logprobs is not None
    assert one.label_logprobs is not None
    assert zero.label_logprobs is not None
    assert set(reply.label_logprobs) == set(SCALE)
    p_one, p_zero = one.label_logprobs["1"], zero.label_logprobs["0"]
    assert reply.label_logprobs["10"] == pytest.approx(p_one + p_zero, abs=TOLERANCE)
    rest = p_one + math.log1p(-math.exp(p_zero))
    assert reply.label_logprobs["1"] == pytest.approx(rest, abs=TOLERANCE)
    assert reply.usage.output_tokens == 2  # one for the digit, one to see what follows "1"


@needs_model
async def test_a_space_before_the_label_is_no_obstacle(chat: LocalChat) -> None:
    text = "Score from 0 to 10 how good this mask is: N95."
    before = await chat.complete(ask(text, begin="Score: ", labels=SCALE))
    after = await chat.complete(ask(text, begin="Score:", labels=SCALE))
    assert before.label_logprobs is not None
    assert after.label_logprobs is not None
    assert set(after.label_logprobs) == set(SCALE)
    # What the model may write instead of the space is the same loss for all labels.
    losses = [before.label_logprobs[k] - after.label_logprobs[k] for k in SCALE]
    assert max(losses) - min(losses) < 2 * TOLERANCE


@needs_model
async def test_labels_out_of_reach_are_an_error(chat: LocalChat) -> None:
    with pytest.raises(ReplyError, match="none of the labels"):
        await chat.complete(ask("Say hello.", labels=("☃☃", "qxz")))


@needs_model
async def test_a_given_text_is_as_likely_as_its_tokens_in_turn(chat: LocalChat) -> None:
    prompt = "What is the capital of France?"
    reply = await chat.complete(ask(prompt, continuation="The capital is Paris"))
    assert reply.continuation_logprobs is not None
    assert (reply.text, reply.usage.calls, reply.usage.output_tokens) == ("", 1, 0)
    tokens = ("The", " capital", " is", " Paris")  # as SmolLM2's tokenizer has them
    assert len(reply.continuation_logprobs) == len(tokens)
    for place, token in enumerate(tokens):
        begun = "".join(tokens[:place])
        next_one = await chat.complete(ask(prompt, begin=begun, labels=(token.strip(),)))
        assert next_one.label_logprobs is not None
        expected = next_one.label_logprobs[token.strip()]  # with and without a blank before it
        assert reply.continuation_logprobs[place] == pytest.approx(expected, abs=TOLERANCE)
    other = await chat.complete(ask(prompt, continuation="The capital is Rome"))
    assert other.continuation_logprobs is not None
    *alike, rome = other.continuation_logprobs
    *_, paris = reply.continuation_logprobs
    assert alike == pytest.approx(reply.continuation_logprobs[:3], abs=TOLERANCE)
    assert rome < paris - 1


@needs_model
async def test_a_character_in_several_tokens_has_no_likelihood(quick: LocalChat) -> None:
    with pytest.raises(RequestRejected, match=r"some characters of '\u53e3' as several tokens"):
        await quick.complete(ask("Who?", continuation="\u53e3"))
    reply = await quick.complete(ask("Who?", continuation="<|im_end|>"))
    assert len(reply.continuation_logprobs or ()) > 1  # as text, not as the end of the turn


@needs_model
async def test_json_is_compact_and_ends(quick: LocalChat) -> None:
    schema = {
        "type": "object",
        "properties": {
            "Reason": {"type": "string", "maxLength": 20},
            "Score": {"type": "integer", "minimum": 0, "maximum": 10},
        },
        "required": ["Reason", "Score"],
        "additionalProperties": False,
    }
    request = ask("Rate the mask in JSON.", schema=ReplySchema("rating", schema), max_tokens=100)
    reply = await quick.complete(request)
    assert reply.finish_reason == "stop"
    content = json.loads(reply.text)
    assert list(content) == ["Reason", "Score"]
    assert 0 <= content["Score"] <= 10
    assert reply.text.startswith('{"Reason": "')


@needs_model
async def test_a_prompt_that_does_not_fit_is_said_to_be_too_long(quick: LocalChat) -> None:
    with pytest.raises(ContextTooLong, match="cut the passages shorter"):
        await quick.complete(ask("word " * 9000, labels=("Yes", "No")))


@needs_model
async def test_a_cancelled_call_frees_its_room(quick: LocalChat) -> None:
    await quick.complete(ask("Hello", stage="probe", max_tokens=1))
    with anyio.move_on_after(0.05) as scope:
        await quick.complete(ask("Tell a long story.", stage="probe", max_tokens=2000))
    assert scope.cancelled_caught
    assert quick._engine.room.free == llama_local.MAX_CONTEXT
    reply = await quick.complete(ask("Hello", stage="probe", max_tokens=1))
    assert reply.usage.output_tokens == 1


@needs_model
async def test_calls_of_one_file_share_one_engine(quick: LocalChat) -> None:
    other = LocalChat.open(str(quick._path))
    request = ask("Hello", stage="probe", max_tokens=1)
    await quick.complete(request)
    await other.complete(request)
    assert other._engine is quick._engine
    assert quick._engine.users == 2
    await other.aclose()
    await other.aclose()
    assert quick._engine.users == 1
    await quick.complete(request)


@needs_model
async def test_others_cannot_ask(quick: LocalChat) -> None:
    await quick.complete(ask("Hello", stage="probe", max_tokens=1))
    address = quick._engine.start()
    assert address.startswith("http://127.0.0.1:")
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    url = f"{address}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
        assert response.status == 401


@needs_model
async def test_it_can_be_used_again_after_it_was_closed(
    tmp_path: Path, shallow_model: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.hardlink_to(shallow_model)
    again = LocalChat.open(str(copy))
    request = ask("Hello", stage="probe", max_tokens=1)
    await again.complete(request)
    await again.aclose()
    assert copy not in llama_local._engines.open
    await again.complete(request)
    await again.aclose()
    assert copy not in llama_local._engines.open


async def test_a_broken_model_file_is_reported_at_the_first_call(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(500))
    chat = LocalChat.open(str(path))
    with pytest.raises(ModelFileError, match="cannot be loaded"):
        await chat.complete(ask("Hello"))
    await chat.aclose()
    assert path not in llama_local._engines.open


def test_a_missing_engine_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[local\]'"):
        LocalChat.open(MODEL)


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("libgomp.so.1: cannot open shared object file", "apt install libgomp1"),
        ("undefined symbol: llama", "reinstall"),
    ],
)
def test_an_engine_that_does_not_load_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, said: str, advice: str
) -> None:
    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "xllamacpp":
                raise ImportError(said)

    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(ConfigError, match=advice):
        llama_local._import_engine("local:tiny")


@needs_model
async def test_texts_and_lists_end_even_if_the_model_does_not(
    chat: LocalChat, quick: LocalChat
) -> None:
    schema = {
        "type": "object",
        "properties": {"Names": {"type": "array", "items": {"type": "string"}}},
        "required": ["Names"],
        "additionalProperties": False,
    }
    request = ask("List many names.", schema=ReplySchema("names", schema), max_tokens=2000)
    # One of them ends no list, the other one no text.
    for model in (chat, quick):
        names = json.loads((await model.complete(request)).text)["Names"]
        assert len(names) <= LONGEST_LIST
        assert all(len(name) <= LONGEST_TEXT for name in names)


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
