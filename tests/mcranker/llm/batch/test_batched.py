from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker import DirectRanker, Ranking
from mcranker.errors import ConfigError
from mcranker.llm.batch.batched import batched
from mcranker.llm.chat import ChatModel, ChatReply
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.openai_chat import CompatibleChat, OpenAIChat
from mcranker.llm.scripted import ScriptedChat
from tests.support.batch_place import ask, both, outcomes, text_of, texts, workplace
from tests.support.batch_server import failure
from tests.support.loopback import Answer, Body, clean_environment, completion

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    clean_environment(monkeypatch)


@both
async def test_requests_that_wait_together_become_one_batch(
    provider: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcranker.llm")
    names = ["p0", "p1", "p2", "p3", "a\u2028b\x85c\x0b\U0001f600"]
    requests = [ask(name) for name in names]
    async with workplace(provider, tmp_path) as place:
        model = place.model()
        found = await outcomes(model, requests)
        assert texts(found) == [f"re: {name}" for name in names]
        assert [reply.usage.calls for reply in found if isinstance(reply, ChatReply)] == [1] * 5
        assert not any(reply.reused for reply in found if isinstance(reply, ChatReply))
        assert [len(job.requests) for job in place.server.jobs] == [5]
        assert [kept.text for r in requests if (kept := await place.kept(r))] == texts(found)
        assert place.notes == []
        assert isinstance(model, ChatModel)
        assert (model.name, model.endpoint) == (f"{place.chats[0].name}+batch", place.server.url)
        # Another process has finished it meanwhile, so it is in the ledger.
        reply = await place.model().complete(requests[0])
        assert (reply.text, reply.reused, len(place.server.jobs)) == ("re: p0", True, 1)
    # The linger of 2 s, then two looks, 5 s apart; the linger of the last request.
    assert place.time.now - place.time.start == 12.0 + 2.0
    assert "batch batch_0: 5 requests are with" in caplog.text
    assert caplog.text.count("batch_0: in_progress") == 1
    ours = [each for each in caplog.records if each.name.startswith("mcranker")]
    assert all(record.levelno == logging.INFO for record in ours)


async def test_equal_requests_are_one_line_and_paid_once(tmp_path: Path) -> None:
    async with workplace("openai", tmp_path) as place:
        found = await outcomes(place.model(), [ask("p"), ask("p"), ask("q")])
        assert [len(job.requests) for job in place.server.jobs] == [2]
    assert texts(found) == ["re: p", "re: p", "re: q"]
    reused = [reply.reused for reply in found if isinstance(reply, ChatReply)]
    assert sorted(reused[:2]) == [False, True]
    assert not reused[2]


@both
async def test_batches_are_no_larger_than_the_provider_takes(provider: str, tmp_path: Path) -> None:
    async with workplace(provider, tmp_path) as place:
        service = place.service()
        service.most_requests = 2
        assert texts(await outcomes(place.model(service), [ask(f"p{i}") for i in range(5)])) == [
            f"re: p{i}" for i in range(5)
        ]
        service = place.service()
        line = len(service.line("0" * 64, service.chat.writer()(ask("q0"))))
        service.most_bytes = 3 * line + 2  # three lines and what stands between them
        await outcomes(place.model(service), [ask(f"q{i}") for i in range(7)])
        service.most_bytes = 3 * line + 1
        await outcomes(place.model(service), [ask(f"r{i}") for i in range(3)])
        sizes = [len(job.requests) for job in place.server.jobs]
    assert sizes == [2, 2, 1, 3, 3, 1, 2, 1]


@both
async def test_items_fail_one_by_one(provider: str, tmp_path: Path) -> None:
    too_long = "prompt is too long: 300000 tokens > 200000 maximum"

    def answer(body: Body) -> Any:
        text = text_of(body)
        if text == "bad":
            return failure(provider, 400, "no such thing")
        if text == "long":
            return failure(provider, 400, too_long)
        if text in ("ill", "slow"):
            return failure(provider, 500 if text == "ill" else 429)
        return normal(body)

    async with workplace(provider, tmp_path) as place:
        normal, place.server.script = place.server.script, answer
        requests = [ask(text) for text in ("good", "bad", "long", "ill", "slow", "fine")]
        found = await outcomes(place.model(), requests)
        kept = [await place.kept(request) is not None for request in requests]
        sizes = [len(job.requests) for job in place.server.jobs]
    assert texts(found) == [
        "re: good", "RequestRejected", "ContextTooLong", "ServerFailed", "RateLimited", "re: fine",
    ]  # fmt: skip
    assert "no such thing" in str(found[1])
    assert kept == [True, False, False, False, False, True]
    # What the provider failed went three times, what it refused once.
    assert sizes == [6, 2, 2]
    assert place.notes == []


@both
@pytest.mark.parametrize("outcome", ["expired", "missing"])
async def test_what_expired_goes_again(provider: str, outcome: str, tmp_path: Path) -> None:
    turns: list[str] = []

    def answer(body: Body) -> Any:
        turns.append(text_of(body))
        text = text_of(body)
        late = text == "never" or (text == "late" and turns.count("late") == 1)
        return outcome if late else normal(body)

    async with workplace(provider, tmp_path) as place:
        normal, place.server.script = place.server.script, answer
        place.server.polls = 1  # each script is played once
        found = await outcomes(place.model(), [ask("soon"), ask("late"), ask("never")])
        sizes = [len(job.requests) for job in place.server.jobs]
    error = "ModelTimeout" if outcome == "expired" else "ServerFailed"
    assert texts(found) == ["re: soon", "re: late", error]
    assert sizes == [3, 2, 1]


@both
async def test_a_batch_that_was_cancelled_elsewhere(provider: str, tmp_path: Path) -> None:
    outcome = {"openai": "cancelled", "anthropic": "missing"}[provider]
    async with workplace(provider, tmp_path) as place:
        normal = place.server.script
        place.server.status = "cancelled"
        place.server.script = lambda body: outcome if text_of(body) == "p1" else normal(body)
        found = await outcomes(place.model(), [ask("p0"), ask("p1")])
        assert texts(found) == ["re: p0", "ModelError"]
        assert "was cancelled" in str(found[1])
        assert len(place.server.jobs) == 1
        assert place.notes == []


async def test_parameters_that_a_model_refuses_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcranker.llm")

    def answer(body: Body) -> Any:
        if body["reasoning_effort"] == "none":
            message = "Unsupported value: 'none'. Supported values are: 'low', 'high'."
            error = {"message": message, "param": "reasoning_effort", "code": None}
            return Answer(400, {"error": error})
        if "temperature" in body:
            error = {"message": "", "param": "temperature", "code": "unsupported_value"}
            return Answer(400, {"error": error})
        return completion(str(body["reasoning_effort"]))

    async with workplace("openai", tmp_path) as place:
        place.server.script = answer
        model = place.model(place.service("gpt-6-luna"))
        found = await outcomes(model, [ask(f"p{i}", max_tokens=5) for i in range(4)])
        assert texts(found) == ["low"] * 4
        assert [len(job.requests) for job in place.server.jobs] == [4, 4, 4]
        assert texts([await model.complete(ask("p9"))]) == ["low"]
        assert len(place.server.jobs) == 4
        body = place.server.jobs[2].requests[0]["body"]
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 5 + 4096
    assert caplog.text.count("refuses") == 2


async def test_another_one_goes_on_when_the_one_who_works_is_cancelled(tmp_path: Path) -> None:
    async with workplace("openai", tmp_path) as place:
        model = place.model()
        place.server.polls = 5
        found: list[str] = []

        async def one(text: str, scope: anyio.CancelScope | None = None) -> None:
            with scope or anyio.CancelScope():
                found.append((await model.complete(ask(text))).text)

        async with anyio.create_task_group() as group:
            for second, text in enumerate(("p0", "p1", "p2", "p2")):
                scope = anyio.CancelScope()
                group.start_soon(one, text, scope)
                if second < 3:  # the second of those who wait for p2 stays
                    place.time.at[4.0 + 3 * second] = scope.cancel
        assert found == ["re: p2"]
        assert len(place.server.jobs) == 1
        assert await place.kept(ask("p0")) is not None


def test_which_models_have_batches(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for model in (
        OpenAIChat("gpt-6-luna", api_key="k"),
        AnthropicMessages("claude-haiku-5-5", api_key="k"),
    ):
        assert batched(model, tmp_path, ledger).name == f"{model.name}+batch"
    for other in (
        CompatibleChat("m", base_url="http://127.0.0.1:9/v1"),
        ScriptedChat(lambda _: ""),
    ):
        with pytest.raises(ConfigError, match="only OpenAI's and Anthropic's own"):
            batched(other, tmp_path, ledger)


async def test_a_batch_outlives_a_deadline(tmp_path: Path) -> None:
    docs = [f"passage {number}" for number in range(4)]
    async with workplace("openai", tmp_path) as place:
        # The clock of deadlines is the real one: time for the batch to be sent on a busy machine.
        await outcomes(place.model(), [ask("first")])
        place.server.polls = 10**9

        async def rank(**options: Any) -> Ranking:
            ranker = DirectRanker(model=place.model(), ledger=None, repair_attempts=0, **options)
            return await ranker.arank("q", docs)

        late = await rank(deadline=1.5)
        assert (late.partial, late.usage.calls, len(late.missing)) == (True, 0, 4)
        assert len(place.server.jobs) == 2
        place.server.polls = 0
        whole = await rank()
        # It is that batch whose answers are read (they are no scores), and nothing is sent again.
        assert len(place.server.jobs) == 2
        assert not whole.partial
        assert all("unusable answer" in each.reason for each in whole.missing)
        assert whole.usage.unreadable + whole.reused.unreadable == 4
