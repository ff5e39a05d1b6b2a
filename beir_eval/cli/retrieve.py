"""``beir-eval retrieve``: the first stage alone, as a TREC run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import click

from beir_eval.cli.flags import (
    DATA_SET,
    FIRST_STAGE,
    bm25_flags,
    count_flag,
    measures_flag,
    no_cache_flag,
    topic_field_flag,
)
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Writes
from mcranker.cli.invocation import Invocation
from mcranker.cli.verb import GroupedOption, Verb, output_flag, quiet_flag
from personas.format import counted, seconds

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.data.datasets import Dataset
    from beir_eval.measures.metrics import Evaluation
    from beir_eval.retrieval.first_stage import FirstStage
    from mcranker.topics import TopicField
    from mcranker.trec import Run

MEASURES = "nDCG@10,R@100"
TAG = "BM25"


@dataclass(frozen=True, slots=True)
class _Result:
    """A run, its measures, and the seconds for the data set, the search and the measures."""

    dataset: Dataset
    stage: FirstStage
    run: Run
    evaluation: Evaluation
    times: Mapping[str, float]


def _retrieve(ctx: click.Context) -> int:
    from beir_eval.measures.metrics import measure_names
    from mcranker.trec import write_trec

    given = ctx.params
    stage = _stage(ctx)
    measures = measure_names(given["measures"])
    with ctx.ensure_object(Invocation).noting(not given["quiet"]):
        result = _find(given, stage, measures)
    write_trec(result.run, given["out"], TAG)
    if given["output"] == "json":
        return print_json(retrieval=_record(result, given["out"]))
    from personas.console import print_page

    print_page(lambda console: _show(console, result, given["out"]))
    return DONE


def _stage(ctx: click.Context) -> FirstStage:
    from beir_eval.retrieval.first_stage import FirstStage

    given = ctx.params
    for name in ("index", "fields"):
        if given["engine"] != "pyserini" and given[name] is not None:
            raise click.UsageError(f"--{name} goes with --engine pyserini; give both", ctx)
    return FirstStage(
        engine=given["engine"],
        depth=given["depth"],
        k1=given["k1"],
        b=given["b"],
        index=given["index"] or "corpus",
        fields=given["fields"] or "flat",
    )


def _find(given: Mapping[str, Any], stage: FirstStage, measures: list[str]) -> _Result:
    from beir_eval.data.load import load
    from beir_eval.measures.metrics import evaluate
    from beir_eval.retrieval.first_stage import find

    # A measure that does not exist is told before the work, not after it.
    evaluate({}, {"query": {"document": 1}}, measures)
    clock = [time.perf_counter()]
    topic_field: TopicField = given["topic_field"] or "title"
    dataset = load(given["dataset"], split=given["split"], topic_field=topic_field)
    if given["limit"] is not None:
        dataset = _limited(dataset, given["limit"])
    clock.append(time.perf_counter())
    run = find(dataset, stage, cache=not given["no_cache"])
    clock.append(time.perf_counter())
    evaluation = evaluate(run, dataset.qrels, measures)
    clock.append(time.perf_counter())
    spent = (after - before for before, after in pairwise(clock))
    times = dict(zip(("load", "search", "measure"), spent, strict=True))
    return _Result(dataset, stage, run, evaluation, times)


def _limited(dataset: Dataset, limit: int) -> Dataset:
    queries = dict(islice(dataset.queries.items(), limit))
    qrels = {each: dataset.qrels[each] for each in queries if each in dataset.qrels}
    return replace(dataset, queries=queries, qrels=qrels)


def _record(result: _Result, out: str) -> dict[str, Any]:
    note = result.stage.note()
    return {
        "dataset": result.dataset.name,
        "run": out,
        "first_stage": {"name": note.name, **note.settings, "depth": result.stage.depth},
        "documents": len(result.dataset.corpus),
        "queries": len(result.run),
        "found": sum(map(len, result.run.values())),
        "missing_queries": list(result.evaluation.missing_queries),
        "measures": dict(result.evaluation.means),
        "seconds": dict(result.times),
    }


def _show(console: Console, result: _Result, out: str) -> None:
    from rich.table import Column
    from rich.text import Text

    from personas.console import numbers, table
    from personas.sanitize import plain

    found = sum(map(len, result.run.values()))
    name = result.stage.note().name
    lines = [
        result.dataset.description or result.dataset.name,
        f"{name}: {counted(found, 'document')} for {counted(len(result.run), 'query', 'queries')}, "
        f"in {out}",
    ]
    for line in lines:
        console.print(Text(plain(line)), soft_wrap=True)
    rows = ((measure, f"{value:.4f}") for measure, value in result.evaluation.means.items())
    console.print(table([Column("measure", no_wrap=True), *numbers(name)], rows))
    missing = len(result.evaluation.missing_queries)
    if missing:
        words = counted(missing, "judged query", "judged queries")
        console.print(Text(f"Nothing was found for {words}; they count 0."))
    times = ", ".join(f"{step} {seconds(taken)}" for step, taken in result.times.items())
    console.print(Text(times, style="dim"))


command = Verb(
    "retrieve",
    _retrieve,
    params=[
        click.Argument(["dataset"], type=DATA_SET, metavar="DATASET"),
        click.Option(
            ["--out"],
            type=Writes(),
            required=True,
            help="Where the TREC run is written.",
        ),
        click.Option(
            ["--split"],
            metavar="NAME",
            default="test",
            show_default=True,
            help="Which judgements, and with them which queries.",
        ),
        topic_field_flag(),
        count_flag("limit", None, "Only the first N queries."),
        GroupedOption(
            ["--engine"],
            type=click.Choice(["bm25s", "pyserini"]),
            default="bm25s",
            show_default=True,
            section=FIRST_STAGE,
            help="bm25s is built in; pyserini is Lucene, whose figures are published.",
        ),
        count_flag("depth", 100, "Documents a query.", section=FIRST_STAGE),
        *bm25_flags(),
        no_cache_flag(),
        measures_flag(MEASURES),
        output_flag("retrieval"),
        quiet_flag(),
    ],
    help="""Find the passages that rankers would get, write them as a TREC run, and measure it.

    DATASET is a name of 'beir-eval datasets', an id of ir_datasets, or a folder in BEIR format.
    Indexes and runs are kept by the content of the corpus, so that the next time is quick.
    """,
)
