"""Record the example again: a team with its scores and reasons, and an edit of it.

    python examples/record.py openai:NAME examples/masks.ledger

The answers are kept under the name ``recording:large-model``, word for word as they come.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcranker import ChatReply, ChatRequest
from mcranker.demo import rankings
from mcranker.llm.chat import ChatModel
from mcranker.llm.connect import connect
from mcranker.llm.recording import RECORDED, Recording


class Recorded:
    """A model that is asked, under the name of the recording."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        of = Recording(RECORDED.partition(":")[2])
        self.name, self.endpoint, self.capabilities = of.name, of.endpoint, of.capabilities

    async def complete(self, request: ChatRequest) -> ChatReply:
        return await self._model.complete(request)

    async def aclose(self) -> None:
        await self._model.aclose()


if __name__ == "__main__":
    Path(sys.argv[2]).unlink(missing_ok=True)  # one model's answers alone
    asyncio.run(rankings(Recorded(connect(sys.argv[1])), Path(sys.argv[2])))
