"""What all wrappers around a chat model share."""

from __future__ import annotations

from mcranker.llm.chat import Capabilities, ChatModel


class Wrapper:
    """A chat model that stands around another one; subclasses say how they answer."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    async def aclose(self) -> None:
        await self._model.aclose()
