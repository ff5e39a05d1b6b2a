"""A scripted model that compares passages by a number in their text."""

from __future__ import annotations

import re
from collections.abc import Callable

from mcranker import Capabilities, ChatReply, ChatRequest, ScriptedChat, Usage

_SHOWN = re.compile(r"^\[(\w+)\]\n<<<(\w{8})\n(.*?)\n\2>>>$", re.MULTILINE | re.DOTALL)


def shown_in(request: ChatRequest) -> dict[str, str]:
    """Number or letter -> text of the passages in a request."""
    return {name: text for name, _, text in _SHOWN.findall(request.messages[-1].content)}


def grades_in(request: ChatRequest) -> dict[str, int]:
    """Number or letter -> the number that the passage's text ends with."""
    return {name: int(text.split()[-1]) for name, text in shown_in(request).items()}


def in_order(request: ChatRequest) -> str:
    """The right order of the passages in a request, as RankGPT wants it."""
    grades = grades_in(request)
    return " > ".join(f"[{name}]" for name in sorted(grades, key=lambda name: -grades[name]))


def best(request: ChatRequest) -> str:
    """The letter of the best passage in a request."""
    grades = grades_in(request)
    return max(grades, key=lambda name: grades[name])


def comparing(
    answer: Callable[[ChatRequest], str | ChatReply], *, capabilities: Capabilities | None = None
) -> tuple[ScriptedChat, list[ChatRequest]]:
    """A model that answers so, and the requests that it has got."""
    seen: list[ChatRequest] = []

    def reply(request: ChatRequest) -> ChatReply:
        seen.append(request)
        said = answer(request)
        usage = Usage(calls=1, input_tokens=100, output_tokens=5)
        return ChatReply(said, usage=usage) if isinstance(said, str) else said

    return ScriptedChat(reply, capabilities=capabilities), seen
