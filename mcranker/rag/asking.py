"""Asking a model what the stages of a pipeline ask it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import anyio

from mcranker.config import RankerConfig
from mcranker.errors import ModelTimeout, UnsupportedCapability
from mcranker.llm.chat import ChatModel, ChatReply, ReplySchema, Tag
from mcranker.method.ask import ask
from mcranker.replies.json import LONGEST, without_thinking
from mcranker.replies.loose_json import Unreadable
from personas import PromptSet
from personas.ranking.usage import Stage, UsageTable
from personas.sanitize import encodable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A model with everything that a question to it needs; `dataclasses.replace` changes some."""

    model: ChatModel
    config: RankerConfig
    prompts: PromptSet
    usage: UsageTable
    stage: Stage = "answer"
    query_id: str = ""
    number: int = 0
    deadline: float = math.inf

    def __post_init__(self) -> None:
        if not self.model.capabilities.prompts:
            what, how = {
                "transform": ("this pipeline asks for queries", "with query_model="),
                "judge": ("it is asked for verdicts or questions", "as the judge, or with --model"),
            }.get(self.stage, ("this pipeline asks for answers", "with answer_model="))
            raise UnsupportedCapability(
                f"{self.model.name} answers no prompts, and {what} in words; name a model that "
                f"does {how}, such as 'openai:NAME'",
                model=self.model.name,
            )

    async def text(
        self, prompt: str, values: Mapping[str, str], *, max_tokens: int, persona: str = ""
    ) -> str:
        """Return the model's reply, without thinking and space around it."""
        return await self.read(prompt, values, text_of, max_tokens=max_tokens, persona=persona)

    async def read(
        self,
        prompt: str,
        values: Mapping[str, str],
        read: Callable[[ChatReply], T],
        *,
        max_tokens: int,
        persona: str = "",
        schema: ReplySchema | None = None,
        labels: tuple[str, ...] = (),
    ) -> T:
        """Return what `read` makes of the reply, see `mcranker.method.ask`."""
        with anyio.CancelScope(deadline=self.deadline) as scope:
            await anyio.lowlevel.checkpoint_if_cancelled()
            return await ask(
                self.model,
                self.prompts[prompt].render(values),
                read,
                config=self.config,
                prompts=self.prompts,
                usage=self.usage,
                tag=Tag(self.stage, self.query_id, persona, ranking=self.number),
                max_tokens=max_tokens,
                schema=schema,
                labels=labels,
            )
        # Only the scope's own cancellation comes here.
        assert scope.cancelled_caught
        raise ModelTimeout(
            f"{self.model.name}: the deadline passed before it answered", model=self.model.name
        )


def text_of(reply: ChatReply) -> str:
    """Return the text of a reply, without thinking and space around it."""
    text = encodable(without_thinking(reply.text)).strip()
    if not text:
        raise Unreadable("it is empty.")
    if len(text) > LONGEST:
        raise Unreadable(f"it has {len(text):,} characters, and {LONGEST:,} is the limit.")
    return text
