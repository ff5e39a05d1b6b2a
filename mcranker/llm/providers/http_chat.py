"""Every model asked over HTTP: address and key, a client per event loop, bodies, batches.

Servers are asked not to compress: replies are a few kilobytes. Those that do are understood. The
bytes read of a body are bounded, once decompressed: see `MOST_REPLY`, `MOST_ERROR`, `MOST_RESULTS`.
"""

from __future__ import annotations

import asyncio
import copy
import io
import os
import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import SplitResult, urlsplit
from weakref import WeakKeyDictionary

from mcranker.errors import AuthenticationFailed, ConfigError, ModelError, RequestRejected
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.http_errors import (
    BodyTooLong,
    Problem,
    Service,
    StatusError,
    error_for,
    json_bytes,
    parse_object,
    read_problem,
    reading,
    timed_out,
    transport_error,
)
from mcranker.llm.providers.parameters import ParameterMemory, traits_of
from mcranker.llm.typed_answers import check_limits
from mcranker.runtime.processes import abandon, renew_in_child

if TYPE_CHECKING:
    import aiohttp

KEEP_ALIVE = 60.0  # seconds; shorter ones cost a new connection, and a TLS handshake, each time
MOST_REPLY = 8 * 2**20
"""The longest replies, with all thoughts of a model, take less than one of these MiB."""
MOST_ERROR = 2**20
MOST_RESULTS = 2**30
LARGE = 2**20  # bytes of a body, beyond which it is sent in pieces
TRANSFER_SECONDS = 600.0
"""Seconds allowed to sending a batch, or to fetching its state."""
EXAMPLE = "http://localhost:8000/v1"

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")

Writer = Callable[[ChatRequest], dict[str, Any]]


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
        if not service.timeout > 0:
            raise ConfigError(f"timeout={service.timeout!r} must be a positive number of seconds")
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency!r} must be at least 1")
        self.name = service.model
        self.endpoint = service.url
        self.service = service
        self._model = model
        self._capabilities = capabilities
        self._concurrency = concurrency
        self.memory = ParameterMemory(service.model)
        self._clients = PerLoop(self._open)

    @property
    def capabilities(self) -> Capabilities:
        return self.memory.within(self._capabilities)

    async def complete(self, request: ChatRequest) -> ChatReply:
        exchange = self._continuation if request.continuation else None
        if request.questions or not self._capabilities.prompts:
            exchange = self._questions
        try:
            if exchange is None:
                content = await self._ask(self._body(request))
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

    async def _ask(self, body: Mapping[str, Any]) -> bytes:
        """Send a chat, again for each parameter that turns out to be refused."""
        while True:  # ends: every turn takes away a parameter, a value or a name for good
            sent = self.memory.adapt(body)
            try:
                return await self._post(self._path, self._with_room(sent))
            except StatusError as failure:
                if not self.memory.learn(failure.problem, sent):
                    raise

    @abstractmethod
    def read(self, data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
        """Return the reply in the answer to a chat."""

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        await self._clients.aclose()

    async def call(self, method: str, path: str, *args: Any, **options: Any) -> dict[str, Any]:
        """Send a request as `fetch` does; return the object in its answer."""
        return parse_object(await self.fetch(method, path, *args, **options), self.service)

    async def fetch(self, method: str, path: str, *args: Any, **options: Any) -> bytes:
        """Send a request as `_request` does; return the body of its answer."""
        try:
            return await self._request(method, path, *args, **options)
        except StatusError as failure:
            raise error_for(failure.problem, self.service) from failure

    @abstractmethod
    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the body of a chat, before refused parameters are left out."""

    def _with_room(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with room for thoughts, if the model will think."""
        return body

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        return await self._request("post", path, json_bytes(body, self.service))

    async def _request(
        self,
        method: str,
        path: str,
        data: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        most: int = MOST_REPLY,
    ) -> bytes:
        import aiohttp

        service = replace(self.service, timeout=seconds or self.service.timeout)
        if isinstance(data, bytes) and len(data) >= LARGE:
            data = io.BytesIO(data)
        url = f"{service.url}/{path}"
        try:
            # Half the processor time of anyio's, which counts at a thousand calls a second.
            async with asyncio.timeout(service.timeout):
                session = await self._clients.get()
                # A redirect would take the prompt elsewhere.
                async with session.request(
                    method, url, data=data, headers=headers, allow_redirects=False
                ) as response:
                    good = 200 <= response.status < 300
                    pieces = response.content.iter_any()
                    answer = await _joined(pieces, most if good else MOST_ERROR, whole=good)
        except TimeoutError as error:
            raise timed_out(service) from error
        # A ValueError is a name that no host has.
        except (aiohttp.ClientError, OSError, ValueError, BodyTooLong) as error:
            raise transport_error(error, service) from error
        if not good:
            raise StatusError(read_problem(response.status, answer, response.headers))
        return answer

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.service.key}"} if self.service.key else {}

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        plain = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrency, keepalive_timeout=KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={**plain, "User-Agent": "mcranker", **self._headers()},
            proxy=environment_proxy(self.service.url),
            timeout=aiohttp.ClientTimeout(total=None),
        )


