"""A chat model made from a function: for tests, documentation and dry runs, offline."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest

Answer = str | ChatReply


class ScriptedChat:
    """Answers each request with whatever a function returns for it.

    Args:
        answer: takes the `ChatRequest`, returns the reply's text or a whole `ChatReply`;
            plain or ``async``. An exception it raises is the call's failure.
        name: how the model is named in rankings and reports.
        capabilities: what the model claims to offer; by default JSON schemas only.

    >>> from mcranker import MCRanker
    >>> model = ScriptedChat(lambda request: '{"Score": 7}')
    >>> model.name
    'scripted:function'
    """

    def __init__(
        self,
        answer: Callable[[ChatRequest], Answer | Awaitable[Answer]],
        *,
        name: str = "scripted:function",
        capabilities: Capabilities | None = None,
    ) -> None:
        self._answer = answer
        self.name = name
        self.capabilities = capabilities or Capabilities(json_schema=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        answer = self._answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, str):
            return ChatReply(text=answer, model=self.name)
        if not isinstance(answer, ChatReply):
            raise TypeError(f"the function returned {answer!r}; return a string or a ChatReply")
        return answer

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
