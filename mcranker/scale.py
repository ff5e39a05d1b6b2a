"""Queries of a Ray Dataset, ranked by actors on any number of machines over one ledger.

>>> queries = ray.data.read_parquet("queries.parquet")  # query_id, query, docs
>>> ranked = rank_dataset(queries, "direct", {"model": "openai:NAME"}, ledger="postgresql://...")
>>> ranked.write_parquet("ranked")

Every reply is in the ledger before it is used. So the same call again makes no model call, and a
query whose actor was lost is ranked by another one, which pays for none of its replies again.

Needs ``pip install 'mcranker[ray]'``. See ``docs/scale.md``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mcranker.config import RankerConfig
from mcranker.documents import LIST_KEYS, QUERY_ID_KEYS, QUERY_KEYS, key_of
from mcranker.errors import ConfigError, MCRankerError
from mcranker.llm.connect import choose_default
from mcranker.llm.ledger.ledger import place_of
from mcranker.llm.ledger.postgres_schema import SCHEMES
from mcranker.method.team_plan import as_team
from mcranker.rankers import RANKERS, RankedQuery, Ranker
from personas.errors import PersonasError
from personas.ranking.types import Query

if TYPE_CHECKING:
    import pyarrow
    from ray.data import Dataset

ACTOR_CPUS = 0.2
"""Logical CPUs of an actor: it waits for models most of the time."""

_CAPS = ("max_calls", "max_cost")


def rank_dataset(
    ds: Dataset,
    ranker: str | Callable[..., Ranker] = "mcranker",
    options: Mapping[str, Any] | None = None,
    *,
    ledger: str | os.PathLike[str] = "default",
    actors: int = 2,
) -> Dataset:
    """Return a dataset of rankings, which is computed when it is read.

    Each actor has a ranker of its own and works on ``query_concurrency`` queries at once, 8 if that
    is not among the options. Rows come as queries finish, in no order. An actor that is lost is
    started again, and its queries are ranked again from the ledger.

    Args:
        ds: a row a query: its text (``query``, ``question`` or ``text``), id (``query_id``,
            ``qid``, ``_id`` or ``id``) and passages (``docs``, or another of
            `mcranker.documents.LIST_KEYS`) in first-stage order, as
            `mcranker.inputs.as_passages` takes them.
        ranker: a name, a class, or a function that can be pickled and returns a ranker.
        options: of the ranker, by name; without `ledger`. Files that they name, but for ``team``,
            and API keys in the environment have to be on every machine.
        ledger: shared by all actors; see `Ranker`. On several machines, the URL of a database.
        actors: processes.

    Returns:
        A row a query: ``query_id``, ``query``; ``doc_ids``, best first, and their ``scores``, null
        where there is none; ``error`` and ``message``, the class and text of what stopped it, or
        null; ``missing``, how many judges' scores did not come, in whose place ``missing_policy``
        put others; ``calls``, ``input_tokens``, ``output_tokens`` and ``cost`` (US dollars, null
        if not known) that were paid now; ``reused``, calls that the ledger had; ``ranking``, JSON
        that `Ranking.from_dict` reads.

    Raises:
        ConfigError: Ray is not installed; a ranker or option is unknown, or does not go with
            several processes; there is no ledger, or it is a file and Ray has other machines.
        PersonasError: the team cannot be used.
    """
    data = ray_data()
    if actors < 1:
        raise ConfigError(f"actors={actors!r}: give 1 or more")
    given = dict(options or {})
    fields = {name: given[name] for name in RankerConfig.model_fields if name in given}
    config = RankerConfig.of(
        given.get("config"), {name: value for name, value in fields.items() if value is not None}
    )
    if caps := [name for name in _CAPS if getattr(config, name) is not None]:
        raise ConfigError(
            f"{caps[0]}={getattr(config, caps[0])} would hold for each actor by itself; leave it "
            "out, and estimate the cost before"
        )
    given["ledger"] = place = _shared_ledger(ledger)
    check_machines(place, _machines())
    if given.get("team") is not None:
        given["team"] = as_team(given["team"])
    if isinstance(ranker, str):
        ranker = RANKERS.get(ranker)
        if given.get("model") is None and "model" in ranker.takes():
            given["model"] = choose_default(os.environ)[0]
    at_once = config.query_concurrency
    pool = data.ActorPoolStrategy(
        size=actors, max_tasks_in_flight_per_actor=at_once, max_concurrent_calls_per_actor=at_once
    )
    # A row a block: what is done goes on at once, and no query waits for another one.
    return ds.repartition(target_num_rows_per_block=1).map_batches(
        QueryActor,
        fn_constructor_args=(ranker, given, socket.gethostname()),
        batch_size=None,
        batch_format="pyarrow",
        compute=pool,
        num_cpus=ACTOR_CPUS,
    )


class QueryActor:
    """Ranks queries in a process of its own; several calls may be under way at once.

    Args:
        make: makes the ranker, at the first call.
        options: of it, ``ledger`` among them.
        home: name of the machine that a ledger in a file is on.
    """

    def __init__(self, make: Callable[..., Ranker], options: Mapping[str, Any], home: str) -> None:
        self._make, self._options, self._home = make, options, home
        self._ranker: Ranker | None = None

    async def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        import pyarrow

        rows = await self.rank(batch.to_pylist())
        return pyarrow.Table.from_pylist(rows, schema=_schema())

    async def rank(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return a row of results for each row, in the same order; an error is a result."""
        work = [_piece(row) for row in rows]
        try:
            ranker = self._made()
        except (MCRankerError, PersonasError) as error:
            return [_failed(query, error) for query, _ in work]
        async with ranker.arank_many(work) as stream:
            found = [ranked async for ranked in stream]
        return [_row(ranked) for ranked in sorted(found, key=lambda each: each.place)]

    def _made(self) -> Ranker:
        if self._ranker is None:
            check_machines(self._options["ledger"], {self._home, socket.gethostname()})
            self._ranker = self._make(**self._options)
        return self._ranker


