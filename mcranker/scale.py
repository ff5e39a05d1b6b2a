"""Queries of a Ray Dataset, ranked by actors on any number of machines over one ledger.

Every reply is in the ledger before it is used. So the same call again makes no model call, and a
query whose actor was lost is ranked by another one, which pays for none of its replies again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcranker.config import RankerConfig
from mcranker.errors import ConfigError, MCRankerError
from mcranker.inputs.documents import LIST_KEYS, QUERY_ID_KEYS, QUERY_KEYS, key_of
from mcranker.llm.connect import choose_default
from mcranker.llm.ledger.ledger import place_of
from mcranker.llm.ledger.postgres_schema import SCHEMES
from mcranker.method.team_plan import as_team
from mcranker.rankers import RANKERS, Ranker
from mcranker.ranking import Ranking
from personas.errors import PersonasError
from personas.ranking.types import Query


def rank_dataset(
    ds: Any,
    ranker: str | Callable[..., Ranker] = "mcranker",
    options: Mapping[str, Any] | None = None,
    *,
    ledger: str | os.PathLike[str] = "default",
    actors: int = 2,
) -> Any:
    """Return a dataset of rankings, computed when it is read; its columns are in docs/scale.md."""
    try:
        import ray.data
    except ImportError as missing:
        raise ConfigError("Ray is not installed; run: pip install 'mcranker[ray]'") from missing
    given = dict(options or {})
    known = {name: each for name, each in given.items() if each is not None}
    fields = {name: known[name] for name in RankerConfig.model_fields if name in known}
    config = (given.get("config") or RankerConfig()).replaced(fields)
    for name in ("max_calls", "max_cost"):
        if (most := getattr(config, name)) is not None:
            raise ConfigError(f"{name}={most} would hold for each actor by itself; leave it out")
    if (place := place_of(ledger)) is None:
        raise ConfigError("actors share a ledger; leave out ledger=None")
    given["ledger"] = place if isinstance(place, str) else str(place.absolute())
    check_machines(given["ledger"], *(n["NodeManagerHostname"] for n in ray.nodes() if n["Alive"]))
    if given.get("team") is not None:
        given["team"] = as_team(given["team"])
    if isinstance(ranker, str):
        ranker = RANKERS.get(ranker)
        if given.get("model") is None:
            given["model"] = choose_default(os.environ)[0]
    at_once = config.query_concurrency
    pool = ray.data.ActorPoolStrategy(
        size=actors, max_tasks_in_flight_per_actor=at_once, max_concurrent_calls_per_actor=at_once
    )
    # A row a block: what is done goes on at once, and no query waits for another one.
    return ds.repartition(target_num_rows_per_block=1).map_batches(
        QueryActor,
        fn_constructor_args=(ranker, given, socket.gethostname()),
        batch_size=None,
        batch_format="pyarrow",
        compute=pool,
        num_cpus=0.2,  # an actor waits for models most of the time
    )


class QueryActor:
    """Ranks queries in a process of its own, by a ranker that it makes at the first call."""

    def __init__(self, make: Callable[..., Ranker], options: Mapping[str, Any], home: str) -> None:
        self._make, self._options, self._home = make, options, home
        self._ranker: Ranker | None = None

    async def __call__(self, batch: Any) -> Any:
        import pyarrow

        text, number, real = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
        kinds = dict.fromkeys(("query_id", "query", "error", "message", "ranking"), text)
        counts = ("missing", "calls", "reused", "input_tokens", "output_tokens")
        kinds |= dict.fromkeys(counts, number)
        kinds |= {"doc_ids": pyarrow.list_(text), "scores": pyarrow.list_(real), "cost": real}
        rows = await self.rank(batch.to_pylist())
        return pyarrow.Table.from_pylist(rows, schema=pyarrow.schema([*kinds.items()]))

    async def rank(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return a row of results for each row, in the same order; an error is a result."""
        work = [_piece(row) for row in rows]
        try:
            if self._ranker is None:
                check_machines(self._options["ledger"], self._home)
                self._ranker = self._make(**self._options)
        except (MCRankerError, PersonasError) as error:
            return [_row(query, error) for query, _ in work]
        async with self._ranker.arank_many(work) as stream:
            done = {each.place: _row(each.query, each.error, each.ranking) async for each in stream}
        return [done[place] for place in sorted(done)]


def check_machines(ledger: str, *machines: str) -> None:
    """Refuse a ledger in a file that other machines are to share."""
    others = sorted({*machines} - {socket.gethostname()})
    if others and not ledger.startswith(SCHEMES):
        raise ConfigError(
            f"ledger={ledger!r} is a file, and {others[0]!r} another machine; give a database's URL"
        )


def _piece(row: Mapping[str, Any]) -> tuple[Query, Any]:
    text, query_id, docs = (
        _given(row[key]) if (key := key_of(row, names)) else None
        for names in (QUERY_KEYS, QUERY_ID_KEYS, LIST_KEYS)
    )
    text = text if isinstance(text, str) else ""  # which is refused
    return Query(text, "" if query_id is None else str(query_id)), docs


def _given(value: Any) -> Any:
    """Return a value without the nulls by which Arrow gives all records the same fields."""
    if isinstance(value, dict):
        return {name: _given(each) for name, each in value.items() if each is not None}
    return [_given(each) for each in value] if isinstance(value, list) else value


def _row(query: Query, error: Exception | None, ranking: Ranking | None = None) -> dict[str, Any]:
    row = {"query_id": query.id, "query": query.text}
    if ranking is None:
        return row | {"error": type(error).__name__, "message": str(error)}
    return row | {
        "doc_ids": [hit.doc_id for hit in ranking],
        "scores": [hit.score for hit in ranking],
        "error": "ModelError" if ranking.failure else None,  # with on_failure="keep_order"
        "message": ranking.failure or None,
        "missing": len(ranking.missing),
        "calls": ranking.usage.calls,
        "input_tokens": ranking.usage.input_tokens,
        "output_tokens": ranking.usage.output_tokens,
        "reused": ranking.reused.calls,
        "cost": ranking.cost,
        "ranking": ranking.to_json(),
    }