class HostedChat(HttpChat):
    """A model of OpenAI or Anthropic: chats through its own library, batches by plain HTTP."""

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
        self._libraries = PerLoop(self._open_library)

    async def aclose(self) -> None:
        await self._libraries.aclose()
        await super().aclose()

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        library, service = import_module(self.provider.lower()), self.service
        content = json_bytes(body, service)
        try:
            async with asyncio.timeout(service.timeout):
                client = await self._libraries.get()
                # The whole address, because the library takes its time to join two parts.
                response = await client.post(
                    f"{service.url}/{path}",
                    content=content,
                    cast_to=_http(library).Response,
                    stream=True,
                )
                async with aclosing(response):
                    answer = await _joined(response.aiter_bytes(), MOST_REPLY, whole=True)
        except TimeoutError as error:
            raise timed_out(service) from error
        except (library.APIConnectionError, _http(library).HTTPError) as error:
            if isinstance(error.__cause__, StatusError):
                raise error.__cause__ from None
            raise transport_error(error, service) from error
        except (OSError, ValueError, BodyTooLong) as error:
            raise transport_error(error, service) from error
        except getattr(library, f"{self.provider}Error") as error:
            raise RequestRejected(
                f"{self.name}: {type(error).__name__} in its library", model=self.name
            ) from error
        return answer

    def _open_library(self) -> Any:
        library, most = import_module(self.provider.lower()), self._concurrency
        limits = _http(library).Limits(
            max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEP_ALIVE
        )
        return getattr(library, f"Async{self.provider}")(
            api_key=self.service.key,
            base_url=self.service.url,
            max_retries=0,
            timeout=self.service.timeout,
            http_client=library.DefaultAioHttpClient(
                limits=limits,
                timeout=self.service.timeout,
                headers={"Accept-Encoding": "identity"},
                event_hooks={"response": [_refuse]},
                follow_redirects=False,  # one would take the prompt elsewhere
            ),
        )

    def writer(self) -> Writer:
        """Return a writer of bodies as the model takes them, by what is known of it now."""
        memory = copy.deepcopy(self.memory)
        return lambda request: self._with_room(memory.adapt(self._body(request)))


async def _joined(pieces: AsyncIterator[bytes], most: int, *, whole: bool) -> bytes:
    """The body of an answer, of up to `most` bytes; if not `whole`, its beginning will do."""
    found: list[bytes] = []
    size = 0
    async for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > most and whole:
            raise BodyTooLong(most)
        if size > most:
            break
    return b"".join(found)


async def _refuse(response: Any) -> None:
    """Raise what a refusal says, before the library reads all of it."""
    if not 200 <= response.status_code < 300:
        said = await _joined(response.aiter_bytes(), MOST_ERROR, whole=False)
        raise StatusError(read_problem(response.status_code, said, response.headers))


def _http(library: Any) -> Any:
    """The HTTP package that a library uses: httpx2, or httpx before openai 3 and anthropic 2."""
    base = next(
        each for each in library.DefaultAioHttpClient.__mro__ if each.__module__.startswith("httpx")
    )
    return sys.modules[base.__module__.partition(".")[0].removesuffix("_aiohttp")]


