"""Ask a model and read the reply, with the one repair turn; count what it used."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeVar

from mcranker.config import RankerConfig
from mcranker.errors import ReplyError
from mcranker.llm.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Message,
    Question,
    ReplySchema,
    Tag,
    Usage,
)
from mcranker.llm.ledger.ledgered import Ledgered
from mcranker.replies.read import Unreadable
from mcranker.surrogates import encodable
from mcranker.types import UsageTable
from personas import PromptSet
from personas.templates import Turn
from personas.untrusted import without_tokens

__all__ = ["Asker"]

T = TypeVar("T")
_SHOWN_REPLY = 160
_KEPT_REPLY = 4000


class Asker:
    """Puts questions to one model on behalf of the agents of one query.

    Args:
        model: who answers.
        config: temperature, seed, and how often an unreadable reply is asked for again.
        prompts: the wording of the repair turn.
        usage: where every call is counted, answered well or badly.
    """

    def __init__(
        self, model: ChatModel, config: RankerConfig, prompts: PromptSet, usage: UsageTable
    ) -> None:
        self.model = model
        self._config = config
        self._prompts = prompts
        self._usage = usage

    async def ask(
        self,
        turns: tuple[Turn, ...],
        read: Callable[[ChatReply], T],
        *,
        tag: Tag,
        max_tokens: int,
        schema: ReplySchema | None = None,
        labels: tuple[str, ...] = (),
        questions: tuple[Question, ...] = (),
    ) -> T:
        """What `read` makes of the reply.

        A reply that `read` finds `Unreadable` is shown to the model with the reason, and the
        question asked again, up to ``config.reask`` times. What is read from probabilities (of
        `labels`, or for `questions`) is asked for once.

        Raises:
            ReplyError: the last reply could not be read either.
            ModelError: the call failed.
        """
        prefill = self.model.capabilities.prefill
        messages = tuple(
            Message(turn.role, encodable(turn.text), turn.shared)
            for turn in turns
            if prefill or turn.role != "assistant"
        )
        request = ChatRequest(
            messages=messages,
            tag=tag,
            schema=schema,
            labels=labels,
            questions=questions,
            temperature=self._config.temperature,
            max_tokens=max_tokens,
            seed=self._config.seed,
            sample=self._config.sample,
        )
        asked: list[ChatRequest] = []
        while True:
            asked.append(request)
            reply = await self.model.complete(request)
            self._usage.add(
                tag.stage, tag.persona, self.model.name, reply.usage, reused=reply.reused
            )
            try:
                return read(reply)
            except Unreadable as problem:
                self._usage.add(
                    tag.stage,
                    tag.persona,
                    self.model.name,
                    Usage(unreadable=1),
                    reused=reply.reused,
                )
                # A reply read from probabilities does not change by asking again.
                if len(asked) > self._config.reask or labels or questions:
                    await self._note_unusable(asked)
                    raise self._reply_error(problem, reply) from problem
                request = self._repair(request, messages, reply, problem)

    async def _note_unusable(self, requests: Sequence[ChatRequest]) -> None:
        if isinstance(self.model, Ledgered):
            for request in requests:
                await self.model.mark_unusable(request)

    def _repair(
        self,
        request: ChatRequest,
        messages: tuple[Message, ...],
        reply: ChatReply,
        problem: Unreadable,
    ) -> ChatRequest:
        repair = self._prompts["repair"].render({"problem": str(problem)})
        asked = tuple(message for message in messages if message.role != "assistant")
        text = without_tokens(encodable(reply.text[:_KEPT_REPLY]), thinking=True)
        shown = Message("assistant", text or "(nothing)")
        again = tuple(Message(turn.role, encodable(turn.text)) for turn in repair)
        return dataclasses.replace(request, messages=(*asked, shown, *again))

    def _reply_error(self, problem: Unreadable, reply: ChatReply) -> ReplyError:
        cut = " (it was cut at the token limit)" if reply.finish_reason == "length" else ""
        shown = ascii(reply.text[:_SHOWN_REPLY])
        return ReplyError(
            f"{self.model.name} gave an unusable answer{cut}: {problem} The answer: {shown}",
            reply=reply.text,
            model=self.model.name,
        )
