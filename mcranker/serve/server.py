"""The service on a socket: what it may listen at, and how it begins and ends."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette

from mcranker.errors import ConfigError
from mcranker.runtime.bridge import task_group
from mcranker.serve.settings import Limits, Settings

_BACKLOG = 1024
_LAST_WORDS = 5  # seconds in which clients are told that their rankings were cancelled


def check_exposure(settings: Settings, *, allow_no_keys: bool) -> None:
    """Refuse a service that others can reach and use without a key.

    Raises:
        ConfigError: it is one, and nobody has said that it may be.
    """
    if not (settings.loopback or settings.keys or allow_no_keys):
        raise ConfigError(
            f"host={settings.host!r} can be reached from other machines, and no key is needed; "
            "add [keys] to the configuration ('mcranker serve --new-key' makes one), use "
            "host='127.0.0.1', or give --allow-no-keys if something else guards it"
        )


def listen(settings: Settings) -> socket.socket:
    """The socket, bound.

    Raises:
        OSError: the address cannot be used; ``filename`` is it.
    """
    host, port = settings.host, settings.port
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(_BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from error
    return bound


def address_of(bound: socket.socket) -> str:
    """The address of a socket as clients write it, e.g. ``http://127.0.0.1:8080``."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    app: Starlette, settings: Settings, bound: socket.socket, *, started: Callable[[], Any]
) -> int:
    """Serve until a signal asks to end (SIGINT, SIGTERM), and then finish what is under way.

    What takes longer than ``limits.stop`` seconds is cancelled; answers of models that have come
    by then are in the ledger. A second SIGINT ends everything at once.

    Args:
        app: as `create_app` makes it.
        settings: of the service.
        bound: as `listen` makes it.
        started: called when requests are taken.

    Returns:
        How many rankings were cancelled.
    """
    server = Server(app, settings.limits, started)
    await server.serve(sockets=[bound])
    return server.given_up


class Server(uvicorn.Server):
    """uvicorn's server, which gives up rankings that take too long when it is to stop.

    Attributes:
        given_up: rankings that were cancelled.
    """

    def __init__(self, app: Starlette, limits: Limits, started: Callable[[], Any]) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            backlog=_BACKLOG,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=limits.stop + _LAST_WORDS,
        )
        super().__init__(config)
        self.given_up = 0
        self._app = app
        self._patience = limits.stop
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with task_group() as group:
            group.start_soon(self._give_up)
            await super().shutdown(sockets)
            group.cancel_scope.cancel()

    async def _give_up(self) -> None:
        await anyio.sleep(self._patience)
        self.given_up = self._app.state.give_up()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but a signal that was obeyed is not raised once more."""
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
