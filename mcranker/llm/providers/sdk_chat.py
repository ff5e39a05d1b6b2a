"""Base of the OpenAI and Anthropic clients: one generator made both libraries.

Each library is imported in the file of its subclass alone.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import anyio

from mcranker.errors import ModelError, RequestRejected
from mcranker.llm.batch.protocol import TRANSFER_SECONDS
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.bodies import MOST_RESULTS, PLAIN
from mcranker.llm.providers.endpoint import checked_settings, chosen_url, find_key, key_advice
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    StatusError,
    error_for,
    json_bytes,
    parse_object,
    read_problem,
    timed_out,
    transport_error,
    unreadable,
)
from mcranker.llm.providers.parameters import ParameterMemory
from mcranker.llm.providers.per_loop import PerLoop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    import httpx2

    from mcranker.llm.batch.protocol import Writer
    from mcranker.llm.chat import ChatRequest

KEEP_ALIVE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class SdkService:
    """A provider's service and library.

    Attributes:
        name: of the company, as its library spells it: ``AsyncNAME``, ``NAMEError``.
        url: of its service.
        variable: what the names of its environment variables begin with.
        models: where its models are listed.
        cut: what a base URL may end in without meaning anything else.
    """

    name: str
    url: str
    variable: str
    models: str
    cut: str = ""


class SdkChat(ABC):
    """A model that is asked through its provider's library.

    Args:
        provider: whom to ask.
        name: of the model in rankings.
        api_key: None for the environment's.
        base_url: another address of the same service; None for the environment's, else the
            provider's own.
        timeout: seconds allowed to one call, from asking for a connection to the last byte.
        concurrency: connections at most.

    Raises:
        AuthenticationFailed: there is no key, or it cannot be one.
        ConfigError: an argument that cannot be.
    """

    def __init__(
        self,
        provider: SdkService,
        name: str,
        *,
        api_key: str | None,
        base_url: str | None,
        timeout: float,
        concurrency: int,
    ) -> None:
        checked_settings(timeout, concurrency)
        url = chosen_url(base_url, f"{provider.variable}_BASE_URL", provider.url)
        self._provider = provider
        self._base_url = url.removesuffix(provider.cut)
        self._concurrency = concurrency
        self._memory = ParameterMemory(name)
        self._clients: PerLoop[Any] = PerLoop(self._open, _close)
        key = f"{provider.variable}_API_KEY"
        self._service = Service(
            model=name,
            where=provider.name if self._base_url == provider.url else shown_url(self._base_url),
            key_advice=key_advice(key),
            model_advice=f"check the model's name at {provider.models}",
            connection_advice="check the network, and base_url= if you set one",
            timeout=timeout,
            key=find_key(api_key, key, model=name),
            url=self._base_url,
        )

    @property
    def name(self) -> str:
        return self._service.model

    @property
    def endpoint(self) -> str:
        """The service's base URL."""
        return self._base_url

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._clients.aclose()

    @abstractmethod
    def _library(self) -> Any:
        """The library, imported when it is first needed."""

    @abstractmethod
    def _error(self, error: Any, service: Service) -> ModelError:
        """The error of this package for one of the library's."""

    @abstractmethod
    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a request, before refused parameters are left out."""

    @abstractmethod
    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body with room for thoughts, if the model will think."""

    # What the batch API needs; see `mcranker.llm.batch.protocol.BatchableChat`.

    @property
    def service(self) -> Service:
        return self._service

    def writer(self) -> Writer:
        memory = copy.deepcopy(self._memory)
        return lambda request: self._with_room(memory.adapt(self._body(request)))

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        return self._memory.learn(problem, sent)

    async def call(
        self, method: Literal["GET", "POST"], path: str, content: bytes | None = None
    ) -> dict[str, Any]:
        response_type = self._http.Response

        async def send(client: Any) -> httpx2.Response:
            options = {} if method == "GET" else {"content": content, **_TRANSFER}
            ask = client.get if method == "GET" else client.post
            response: httpx2.Response = await ask(path, cast_to=response_type, **options)
            return response

        return await self._transfer(send)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        from mcranker.llm.providers.sdk_bodies import foreign, widen_body

        http = self._http
        try:
            client = await self._clients.get()
            response = await client.get(path, cast_to=http.Response, stream=True)
            widen_body(response, MOST_RESULTS)
            try:
                async for chunk in response.aiter_bytes():
                    yield chunk
            finally:
                await response.aclose()
        except self._library().APIStatusError as error:
            raise error_for(_problem(error), self._service) from None
        except self._library_errors() as error:
            raise self._error(error, self._service) from error
        except foreign(http) as error:
            raise transport_error(error, self._service) from error

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        content, response_type = json_bytes(body, self._service), self._http.Response

        async def send(client: Any) -> httpx2.Response:
            # The whole address, because the library takes its time to join two parts.
            url = f"{self._base_url}{path}"
            response: httpx2.Response = await client.post(
                url, cast_to=response_type, content=content
            )
            return response

        return await self._answer(send, self._service)

    async def _transfer(self, send: Callable[[Any], Awaitable[httpx2.Response]]) -> dict[str, Any]:
        """Like `_answer`, for what may be large and has time."""
        try:
            return await self._answer(send, replace(self._service, timeout=TRANSFER_SECONDS))
        except StatusError as failure:
            raise error_for(failure.problem, self._service) from failure

    async def _answer(
        self, send: Callable[[Any], Awaitable[httpx2.Response]], service: Service
    ) -> dict[str, Any]:
        from mcranker.llm.providers.sdk_bodies import foreign

        try:
            with anyio.fail_after(service.timeout):
                response = await send(await self._clients.get())
        except TimeoutError as error:
            raise timed_out(service) from error
        except self._library().APIStatusError as error:
            raise StatusError(_problem(error)) from None  # it says all that the provider said
        except self._library_errors() as error:
            raise self._error(error, service) from error
        except foreign(self._http) as error:
            raise transport_error(error, service) from error
        return parse_object(response.content, service)

    def _library_errors(self) -> type[Exception]:
        base: type[Exception] = getattr(self._library(), f"{self._provider.name}Error")
        return base

    @cached_property
    def _http(self) -> Any:
        """The HTTP package that the library uses: httpx2, or httpx before openai 3, anthropic 2."""
        from mcranker.llm.providers.sdk_bodies import http_of

        return http_of(self._library().DefaultAioHttpClient)

    def _open(self) -> Any:
        from mcranker.llm.providers.sdk_bodies import bound_body

        library, timeout = self._library(), self._service.timeout
        return getattr(library, f"Async{self._provider.name}")(
            api_key=self._service.key,
            base_url=self._base_url,
            max_retries=0,
            timeout=timeout,
            http_client=library.DefaultAioHttpClient(
                limits=self._http.Limits(
                    max_connections=self._concurrency,
                    max_keepalive_connections=self._concurrency,
                    keepalive_expiry=KEEP_ALIVE,
                ),
                timeout=timeout,
                headers=PLAIN,
                event_hooks={"response": [bound_body]},
                follow_redirects=False,  # one would take the prompt elsewhere
            ),
        )


_TRANSFER: dict[str, Any] = {"options": {"timeout": TRANSFER_SECONDS}}


def library_error(error: Any, service: Service, library: Any, name: str) -> ModelError:
    """The error of this package for one of a provider's library."""
    if isinstance(error, library.APIStatusError):
        return error_for(_problem(error), service)
    if isinstance(error, library.APIConnectionError):
        return transport_error(error, service)
    if isinstance(error, library.APIResponseValidationError):
        return unreadable(str(error), service)
    return RequestRejected(
        f"{service.model}: {type(error).__name__} in {name}'s library; it is not retried",
        model=service.model,
    )


def _problem(error: Any) -> Problem:
    response = error.response
    return read_problem(response.status_code, response.content, response.headers)


async def _close(client: Any) -> None:
    await client.close()
