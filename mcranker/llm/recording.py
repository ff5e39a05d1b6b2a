"""Models of which only the answers in a ledger are left."""

from __future__ import annotations

from mcranker.errors import RequestRejected
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.provider import Provider

RECORDED = "recording:large-model"
"""The model of the examples' ledger."""


class Recording:
    """A chat model that answers from a ledger alone, such as ``recording:large-model``."""

    def __init__(self, name: str, **_: object) -> None:
        self.name = f"recording:{name}"
        self.endpoint = ""  # as a model whose answers are kept
        self.capabilities = Capabilities(json_schema=True)

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise not_recorded(self.name)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""


def not_recorded(model: str) -> RequestRejected:
    """The error for a call whose answer the ledger lacks."""
    return RequestRejected(
        f"{model}: the ledger has no answer to this request, and nothing is asked; name the "
        "ledger that has it, or a model to ask",
        model=model,
    )


RECORDING = Provider(
    connect=Recording,
    note="answers that a ledger holds, and nothing else; needs ledger=FILE",
    in_process=True,
)
