"""Base of every model asked over HTTP: what it is asked, and what it has refused so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mcranker.errors import ModelError
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.providers.http_errors import Problem, Service, StatusError, error_for
from mcranker.llm.providers.parameters import ParameterMemory
from mcranker.llm.typed_answers import check_limits

KEEP_ALIVE = 60.0  # seconds; shorter ones cost a new connection, and a TLS handshake, each time


@dataclass(frozen=True, slots=True)
class Exchange:
    """A kind of call other than a chat.

    Attributes:
        path: below the base URL.
        body: the JSON body for a request and the model's name; raises `UnsupportedCapability` for
            a request that such a call cannot serve.
        reply: reads the answer, with ``service=`` for messages.
        explain: a better error for a refusal than `error_for` has, or None.
        list_as: the name given to a list that is answered in place of an object.
    """

    path: str
    body: Callable[[ChatRequest, str], dict[str, Any]]
    reply: Callable[..., ChatReply]
    explain: Callable[[Problem, Service], ModelError | None] = lambda problem, service: None
    list_as: str = ""


class HttpChat(ABC):
    """A model at an address.

    Args:
        model: the model's name as the service knows it.
        service: where it is, and its name in rankings.
        capabilities: what it offers, before it has refused anything.
    """

    _path: ClassVar[str] = "chat/completions"
    _questions: Exchange | None = None
    _continuation: Exchange | None = None

    def __init__(self, model: str, service: Service, capabilities: Capabilities) -> None:
        self._model = model
        self._service = service
        self._capabilities = capabilities
        self._memory = ParameterMemory(service.model)

    @property
    def name(self) -> str:
        return self._service.model

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self._service.url

    @property
    def service(self) -> Service:
        """Provider details used in error messages."""
        return self._service

    @property
    def capabilities(self) -> Capabilities:
        return self._memory.within(self._capabilities)

    async def complete(self, request: ChatRequest) -> ChatReply:
        exchange = self._continuation if request.continuation else None
        if request.questions or not self._capabilities.prompts:
            exchange = self._questions
        try:
            if exchange is None:
                return self.read(await self._memory.ask(self._body(request), self._send), request)
            body = exchange.body(request, self._model)
            check_limits(request, self._capabilities, self.name)
            data = await self._post(exchange.path, body, exchange.list_as)
            return exchange.reply(data, request, service=self._service)
        except StatusError as failure:
            better = exchange and exchange.explain(failure.problem, self._service)
            raise better or error_for(failure.problem, self._service) from failure

    @abstractmethod
    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        """Return the reply in the answer to a chat.

        Raises:
            ModelError: as `complete` does.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""

    @abstractmethod
    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a chat, before refused parameters are left out."""

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with room for thoughts, if the model will think."""
        return body

    @abstractmethod
    async def _post(self, path: str, body: Mapping[str, Any], list_as: str = "") -> dict[str, Any]:
        """Send a JSON object, and return the object in the answer.

        Raises:
            StatusError: the answer is an error.
            ModelError: there is no answer, or none that can be read.
        """

    async def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        return await self._post(self._path, self._with_room(body))
