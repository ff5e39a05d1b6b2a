"""Work of many queries, divided among the processes that share a ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeVar

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.ledger.ledger import Ledger
from mcranker.llm.ledger.postgres_store import PostgresStore
from mcranker.llm.limits.budget import Budget
from mcranker.runtime.service import each_of

T = TypeVar("T")


async def shared_work(
    work: Iterable[T] | AsyncIterable[T], ledger: Ledger | None, name: Callable[[T], str]
) -> AsyncGenerator[T, None]:
    """Yield the pieces of work that no other process has taken."""
    if ledger is None:
        raise ConfigError("workers share a ledger; leave out ledger=None")
    async with AsyncExitStack() as held:
        async for piece in each_of(work):
            key = hashlib.sha256(f"work {name(piece)}".encode(errors="surrogatepass")).digest()
            taking = ledger.in_flight.taken(key)
            if await taking.__aenter__():
                held.push_async_exit(taking)
                yield piece
            else:
                await taking.__aexit__(None, None, None)


def share_budget(budget: Budget | None, ledger: Ledger | None, run: str) -> bool:
    """Keep a budget together with all processes of a run; False if the ledger is no database."""
    if budget is None or ledger is None or not isinstance(ledger.store, PostgresStore):
        return False
    if budget.limited:
        budget.share(partial(ledger.store.book, run))
    return True


def run_name(ranker: str, models: Iterable[str], config: RankerConfig) -> str:
    """Return the same name for runs that give the same results."""
    what = config.recorded(how=False)
    return json.dumps([ranker, sorted(set(models)), what], sort_keys=True)
