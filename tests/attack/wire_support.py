"""What the attacks over the wire share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from mcranker.errors import ModelError
from mcranker.llm.providers.http_errors import Service
from tests.attack.wire_models import KEY, Call, backend
from tests.support.loopback import Body

SERVICE = Service("openai:m", "OpenAI", "set THE_KEY", "look", "start it", 5.0, key=KEY)
TOKEN = "9f86d081884c7d659a2feaa0c55ad015"
MIB = 2**20

DECISION_REPLY: Body = {
    "model": "gpt-6-luna",
    "answers": [
        {
            "type": "score",
            "name": "q1",
            "probabilities": [{"value": 9, "label": "9", "probability": 1.0}],
        }
    ],
    "usage": {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 3}},
}
"""To `DECISION`, or to the first of two questions."""

SYSTEMONE_REPLY: Body = {
    "model": "jev-latest",
    "answers": {
        "q1": {
            "type": "score",
            "score": 9.0,
            "confidence": 0.5,
            "legend": {"9": "9"},
            "probabilities": {"9": 1.0},
        }
    },
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
"""The same of System One."""


@asynccontextmanager
async def asking(name: str, root: str, seconds: float = 10.0) -> AsyncIterator[Call]:
    """What makes one call of a back-end."""
    call, close = backend(name, root, seconds)
    try:
        yield call
    finally:
        await close()


async def failure(call: Call) -> ModelError:
    """The error that a call ends with."""
    with anyio.fail_after(30), pytest.raises(ModelError) as caught:
        await call()
    return caught.value


async def failure_of(name: str, root: str, seconds: float = 10.0) -> ModelError:
    """The error that one call of a back-end ends with."""
    async with asking(name, root, seconds) as call:
        return await failure(call)


def check_message(error: ModelError) -> None:
    """A message is one short line without the key."""
    assert str(error).isprintable()
    assert len(str(error)) < 600
    assert KEY not in str(error)
