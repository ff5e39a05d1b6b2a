"""Base of every model asked over HTTP: address and key, a client per event loop, bodies, tokens.

| what | bytes, once decompressed | beyond that |
|---|---|---|
| an answer with a good status | `MOST_REPLY` | `ServerFailed` |
| an answer with an error status | `MOST_ERROR` | the rest is left unread |
| the results of a batch | `MOST_RESULTS` in all, `MOST_REPLY` a line | `ServerFailed` |

Servers are asked not to compress: replies are a few kilobytes. Those that do are understood.
"""

from __future__ import annotations

import asyncio
import os
import re
import reprlib
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import SplitResult, urlsplit
from weakref import WeakKeyDictionary

from mcranker.errors import AuthenticationFailed, ConfigError, ModelError
from mcranker.llm.chat import Capabilities, ChatReply, ChatRequest
from mcranker.llm.masking import shown_url
from mcranker.llm.providers.http_errors import (
    Problem,
    Service,
    StatusError,
    error_for,
    limits_in,
    parse_object,
    reading,
    said_by,
)
from mcranker.llm.providers.parameters import ParameterMemory
from mcranker.llm.typed_answers import check_limits
from mcranker.logs import safe_logger
from mcranker.runtime.processes import abandon, renew_in_child
from personas.ranking.usage import Usage

KEEP_ALIVE = 60.0  # seconds; shorter ones cost a new connection, and a TLS handshake, each time
MOST_REPLY = 8 * 2**20
"""The longest replies, with all thoughts of a model, take less than one of these MiB."""
MOST_ERROR = 2**20
MOST_RESULTS = 16 * 2**30
PLAIN = {"Accept-Encoding": "identity"}
"""Headers that ask for bodies as they are."""
MOST_TOKENS = 10**9
"""More than any context holds, and so few that sums of them fit into 64 bits."""
EXAMPLE = "http://localhost:8000/v1"

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_warned: set[str] = set()

Client = TypeVar("Client", bound=Any)

logger = safe_logger("mcranker.llm")


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
        self.rate_limits: dict[str, tuple[float, float]] = {}  # as the last answer's headers say
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

    def _note_limits(self, headers: Mapping[str, str]) -> None:
        self.rate_limits = limits_in(headers, datetime.now(UTC))


class PerLoop(Generic[Client]):
    """Opens an HTTP client at its first use in each event loop, and closes it with the loop.

    A ranker may be used from several loops, one after the other or at once.
    """

    def __init__(self, open_client: Callable[[], Client]) -> None:
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
            asyncio.AbstractEventLoop, tuple[Client, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    async def get(self) -> Client:
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
    if not stripped:
        raise ConfigError(
            f"{shown} is empty; leave it out for the provider's own address, or write one like "
            f"{EXAMPLE!r}"
        )
    try:
        parts = urlsplit(stripped)
        usable = parts.scheme in ("http", "https") and parts.port != 0 and _is_host(parts)
    except ValueError:
        usable = False
    # `urlsplit` leaves out line breaks, which are no part of an address.
    if not usable or not stripped.isprintable() or " " in stripped:
        raise ConfigError(f"{shown} is not a URL; write it like {EXAMPLE!r}")
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


def checked_settings(timeout: float, concurrency: int) -> None:
    """Check what every model at an address takes."""
    if not timeout > 0:
        raise ConfigError(f"timeout={timeout!r} must be a positive number of seconds")
    if concurrency < 1:
        raise ConfigError(f"concurrency={concurrency!r} must be at least 1")


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


# Token counts, read the same way from every provider.


def token_count(value: Any, service: Service) -> int:
    """Return a count of an answer: 0 for what is no whole number up to `MOST_TOKENS`.

    A warning says so, once for each model; a missing one is 0 without it.
    """
    if type(value) is int and 0 <= value <= MOST_TOKENS:  # a bool is no count
        return value
    if value is not None:
        _warn(value, service)
    return 0


def call_usage(*, tokens: Any, cached: Any, output: Any, service: Service) -> Usage:
    """Return the usage of one call; more cached tokens than input count as none."""
    known = token_count(tokens, service)
    from_cache = token_count(cached, service)
    if from_cache > known:
        _warn(cached, service)
        from_cache = 0
    written = token_count(output, service)
    return Usage(calls=1, input_tokens=known, cached_input_tokens=from_cache, output_tokens=written)


def usage_in(data: Mapping[str, Any], service: Service) -> Usage:
    """Return the tokens of a call by either of OpenAI's protocols, where stated."""
    usage = data.get("usage")
    if not isinstance(usage, dict):
        return Usage(calls=1)
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    tokens = usage.get("prompt_tokens", usage.get("input_tokens", usage.get("total_tokens")))
    return call_usage(
        tokens=tokens,
        cached=details.get("cached_tokens") if isinstance(details, dict) else None,
        output=usage.get("completion_tokens", usage.get("output_tokens")),
        service=service,
    )


def _warn(value: Any, service: Service) -> None:
    if service.model in _warned:
        return
    _warned.add(service.model)
    # Python refuses to write out integers of more than some thousand digits.
    huge = isinstance(value, int) and value.bit_length() > 1000
    logger.warning(
        "%s: %s gives %s as a number of tokens; such counts are taken for 0, so usage and costs "
        "come out too low",
        service.model,
        service.where,
        "a huge number" if huge else said_by(service, reprlib.repr(value)),
    )
