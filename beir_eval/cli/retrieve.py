"""``beir-eval retrieve``: the first stage alone, as a TREC run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import click
from rich.table import Column
from rich.text import Text

from beir_eval.cli.flags import (
    FIRST_STAGE,
    bm25_flags,
    count_flag,
    measures_flag,
    no_cache_flag,
)
from beir_eval.data.first_stage import FirstStage, find
from beir_eval.data.load import load
from beir_eval.measures.metrics import evaluate, measure_names
from mcranker.cli.files import Writes
from mcranker.cli.invocation import Invocation
from mcranker.cli.verb import Verb, flag, output_flag, present, quiet_flag
from mcranker.inputs.topics import TOPIC_FIELDS
from mcranker.inputs.trec import write_trec
from personas.console import numbers, table
from personas.format import counted, seconds
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console


MEASURES = "nDCG@10,R@100"


def _retrieve(ctx: click.Context) -> int:
    given = ctx.params
    for name in ("index", "fields"):
        if given["engine"] != "pyserini" and given[name] is not None:
            raise click.UsageError(f"--{name} goes with --engine pyserini; give both", ctx)
    stage = FirstStage(
        **{name: given[name] for name in ("engine", "depth", "k1", "b")},
        index=given["index"] or "corpus",
        fields=given["fields"] or "flat",
    )
    measures = measure_names(given["measures"])
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is an error before the work
    clock = [time.perf_counter()]
    with ctx.ensure_object(Invocation).noting(not given["quiet"]):
        name, split, topic_field = (given[each] for each in ("dataset", "split", "topic_field"))
        dataset = load(name, split=split, topic_field=topic_field)
        if given["limit"] is not None:
            queries = dict(islice(dataset.queries.items(), given["limit"]))
            qrels = {each: dataset.qrels[each] for each in queries if each in dataset.qrels}
            dataset = replace(dataset, queries=queries, qrels=qrels)
        clock.append(time.perf_counter())
        run = find(dataset, stage, cache=not given["no_cache"])
        clock.append(time.perf_counter())
        evaluation = evaluate(run, dataset.qrels, measures)
        clock.append(time.perf_counter())
    note = stage.note()
    write_trec(run, given["out"], note.name.split()[0])
    spent = (after - before for before, after in pairwise(clock))
    record = {
        "dataset": dataset.name,
        "run": given["out"],
        "first_stage": {"name": note.name, **note.settings, "depth": stage.depth},
        "documents": len(dataset.corpus),
        "queries": len(run),
        "found": sum(map(len, run.values())),
        "missing_queries": list(evaluation.missing_queries),
        "measures": dict(evaluation.means),
        "seconds": dict(zip(("load", "search", "measure"), spent, strict=True)),
    }
    title = dataset.description or dataset.name
    return present(ctx, lambda console: _show(console, title, record), retrieval=record)


def _show(console: Console, title: str, record: Mapping[str, Any]) -> None:
    name, queries = record["first_stage"]["name"], counted(record["queries"], "query", "queries")
    found = f"{name}: {counted(record['found'], 'document')} for {queries}, in {record['run']}"
    for line in (title, found):
        console.print(Text(plain(line)), soft_wrap=True)
    rows = ((measure, f"{value:.4f}") for measure, value in record["measures"].items())
    console.print(table([Column("measure", no_wrap=True), *numbers(name)], rows))
    if missing := len(record["missing_queries"]):
        words = counted(missing, "judged query", "judged queries")
        console.print(Text(f"Nothing was found for {words}; they count 0."))
    times = ", ".join(f"{step} {seconds(taken)}" for step, taken in record["seconds"].items())
    console.print(Text(times, style="dim"))


command = Verb(
    "retrieve",
    _retrieve,
    params=[
        click.Argument(["dataset"], metavar="DATASET"),
        flag("--out", "Where the TREC run is written.", type=Writes(), required=True),
        flag(
            "--split",
            "Which judgements, and with them which queries.",
            metavar="NAME",
            default="test",
        ),
        flag(
            "--topic-field",
            "Of a folder with TREC topics, the field that is the query: title (or query), desc "
            "(description, question) or narr (narrative).",
            type=click.Choice(TOPIC_FIELDS),
            default="title",
        ),
        count_flag("limit", None, "Only the first N queries."),
        flag(
            "--engine",
            "bm25s is built in; pyserini is Lucene, whose figures are published.",
            type=click.Choice(["bm25s", "pyserini"]),
            default="bm25s",
            section=FIRST_STAGE,
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
