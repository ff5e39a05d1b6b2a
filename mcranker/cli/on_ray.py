"""``--on ray``: actors on a Ray cluster rank the queries; their replies go into the ledger."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import click

import mcranker.errors
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import flag
from mcranker.cli.worker import Worker
from mcranker.errors import ClusterError, MCRankerError
from mcranker.rankers import FATAL_ERRORS, RankedQuery
from mcranker.runtime.bridge import Stream, apart, task_group
from mcranker.scale import rank_dataset, ray_data
from personas.ranking.types import Passage, Query

_LOOK = 2.0  # seconds between looks for the head
_MISSES = (
    5  # looks without an answer, after which it is lost; Ray itself ends the process after 60 s
)
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # a thread that is left behind would start another cluster
}


@dataclass(frozen=True, slots=True)
class Part:
    """Queries for one ranker.

    Attributes:
        ranker: its name.
        options: of it, ``ledger`` among them if one was named.
        work: queries with their passages in first-stage order.
    """

    ranker: str
    options: Mapping[str, Any]
    work: Iterable[tuple[Query, list[Passage]]]


def ray_flags() -> list[click.Parameter]:
    """``--on`` and ``--actors``."""
    return [
        flag(
            "--on",
            "Let actors of Ray do the queries first, over the same ledger: ray starts one on this "
            "machine, ray:ADDRESS or ray:auto joins a cluster.",
            section="Output",
            metavar="ray[:ADDRESS]",
        ),
        flag(
            "--actors",
            "Processes with --on ray, each with the given concurrency.",
            type=WholeNumber(min=1),
            default=2,
            metavar="N",
            section="Output",
        ),
    ]


def rank_on_ray(
    ctx: click.Context, parts: Iterable[Part], total: int, invocation: Invocation, *, live: bool
) -> None:
    """Rank all queries by actors, so that the ledger has their replies.

    Queries that failed are counted on standard error. One that fails as all others would ends it.

    Args:
        ctx: of a verb with `ray_flags`.
        parts: one after the other.
        total: queries of all parts.
        invocation: of this command.
        live: show the progress.

    Raises:
        click.UsageError: ``--on`` names no Ray, or goes with ``--worker``.
        ConfigError: as `rank_dataset`.
        ClusterError: there is no such cluster, or it was lost.
    """
    place, _, address = ctx.params["on"].partition(":")
    if place != "ray":
        raise click.UsageError(f"--on {ctx.params['on']!r}: write ray, or ray:ADDRESS", ctx)
    if ctx.params["worker"]:
        raise click.UsageError("--on does not go with --worker: its actors are the workers", ctx)
    worker, actors = Worker(total), ctx.params["actors"]
    invocation.doing("starting Ray; nothing was sent")
    with _joined(address, actors) as head:
        work = Stream(partial(_rank_parts, parts, actors, head))
        run_loop(partial(_take, worker, work, invocation, live=live))
    if worker.why is not None and not isinstance(worker.why, FATAL_ERRORS):
        noun = worker.noun if worker.failed == 1 else worker.plural
        say(f"warning: {worker.failed:,} {noun} failed on Ray and are tried again: {worker.why}")


async def _take(
    worker: Worker, work: Stream[RankedQuery], invocation: Invocation, *, live: bool
) -> None:
    async with work:
        await worker.take(work, invocation, live=live)


@contextmanager
def _joined(address: str, actors: int) -> Iterator[str]:
    """Join a cluster, or start one for no address; give the address of its head."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if not address:  # nothing listens on the network then
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray_data()
    import ray

    heard = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    own = {"num_cpus": max(4, actors), "include_dashboard": False}
    try:
        ray.init(
            address or "local",
            logging_level=logging.ERROR,
            log_to_driver=False,
            **({} if address else own),
        )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"no Ray cluster at {address!r}" if address else "Ray does not start here"
        raise ClusterError(f"{where}: {error}; 'ray start --head' starts one") from error
    for number, handler in heard.items():  # Ray's own would end the process at once
        signal.signal(number, handler)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()


async def _rank_parts(
    parts: Iterable[Part],
    actors: int,
    head: str,
    send: Callable[[RankedQuery], Awaitable[None]],
) -> None:
    async with task_group() as group:
        group.start_soon(_watch, head)
        for part in parts:
            async for ranked in _results(part, actors):
                await send(ranked)
        group.cancel_scope.cancel()


async def _results(part: Part, actors: int) -> AsyncIterator[RankedQuery]:
    import ray

    options = dict(part.options)
    ledger = options.pop("ledger", "default")
    queries = ray.data.from_items([_row(*piece) for piece in part.work])
    ranked = rank_dataset(queries, part.ranker, options, ledger=ledger, actors=actors)
    place = 0
    try:
        rows = await apart(iter, ranked.select_columns(list(_SHOWN)).iter_rows())
        while (row := await apart(next, rows, None)) is not None:
            query = Query(row["query"], row["query_id"])
            yield RankedQuery(place, query, error=_error(row["error"], row["message"]))
            place += 1
    except ray.exceptions.RayError as error:
        why = str(error).strip().splitlines()[-1]
        raise _lost(f"Ray failed: {why}") from error


_SHOWN = ("query_id", "query", "error", "message")


async def _watch(head: str) -> None:
    """Raise an error when the head is gone."""
    host, _, port = head.rpartition(":")
    missed = 0
    while True:
        await anyio.sleep(_LOOK)
        try:
            async with await anyio.connect_tcp(host, int(port)):
                missed = 0
        except OSError as error:
            missed += 1
            if missed == _MISSES:
                raise _lost(f"Ray's head at {head} does not answer") from error


def _lost(why: str) -> ClusterError:
    return ClusterError(
        f"{why}; the replies that came are in the ledger, and the same command goes on from there"
    )


def _error(name: str | None, message: str) -> MCRankerError | None:
    """Return the error of a row."""
    if name is None:
        return None
    kind = getattr(mcranker.errors, name, MCRankerError)
    return kind(message) if issubclass(kind, MCRankerError) else MCRankerError(message)


def _row(query: Query, passages: list[Passage]) -> dict[str, Any]:
    docs = [
        {"id": each.id, "text": each.text, "title": each.title, "score": each.score}
        for each in passages
    ]
    return {"query_id": query.id, "query": query.text, "docs": docs}
