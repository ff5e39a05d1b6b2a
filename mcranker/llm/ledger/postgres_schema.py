"""The tables of a ledger in PostgreSQL, connections to it, and their errors."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcranker.errors import ConfigError, LedgerError
from mcranker.llm.ledger.rows import COLUMNS

SCHEMES = ("postgresql://", "postgres://")

_TIMEOUT = _CONNECT_TIMEOUT = 10.0  # seconds of a statement, and of a connection
LOCK_TIMEOUT = "lock_timeout = '4s'"
"""Shorter than a frozen process can hold a lock, so that others which froze behind it get none."""
# A pooler refuses such settings of a connection, or keeps them for others.
_BEGIN = (
    f"BEGIN; SET LOCAL {LOCK_TIMEOUT}; SET LOCAL idle_in_transaction_session_timeout = '10s'; "
    "SET LOCAL synchronous_commit = "
)
_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 10_000}
_LOCK = 0x6D6352616E6B  # of changes of the schema
TYPES = (
    *("bytea", "text", "text", "bigint", "bigint", "bigint", "bigint", "bigint"),
    *("double precision", "text", "bigint"),
)
_NAMES = COLUMNS.split(", ")
_VERSION = 3
_TABLES = f"""
CREATE TABLE mcranker_replies (
    id bigserial NOT NULL,
    {", ".join(f"{name} {kind} NOT NULL" for name, kind in zip(_NAMES, TYPES, strict=True))},
    unusable boolean NOT NULL DEFAULT false,
    PRIMARY KEY (key)
);
CREATE INDEX ON mcranker_replies (id);
CREATE UNLOGGED TABLE mcranker_claims (
    key bytea PRIMARY KEY, owner text NOT NULL, lease_until double precision NOT NULL,
    attempt bigint NOT NULL
);
CREATE UNLOGGED TABLE mcranker_buckets (
    name text, kind text, due double precision NOT NULL, at double precision NOT NULL,
    PRIMARY KEY (name, kind)
) WITH (fillfactor = 50);
CREATE TABLE mcranker_budgets (
    run bytea, payer text, owner text NOT NULL, spent_calls bigint NOT NULL,
    spent_cost double precision NOT NULL, open_calls bigint NOT NULL,
    open_cost double precision NOT NULL, PRIMARY KEY (run, payer)
) WITH (fillfactor = 50);
"""


def shown_url(url: str) -> str:
    """Return a database's URL without its passwords."""
    return re.sub(r"(?<=://)([^:@/?]*):.*(?=@)|(pass[^=&]*=)[^&]*", r"\1\2", url)


def server_time() -> str:
    """SQL for the server's time in seconds since 1970."""
    return "extract(epoch FROM clock_timestamp())::float8"


@asynccontextmanager
async def transaction(connection: Any, *, durable: bool = True) -> AsyncIterator[None]:
    """Open a transaction, which the server ends if this process is frozen in it."""
    await connection.execute(_BEGIN + ("DEFAULT" if durable else "off"))
    yield
    await connection.execute("COMMIT")


async def connect(url: str, *, seconds: float | None = _TIMEOUT) -> Any:
    """Return a connection to a database that has the tables; `seconds` is for a statement."""
    connection = await _asyncpg().connect(
        url,
        statement_cache_size=0,
        timeout=_CONNECT_TIMEOUT,
        command_timeout=seconds,
    )
    try:
        # asyncpg has no option for this.
        _keep_alive(connection._transport.get_extra_info("socket"))  # noqa: SLF001
        async with transaction(connection):
            if await connection.fetchval("SELECT to_regclass('mcranker_ledger')") is None:
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                await connection.execute("CREATE TABLE IF NOT EXISTS mcranker_ledger (version int)")
            newest = "SELECT max(version) FROM mcranker_ledger"
            if await connection.fetchval(newest) is None:
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                if await connection.fetchval(newest) is None:
                    await connection.execute(_TABLES)
                    await connection.execute("INSERT INTO mcranker_ledger VALUES ($1)", _VERSION)
            if (version := await connection.fetchval(newest)) != _VERSION:
                raise LedgerError(
                    f"the ledger {shown_url(url)!r} has tables of version {version}, and this "
                    f"mcranker has {_VERSION}; take the same mcranker, or a new database"
                )
    except BaseException:
        connection.terminate()
        raise
    return connection


def _keep_alive(connected: Any) -> None:
    """Let the system notice that the other end is gone without a word."""
    if connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name in _ALIVE.keys() & vars(socket).keys():
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _ALIVE[name])


def _asyncpg() -> Any:
    try:
        import asyncpg
    except ImportError as missing:
        raise ConfigError(
            'a ledger in PostgreSQL needs asyncpg; run: pip install "mcranker[postgres]"'
        ) from missing
    return asyncpg


def failures() -> tuple[type[Exception], ...]:
    """Return the errors of a connection."""
    found = _asyncpg()
    of_client = (found.InterfaceError, found.InternalClientError)
    return (found.PostgresError, *of_client, OSError, TimeoutError, ValueError)


def lost() -> tuple[type[Exception], ...]:
    """Errors after which the same may succeed over another connection."""
    found = _asyncpg().exceptions
    return (
        found.PostgresConnectionError,
        found.OperatorInterventionError,
        found.TooManyConnectionsError,
        found.IdleInTransactionSessionTimeoutError,
        found.LockNotAvailableError,
        found.InterfaceError,
        found.InternalClientError,  # a server's farewell, read in the middle of a statement
        found.DeadlockDetectedError,
        found.SerializationError,
        OSError,
        TimeoutError,
    )


def misdirected(error: Exception) -> bool:
    """Return True if a first connection failed because of its address."""
    passing = isinstance(error, ConnectionError | TimeoutError)
    refused = isinstance(error, ConnectionRefusedError | ValueError)
    return refused or (isinstance(error, OSError) and not passing)


def cause(error: Exception) -> str:
    """Return the words of an error; a timeout has none of its own."""
    unsaid = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    return str(error) or unsaid


def explained(name: str, error: Exception) -> LedgerError:
    """Convert an error to words."""
    if isinstance(error, LedgerError):
        return error
    what = f"used: {cause(error)}"
    if isinstance(error, OSError | _asyncpg().PostgresConnectionError):
        what = f"reached: {cause(error)}; is the database running, and is its address right?"
    problem = LedgerError(f"the ledger {name!r} cannot be {what}")
    problem.__cause__ = error
    return problem
