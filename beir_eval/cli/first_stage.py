"""``beir-eval retrieve`` and ``beir-eval fuse``: runs without a ranker, as TREC files."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click
from rich.console import Console

from beir_eval.cli.flags import (
    ENGINES,
    choice_flag,
    count_flag,
    dataset_argument,
    measures_flag,
    no_cache_flag,
    print_lines,
    split_flag,
)
from beir_eval.data.first_stage import FirstStage, find
from beir_eval.data.load import load
from beir_eval.errors import ExtraMissing
from beir_eval.measures.metrics import evaluate, measure_names
from mcranker.cli.flags import Reads, Verb, Writes, flag, output_flag, refuse
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.output import present
from mcranker.inputs.trec import Run, read_trec, write_trec
from personas.console import names, numbers, table
from personas.format import counted


def _retrieve(ctx: click.Context) -> int:
    given = ctx.params
    stage = FirstStage(given["engine"], given["depth"], given["k1"], given["b"])
    measures = measure_names(given["measures"])
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is an error before the work
    with ctx.ensure_object(Invocation).noting(not given["quiet"]):
        dataset = load(given["dataset"], split=given["split"])
        run = find(dataset, stage, cache=not given["no_cache"])
        evaluation = evaluate(run, dataset.qrels, measures)
    note, found = stage.note(), sum(map(len, run.values()))
    write_trec(run, given["out"], note.name.split()[0])
    record = {
        "dataset": dataset.name,
        "run": given["out"],
        "first_stage": {"name": note.name, **note.settings, "depth": stage.depth},
        "documents": len(dataset.corpus),
        "queries": len(run),
        "found": found,
        "missing_queries": list(evaluation.missing_queries),
        "measures": dict(evaluation.means),
    }

    def show(console: Console) -> None:
        counts = f"{counted(found, 'document')} for {counted(len(run), 'query', 'queries')}"
        lines = [dataset.description, f"{note.name}: {counts}, in {given['out']}"]
        if missing := len(evaluation.missing_queries):
            words = counted(missing, "judged query", "judged queries")
            lines.append(f"Nothing was found for {words}; they count 0.")
        print_lines(console, lines)
        rows = ((measure, f"{value:.4f}") for measure, value in evaluation.means.items())
        console.print(table([names("measure"), *numbers(note.name)], rows))

    return present(ctx, show, retrieval=record)


RETRIEVE = Verb(
    "retrieve",
    _retrieve,
    params=[
        dataset_argument(),
        flag("--out", "Where the TREC run is written.", type=Writes(), required=True),
        split_flag("Which judgements, and so queries."),
        choice_flag("engine", "pyserini is Lucene, whose figures are published.", ENGINES),
        count_flag("depth", 100, "Documents a query."),
        flag("--k1", "How slowly repeats count less.", type=float, default=0.9, metavar="X"),
        flag("--b", "Weight of length, 0 to 1.", type=float, default=0.4, metavar="X"),
        no_cache_flag(),
        measures_flag("nDCG@10,R@100"),
        output_flag("retrieval"),
    ],
    help="""Find the passages that rankers would get, write them as a TREC run, and measure it.

    DATASET is a name of 'beir-eval run --datasets', an id of ir_datasets, or a folder in BEIR
    format. Indexes and runs are kept by the content of the corpus, so that the next time is quick.
    """,
)


_BY_RANK = ("rrf", "isr", "log_isr", "logn_isr", "rbc", "bordafuse", "w_bordafuse")
_BY_SCORE = ("sum", "max", "min", "med", "anz", "mnz", "gmnz", "wsum", "wmnz", "mixed")
_NORMS = ("min-max", "max", "sum", "zmuv", "rank", "borda", "none")
_DIGITS = 12


def _fuse(ctx: click.Context) -> int:
    given, method, out = ctx.params, ctx.params["method"], ctx.params["out"]
    refuse(ctx, (len(given["runs"]) < 2, "fusion takes two or more runs"))
    params = dict(_param(ctx, text, len(given["runs"])) for text in given["param"])
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
    write_trec(fused, out, method)
    some = [query_id for query_id in fused if any(query_id not in run for run in runs)]
    documents = sum(map(len, fused.values()))
    record = {"out": out, "queries": len(fused), "documents": documents, "partial_queries": some}

    def show(console: Console) -> None:
        said = f"{counted(len(fused), 'query', 'queries')}, {counted(documents, 'document')}"
        print_lines(console, [f"{out}: {said}"])
        if some:
            say(f"{counted(len(some), 'query', 'queries')} not in every run, e.g. {some[0]!r}")

    return present(ctx, show, fusion=record)


def _by_ranx(
    runs: Sequence[Run], method: str, norm: str, params: dict[str, Any]
) -> dict[str, dict[str, float]]:
    # To compile what is used once takes far longer than to run it. numba reads this when it is
    # imported, and breaks if it changes after that.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    by_rank = method in _BY_RANK
    by_place = by_rank or norm in ("rank", "borda")

    def scores(documents: Sequence[tuple[str, float]]) -> dict[str, float]:
        # ranx sorts by score and leaves ties to chance; here the order of a run is its ranking.
        places = enumerate(documents)
        count = len(documents)
        return {id_: float(count - place if by_place else of) for place, (id_, of) in places}

    queries = dict.fromkeys(query_id for run in runs for query_id in run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of Python and numba about ranx's own code
        try:
            ranx = import_module("ranx")
        except ImportError as missing:
            raise ExtraMissing("ranx", "fusion", extra="ranx") from missing
        tables = [ranx.Run({each: scores(run.get(each, ())) for each in queries}) for run in runs]
        norm_used = None if by_rank or norm == "none" else norm
        fused = ranx.fuse(tables, norm=norm_used, method=method, params=params)
    return {each: {key: float(score) for key, score in fused.run[each].items()} for each in queries}


def _param(ctx: click.Context, given: str, runs: int) -> tuple[str, Any]:
    """A parameter's name and its number, or numbers, one for each run."""
    name, _, text = given.partition("=")
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError as failure:
        example = "write e.g. k=60 or weights=0.3,0.7"
        raise click.UsageError(f"--param {given!r} is no number; {example}", ctx) from failure
    counts, usable = len(numbers), all(0 <= each < math.inf for each in numbers)
    refuse(
        ctx,
        (not usable, f"--param {given!r}: give finite numbers, 0 or more"),
        (counts not in (1, runs), f"--param {given!r}: {counts} numbers for {runs} runs"),
    )
    return name.strip(), numbers if counts > 1 else numbers[0]


FUSE = Verb(
    "fuse",
    _fuse,
    params=[
        click.Argument(["runs"], type=Reads(), nargs=-1, required=True, metavar="RUN RUN..."),
        flag("--out", "Write the fused run here.", type=Writes(), required=True),
        choice_flag("method", "Of ranx, see above.", [*_BY_RANK, *_BY_SCORE], metavar="NAME"),
        choice_flag("norm", "How scores are made comparable, of methods by score.", _NORMS),
        flag("--param", "Of the method; may be repeated.", multiple=True, metavar="NAME=X[,X...]"),
        count_flag("depth", None, "Documents to keep for each query. Without: all."),
        output_flag("fusion"),
    ],
    help=f"""Make one TREC run of several, e.g. of a ranker's and BM25's, by ranx.

    A query that only some of the runs have is fused as if the others had found nothing.

    --param names a number that the method takes, or one for each run: k=60, weights=0.3,0.7.

    By rank: {", ".join(_BY_RANK)}. rrf takes k (60 if not given), logn_isr sigma, rbc phi,
    w_bordafuse weights.

    By score: {", ".join(_BY_SCORE)}. gmnz takes gamma; wsum, wmnz and mixed take weights.
    """,
)
