"""What the tests of the ledger share."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcranker.errors import LedgerError as LedgerError  # for the processes
from mcranker.llm.chat import ChatReply, ChatRequest, Message, Tag
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.sqlite_store import SQLiteStore
from personas.ranking.usage import Usage

MODEL = "openai:gpt-5-mini"


def key(number: int) -> bytes:
    """A key like that of a request."""
    return number.to_bytes(4, "big") * 8


def reply(text: str = '{"Score": 7}', **fields: Any) -> ChatReply:
    """An answer like that of a provider."""
    usage = Usage(calls=1, input_tokens=800, cached_input_tokens=600, output_tokens=9, seconds=0.25)
    return ChatReply(text, usage, model="gpt-5-mini-2026-08-07", **fields)


def request(text: str = "How good?", **fields: Any) -> ChatRequest:
    """A question for a score."""
    return ChatRequest((Message("user", text),), Tag("score"), **fields)


async def keep(ledger: Ledger, number: int, text: str | None = None, **fields: str) -> None:
    """Keep an answer under the key of `number`, which is its text unless another is given."""
    model, stage = fields.get("model", MODEL), fields.get("stage", "score")
    answer = reply(str(number) if text is None else text)
    await ledger.keep(key(number), answer, model=model, stage=stage)


def verified(path: Path) -> tuple[int, list[str]]:
    """Return the number of answers in a ledger's file, and its faults."""
    return asyncio.run(SQLiteStore(path).verify())


def sql(path: Path, statement: str, *values: Any) -> list[Any]:
    """What another program sees or does in the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's write lock, as another program."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


def start(
    code: str, *args: str | Path, within: Sequence[str] = (), **options: Any
) -> subprocess.Popen[str]:
    """Another Python process that runs `code`, with this module's names at hand.

    It is started by the command `within`, such as one that makes a container of its own.
    """
    whole = f"import asyncio, sys\nfrom tests.support.ledger_support import *\n{code}"
    command = [*within, sys.executable, "-W", "error", "-c", whole, *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], **(pipes | options))
