"""The back-ends that talk HTTP, made the same way for every attack; as a program, one of them.

    python -m tests.attack.wire_models BACKEND ROOT FAULT...

asks the back-end once at ROOT/ok and then at ROOT/FAULT for each fault, and prints as JSON how
each call ended and by how many MiB the calls after the first made the process grow, at its peak.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from mcranker.errors import ModelError
from mcranker.llm.batch.services import AnthropicBatches, OpenAIBatches, lines_of
from mcranker.llm.chat import ChatRequest, Message, Question, Tag
from mcranker.llm.connect import connect
from mcranker.llm.providers.anthropic_messages import AnthropicMessages
from mcranker.llm.providers.compatible_http import CompatibleChat
from mcranker.llm.providers.openai_chat import OpenAIChat

KEY = "zq7Hd2-very-Secret-0815-Wm"
"""Of no shape that is known, so that it must be taken out by itself."""

REQUEST = ChatRequest(messages=(Message("user", "Hé?"),), tag=Tag("score"), max_tokens=5)
DECISION = replace(REQUEST, questions=(Question("q1", "Is it?", 9),))

Call = Callable[[], Awaitable[object]]


def backend(
    name: str, root: str, timeout: float = 10.0
) -> tuple[Call, Callable[[], Awaitable[None]]]:
    """What makes one call of a back-end, and what closes it."""
    if name == "anthropic" or name.startswith("anthropic "):
        anthropic = AnthropicMessages(
            "claude-haiku-4-5", api_key=KEY, base_url=root, timeout=timeout
        )
        if name == "anthropic":
            return lambda: anthropic.complete(REQUEST), anthropic.aclose
        batches = AnthropicBatches(anthropic)
        path = "v1/messages/batches/b/results"
        return _batch_call(name, batches, path), anthropic.aclose
    url = f"{root}/v1"
    if name == "systemone":
        system_one = connect("systemone:m", base_url=url, api_key=KEY, timeout=timeout)
        return lambda: system_one.complete(DECISION), system_one.aclose
    if name == "compatible":
        compatible = CompatibleChat("m", base_url=url, api_key=KEY, timeout=timeout)
        return lambda: compatible.complete(REQUEST), compatible.aclose
    model = "gpt-6-luna" if name == "decisions" else "gpt-4.1-mini"
    openai = OpenAIChat(model, api_key=KEY, base_url=url, timeout=timeout)
    if name.startswith("openai "):
        return _batch_call(name, OpenAIBatches(openai), "files/f/content"), openai.aclose
    request = DECISION if name == "decisions" else REQUEST
    return lambda: openai.complete(request), openai.aclose


CHATS = ("openai", "decisions", "compatible", "systemone", "anthropic")
CHECKS = ("openai batch", "anthropic batch")
RESULTS = ("openai results", "anthropic results")


def _batch_call(name: str, service: OpenAIBatches | AnthropicBatches, path: str) -> Call:
    async def results() -> int:
        chat = service.chat
        return len([line async for line in lines_of(chat.stream(path), chat.service)])

    return results if name.endswith("results") else lambda: service.check("b")


async def outcome(name: str, root: str) -> str:
    """How one call ends: the error's class, or "ok"."""
    call, close = backend(name, root)
    try:
        await call()
    except ModelError as error:
        return type(error).__name__
    finally:
        await close()
    return "ok"


def _peak() -> float:
    """The most memory that this process has held, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # elsewhere the peak may be that of the process that started this one
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 2**10
    unit = 1 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


async def _main(name: str, root: str, *faults: str) -> None:
    await outcome(name, f"{root}/ok")
    before = _peak()
    ends = [await outcome(name, f"{root}/{fault}") for fault in faults]
    json.dump({"ends": ends, "grown": _peak() - before}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
