"""Protocol shared by the providers' batch APIs, used by `batch_desk`.

A batch API takes many requests at once, answers within 24 hours, and costs half.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError

from mcranker.errors import ModelError, ModelTimeout
from mcranker.llm.chat import ChatModel, ChatReply, ChatRequest
from mcranker.llm.providers.bodies import MOST_REPLY
from mcranker.llm.providers.http_errors import Problem, Service, error_for, unreadable

if TYPE_CHECKING:
    from mcranker.llm.batch.notes import BatchNote

BATCH_SUFFIX = "+batch"
"""Suffix of a model's name that sends it through its batch API."""

TRANSFER_SECONDS = 600.0  # allowed to sending a batch

NO_RESULT = Problem(500, "the batch ended without a result for this request")

MOST_PAGES = 1000
"""Most pages to read of a list of batches, so that an endless list ends."""

Id = Annotated[str, StringConstraints(pattern=r"^[\w.:-]{1,200}$")]
"""An id that the provider gives; it becomes part of a path."""

Form = TypeVar("Form", bound=BaseModel)
Fate = Literal["answered", "failed", "expired", "cancelled"]
Writer = Callable[[ChatRequest], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of a batch.

    Attributes:
        ended: nothing will change any more.
        progress: the provider's word for it and its counts, for the log.
        results: paths of what there is to read; only when it has ended.
        unanswered: what became of requests that have no result; only when it has ended.
        refusal: why the provider did not take the batch; empty if it did.
    """

    ended: bool
    progress: str
    results: tuple[str, ...] = ()
    unanswered: Fate = "failed"
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class BatchItem:
    """The result of one request: a body if it was answered, a problem if it failed."""

    key: str
    fate: Fate
    body: dict[str, Any] | None = None
    problem: Problem = NO_RESULT


class BatchableChat(ChatModel, Protocol):
    """A chat model whose requests and replies can also travel in files."""

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        ...

    @property
    def service(self) -> Service:
        """Provider details used in error messages."""
        ...

    def writer(self) -> Writer:
        """Writes requests as the model takes them, by what is known of it now.

        What is learnt later does not change what a writer writes. It raises
        `UnsupportedCapability` for a request that the model cannot serve.
        """
        ...

    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        """Return the reply in an answer. Of `request`, only the labels are used.

        Raises:
            ModelError: as `complete` does.
        """
        ...

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        """Take note of a refusal; see `ParameterMemory.learn`."""
        ...

    async def call(
        self, method: Literal["GET", "POST"], path: str, content: bytes | None = None
    ) -> dict[str, Any]:
        """Send one HTTP request; may take up to `TRANSFER_SECONDS`.

        Returns:
            The JSON object of the answer.

        Raises:
            ModelError: the service answers with an error, or not at all.
        """
        ...

    def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The body of a GET request, in pieces.

        Raises:
            ModelError: as `call` does, at any piece.
        """
        ...


class BatchService(Protocol):
    """One provider's batch API.

    Attributes:
        chat: the model that is asked.
        most_requests: in one batch.
        most_bytes: in one batch.
    """

    most_requests: int
    most_bytes: int

    @property
    def chat(self) -> BatchableChat:
        """The model that is asked."""
        ...

    def line(self, key: str, body: Mapping[str, Any]) -> bytes:
        """One request of a batch; `key` comes back with its result."""
        ...

    async def upload(self, lines: Sequence[bytes], mark: str) -> bytes:
        """Upload the requests for `create`.

        Returns:
            What `create` needs to know.

        Raises:
            ModelError: as `BatchableChat.call` does.
        """
        ...

    async def create(self, source: bytes, mark: str) -> str:
        """Create a batch, which will be charged; `mark` is stored with it where the provider can.

        Returns:
            The provider's id of the batch.

        Raises:
            ModelError: as `BatchableChat.call` does.
        """
        ...

    async def find(self, note: BatchNote, taken: Set[str]) -> str | None:
        """The id of the batch that was created for a note which does not know it.

        Args:
            note: what is known.
            taken: ids of batches that belong to other notes.

        Raises:
            ModelError: as `BatchableChat.call` does.
        """
        ...

    async def check(self, batch: str) -> BatchStatus:
        """Return the state of a batch.

        Raises:
            ModelError: as `BatchableChat.call` does.
        """
        ...

    def item(self, data: Mapping[str, Any]) -> BatchItem:
        """One line of the results."""
        ...


def item_error(item: BatchItem, batch: str, service: Service) -> ModelError:
    """The error of a request that was not answered."""
    if item.fate == "expired":
        return ModelTimeout(
            f"{service.model}: batch {batch} ended before this request was answered; "
            "try again later",
            model=service.model,
        )
    if item.fate == "cancelled":
        return ModelError(
            f"{service.model}: batch {batch} was cancelled at {service.where}, not by this "
            "program; what it had answered is kept, run again to send the rest",
            model=service.model,
        )
    return error_for(item.problem, service)


def parsed(form: type[Form], data: Mapping[str, Any], service: Service) -> Form:
    """An answer in its form.

    Raises:
        ServerFailed: it has another one.
    """
    try:
        return form.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise unreadable(f"{place}: {first['msg']}", service) from None


async def lines_of(pieces: AsyncIterator[bytes], service: Service) -> AsyncGenerator[bytes, None]:
    """The lines of a text that comes in pieces, without empty ones.

    Lines end at line feeds only: replies may hold the other characters that end a line.

    Raises:
        ServerFailed: a line is longer than `MOST_REPLY` bytes.
    """
    rest: list[bytes] = []
    size = 0
    async for piece in pieces:
        *lines, last = piece.split(b"\n")
        for line in lines:
            rest.append(line)
            if whole := b"".join(rest).strip():
                yield whole
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if size > MOST_REPLY:
            raise unreadable(f"a line of more than {MOST_REPLY:,} bytes", service)
    if whole := b"".join(rest).strip():
        yield whole
