"""From the flags of ``beir-eval run`` to a suite and a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
from annotated_types import Interval
from pydantic import AllowInfNan

from beir_eval.cli.flags import datasets_flag, measures_flag, no_cache_flag, suites_flag
from beir_eval.data.first_stage import FirstStage
from beir_eval.experiment.run import Experiment, Plan
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite, load_suite
from beir_eval.experiment.suite_form import folder_name
from beir_eval.measures.metrics import measure_names
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.progress import worker_flag
from mcranker.cli.verb import Reads, WholeNumber, flag, output_flag
from mcranker.config import RankerConfig
from mcranker.errors import InputError
from mcranker.inputs.topics import TopicField
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.paths import is_file
from mcranker.rankers.keys import Key, keys_of, shared_keys
from personas.io.lines import read_texts
from personas.sanitize import plain

_BM25 = ("k1", "b", "index", "fields")
WHAT, OUTPUT = "What is run", "Output"
RUN_KEYS = {
    "depth": Key("depth", int | None, help="As --depth."),
    "dataset": Key("dataset", help="Description of the collection, for criteria=dataset."),
    "topic_field": Key("topic_field", TopicField | None, help="Field of TREC topics to rank for."),
    "k1": Key("k1", float, limits=(AllowInfNan(False), Interval(ge=0))),
    "b": Key("b", float, limits=(AllowInfNan(False), Interval(ge=0, le=1))),
    "index": Key("index", Literal["corpus", "prebuilt"]),
    "fields": Key("fields", Literal["flat", "multifield"]),
}
"""Options of this verb's data sets and first stage, in the file of ``--config`` or after ``-o``."""


def given_experiment(ctx: click.Context) -> Experiment:
    """Return the experiment that the flags describe."""
    options = given_options(ctx, default=None, own=RUN_KEYS)
    suite = _suite(ctx, options)
    experiment = Experiment(suite, _plan(ctx, suite, options))
    for spec in suite.rankers if ctx.params["suite"] is not None else ():
        for name in experiment.plan.options:
            if name in spec.own:
                hint = "; --use names models" if name in MODEL_OPTIONS else ""
                raise click.UsageError(
                    f"{name} is what the suite sets for {spec.label!r} itself; leave it out{hint}",
                    ctx,
                )
    return experiment


def _suite(ctx: click.Context, options: Given) -> Suite:
    given, rankers = ctx.params, options.rankers
    models = {}
    for text in given["use"]:
        name, equals, model = text.partition("=")
        if not (name and equals and model):
            raise click.UsageError(
                f"--use {text!r}: write NAME=MODEL, e.g. strong=openai:NAME", ctx
            )
        models[name.strip()] = model.strip()
    if given["suite"] is not None:
        for name, value in (("ranker", rankers), ("label", given["label"])):
            if value:
                raise click.UsageError(f"--{name} does not go with a suite; leave it out", ctx)
        return load_suite(given["suite"], models=models)
    if models:
        raise click.UsageError("--use goes with a suite that names models; name a suite", ctx)
    if not rankers:
        raise click.UsageError("name a suite, or --ranker and --dataset", ctx)
    if given["label"] and len(rankers) > 1:
        raise click.UsageError("--label names one run; give one --ranker", ctx)
    shared, specs = shared_keys(), []
    for ranker in dict.fromkeys(rankers):
        set_here = {name: options.options[name] for name in _in_order(ranker, options.options)}
        own = {name: value for name, value in set_here.items() if name not in shared}
        parts = (f"{name}={_in_short(value)}" for name, value in set_here.items())
        label = given["label"] or " ".join([ranker, *parts])
        folder_name(label)
        specs.append(RankerSpec(label, ranker, own, None, frozenset(own)))
    return Suite("", "", "", (), tuple(specs))


def _in_order(ranker: str, options: Mapping[str, Any]) -> list[str]:
    """Return the options that a label names: the configuration's, then the ranker's own."""
    names = [*RankerConfig.model_fields, *(each for each in keys_of(ranker) if each != "base_url")]
    wanted = (each for each in dict.fromkeys(names) if each not in (*MODEL_OPTIONS, "ledger"))
    return [each for each in wanted if each in options]


