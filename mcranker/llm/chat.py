"""The one boundary to language models: requests, replies and models.

`ChatModel` has one working method. Whatever wraps a provider (caching, limits,
retries) is a `ChatModel` too and wraps another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import orjson

from personas.ranking.usage import Stage, Usage

if TYPE_CHECKING:
    from personas.ranking.types import WeakJudge

REASONING_TOKENS = 4096
"""Tokens added to a reply's limit for models that always reason."""
DECISIONS_SUFFIX = "+decisions"  # of an OpenAI model that was asked typed questions
TOKENS_A_BYTE = 1 / 3  # more than plain text has in any script; English has a quarter
TOKENS_A_MESSAGE = 8  # for what providers put around each message


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation.

    A last message of role ``assistant`` is a prefill: the model continues it. It is only
    sent to models whose `Capabilities.prefill` is true.
    """

    role: Literal["system", "user", "assistant"]
    content: str
    shared: int = field(default=0, compare=False)
    """Characters at the beginning that are the same in many requests, for prompt caches."""


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The form of a reply: a name of letters, digits and underscores, and a JSON schema."""

    name: str
    schema: Mapping[str, Any]
    items: int = field(default=1, compare=False)
    """Items in each of its lists, for estimates; providers do not take such limits alike."""


@dataclass(frozen=True, slots=True)
class Option:
    """A level of a scale, whose name is its number, or one of the things to choose among."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """The persona a question is answered as, and a person's instruction; for judges of meaning."""

    name: str
    description: str = ""
    instruction: str = ""
    criteria: int = 0  # of a team, in the question's words


@dataclass(frozen=True, slots=True)
class Question:
    """A typed question about a state, or about the messages where there is none.

    | kind | options | value of the answer |
    |---|---|---|
    | ``"score"`` | levels, lowest first; none for the numbers 0 to `top` | 0 to `top` |
    | ``"yes_no"`` | none, or what counts as yes and what as no | probability of yes, 0 to 1 |
    | ``"choice"`` | what to choose among, at least two | place of the likeliest option |

    Attributes:
        name: of letters, digits and underscores; no two questions of a request share it.
        top: what the highest level counts; levels are equally far apart. At least 1.
        passage: name of the passage in `State.passages` that it is about; empty for all.
        judge: who judges, for models that do not read instructions; never sent.
    """

    name: str
    text: str
    top: int = 1
    kind: Literal["score", "yes_no", "choice"] = "score"
    options: tuple[Option, ...] = ()
    passage: str = ""
    judge: Judge | None = None

    @property
    def levels(self) -> tuple[Option, ...]:
        """The levels of a score, lowest first."""
        return self.options or tuple(Option(str(value)) for value in range(self.top + 1))


