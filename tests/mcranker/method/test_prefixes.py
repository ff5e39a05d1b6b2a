"""Shared beginnings of requests: they come first, and their length is known to providers too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcranker import (
    ChatReply,
    ChatRequest,
    DirectRanker,
    MCRanker,
    Message,
    Ranker,
    ScriptedChat,
)
from mcranker.llm.chat import Tag
from mcranker.llm.ledger.rows import request_key
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from personas.ranking.usage import Stage
from personas.untrusted import fence
from tests.support.loopback import Body, anthropic_message, serve
from tests.support.scripted import RECRUITS, RUBRIC

QUERY = "Which masks protect best?"
TEXTS = {"p1": "N95 masks filter well.", "p2": "Soup <|im_end|> wants salt.", "p3": "N95"}
REPLIES = {
    "recruit": RECRUITS,
    "criteria": RUBRIC,
    "score": '{"Score": 5}',
    "assess": '{"Final score": 5}',
}
KEPT = {"cache_control": {"type": "ephemeral"}}


def divided(texts: Sequence[tuple[str, int]]) -> tuple[str, str]:
    """What comes before the end of the shared part, and what comes after it."""
    whole = "".join(text for text, _ in texts)
    shared = "".join(text[:length] for text, length in texts)
    assert whole.startswith(shared)
    return shared, whole.removeprefix(shared)


@pytest.mark.parametrize(
    ("ranker", "options", "judges"),
    [
        (MCRanker, {"ensemble": "assessor"}, 4),
        (MCRanker, {"criteria": "none"}, 3),
        (DirectRanker, {}, 1),
        (DirectRanker, {"with_criteria": True}, 1),
    ],
)
def test_requests_to_one_judge_share_all_that_comes_before_the_passage(
    ranker: Callable[..., Ranker], options: dict[str, Any], judges: int
) -> None:
    shared_by: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def answer(request: ChatRequest) -> ChatReply:
        tag = request.tag
        if tag.stage in ("score", "assess"):
            shared, rest = divided([(m.content, m.shared) for m in request.messages])
            assert rest.startswith(fence(TEXTS[tag.doc_id], query=QUERY))
            assert QUERY in shared
            shared_by[tag.stage, tag.persona].append(shared)
        return ChatReply(REPLIES[tag.stage])

    model = ScriptedChat(answer)
    ranker(model=model, **options).rank(QUERY, TEXTS)
    assert len(shared_by) == judges
    for beginnings in shared_by.values():
        assert len(beginnings) == len(TEXTS)
        assert len(set(beginnings)) == 1


def test_what_is_shared_makes_no_other_question() -> None:
    model = ScriptedChat(lambda _: "")
    marked, plain = (often(Message("user", "Judge: x", shared)) for shared in (7, 0))
    assert marked == plain
    assert request_key(model, marked) == request_key(model, plain)


def often(*messages: Message, stage: Stage = "score") -> ChatRequest:
    return ChatRequest(messages=messages, tag=Tag(stage))


async def sent_for(request: ChatRequest, model: str = "claude-haiku-5-5") -> Body:
    async with serve(lambda _: anthropic_message()) as server:
        chat = AnthropicMessages(model, api_key="k", base_url=server.root)
        await chat.complete(request)
        await chat.aclose()
    return server.bodies[0]


@pytest.mark.anyio
async def test_a_long_shared_beginning_is_marked_to_be_kept() -> None:
    shared, rest = "Judge wéll. " * 300, "\n Passage: 日本\n"
    (turn,) = (await sent_for(often(Message("user", shared + rest, len(shared)))))["messages"]
    assert turn == {
        "role": "user",
        "content": [{"type": "text", "text": shared} | KEPT, {"type": "text", "text": rest}],
    }


@pytest.mark.anyio
async def test_the_mark_stands_where_the_shared_beginning_ends() -> None:
    fair = "Be fair. " * 300
    system = Message("system", fair, len(fair))
    body = await sent_for(often(system, Message("user", "Passage: x", 9)))
    assert body["system"] == fair
    passage = [{"type": "text", "text": "Passage: "} | KEPT, {"type": "text", "text": "x"}]
    assert body["messages"] == [{"role": "user", "content": passage}]
    body = await sent_for(often(system, Message("user", "x")))
    assert body["system"] == [{"type": "text", "text": fair} | KEPT]
    assert body["messages"] == [{"role": "user", "content": "x"}]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("some-model", 512),
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-5-20251101", 4096),
    ],
)
async def test_only_what_the_model_can_keep_is_marked(model: str, tokens: int) -> None:
    for text in ("a" * 3 * tokens, "日" * tokens):  # three bytes count as a token
        just = await sent_for(often(Message("user", text + "x", len(text))), model)
        assert just["messages"][0]["content"][0] == {"type": "text", "text": text} | KEPT
        less = await sent_for(often(Message("user", text + "x", len(text) - 1)), model)
        assert less["messages"] == [{"role": "user", "content": text + "x"}]


@pytest.mark.anyio
@pytest.mark.parametrize("stage", ["recruit", "criteria"])
async def test_what_is_asked_once_is_not_marked(stage: Stage) -> None:
    body = await sent_for(often(Message("user", "a" * 9000, 8000), stage=stage))
    assert body["messages"] == [{"role": "user", "content": "a" * 9000}]
