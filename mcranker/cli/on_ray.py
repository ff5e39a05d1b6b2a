"""``--on ray``: actors on a Ray cluster rank the queries; their replies go into the ledger."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import click
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from mcranker import errors
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.ray_driver import Task
from mcranker.cli.signals import run as run_loop
from mcranker.cli.verb import flag
from mcranker.cli.worker import Worker
from mcranker.errors import ClusterError, MCRankerError
from mcranker.rankers import FATAL_ERRORS, RankedQuery
from mcranker.scale import ray_data
from personas.ranking.types import Passage, Query

_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DATA_LOG_LEVEL": "CRITICAL"}
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # nothing listens on the network
_PATIENCE = 10.0  # seconds for Ray to end
_LONGEST = 2**26  # bytes of a line

Part = tuple[str, Mapping[str, Any], Iterable[tuple[Query, list[Passage]]]]
"""A ranker, its options, and queries with their passages in first-stage order."""


def ray_flags() -> list[click.Parameter]:
    """``--on`` and ``--actors``."""
    return [
        flag(
            "--on",
            "Let workers on Ray do the queries: ray starts one here, ray:ADDRESS or ray:auto joins "
            "a cluster.",
            section="Output",
            metavar="ray[:ADDRESS]",
        ),
        flag(
            "--actors",
            "Workers of --on ray.",
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
        ConfigError, PersonasError: as `mcranker.scale.rank_dataset`.
        ClusterError: there is no such cluster, or it was lost.
    """
    place, _, address = ctx.params["on"].partition(":")
    if place != "ray":
        raise click.UsageError(f"--on {ctx.params['on']!r}: write ray, or ray:ADDRESS", ctx)
    if ctx.params["worker"]:
        raise click.UsageError("--on does not go with --worker: its actors are the workers", ctx)
    ray_data()
    invocation.doing("starting Ray; nothing was sent")
    rows = [
        (ranker, options, [_row(query, passages) for query, passages in work])
        for ranker, options, work in parts
    ]
    worker, task = Worker(total), (address, ctx.params["actors"], rows)
    run_loop(partial(_take, worker, task, invocation, live=live))
    if worker.why is not None and not isinstance(worker.why, FATAL_ERRORS):
        noun = worker.noun if worker.failed == 1 else worker.plural
        say(f"warning: {worker.failed:,} {noun} failed on Ray and are tried again: {worker.why}")


async def _take(worker: Worker, task: Task, invocation: Invocation, *, live: bool) -> None:
    async with (
        _driver(task, verbose=invocation.verbose) as process,
        aclosing(_results(process)) as results,
    ):
        await worker.take(results, invocation, live=live)


@asynccontextmanager
async def _driver(task: Task, *, verbose: bool) -> AsyncIterator[Process]:
    """Start the process that drives Ray; leaving ends it."""
    process = await anyio.open_process(
        [sys.executable, "-m", "mcranker.cli.ray_driver"],
        stderr=None if verbose else subprocess.DEVNULL,
        env={**_ENVIRONMENT, **({} if task[0] else _LOOPBACK), **os.environ},
        start_new_session=True,  # a Ctrl-C is for this process alone
    )
    assert process.stdin is not None
    try:
        with suppress(anyio.BrokenResourceError):  # it has ended, as its output will show
            await process.stdin.send(pickle.dumps(task))
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await process.stdin.aclose()
            with anyio.move_on_after(_PATIENCE):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.aclose()


async def _results(process: Process) -> AsyncGenerator[RankedQuery, None]:
    """Yield what came of each query.

    Raises:
        MCRankerError: the driver ended before all were done, or says why it cannot do them.
    """
    assert process.stdout is not None
    lines, place = BufferedByteReceiveStream(process.stdout), 0
    while True:
        try:
            row = json.loads(await lines.receive_until(b"\n", _LONGEST))
        except (anyio.IncompleteRead, anyio.EndOfStream) as ended:
            raise ClusterError(
                "Ray has ended: its head, or its part on this machine, was lost; the replies that "
                "came are in the ledger, and the same command goes on from there"
            ) from ended
        error = _error(row["error"], row["message"])
        if "last" in row:
            if error is not None:
                raise error
            return
        yield RankedQuery(place, Query(row["query"], row["query_id"]), error=error)
        place += 1


def _error(name: str | None, message: str) -> MCRankerError | None:
    """Return the error of a row."""
    if name is None:
        return None
    kind = getattr(errors, name, MCRankerError)
    return kind(message) if issubclass(kind, MCRankerError) else MCRankerError(message)


def _row(query: Query, passages: list[Passage]) -> dict[str, Any]:
    docs = [
        {"id": each.id, "text": each.text, "title": each.title, "score": each.score}
        for each in passages
    ]
    return {"query_id": query.id, "query": query.text, "docs": docs}
