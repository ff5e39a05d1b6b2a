"""Base of all wrappers around a chat model."""

from __future__ import annotations

from mcranker.llm.chat import Capabilities, ChatModel, CutsByTokens


class Wrapper:
    """A chat model that wraps another one; subclasses say how they answer."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    @property
    def inner(self) -> ChatModel:
        """The wrapped model."""
        return self._model

    @property
    def innermost(self) -> ChatModel:
        """The model that answers in the end."""
        return self._model.innermost if isinstance(self._model, Wrapper) else self._model

    async def aclose(self) -> None:
        await self._model.aclose()


def tokenizer_of(model: ChatModel) -> CutsByTokens | None:
    """Return the model that cuts texts by its tokens; None if its tokenizer is not known here."""
    model = model.innermost if isinstance(model, Wrapper) else model
    return model if isinstance(model, CutsByTokens) else None
