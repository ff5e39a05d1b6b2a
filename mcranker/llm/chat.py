"""The one boundary to language models: a request, a reply, and who answers.

`ChatModel` has one working method. Whatever stands around a provider (caching, limits,
retries) is a `ChatModel` too and wraps another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

Stage = Literal["recruit", "criteria", "score", "assess", "probe"]

REASONING_TOKENS = 4096
"""Tokens added to the limit of a reply for models that cannot answer without thoughts."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    A last message of role ``assistant`` is a prefill: the model continues it. It is only
    sent to models whose `Capabilities.prefill` is true.

    Attributes:
        role: who speaks.
        content: the text.
        shared: so many characters at the beginning of `content` are the same in many requests;
            for providers that keep a prompt's beginning where they are told to.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    shared: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The form of a reply: a name of letters, digits and underscores, and a JSON schema."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """One of many questions about the same messages, to be answered by a score.

    Attributes:
        name: of letters, digits and underscores; no two questions of a request share it.
        text: what to judge, and what the ends of the scale mean.
        top: the scale is 0 to `top`; at least 1.
    """

    name: str
    text: str
    top: int


@dataclass(frozen=True, slots=True)
class Tag:
    """What a request is for. It is never sent and never part of a ledger key.

    `ranking` numbers the rankings of a process: requests of different rankings take turns.
    """

    stage: Stage
    query_id: str = ""
    persona: str = ""
    doc_id: str = ""
    ranking: int = 0


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a model.

    Attributes:
        messages: system first if there is one; what requests share first, what differs last.
        schema: JSON schema of the reply, or None for free text. Models without structured
            output get the request without it: the messages say the form in words as well.
        labels: if not empty, the reply is one of these texts, and the probability of each
            is wanted (`ChatReply.label_logprobs`). Excludes `schema`.
        questions: if not empty, the messages are what all of these are about, and a score for
            each is wanted (`ChatReply.answers`). Only for models whose
            `Capabilities.max_questions` is as high. Excludes `schema` and `labels`.
        temperature: 0 for the most likely reply; None for the provider's default.
        max_tokens: limit of the reply, in tokens.
        seed: for providers that take one.
        sample: which of several answers is wanted where they vary; another number is another
            question to the ledger. Never sent.
        tag: what the request is for.
    """

    messages: tuple[Message, ...]
    tag: Tag
    schema: ReplySchema | None = None
    labels: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    temperature: float | None = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls have used; adds up with ``+``. Two are equal if all but the times are.

    Attributes:
        calls: requests that were answered.
        input_tokens: all input.
        cached_input_tokens: the part of it that the provider read from its prompt cache.
        output_tokens: what the model wrote, its thoughts included.
        seconds: how long the answers took, added up over the calls.
        unreadable: how many of the answers could not be read.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = field(default=0.0, compare=False)
    unreadable: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.seconds + other.seconds,
            self.unreadable + other.unreadable,
        )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One answer.

    Attributes:
        text: what the model wrote, without any prefill.
        usage: tokens of this call.
        model: the model's name as the provider reports it.
        finish_reason: ``"stop"`` for a complete reply, ``"length"`` for one that was cut.
        label_logprobs: natural logarithm of the probability of each label of the request;
            a label that the provider did not list is absent. None if none were asked for.
        answers: the score expected for each question, 0 to its `Question.top`, in the order of
            the questions; None in place of one that the provider declines. None if none were
            asked.
        reused: the answer was there already, or came for an equal request that was on its way;
            `usage` then says what it took when it was given, and nothing was paid now.
    """

    text: str
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    model: str = ""
    finish_reason: Literal["stop", "length"] = "stop"
    label_logprobs: Mapping[str, float] | None = None
    answers: tuple[float | None, ...] | None = None
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model offers beyond plain text.

    Attributes:
        json_schema: replies can be constrained to a JSON schema.
        label_logprobs: probabilities of labels can be read.
        prefill: the beginning of the reply can be given.
        weak: too small to invent personas or follow long prompts; the configuration then
            takes the library's personas, the compact prompts and the No/Yes scale unless
            told otherwise.
        prefix_slots: how many different prompt prefixes the model keeps evaluated at once.
            Scoring uses no more workers than that, and goes persona by persona. None: no
            such limit.
        max_questions: how many `Question`s one request may ask; 0 for none.
    """

    json_schema: bool = False
    label_logprobs: bool = False
    prefill: bool = False
    weak: bool = False
    prefix_slots: int | None = None
    max_questions: int = 0


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a `ChatRequest`."""

    @property
    def name(self) -> str:
        """The model as a user names it, e.g. ``"openai:gpt-5-mini"``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the model offers; known without a call."""
        ...

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            ModelError: the model, or the way to it, failed.
            LedgerError, BudgetExceeded: a wrapper refuses to go on.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and processes. Calling it twice does no harm."""
        ...


@runtime_checkable
class CutsByTokens(Protocol):
    """A `ChatModel` whose tokenizer is at hand."""

    async def cut(self, text: str, tokens: int) -> str:
        """The beginning of `text` that has up to so many tokens.

        Raises:
            ModelError: the tokenizer, or the way to it, failed.
        """
        ...


@runtime_checkable
class ReusesAnswers(Protocol):
    """A `ChatModel` that keeps its answers and gives them again."""

    async def mark_unusable(self, request: ChatRequest) -> None:
        """Note that the answer to `request` could not be read.

        Raises:
            LedgerError: the note cannot be written.
        """
        ...