def _in_short(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return text if text.isprintable() else plain(text)


def _plan(ctx: click.Context, suite: Suite, options: Given) -> Plan:
    given, own = ctx.params, options.own
    about, topic_field = own.get("dataset"), own.get("topic_field")
    named = tuple(DatasetSpec(name) for name in given["datasets"])
    datasets = tuple(
        replace(
            each,
            about=about or each.about,
            split=given["split"] or each.split or "test",
            topic_field=topic_field or each.topic_field,
        )
        for each in named or suite.datasets
    )
    shared = shared_keys()
    return Plan(
        out=given["out"] or (str(Path("runs") / suite.name) if suite.name else "runs"),
        datasets=datasets,
        rankers=given["only"],
        queries=_query_ids(ctx, given["queries"]),
        limit=given["limit"],
        depth=given["passages"] or own.get("depth"),
        first_stage=_first_stage(given["first_stage"], own),
        measures=tuple(measure_names(given["measures"])),
        options={"ledger": "default"}
        | {name: value for name, value in options.options.items() if name in shared},
        cache=not given["no_cache"],
    )


def _first_stage(name: str, own: Mapping[str, Any]) -> FirstStage:
    settings = {each: own[each] for each in _BM25 if each in own}
    match name:
        case "bm25s" | "pyserini" as engine:
            return FirstStage(engine, **settings)
    return FirstStage("file", run=Path(name))


def _query_ids(ctx: click.Context, given: str | None) -> tuple[str, ...]:
    """Ids with commas between them, or a file with one a line."""
    if given is None:
        return ()
    if is_file(given):
        found = tuple(line.split()[0] for _, line in read_texts(given, InputError))
    else:
        found = tuple(part.strip() for part in given.split(",") if part.strip())
    if not found:
        raise click.UsageError(f"--queries {given!r} names no query", ctx)
    return found


def run_flags() -> list[click.Parameter]:
    """Every parameter, in the order of the help."""
    what, out = partial(flag, section=WHAT), partial(flag, section=OUTPUT)
    pipelines = partial(flag, section="Suites of pipelines")
    whole = WholeNumber(min=1)
    return [
        click.Argument(["suite"], required=False),
        what(
            "--dataset datasets",
            "A data set, instead of the suite's; may be repeated. --datasets lists them.",
            multiple=True,
            metavar="NAME|FOLDER",
        ),
        what("--split", "Which judgements ('test').", default="", metavar="NAME"),
        what(
            "--ranker",
            "A ranker, without a suite; may be repeated. --options lists them.",
            multiple=True,
            metavar="NAME",
        ),
        what("--label", "Names the run of one --ranker.", metavar="TEXT"),
        what(
            "--only",
            "A ranker of the suite to run, instead of all; may be repeated.",
            multiple=True,
            metavar="LABEL",
        ),
        what("--queries", "Only these queries; in a file, an id a line.", metavar="ID,ID,...|FILE"),
        suites_flag(WHAT),
        datasets_flag(WHAT),
        what("--limit", "Only the first N queries of each data set.", type=whole, metavar="N"),
        what(
            "--depth passages",
            "Passages a query that the first stage hands over (the suite's, or 100).",
            type=whole,
            metavar="N",
        ),
        what(
            "--first-stage",
            "BM25 as built in, Lucene's, or a TREC run.",
            default="bm25s",
            metavar="bm25s|pyserini|FILE",
        ),
        *option_flags(without=("ranker", "depth", "ensemble")),
        measures_flag(),
        what(
            "--use",
            "The model for a name that the suite gives to models.",
            multiple=True,
            metavar="NAME=MODEL",
        ),
        pipelines("--questions", "Questions with golden answers, JSONL.", type=Reads()),
        pipelines("--docs", "Documents to index.", type=Reads(), metavar="DIR"),
        pipelines(
            "--index index_folder",
            "File that 'mcranker index' made.",
            type=Reads(),
            metavar="INDEX",
        ),
        pipelines("--judge-model", "Asked by the judges, apart from the writers.", metavar="MODEL"),
        pipelines("--runs", "Repetitions of every answer.", type=whole, metavar="N"),
        out("--out", "Where run folders go (runs/SUITE).", metavar="FOLDER"),
        output_flag("results", section=OUTPUT),
        out(
            "--dry-run",
            "Show calls, tokens and cost instead; nothing is sent, no file is written.",
            is_flag=True,
        ),
        worker_flag(),
        no_cache_flag(),
    ]
