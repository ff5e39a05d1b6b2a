"""``beir-eval fuse``: one TREC run made of several by ranx."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from beir_eval.cli.flags import count_flag
from beir_eval.errors import ExtraMissing
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, Writes, print_line
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.inputs.trec import Run, check_name, read_trec, write_trec
from personas.format import counted

_BY_RANK = ("rrf", "isr", "log_isr", "logn_isr", "rbc", "bordafuse", "w_bordafuse")
_BY_SCORE = ("sum", "max", "min", "med", "anz", "mnz", "gmnz", "wsum", "wmnz", "mixed")
_NORMS = ("min-max", "max", "sum", "zmuv", "rank", "borda", "none")
_DIGITS = 12


def _fuse(ctx: click.Context) -> int:
    given = ctx.params
    if len(given["runs"]) < 2:
        raise click.UsageError("fusion takes two or more runs", ctx)
    params = dict(_param(ctx, text, len(given["runs"])) for text in given["param"])
    method, tag = given["method"], given["tag"] or given["method"]
    check_name(tag, "the tag")
    runs = [read_trec(path) for path in given["runs"]]
    if not given["quiet"]:
        say("ranx starts, which takes some 10 seconds")
    try:
        scores = _by_ranx(runs, method, given["norm"], params)
    except TypeError as error:  # of Python, about a parameter that misses or is unknown
        raise click.UsageError(f"--method {method}: {error}; see --param", ctx) from error
    fused = {}
    for query_id, of_query in scores.items():
        # Equal scores are in the order of the first run that has them.
        ids = dict.fromkeys(doc_id for run in runs for doc_id, _ in run.get(query_id, ()))
        found = [(doc_id, round(of_query[doc_id], _DIGITS)) for doc_id in ids]
        fused[query_id] = sorted(found, key=lambda each: -each[1])[: given["depth"]]
    write_trec(fused, given["out"], tag)
    partial = [query_id for query_id in fused if any(query_id not in run for run in runs)]
    documents = sum(map(len, fused.values()))
    if given["output"] == "json":
        counts = {"queries": len(fused), "documents": documents, "partial_queries": partial}
        return print_json(fusion={"out": given["out"], **counts})
    queries = counted(len(fused), "query", "queries")
    print_line(f"{given['out']}: {queries}, {counted(documents, 'document')}")
    if partial:
        say(f"{counted(len(partial), 'query', 'queries')} not in every run, e.g. {partial[0]!r}")
    return DONE


def _by_ranx(
    runs: Sequence[Run], method: str, norm: str, params: dict[str, Any]
) -> dict[str, dict[str, float]]:
    # To compile what is used once takes far longer than to run it. numba reads this when it is
    # imported, and breaks if it changes after that.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    by_rank = method in _BY_RANK

    def table(run: Run, query_id: str) -> dict[str, float]:
        documents = run.get(query_id, ())
        # ranx sorts by score and leaves ties to chance; here the order of a run is its ranking.
        return {
            doc_id: float(len(documents) - place if by_rank or norm in ("rank", "borda") else score)
            for place, (doc_id, score) in enumerate(documents)
        }

    queries = dict.fromkeys(query_id for run in runs for query_id in run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Python and numba about ranx's own code
        try:
            ranx = import_module("ranx")
        except ImportError as missing:
            raise ExtraMissing("ranx", "fusion", extra="ranx") from missing
        tables = [ranx.Run({each: table(run, each) for each in queries}) for run in runs]
        plain = None if by_rank or norm == "none" else norm
        fused = ranx.fuse(tables, norm=plain, method=method, params=params)
    return {each: {key: float(score) for key, score in fused.run[each].items()} for each in queries}


def _param(ctx: click.Context, given: str, runs: int) -> tuple[str, Any]:
    """A parameter's name and its number, or numbers, one for each run."""
    name, _, text = given.partition("=")
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError as failure:
        example = "write e.g. k=60 or weights=0.3,0.7"
        raise click.UsageError(f"--param {given!r} is no number; {example}", ctx) from failure
    if not all(math.isfinite(each) and each >= 0 for each in numbers):
        raise click.UsageError(f"--param {given!r}: give finite numbers, 0 or more", ctx)
    if len(numbers) not in (1, runs):
        raise click.UsageError(f"--param {given!r}: {len(numbers)} numbers for {runs} runs", ctx)
    return name.strip(), numbers if len(numbers) > 1 else numbers[0]


command = Verb(
    "fuse",
    _fuse,
    params=[
        click.Argument(["runs"], type=Reads(), nargs=-1, required=True, metavar="RUN RUN..."),
        flag("--out", "Write the fused run here.", type=Writes(), required=True),
        flag(
            "--method",
            "A method of ranx, by rank or by score; see above.",
            type=click.Choice([*_BY_RANK, *_BY_SCORE]),
            default="rrf",
            metavar="NAME",
        ),
        flag(
            "--norm",
            "How the scores of a query are made comparable; without effect for methods that go by "
            "rank.",
            type=click.Choice(_NORMS),
            default="min-max",
        ),
        flag(
            "--param",
            "A number that the method takes, or one for each run, e.g. k=60 or weights=0.3,0.7. "
            "May be given several times.",
            multiple=True,
            metavar="NAME=X[,X...]",
        ),
        count_flag("depth", None, "Documents to keep for each query. Without: all."),
        flag("--tag", "Last column of the file. Without: the method.", metavar="NAME"),
        quiet_flag(),
        output_flag("fusion"),
    ],
    help=f"""Make one TREC run of several, e.g. of a ranker's and BM25's, by ranx.

    A query that only some of the runs have is fused as if the others had found nothing.

    By rank: {", ".join(_BY_RANK)}. rrf takes k (60 if not given), logn_isr sigma, rbc phi,
    w_bordafuse weights.

    By score: {", ".join(_BY_SCORE)}. gmnz takes gamma; wsum, wmnz and mixed take weights.
    """,
)
