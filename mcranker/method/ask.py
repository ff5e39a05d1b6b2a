"""Ask a model and read the reply, with the one repair turn; give up a judge that keeps no form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Required, TypedDict, TypeVar, Unpack

import anyio

from mcranker.config import RankerConfig
from mcranker.errors import (
    ConnectionFailed,
    FormNotKept,
    ModelError,
    ModelTimeout,
    RateLimited,
    ReplyError,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.llm.chat import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Message,
    Question,
    ReplySchema,
    ReusesAnswers,
    State,
    Tag,
    billed_as,
)
from mcranker.replies.loose_json import LONGEST, Unreadable, without_thinking
from personas import PromptSet
from personas.ranking.usage import Stage, Usage, UsageTable
from personas.templates import Turn
from personas.untrusted import encodable, without_tokens

T = TypeVar("T")
Rows = tuple[int, ...]

FEWEST_CALLS, FEWEST_PASSAGES = 3, 10  # A judge is not given up for less
MOST_FOR_ONE = 10  # unreadable replies for each readable one, beyond which a judge is given up
_SHOWN_REPLY = 160
_KEPT_REPLY = 4000
_OF_THE_TEAM = ("recruit", "criteria")
_FORGET = (
    "The ledger keeps it; to have it asked for again, first run "
    "'mcranker ledger --remove --unusable'."
)
_SAMPLES = 2**63
_APART = 2**32
"""Samples of a question that is asked again lie so far apart, beyond those that users number."""


class ReplyForm(TypedDict, total=False):
    """The form of a request's reply, as in `ChatRequest`."""

    max_tokens: Required[int]
    schema: ReplySchema | None
    labels: tuple[str, ...]
    continuation: str
    questions: tuple[Question, ...]
    state: State | None


async def ask(
    model: ChatModel,
    turns: tuple[Turn, ...],
    read: Callable[[ChatReply], T],
    *,
    config: RankerConfig,
    prompts: PromptSet,
    usage: UsageTable,
    tag: Tag,
    **form: Unpack[ReplyForm],
) -> T:
    """Ask a model and return the result of `read`."""
    messages: tuple[Message, ...] = ()
    for turn in turns:
        if turn.role != "assistant" or model.capabilities.prefill:
            messages += (Message(turn.role, encodable(turn.text), turn.shared),)
    request = ChatRequest(
        messages=messages,
        tag=tag,
        temperature=config.temperature,
        seed=config.seed,
        sample=config.cache_variant,
        **form,
    )
    asked: list[ChatRequest] = []
    while True:
        asked.append(request)
        reply = await model.complete(request)
        billed = billed_as(model.name, request)
        usage.add(tag.stage, tag.persona, billed, reply.usage, reused=reply.reused)
        try:
            return read(reply)
        except Unreadable as problem:
            unread = Usage(unreadable=1)
            usage.add(tag.stage, tag.persona, billed, unread, reused=reply.reused)
            resamples = config.resamples(tag.stage)
            # A reply read from probabilities does not change by asking again.
            probable = request.labels or request.continuation or request.questions
            if probable or len(asked) > resamples + config.repair_attempts:
                hint = ""
                if isinstance(model, ReusesAnswers):
                    for each in asked:
                        await model.mark_unusable(each)
                    # Without a team nothing is ranked, and the same answer would come again.
                    hint = f" {_FORGET}" if tag.stage in _OF_THE_TEAM else ""
                raise _reply_error(problem, reply, model, hint) from problem
            if len(asked) <= resamples:
                sample = (config.cache_variant + len(asked) * _APART) % _SAMPLES
                request = dataclasses.replace(request, sample=sample)
            else:
                request = _repair(request, messages, reply, problem, prompts)


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
        self,
        prompt: str,
        values: Mapping[str, str],
        *,
        persona: str = "",
        **form: Unpack[ReplyForm],
    ) -> str:
        """Return the model's reply, without thinking and space around it."""
        return await self.read(prompt, values, text_of, persona=persona, **form)

    async def read(
        self,
        prompt: str,
        values: Mapping[str, str],
        read: Callable[[ChatReply], T],
        *,
        persona: str = "",
        **form: Unpack[ReplyForm],
    ) -> T:
        """Return what `read` makes of the reply."""
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
                **form,
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


