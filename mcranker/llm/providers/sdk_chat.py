"""Base of the OpenAI and Anthropic clients: one generator made both libraries.

The libraries do authentication, connections and errors; bodies are written and read in this
package, which takes a third of the processor time of their typed calls. Each library is imported
in the file of its subclass alone.
"""

from __future__ import annotations

import copy
import sys
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import anyio

from mcranker.errors import AuthenticationFailed, ModelError, RequestRejected, ServerFailed
from mcranker.llm.chat import Capabilities, ChatRequest
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.http_chat import (
    KEEP_ALIVE,
    MOST_ERROR,
    MOST_REPLY,
    MOST_RESULTS,
    PLAIN,
    HttpChat,
    checked_settings,
    checked_url,
    find_key,
    key_advice,
    url_in,
)
from mcranker.llm.providers.http_errors import (
    BodyTooLong,
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
from mcranker.llm.providers.parameters import traits_of

if TYPE_CHECKING:
    import httpx2

TRANSFER_SECONDS = 600.0
"""Seconds allowed to sending a batch, or to fetching its state."""

Writer = Callable[[ChatRequest], dict[str, Any]]


class SdkChat(HttpChat):
    """A model that is asked through its provider's library."""

    provider: ClassVar[str]
    url: ClassVar[str]
    models: ClassVar[str]
    cut: ClassVar[str] = ""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 64,
        capabilities: Capabilities | None = None,
    ) -> None:
        checked_settings(timeout, concurrency)
        name, variable = f"{self.provider.lower()}:{model}", self.provider.upper()
        address = checked_url(base_url) if base_url is not None else url_in(f"{variable}_BASE_URL")
        address = (address or self.url).removesuffix(self.cut)
        service = Service(
            model=name,
            where=self.provider if address == self.url else shown_url(address),
            key_advice=key_advice(f"{variable}_API_KEY"),
            model_advice=f"check the model's name at {self.models}",
            connection_advice="check the network, and base_url= if you set one",
            timeout=timeout,
            key=find_key(api_key, f"{variable}_API_KEY", model=name),
            url=address,
        )
        self._traits = traits_of(name)
        super().__init__(
            model, service, capabilities or self._traits.capabilities, concurrency=concurrency
        )

    @abstractmethod
    def _library(self) -> Any:
        """The library, imported when it is first needed."""

    # What the batch API needs.

    def writer(self) -> Writer:
        """Return a writer of bodies as the model takes them, by what is known of it now."""
        memory = copy.deepcopy(self._memory)
        return lambda request: self._with_room(memory.adapt(self._body(request)))

    def learn(self, problem: Problem, sent: Mapping[str, Any]) -> bool:
        """Take note of a refusal; see `ParameterMemory.learn`."""
        return self._memory.learn(problem, sent)

    async def call(
        self, method: Literal["get", "post"], path: str, **options: Any
    ) -> dict[str, Any]:
        """Send an HTTP request of up to `TRANSFER_SECONDS`; return the object in its answer."""
        service = replace(self.service, timeout=TRANSFER_SECONDS)
        options["options"] = {"timeout": TRANSFER_SECONDS, **options.get("options", {})}
        try:
            content = await self._request(method, path, service, options)
        except StatusError as failure:
            raise error_for(failure.problem, service) from failure
        return parse_object(content, service)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The body of the answer to a GET request, in pieces."""
        try:
            with self._errors(self.service):
                client = await self._clients.get()
                response = await client.get(
                    f"{self.service.url}/{path}", cast_to=self._http.Response, stream=True
                )
                widen_body(response, MOST_RESULTS)
                try:
                    async for chunk in response.aiter_bytes():
                        yield chunk
                finally:
                    await response.aclose()
        except StatusError as failure:
            raise error_for(failure.problem, self.service) from None

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        content = json_bytes(body, self.service)
        return await self._request("post", path, self.service, {"content": content})

    async def _request(
        self, method: str, path: str, service: Service, options: Mapping[str, Any]
    ) -> bytes:
        with self._errors(service), anyio.fail_after(service.timeout):
            client = await self._clients.get()
            # The whole address, because the library takes its time to join two parts.
            response = await getattr(client, method)(
                f"{service.url}/{path}", cast_to=self._http.Response, **options
            )
        self._note_limits(response.headers)
        content: bytes = response.content
        return content

    @contextmanager
    def _errors(self, service: Service) -> Iterator[None]:
        """Convert the library's errors, and those that it lets through from below."""
        library = self._library()
        try:
            yield
        except TimeoutError as error:
            raise timed_out(service) from error
        except library.APIStatusError as error:
            raise StatusError(_problem(error.response)) from None  # it says all that was said
        except getattr(library, f"{self.provider}Error") as error:
            raise library_error(error, service) from error
        except self._foreign as error:
            raise transport_error(error, service) from error

    @cached_property
    def _http(self) -> Any:
        """The HTTP package that the library uses: httpx2, or httpx before openai 3, anthropic 2."""
        return http_of(self._library().DefaultAioHttpClient)

    @cached_property
    def _foreign(self) -> tuple[type[Exception], ...]:
        import aiohttp

        own = (self._http.HTTPError, self._http.InvalidURL, self._http.StreamError)
        return (*own, aiohttp.ClientError, OSError, ValueError)  # an impossible host's name

    def _open(self) -> Any:
        library, service, most = self._library(), self.service, self._concurrency
        return getattr(library, f"Async{self.provider}")(
            api_key=service.key,
            base_url=service.url,
            max_retries=0,
            timeout=service.timeout,
            http_client=library.DefaultAioHttpClient(
                limits=self._http.Limits(
                    max_connections=most,
                    max_keepalive_connections=most,
                    keepalive_expiry=KEEP_ALIVE,
                ),
                timeout=service.timeout,
                headers=PLAIN,
                event_hooks={"response": [bound_body]},
                follow_redirects=False,  # one would take the prompt elsewhere
            ),
        )


