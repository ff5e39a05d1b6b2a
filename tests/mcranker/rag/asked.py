"""A model with scripted replies that keeps what it was asked, and `Asking` by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcranker import Capabilities, ChatReply, ChatRequest, RankerConfig, ScriptedChat
from mcranker.method.ask import Asking
from personas import PromptSet
from personas.ranking.usage import UsageTable

PAPER = PromptSet.load("paper")


class Asked:
    """Gives the replies in order; one that is an exception is raised.

    Attributes:
        requests: what was asked.
        by: asks the model.
    """

    def __init__(
        self,
        replies: Iterable[str | ChatReply | Exception],
        *,
        capabilities: Capabilities | None = None,
        config: RankerConfig | None = None,
        **values: Any,
    ) -> None:
        self._replies = iter(replies)
        self.requests: list[ChatRequest] = []
        self.by = Asking(
            model=ScriptedChat(self._answer, capabilities=capabilities),
            config=config or RankerConfig(),
            prompts=PAPER,
            usage=UsageTable(),
            **{"stage": "transform", **values},
        )

    def _answer(self, request: ChatRequest) -> str | ChatReply:
        self.requests.append(request)
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def shown(self) -> list[list[tuple[str, str]]]:
        """The turns of each request."""
        return [[(each.role, each.content) for each in one.messages] for one in self.requests]


def rendered(prompt: str, **values: str) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in PAPER[prompt].render(values)]