def _repair(
    request: ChatRequest,
    messages: tuple[Message, ...],
    reply: ChatReply,
    problem: Unreadable,
    prompts: PromptSet,
) -> ChatRequest:
    asked = tuple(message for message in messages if message.role != "assistant")
    said = without_tokens(encodable(reply.text[:_KEPT_REPLY]), thinking=True)
    shown = Message("assistant", said or "(nothing)")
    repair = prompts["repair"].render({"problem": str(problem)})
    again = tuple(Message(turn.role, encodable(turn.text)) for turn in repair)
    return dataclasses.replace(request, messages=(*asked, shown, *again))


def _reply_error(problem: Unreadable, reply: ChatReply, model: ChatModel, hint: str) -> ReplyError:
    cut = " (it was cut at the token limit)" if reply.finish_reason == "length" else ""
    shown = ascii(reply.text[:_SHOWN_REPLY])
    return ReplyError(
        f"{model.name} gave an unusable answer{cut}: {problem}{hint} The answer: {shown}",
        reply=reply.text,
        model=model.name,
    )


class Form:
    """Count of the replies of one judge of a ranking that can and cannot be read."""

    def __init__(self) -> None:
        self._tried = False
        self._read = self._calls = self._passages = self._under_way = 0
        self._first: ReplyError | None = None
        self._ended = anyio.Event()
        self._in_parts = anyio.Lock()

    async def watch(self, call: Coroutine[Any, Any, T], passages: int, *, divisible: bool) -> T:
        """Return the result of one call. A refusal first waits for the calls under way to end."""
        if self._tried:
            try:
                await self._check()
            except BaseException:
                call.close()
                raise
        self._under_way += 1
        try:
            result = await call
        except ReplyError as error:
            self._first = self._first or error
            self._calls += 1
            self._passages += passages
            enough = self._calls >= FEWEST_CALLS and self._passages >= FEWEST_PASSAGES
            self._tried = self._tried or (enough and not divisible)
            raise
        else:
            self._read += 1
            return result
        finally:
            self._under_way -= 1
            if self._tried:
                self._ended.set()
                self._ended = anyio.Event()

    async def in_parts(
        self,
        rows: Rows,
        ask: Callable[[Rows], Awaitable[T]],
        take: Callable[[Rows, T | ModelError], Awaitable[None]],
    ) -> None:
        """Ask about several passages, and in halves again where that may help."""
        parts = [rows]
        async with AsyncExitStack() as alone:
            while parts:
                part = parts.pop()
                found: T | ModelError
                try:
                    found = await ask(part)
                except ModelError as error:
                    found = error
                    if len(part) > 1 and _may_be_one_of_them(error):
                        if part == rows and not self._read:
                            await alone.enter_async_context(self._in_parts)
                        half = (len(part) + 1) // 2
                        parts += [part[half:], part[:half]]
                        continue
                await take(part, found)

    async def _check(self) -> None:
        while self._given_up and self._under_way:
            await self._ended.wait()
        if self._given_up and self._first is not None:
            raise FormNotKept(
                f"stopped: {self._read} of {self._read + self._calls} replies by "
                f"{self._first.model} could be parsed; try another model. The first: {self._first}",
                reply=self._first.reply,
                model=self._first.model,
            ) from self._first

    @property
    def _given_up(self) -> bool:
        return self._tried and self._calls > MOST_FOR_ONE * self._read


def _may_be_one_of_them(error: ModelError) -> bool:
    """Return True if a call about several passages may have failed by one, or their length."""
    if isinstance(error, FormNotKept | ConnectionFailed | RateLimited) or error.shape:
        return False
    if isinstance(error, ReplyError | RequestRejected):
        return True
    return error.retryable and error.others_answered is not False