class PerLoop:
    """Opens an HTTP client at its first use in each event loop, and closes it with the loop.

    A ranker may be used from several loops, one after the other or at once.
    """

    def __init__(self, open_client: Callable[[], Any]) -> None:
        self._open = open_client
        self._reset()
        renew_in_child(self)

    def after_fork(self) -> None:
        for entry in self._open_clients.items():
            abandon(entry)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._open_clients: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    async def get(self) -> Any:
        """The running loop's client."""
        loop = asyncio.get_running_loop()
        entry = self._open_clients.get(loop)
        if entry is not None:
            return entry[0]
        client = self._open()
        guard = _guard(client)
        with self._lock:
            # A client refers to its loop, so the weak keys alone would never let go of one.
            for dead in [each for each in self._open_clients if each.is_closed()]:
                del self._open_clients[dead]
            self._open_clients[loop] = (client, guard)
        # The generator yields without waiting, so no other task of this loop runs in between.
        await anext(guard)
        return client

    async def aclose(self) -> None:
        """Close the running loop's client, if it has one. The others go with their loops."""
        with self._lock:
            entry = self._open_clients.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()


async def _guard(client: Any) -> AsyncGenerator[None, None]:
    # A loop that shuts down (asyncio.run, anyio.run) closes its asynchronous generators:
    # so the client is closed even without a call of aclose().
    try:
        yield
    finally:
        await client.close()


# Address and key, checked once, before the first call.


def url_in(variable: str) -> str | None:
    """Return the base URL in an environment variable, checked; None if it is not set."""
    named = os.environ.get(variable, "").strip()
    return checked_url(named, variable) if named else None


def checked_url(url: str, name: str = "base_url") -> str:
    """A base URL without a slash at its end; `name` is the option or variable it was given in."""
    stripped = url.strip().rstrip("/")
    shown = f"{name}={shown_url(url)!r}"
    try:
        parts = urlsplit(stripped)
        usable = parts.scheme in ("http", "https") and parts.port != 0 and _is_host(parts)
    except ValueError:
        usable = False
    # `urlsplit` leaves out line breaks, which are no part of an address.
    if not usable or not stripped.isprintable() or " " in stripped:
        raise ConfigError(f"{shown} is not a URL; leave it out, or write it like {EXAMPLE!r}")
    if "@" in parts.netloc:
        raise ConfigError(
            f"{shown} holds a user name or password; leave it out, and set OPENAI_API_KEY or "
            "ANTHROPIC_API_KEY or pass api_key="
        )
    if "?" in stripped or "#" in stripped:
        raise ConfigError(
            f"{shown} goes on after its path; paths are added to it, so leave out what begins "
            "with '?' or '#'"
        )
    return stripped


def find_key(explicit: str | None, variable: str, *, model: str, required: bool = True) -> str:
    """Return the API key: the one passed, else the one in an environment variable."""
    given = (explicit or "").strip()
    key = given or os.environ.get(variable, "").strip()
    if required and not key:
        raise AuthenticationFailed(f"{model}: no API key; {key_advice(variable)}", model=model)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise AuthenticationFailed(
            f"{model}: the API key holds characters that no key has (line breaks, spaces, "
            f"accents); copy it again and {'pass it as api_key=' if given else f'set {variable}'}",
            model=model,
        )
    return key


def key_advice(variable: str) -> str:
    """Return advice about a missing or wrong key, which an environment variable may hold."""
    return f"set {variable} or pass api_key=" if variable else "pass the server's key as api_key="


def environment_proxy(url: str) -> str | None:
    """The proxy that the environment names for this URL, or None. Never one for this machine."""
    from urllib.request import getproxies, proxy_bypass  # slow to import

    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if loopback or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if "[" in parts.netloc:
        before, after = parts.netloc.partition("[")[0], parts.netloc.partition("]")[2]
        return bool(ip_address(host)) and before[-1:] in ("", "@") and after[:1] in ("", ":")
    labels = host.removesuffix(".").encode("idna").decode().split(".")
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels))
