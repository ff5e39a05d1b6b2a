"""Every model that is asked over HTTP, and how a provider answers it; as a program, one of them.

    python -m tests.support.wire NAME ROOT FAULT...

asks the model once at ROOT/ok and then at ROOT/FAULT for each fault, and prints as JSON how
each call ended and by how many MiB the calls after the first made the process grow, at its peak.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcranker.errors import ModelError
from mcranker.llm.batch.services import AnthropicBatches, BatchService, OpenAIBatches
from mcranker.llm.chat import ChatRequest, Message, Question, State, Tag
from mcranker.llm.connect import connect
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.http_errors import Service
from mcranker.llm.providers.openai_chat import CompatibleChat, OpenAIChat
from tests.support.loopback import (
    Body,
    anthropic_error,
    anthropic_message,
    completion,
    decision,
    openai_error,
)

KEY = "zq7Hd2-very-Secret-0815-Wm"
"""Of no shape that is known, so that it must be taken out by itself."""

TOKEN = "9f86d081884c7d659a2feaa0c55ad015"
SERVICE = Service("openai:m", "OpenAI", "set THE_KEY", "look", "start it", 5.0, key=KEY)
REQUEST = ChatRequest(messages=(Message("user", "Hé?"),), tag=Tag("score"), max_tokens=5)
QUESTION = replace(REQUEST, questions=(Question("q1", "Is it?", 2),))

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class BackEnd:
    """One of them."""

    make: Callable[..., Any]
    model: str
    prefix: str  # of the model's name in rankings
    path: str
    root: bool = False  # the base URL has no path
    request: ChatRequest = REQUEST
    good: Body
    usage: tuple[int, int, int]  # input tokens, cached ones of them, output tokens
    error: Callable[[str], Body] = openai_error
    too_long: Body = field(default_factory=lambda: openai_error("", code="context_length_exceeded"))
    foreign: Body  # an answer of another protocol
    refused: Body | None = None
    key: str = "OPENAI_API_KEY"  # the environment variable
    advice: str = "check the network"  # in the error where no connection can be made
    labels: bool = False

    @property
    def name(self) -> str:
        return f"{self.prefix}:{self.model}"

    def at(self, root: str, **options: Any) -> Any:
        """The model at a server."""
        url = root if self.root else f"{root}/v1"
        return self.make(self.model, base_url=url, api_key=KEY, **options)


OPENAI = BackEnd(
    make=OpenAIChat,
    model="gpt-4.1-mini",
    prefix="openai",
    path="/v1/chat/completions",
    good=completion("7"),
    usage=(11, 4, 3),
    foreign=anthropic_message("7"),
    refused=completion(None, refusal="No."),
    labels=True,
)
BACK_ENDS = {
    "openai": OPENAI,
    "decisions": replace(
        OPENAI,
        model="gpt-6-luna",
        path="/v1/decisions",
        request=QUESTION,
        good=decision("q1"),
        usage=(21, 8, 4),
        foreign=completion("7"),
        refused=None,
    ),
    "compatible": replace(
        OPENAI,
        make=partial(CompatibleChat, key_variable="OPENAI_API_KEY"),
        model="m",
        advice="check that the server runs",
    ),
    "rerank": BackEnd(
        make=lambda model, **options: connect(f"rerank:{model}", **options),
        model="m",
        prefix="rerank",
        path="/v1/rerank",
        request=replace(
            REQUEST,
            messages=(),
            questions=(Question("q1", "", passage="p1"),),
            state=State("Hé?", {"p1": "text"}),
        ),
        good={
            "model": "served-model",
            "results": [{"index": 0, "relevance_score": 0.5}],
            "usage": {"prompt_tokens": 7},
        },
        usage=(7, 0, 0),
        foreign=completion("7"),
        key="RERANK_API_KEY",
        advice="check that the server runs",
    ),
    "anthropic": replace(
        OPENAI,
        make=AnthropicMessages,
        model="claude-haiku-5-5",
        prefix="anthropic",
        path="/v1/messages",
        root=True,
        good=anthropic_message("7"),
        error=anthropic_error,
        too_long=anthropic_error("prompt is too long: 9 tokens > 5"),
        foreign=completion("7"),
        refused=anthropic_message("", stop_reason="refusal"),
        key="ANTHROPIC_API_KEY",
        labels=False,
    ),
}
CHECKS = ("openai batch", "anthropic batch")
RESULTS = ("openai results", "anthropic results")


@asynccontextmanager
async def asking(name: str, root: str, seconds: float = 10.0) -> AsyncIterator[Call]:
    """What makes one call of a back-end, or of its batch API."""
    back_end = BACK_ENDS[name.partition(" ")[0]]
    model = back_end.at(root, timeout=seconds)
    service: BatchService = OpenAIBatches(model) if "openai" in name else AnthropicBatches(model)

    async def results() -> int:
        path = "files/f/content" if "openai" in name else "v1/messages/batches/b/results"
        return len((await model.fetch("get", path, most=2**30)).splitlines())

    calls: dict[str, Call] = {"results": results, "batch": lambda: service.check("b")}
    try:
        yield calls.get(name.partition(" ")[2], lambda: model.complete(back_end.request))
    finally:
        await model.aclose()


async def failure(call: Call) -> ModelError:
    """The error that a call ends with: one short line without the key."""
    with anyio.fail_after(60), pytest.raises(ModelError) as caught:
        await call()
    check_message(caught.value)
    return caught.value


def check_message(error: ModelError) -> None:
    """A message is one short line without the key."""
    assert str(error).isprintable()
    assert len(str(error)) < 600
    assert KEY not in str(error)


def _peak() -> float:
    """The most memory that this process has held, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # elsewhere the peak may be that of the process that started this one
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


async def _main(name: str, root: str, *faults: str) -> None:
    ends, before = [], 0.0
    for fault in ("ok", *faults):
        async with asking(name, f"{root}/{fault}") as call:
            try:
                await call()
                ends.append("ok")
            except ModelError as error:
                ends.append(type(error).__name__)
        before = before or _peak()
    json.dump({"ends": ends[1:], "grown": _peak() - before}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