def check_machines(ledger: str, machines: set[str]) -> None:
    """Refuse a ledger in a file that several machines are to share.

    Raises:
        ConfigError: it is one.
    """
    others = sorted(machines - {socket.gethostname()})
    if others and not ledger.startswith(SCHEMES):
        raise ConfigError(
            f"ledger={ledger!r} is a file, and Ray has other machines, such as {others[0]!r}; "
            "give a database that all can reach, ledger='postgresql://...'"
        )


def ray_data() -> Any:
    """Return the module ``ray.data``.

    Raises:
        ConfigError: Ray is not installed.
    """
    try:
        import ray.data
    except ImportError as missing:
        raise ConfigError(
            "many machines by Ray need the package 'ray[data]'; run: pip install 'mcranker[ray]'"
        ) from missing
    return ray.data


def _machines() -> set[str]:
    import ray

    return {node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


def _shared_ledger(ledger: str | os.PathLike[str] | None) -> str:
    """Return the URL or the absolute path of a ledger, the same for every process."""
    place = place_of(ledger)
    if place is None:
        raise ConfigError("actors share a ledger; leave out ledger=None")
    return place if isinstance(place, str) else str(place.absolute())


def _piece(row: Mapping[str, Any]) -> tuple[Query, Any]:
    """Return the query of a row and its passages, to be checked by the ranker."""
    text, query_id, docs = (
        None if (key := key_of(row, names)) is None else row[key]
        for names in (QUERY_KEYS, QUERY_ID_KEYS, LIST_KEYS)
    )
    known = text if isinstance(text, str) else ""  # which is refused
    return Query(known, "" if query_id is None else str(query_id)), _given(docs)


def _given(value: Any) -> Any:
    """Return a value without the nulls by which Arrow gives all records the same fields."""
    if isinstance(value, dict):
        return {name: _given(each) for name, each in value.items() if each is not None}
    return [_given(each) for each in value] if isinstance(value, list) else value


def _row(ranked: RankedQuery) -> dict[str, Any]:
    ranking = ranked.ranking
    if ranking is None:
        return _failed(ranked.query, ranked.error or MCRankerError("the query was not ranked"))
    return {
        "query_id": ranking.query.id,
        "query": ranking.query.text,
        "doc_ids": [hit.doc_id for hit in ranking],
        "scores": [hit.score for hit in ranking],
        "error": "ModelError" if ranking.failure else None,  # with on_failure="keep_order"
        "message": ranking.failure or None,
        "missing": len(ranking.missing),
        "calls": ranking.usage.calls,
        "reused": ranking.reused.calls,
        "input_tokens": ranking.usage.input_tokens,
        "output_tokens": ranking.usage.output_tokens,
        "cost": ranking.cost,
        "ranking": ranking.to_json(),
    }


def _failed(query: Query, error: Exception) -> dict[str, Any]:
    return {
        "query_id": query.id,
        "query": query.text,
        "error": type(error).__name__,
        "message": str(error),
    }


def _schema() -> pyarrow.Schema:
    import pyarrow

    text, number = pyarrow.string(), pyarrow.int64()
    kinds = {
        **dict.fromkeys(("query_id", "query"), text),
        "doc_ids": pyarrow.list_(text),
        "scores": pyarrow.list_(pyarrow.float64()),
        **dict.fromkeys(("error", "message"), text),
        **dict.fromkeys(("missing", "calls", "reused", "input_tokens", "output_tokens"), number),
        "cost": pyarrow.float64(),
        "ranking": text,
    }
    return pyarrow.schema(list(kinds.items()))
