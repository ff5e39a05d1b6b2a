"""The process that drives Ray for `mcranker.cli.on_ray`, which may not outlive its cluster.

Ray takes over the signals of its driver, and ends it at once where a part of the cluster is lost.
This process reads a pickled `Task` from standard input, until the end of which it works, and
writes a JSON object a line: one for each query, and a last one.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from mcranker.errors import ClusterError, MCRankerError
from mcranker.scale import rank_dataset, ray_data
from personas.errors import PersonasError

SHOWN = ("query_id", "query", "error", "message")
"""Columns of `rank_dataset` that are written for each query."""


Task = tuple[str, int, list[tuple[str, Mapping[str, Any], list[dict[str, Any]]]]]
"""Address of a cluster, or empty to start one; number of actors; and parts, one by one: ranker,
options and rows as `rank_dataset` takes them."""


def main() -> None:
    """Rank all queries, and write what came of each."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever Ray prints
    task: Task = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the command that started this
    threading.Thread(target=_end_with_input, daemon=True).start()
    last: dict[str, Any] = {"last": True, "error": None, "message": ""}
    try:
        for row in _rank(task):
            print(json.dumps(row), file=out, flush=True)
    except (MCRankerError, PersonasError) as error:
        last |= {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(last), file=out, flush=True)


def _rank(task: Task) -> Iterator[dict[str, Any]]:
    data, (address, actors, parts) = ray_data(), task
    _join(address, actors)
    for ranker, options, rows in parts:
        given = dict(options)
        ledger = given.pop("ledger", "default")
        queries = data.from_items(rows)
        ranked = rank_dataset(queries, ranker, given, ledger=ledger, actors=actors)
        yield from ranked.select_columns(list(SHOWN)).iter_rows()


def _join(address: str, actors: int) -> None:
    import ray

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
    ray.data.DataContext.get_current().enable_progress_bars = False


def _end_with_input() -> None:
    """End this process, and a cluster of its own, when the command ends or is interrupted."""
    sys.stdin.buffer.read()
    import ray

    ray.shutdown()
    os._exit(1)


if __name__ == "__main__":
    main()
