"""Base of every model asked over HTTP: what it is asked, and what it has refused so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mcranker.errors import ModelError
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    StatusError,
    error_for,
    parse_object,
    reading,
)
from mcranker.llm.providers.parameters import ParameterMemory
from mcranker.llm.providers.per_loop import PerLoop
from mcranker.llm.typed_answers import check_limits

KEEP_ALIVE = 60.0  # seconds; shorter ones cost a new connection, and a TLS handshake, each time


@dataclass(frozen=True, slots=True)
class Exchange:
    """A kind of call other than a chat, at a path below the base URL."""

    path: str
    body: Callable[[ChatRequest, str], dict[str, Any]]
    reply: Callable[..., ChatReply]
    explain: Callable[[Problem, Service], ModelError | None] = lambda problem, service: None
    list_as: str = ""  # the name given to a list that is answered in place of an object


class HttpChat(ABC):
    """A model at an address, with what it offers before it has refused anything."""

    _path: ClassVar[str] = "chat/completions"
    _questions: Exchange | None = None
    _continuation: Exchange | None = None

    def __init__(
        self, model: str, service: Service, capabilities: Capabilities, *, concurrency: int
    ) -> None:
        self.name = service.model
        self.endpoint = service.url
        self.service = service
        self._model = model
        self._capabilities = capabilities
        self._concurrency = concurrency
        self._memory = ParameterMemory(service.model)
        self._clients: PerLoop[Any] = PerLoop(self._open)

    @property
    def capabilities(self) -> Capabilities:
        return self._memory.within(self._capabilities)

    async def complete(self, request: ChatRequest) -> ChatReply:
        exchange = self._continuation if request.continuation else None
        if request.questions or not self._capabilities.prompts:
            exchange = self._questions
        try:
            if exchange is None:
                content = await self._memory.ask(self._body(request), self._send)
                data = parse_object(content, self.service)
                with reading(content, self.service):
                    return self.read(data, request)
            body = exchange.body(request, self._model)
            check_limits(request, self._capabilities, self.name)
            content = await self._post(exchange.path, body)
            data = parse_object(content, self.service, list_as=exchange.list_as)
            with reading(content, self.service):
                return exchange.reply(data, request, service=self.service)
        except StatusError as failure:
            better = exchange and exchange.explain(failure.problem, self.service)
            raise better or error_for(failure.problem, self.service) from failure

    @abstractmethod
    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        """Return the reply in the answer to a chat."""

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._clients.aclose()

    @abstractmethod
    def _open(self) -> Any:
        """Open a client for the running event loop."""

    @abstractmethod
    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a chat, before refused parameters are left out."""

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with room for thoughts, if the model will think."""
        return body

    @abstractmethod
    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a JSON object, and return the body of the answer."""

    async def _send(self, body: dict[str, Any]) -> bytes:
        return await self._post(self._path, self._with_room(body))
