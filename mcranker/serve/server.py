"""The service on a socket: what it may listen at, and how it begins and ends."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from types import FrameType
from typing import Any, cast

import anyio
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from mcranker.errors import ConfigError
from mcranker.runtime.bridge import task_group
from mcranker.runtime.processes import stopping
from mcranker.serve.settings import Limits, Settings

_BACKLOG = 1024
_LAST_WORDS = 5  # seconds in which cancelled requests are answered
_IDLE = 10.0  # seconds that a connection may be open without a request, or with a part of its head
_NEW = 1.0  # seconds in which a connection's request is waited for, however many there are
_SAME = 0.5  # seconds within which a signal is taken for the one before, sent to a whole group
_PIECE = 1 << 14  # bytes


def check_exposure(settings: Settings, *, allow_no_keys: bool) -> None:
    """Refuse a service that others can reach and use without a key."""
    if not (settings.loopback or settings.keys or allow_no_keys):
        raise ConfigError(
            f"host={settings.host!r} can be reached from other machines, and no key is needed; "
            "add [keys] to the configuration ('mcranker serve --new-key' makes one), use "
            "host='127.0.0.1', or give --allow-no-keys if something else guards it"
        )


def listen(settings: Settings) -> socket.socket:
    """Bind the socket."""
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from error


def address_of(bound: socket.socket) -> str:
    """The address of a socket as clients write it, e.g. ``http://127.0.0.1:8080``."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: Starlette, settings: Settings, bound: socket.socket, *, started: Callable[[], Any]
) -> int:
    """Serve until a signal asks to end (SIGINT, SIGTERM), and then finish what is under way."""
    _allow_files(4 * settings.limits.connections + 1_000)
    server = Server(app, settings.limits, started)
    await server.serve(sockets=[bound])
    return server.given_up


class Server(uvicorn.Server):
    """uvicorn's server; it also ends idle connections, and requests when it stops."""

    def __init__(self, app: Starlette, limits: Limits, started: Callable[[], Any]) -> None:
        config = uvicorn.Config(
            app,
            http=_Connection,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=limits.stop + _LAST_WORDS,
        )
        super().__init__(config)
        self.given_up = 0
        """Requests that were cancelled."""
        self._app = app
        self._limits = limits
        self._on_start = started
        self._asked_to_end = list[float]()
        self._last = math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """Close connections without a request, old ones and the oldest of too many."""
        connections = cast("set[_Connection]", self.server_state.connections)
        surplus = len(connections) - self._limits.connections
        idle = (each for each in connections if each.idle)
        for place, connection in enumerate(sorted(idle, key=attrgetter("since"))):
            seconds = time.monotonic() - connection.since
            if place < surplus and seconds > _NEW:
                connection.transport.abort()
            elif seconds > _IDLE:
                connection.transport.close()
        return await super().on_tick(counter) and not self._draining()

    def _draining(self) -> bool:
        """True as long as requests are waited for, from the first look on."""
        now = time.monotonic()
        self._last = min(self._last, now + self._limits.stop)
        under_way = self._app.state.drain()
        return under_way > 0 and len(self._asked_to_end) < 2 and now < self._last

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with task_group() as group:
            group.start_soon(self._give_up)
            await super().shutdown(sockets)
            group.cancel_scope.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal, give up at the next, and end at the third."""
        now = time.monotonic()
        if self._asked_to_end and now - self._asked_to_end[-1] < _SAME:
            return
        self._asked_to_end.append(now)
        stopping.begin()
        self.should_exit = True
        self.force_exit = len(self._asked_to_end) > 2

    async def _give_up(self) -> None:
        # A signal's handler can wake no task.
        while len(self._asked_to_end) < 2 and time.monotonic() < self._last:  # noqa: ASYNC110
            await anyio.sleep(min(0.05, self._limits.stop))
        self.given_up = self._app.state.give_up()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, without raising them again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _allow_files(count: int) -> None:
    """Raise the limit of open files, connections included, as far as the system allows."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if now != resource.RLIM_INFINITY:
            wanted = count if most == resource.RLIM_INFINITY else min(count, most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, wanted), most))


class _Connection(H11Protocol):
    """A client's connection, read in pieces so that the event loop stays responsive."""

    since = 0.0
    """When it was made, or its latest request answered, on the clock of `time.monotonic`."""

    @property
    def idle(self) -> bool:
        """True if none of its requests is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # A piece can be thousands of chunks of one byte.
        with contextlib.suppress(AttributeError):  # uvloop has no such limit
            transport.max_size = _PIECE  # type: ignore[attr-defined]  # of asyncio's own loops
        super().connection_made(transport)
        self.since = time.monotonic()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = time.monotonic()
