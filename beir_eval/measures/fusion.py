"""Fusion of several runs to one.

``rrf``, and ``wsum`` of scores as they are or between 0 and 1, are computed by
`mcranker.retrieval.fusion`, as in `mcranker.fuse`; all else is by ranx.

In this project a run's order is its ranking, whatever its scores; ranx sorts by score and
leaves ties to chance. Methods that go by rank therefore get scores that fall by one from place
to place, so that they see the order of the lists; methods that go by score get the scores as
they are. Fused documents with equal scores are in the order of the first run that has them.

The first fusion of a process by ranx takes its start, some 10 s, and up to a minute more in which
numba compiles the method. With ``NUMBA_DISABLE_JIT=1`` in the environment it compiles nothing,
which is quicker up to many thousand queries; ``beir-eval fuse`` does so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

from beir_eval.errors import ExtraMissing, SettingError
from beir_eval.ranges import check_number, check_whole
from mcranker.errors import RunError
from mcranker.retrieval.fusion import min_max, reciprocal_rank, summed, weighted
from mcranker.trec import Run
from personas.ensembles import RRF_K


class Param(NamedTuple):
    """A number that a method takes; `default` is None if it has to be given."""

    default: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Method:
    """A way to fuse runs.

    Attributes:
        about: the score of a document, in a line.
        by_rank: whether it goes by the places of documents, and not by their scores.
        weighted: whether it takes a weight for each run.
        params: name -> the number that it takes.
    """

    about: str
    by_rank: bool = False
    weighted: bool = False
    params: Mapping[str, Param] = field(default_factory=dict)


_TIMES = "times the runs that have it"
_K, _SIGMA = {"k": Param(RRF_K, 0, math.inf)}, {"sigma": Param(0.01, 0, 1)}
_PHI, _GAMMA = {"phi": Param(None, 0, 1)}, {"gamma": Param(None, 0, math.inf)}
METHODS: Mapping[str, Method] = {
    "rrf": Method("sum of 1 / (k + rank)", by_rank=True, params=_K),
    "isr": Method(f"sum of 1 / rank^2, {_TIMES}", by_rank=True),
    "log_isr": Method("sum of 1 / rank^2, times the log of the runs that have it", by_rank=True),
    "logn_isr": Method("as log_isr, sigma added to the runs", by_rank=True, params=_SIGMA),
    "bordafuse": Method("sum of the candidates not before it", by_rank=True),
    "w_bordafuse": Method("the same, weighted", by_rank=True, weighted=True),
    "rbc": Method("sum of (1 - phi) phi^(rank - 1)", by_rank=True, params=_PHI),
    "sum": Method("sum of its scores"),
    "max": Method("highest of its scores"),
    "min": Method("lowest of its scores"),
    "med": Method("median of its scores"),
    "anz": Method("mean of its scores, over the runs that have it"),
    "mnz": Method(f"sum of its scores, {_TIMES}"),
    "gmnz": Method(f"sum of its scores, {_TIMES} to the power gamma", params=_GAMMA),
    "wsum": Method("weighted sum of its scores", weighted=True),
    "wmnz": Method("sum of its scores, times the weights of the runs that have it", weighted=True),
    "mixed": Method(f"weighted sum of its scores, {_TIMES} to the power 1/2", weighted=True),
}
"""Name, as in ranx -> the method."""

NORMS = ("min-max", "max", "sum", "zmuv", "rank", "borda", "none")
"""Normalizations that make scores of different runs comparable, query by query, before fusion."""

_NORMS_BY_RANK = ("rank", "borda")
_NOTHING_FOUND = {" ": 0.0}  # no id holds white space
_DIGITS = 12
_ID_WIDTH = 8


def fuse(
    runs: Sequence[Run],
    *,
    method: str = "rrf",
    norm: str = "min-max",
    weights: Sequence[float] | None = None,
    params: Mapping[str, float] | None = None,
    depth: int | None = None,
) -> dict[str, list[tuple[str, float]]]:
    """One run of several: query id -> (document id, fused score), best first.

    Queries come in the order in which the runs have them first. A query that only some of the
    runs have is fused as if the others had found nothing for it. Scores are rounded to 12
    digits after the point, so that the order of additions makes no ranking.

    Args:
        runs: two or more.
        method: one of `METHODS`.
        norm: one of `NORMS`; methods that go by rank do not look at it. ``"min-max"`` puts the
            scores of a query between 0 for its last and 1 for its first document; a query whose
            scores are all the same gets 0 throughout.
        weights: one a run, 0 or more, for the methods that take them, and for these only.
        params: numbers that the method takes, e.g. ``{"k": 60}``.
        depth: documents to keep a query; None for all.

    Raises:
        SettingError: fewer than two runs; an unknown method, norm or parameter; weights or
            parameters that miss, are too many or out of range; `depth` below 1.
        RunError: a run has a document twice for one query, or a score that is not finite.
        ExtraMissing: ranx is not installed, and the method is by it.
    """
    if len(runs) < 2:
        raise SettingError(f"{len(runs)} runs given; fusion takes two or more")
    if depth is not None:
        check_whole("depth", depth, 1)
    if method not in METHODS:
        raise SettingError(
            f"method={method!r} is unknown, or needs training; give one of {', '.join(METHODS)}"
        )
    if norm not in NORMS:
        raise SettingError(f"norm={norm!r} is unknown; give one of {', '.join(NORMS)}")
    chosen = METHODS[method]
    options = _options(method, params or {}, weights, len(runs))
    by_rank = chosen.by_rank or norm in _NORMS_BY_RANK
    tables = [_table(run, number, by_rank=by_rank) for number, run in enumerate(runs, start=1)]
    orders: dict[
        str, dict[str, None]
    ] = {}  # query id -> its documents, those of the first run first
    for table in tables:
        for query_id, scores in table.items():
            orders.setdefault(query_id, {}).update(dict.fromkeys(scores))
    plain = None if chosen.by_rank or norm == "none" else norm
    by = _by_ranx if needs_ranx(method, norm) else _by_us
    found = {query_id: order for query_id, order in orders.items() if order}
    fused = by(tables, found, method, plain, options) if found else {}
    run: dict[str, list[tuple[str, float]]] = {}
    for query_id, order in orders.items():
        rounded = [(each, round(float(fused[query_id][each]), _DIGITS)) for each in order]
        run[query_id] = sorted(rounded, key=lambda each: -each[1])[:depth]
    return run


def needs_ranx(method: str, norm: str) -> bool:
    """True if ranx does the fusion; else `mcranker.retrieval.fusion` does."""
    return method != "rrf" and (method != "wsum" or norm not in ("none", "min-max"))


def _options(
    name: str, given: Mapping[str, float], weights: Sequence[float] | None, runs: int
) -> dict[str, Any]:
    """The numbers that a method takes, checked."""
    method = METHODS[name]
    for key in given:
        if key not in method.params:
            takes = ", ".join(method.params) or "none"
            raise SettingError(f"method {name!r} takes no parameter {key!r}; it takes {takes}")
    options: dict[str, Any] = {}
    for key, param in method.params.items():
        number = given.get(key, param.default)
        if number is None:
            raise SettingError(f"method {name!r} needs the parameter {key!r}; give it a number")
        check_number(key, number, param.low, param.high)
        if key == "k" and number != int(number):
            raise SettingError(f"{key}={number!r} is out of range; give a whole number")
        options[key] = int(number) if key == "k" else float(number)
    if not method.weighted and weights is not None:
        takers = ", ".join(each for each, taker in METHODS.items() if taker.weighted)
        raise SettingError(f"method {name!r} takes no weights; those that do: {takers}")
    if method.weighted:
        if weights is None or len(weights) != runs:
            raise SettingError(
                f"method {name!r} needs weights, one for each of the {runs} runs; "
                f"{0 if weights is None else len(weights)} weights given"
            )
        for weight in weights:
            check_number("weight", weight, 0)
        options["weights"] = [float(weight) for weight in weights]
    return options


def _table(run: Run, number: int, *, by_rank: bool) -> dict[str, dict[str, float]]:
    """Query id -> document id -> score, in the order of the list."""
    table: dict[str, dict[str, float]] = {}
    for query_id, documents in run.items():
        scores: dict[str, float] = {}
        for place, (doc_id, score) in enumerate(documents):
            where = f"run {number}, query {query_id!r}"
            if doc_id in scores:
                raise RunError(f"{where}: document {doc_id!r} appears twice; a run lists it once")
            if not by_rank and not math.isfinite(score):
                raise RunError(f"{where}: score {score!r} is not finite, so it cannot be fused")
            scores[doc_id] = float(len(documents) - place) if by_rank else float(score)
        table[query_id] = scores
    return table


def _by_us(
    tables: Sequence[Mapping[str, Mapping[str, float]]],
    orders: Mapping[str, Iterable[str]],
    method: str,
    norm: str | None,
    options: Mapping[str, Any],
) -> dict[str, dict[str, float]]:
    def given(scores: Mapping[str, float], place: int) -> Mapping[str, float]:
        if method == "rrf":
            ranks = enumerate(scores, start=1)
            return {doc_id: reciprocal_rank(rank, options["k"]) for rank, doc_id in ranks}
        return weighted(min_max(scores) if norm else scores, options["weights"][place])

    return {
        query_id: summed(
            [given(table.get(query_id, {}), place) for place, table in enumerate(tables)], order
        )
        for query_id, order in orders.items()
    }


def _by_ranx(
    tables: Sequence[Mapping[str, Mapping[str, float]]],
    orders: Mapping[str, Iterable[str]],
    method: str,
    norm: str | None,
    options: Mapping[str, Any],
) -> dict[str, dict[str, float]]:
    # ranx is compiled again for every length of the longest id: numbers have always the same.
    documents = dict.fromkeys(chain.from_iterable(orders.values()))
    number_of = {doc_id: f"{place:0{_ID_WIDTH}}" for place, doc_id in enumerate(documents)}
    id_of = {number: doc_id for doc_id, number in number_of.items()}
    # Of a query without documents ranx's zmuv takes the mean, and loses the query's results.
    nothing = _NOTHING_FOUND if norm == "zmuv" else {}
    numbered = [
        {
            query_id: {number_of[each]: score for each, score in table.get(query_id, {}).items()}
            or nothing
            for query_id in orders
        }
        for table in tables
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Python and numba about ranx's own code
        try:
            ranx = import_module("ranx")
        except ImportError as missing:
            raise ExtraMissing("ranx", "fusion", extra="ranx") from missing
        runs = [ranx.Run(table) for table in numbered]
        fused = ranx.fuse(runs, norm=norm, method=method, params=dict(options))
    return {
        query_id: {id_of[each]: score for each, score in scores.items() if each in id_of}
        for query_id, scores in fused.run.items()
    }
