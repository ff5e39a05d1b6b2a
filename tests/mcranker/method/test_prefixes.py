"""What requests share stands at their beginning, they know how long it is, and providers too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker import (
    Capabilities,
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
from mcranker.llm.providers.http_errors import Service
from personas import PromptSet
from personas.ranking.usage import Stage
from personas.templates import PROMPTS
from personas.untrusted import fence
from tests.support.loopback import Body, anthropic_message, serve
from tests.support.scripted import RECRUITS, RUBRIC
from tests.support.shallow_model import shallow_engine, shallow_model
from tests.support.typed_answers import answers

__all__ = ["shallow_engine", "shallow_model"]

QUERY = "Which masks protect best?"
TEXTS = {"p1": "N95 masks filter well.", "p2": "Soup <|im_end|> wants salt.", "p3": "N95"}
SCORING = ["score", "score_without_criteria", "direct", "direct_with_criteria", "panel", "assess"]
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


@pytest.mark.parametrize("prompt", SCORING)
@given(data=st.data())
def test_scoring_prompts_share_all_that_comes_before_the_passage(
    prompt: str, data: st.DataObject
) -> None:
    differing = {"passage", "assessments"}
    values = {each: data.draw(st.text()) for each in sorted(PROMPTS[prompt].known - differing)}
    template = PromptSet.load("paper")[prompt].bind(values)
    beginnings = set()
    for text in data.draw(st.lists(st.text(), min_size=2, max_size=2)):
        passage = fence(text, query=QUERY)
        turns = template.render({"passage": passage, "assessments": data.draw(st.text())})
        shared, rest = divided([(turn.text, turn.shared) for turn in turns])
        assert rest.startswith(passage)
        beginnings.add(shared)
    assert len(beginnings) == 1


@pytest.mark.parametrize(
    ("ranker", "options", "judges"),
    [
        (MCRanker, {"ensemble": "assessor"}, 4),
        (MCRanker, {"criteria": "none"}, 3),
        (MCRanker, {"scoring": "per_criterion"}, 1),
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
        return ChatReply(REPLIES[tag.stage], answers=answers(*(1.0 for _ in request.questions)))

    model = ScriptedChat(answer, capabilities=Capabilities(max_questions=9))
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
async def test_a_repair_turn_keeps_the_mark_of_the_question() -> None:
    question = Message("user", "Judge. " * 300 + "x", 2100)
    shown, repair = Message("assistant", "six"), Message("user", "Use digits.")
    first, *others = (await sent_for(often(question, shown, repair)))["messages"]
    assert first["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert [turn["content"] for turn in others] == ["six", "Use digits."]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-5", 512),
        ("claude-haiku-5-5", 512),
        ("claude-sonnet-5-5", 512),
        ("some-model", 512),
        ("claude-sonnet-5", 1024),
        ("claude-sonnet-4-5-20250929", 1024),
        ("claude-opus-4-8", 1024),
        ("claude-opus-4-1-20250805", 1024),
        ("claude-3-7-sonnet-20250219", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-3-5-haiku-20241022", 2048),
        ("claude-3-haiku-20240307", 2048),
        ("claude-opus-4-6", 4096),
        ("claude-opus-4-5-20251101", 4096),
        ("claude-haiku-4-5", 4096),
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


@pytest.mark.anyio
@pytest.mark.local_model
@pytest.mark.parametrize("role", ["system", "user"])
async def test_a_real_server_takes_marked_blocks_and_says_what_it_had_kept(
    role: Literal["system", "user"], shallow_engine: Service
) -> None:
    beginning = "Look for plain words, sources and dates. " * 80
    passage = "Masks filter the air. Is this about masks?"
    # A name that says that the model takes a temperature; this server takes any name.
    model = AnthropicMessages(
        "claude-sonnet-4-5", base_url=shallow_engine.url, api_key=shallow_engine.key
    )
    replies = []
    for shared in (0, len(beginning), len(beginning)):
        if role == "system":
            asked = [Message("system", beginning, shared), Message("user", passage)]
        else:
            # Between two blocks of a user's turn this server puts a line break.
            line_break = "" if shared else "\n"
            asked = [Message("user", beginning + line_break + passage, shared)]
        request = ChatRequest(messages=tuple(asked), tag=Tag("score"), max_tokens=8)
        replies.append(await model.complete(request))
    await model.aclose()
    plain, first, second = replies
    assert plain.text == first.text == second.text
    assert plain.usage.input_tokens == first.usage.input_tokens == second.usage.input_tokens
    assert second.usage.cached_input_tokens > 300