@dataclass(frozen=True, slots=True)
class PassageStatistics:
    """Counts over all distinct passages of a query, those beyond ``depth`` included."""

    passages: int
    terms: int
    frequencies: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class State:
    """The data that typed questions are about. Texts in it cannot pass for instructions.

    Attributes:
        passages: name -> text with its title; in the order in which they are shown.
        judges: name -> persona and criteria in words, where questions refer to them by name.
        statistics: of all passages of the query, for models that ask for them
            (`Capabilities.statistics`); never sent. None for others.
    """

    query: str
    passages: Mapping[str, str]
    judges: Mapping[str, str] = field(default_factory=dict)
    statistics: PassageStatistics | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plain values to send, without empty parts."""
        parts = {
            "query": self.query,
            "judges": dict(self.judges),
            "passages": dict(self.passages),
        }
        return {name: part for name, part in parts.items() if part}


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to a `Question`.

    Attributes:
        value: see the table of `Question`; None if there is none.
        confidence: 0 to 1, as the model reports it; None if it does not.
        probabilities: of each level or option, in their order; for yes and no, of these two.
            They sum to 1. None if the model gives none.
        problem: why there is no value, as "declined"; empty otherwise.
    """

    value: float | None
    confidence: float | None = None
    probabilities: tuple[float, ...] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Tag:
    """Labels for the purpose of a request. Never sent, and never part of a ledger key.

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
        questions: if not empty, typed questions about `state`, and an answer to each is wanted
            (`ChatReply.answers`). Only for models whose `Capabilities` allow as many, with as
            many levels and options. Excludes `schema` and `labels`.
        state: what `questions` are about; `messages` then say what the task is. None where the
            messages themselves are what they are about.
        temperature: 0 for the most likely reply; None for the provider's default.
        max_tokens: limit of the reply, in tokens.
        seed: for providers that take one.
        sample: which of several answers is wanted; another number is another
            question to the ledger. Never sent.
        continuation: if not empty, nothing is to be written: how likely each token of this text is
            as the reply is wanted (`ChatReply.continuation_logprobs`). It neither begins nor ends
            with white space. Excludes `schema`, `labels` and `questions`.
        tag: what the request is for.
    """

    messages: tuple[Message, ...]
    tag: Tag
    schema: ReplySchema | None = None
    labels: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    state: State | None = None
    temperature: float | None = 0.0
    max_tokens: int = 1024
    seed: int | None = None
    sample: int = 0
    continuation: str = ""


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
        answers: one to each question, in their order. None if none were asked.
        reused: the answer was there already, or came for an equal request that was on its way;
            `usage` then says what it took when it was given, and nothing was paid now.
        continuation_logprobs: natural logarithm of the probability of each token of the
            continuation, given the messages and the tokens before it. None if none was given.
    """

    text: str
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    model: str = ""
    finish_reason: Literal["stop", "length"] = "stop"
    label_logprobs: Mapping[str, float] | None = None
    answers: tuple[Answer, ...] | None = None
    reused: bool = False
    continuation_logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Features a model offers beyond plain text.

    Attributes:
        json_schema: replies can be constrained to a JSON schema.
        label_logprobs: probabilities of labels can be read.
        prefill: the beginning of the reply can be given.
        prefix_slots: how many different prompt prefixes the model keeps evaluated at once.
            Scoring uses no more workers than that, and goes persona by persona. None: no
            such limit.
        max_questions: how many `Question`s one request may ask; 0 for none.
        max_levels: how many levels a score may have; None for no such limit.
        max_choices: how many options a choice may have; None for no such limit.
        max_state_tokens: length of the state and the longest question together; None likewise.
        prompts: it answers prompts; if not, typed questions only.
        reasons: it weighs what a passage says; if not, it compares meanings, as an encoder does.
        statistics: its answers depend on `State.statistics`.
        continuation_logprobs: probabilities of the tokens of a given text can be read.
        instructions: it takes a `Judge.instruction`, as some rerank services do.
    """

    json_schema: bool = False
    label_logprobs: bool = False
    prefill: bool = False
    prefix_slots: int | None = None
    max_questions: int = 0
    max_levels: int | None = None
    max_choices: int | None = None
    max_state_tokens: int | None = None
    prompts: bool = True
    reasons: bool = True
    statistics: bool = False
    continuation_logprobs: bool = False
    instructions: bool = False

    @property
    def weak_judge(self) -> WeakJudge:
        """Reason to trust rankings by the model little; empty where none is known."""
        return "" if self.reasons else "encoder"


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a `ChatRequest`."""

    @property
    def name(self) -> str:
        """The model as a user names it, e.g. ``"openai:gpt-5-mini"``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The model's features, known without a call."""
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
    """A `ChatModel` with a local tokenizer."""

    async def cut(self, text: str, tokens: int) -> str:
        """The beginning of `text` that has up to `tokens` tokens."""
        ...


@runtime_checkable
class ReusesAnswers(Protocol):
    """A `ChatModel` that stores its answers and reuses them."""

    async def mark_unusable(self, request: ChatRequest) -> None:
        """Note that the answer to `request` could not be read."""
        ...


def most_used(request: ChatRequest, *, tokens_a_byte: float = TOKENS_A_BYTE) -> Usage:
    """The tokens that one call can take: nothing cached, and a reply at its limit."""
    return Usage(
        calls=1,
        input_tokens=math.ceil(prompt_bytes(request) * tokens_a_byte)
        + TOKENS_A_MESSAGE * len(request.messages),
        output_tokens=request.max_tokens + REASONING_TOKENS,
    )


def prompt_bytes(request: ChatRequest) -> int:
    """The length of what is sent, in bytes of UTF-8: messages, schema, state and questions."""
    schema = orjson.dumps(dict(request.schema.schema)) if request.schema else b""
    texts = [*(message.content for message in request.messages), request.continuation]
    questions = sum(map(question_bytes, request.questions))
    return len(schema) + sum(map(_bytes, texts)) + questions + state_bytes(request.state)


def question_bytes(question: Question) -> int:
    """The length of a question and its options, in bytes of UTF-8."""
    texts = [text for option in question.options for text in (option.name, option.description)]
    return _bytes(question.text) + sum(map(_bytes, texts))


def state_bytes(state: State | None) -> int:
    """The length of a state, in bytes of UTF-8; 0 for none."""
    if state is None:
        return 0
    pairs = (*state.passages.items(), *state.judges.items())
    return _bytes(state.query) + sum(_bytes(text) for pair in pairs for text in pair)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


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


def billed_as(model: str, request: ChatRequest) -> str:
    """The name under which a call's tokens have their price, for `cost`."""
    has_two_prices = model.startswith("openai:") and bool(request.questions)
    return f"{model}{DECISIONS_SUFFIX}" if has_two_prices else model