def library_error(error: Any, service: Service) -> ModelError:
    """Convert an error of a provider's library by the name of its class or of a base of it."""
    names = " ".join(base.__name__ for base in type(error).__mro__)
    if "APIStatusError" in names:
        return error_for(_problem(error.response), service)
    if "APIConnectionError" in names:
        return transport_error(error, service)
    if "APIResponseValidationError" in names:
        return unreadable(str(error), service)
    kind: type[ModelError] = RequestRejected
    said = f"{type(error).__name__} in its library; it is not retried"
    if "Token" in names or "Credentials" in names:  # where a library gets its keys itself
        kind, said = AuthenticationFailed, f"no credentials; {service.key_advice}"
    elif "Retryable" in names:
        kind, said = ServerFailed, "its library asks to retry; it is"
    return kind(f"{service.model}: {said}", model=service.model)


def _problem(response: httpx2.Response) -> Problem:
    return read_problem(response.status_code, response.content, response.headers)


# The libraries read every body whole; so a hook of their HTTP client, which is httpx2, or httpx in
# older versions, replaces the stream of each answer by `_Bounded`.


def http_of(client: Any) -> Any:
    """The HTTP package that a client's class is from: httpx2, or httpx for older libraries."""
    base = next(each for each in client.__mro__ if each.__module__.startswith("httpx"))
    return sys.modules[base.__module__.partition(".")[0].removesuffix("_aiohttp")]


async def bound_body(response: httpx2.Response) -> None:
    """Limit the bytes read of a body, before anything of it is read."""
    response.stream = _bounded_stream(http_of(type(response)).AsyncByteStream)(response)


def widen_body(response: httpx2.Response, most: int) -> None:
    """Let more be read of one body that is read piece by piece."""
    assert isinstance(response.stream, _Bounded), "bound_body is a hook of the client"
    response.stream.most = most


class _Bounded:
    """The body of an answer, decompressed, up to `most` bytes."""

    def __init__(self, response: httpx2.Response) -> None:
        self.most = MOST_REPLY if 200 <= response.status_code < 300 else MOST_ERROR
        self._http = http_of(type(response))
        self._inner: Any = response.stream
        self._encoded = self._http.Headers()
        if encoding := response.headers.pop("content-encoding", ""):
            self._encoded["content-encoding"] = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: AsyncGenerator[bytes, None] = aiter(self._inner)
        if self._encoded:
            whole = self._http.Response(200, headers=self._encoded, stream=self._inner)
            pieces = whole.aiter_bytes()
        size = 0
        async with aclosing(pieces):
            async for piece in pieces:
                size += len(piece)
                if size <= self.most:
                    yield piece
                elif self.most == MOST_ERROR:
                    return
                else:
                    # One of the HTTP package's own, which the libraries know how to pass on.
                    raise self._http.ReadError("body too long") from BodyTooLong(self.most)

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _bounded_stream(base: Any) -> Any:
    """`_Bounded` as a stream of one HTTP package, which looks at the class."""
    return type("_BoundedStream", (_Bounded, base), {})
