"""A scripted team that compares: recruited and given rubrics by rote, with an order each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcranker import Capabilities, ChatReply, ChatRequest, ScriptedChat, Usage
from tests.support.comparing import shown_in
from tests.support.scripted import RECRUITS, RUBRIC

TEAM = ("NLP scientist", "Virologist", "Worried parent")


def by_orders(orders: Mapping[str, str]) -> Callable[[ChatRequest], str]:
    """Persona -> its order of letters, which passages' texts end with; the reply as it is asked."""

    def answer(request: ChatRequest) -> str:
        order = orders[request.tag.persona]
        shown = shown_in(request)
        named = sorted(shown, key=lambda name: order.index(shown[name].split()[-1]))
        return " > ".join(f"[{name}]" for name in named) if "1" in shown else named[0]

    return answer


def comparing_team(
    answer: Callable[[ChatRequest], str | ChatReply], *, capabilities: Capabilities | None = None
) -> tuple[ScriptedChat, list[ChatRequest]]:
    """A model whose comparisons `answer` makes, and the requests that it has got."""
    seen: list[ChatRequest] = []

    def reply(request: ChatRequest) -> ChatReply:
        seen.append(request)
        if request.tag.stage == "recruit":
            said: str | ChatReply = RECRUITS
        elif request.tag.stage == "criteria":
            said = RUBRIC
        else:
            said = answer(request)
        usage = Usage(calls=1, input_tokens=100, output_tokens=5)
        return ChatReply(said, usage=usage) if isinstance(said, str) else said

    return ScriptedChat(reply, capabilities=capabilities), seen
