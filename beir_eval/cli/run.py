"""``beir-eval run``: rankers over data sets, or pipelines over questions, into run folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from annotated_types import Interval
from pydantic import AllowInfNan

from beir_eval.answers.judges import judge_of
from beir_eval.cli.flags import datasets_flag, measures_flag, no_cache_flag, suites_flag
from beir_eval.cli.run_results import (
    Display,
    analysed,
    as_dict,
    show_pipelines,
    show_rankers,
    verdict,
)
from beir_eval.data.first_stage import FirstStage
from beir_eval.experiment.cell import CellResult, Plan
from beir_eval.experiment.run import Experiment
from beir_eval.experiment.suite import DatasetSpec, RankerSpec, Suite, load_suite
from beir_eval.experiment.suite_form import folder_name
from beir_eval.measures.metrics import measure_names
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.output import print_json, print_line, saying_where
from mcranker.cli.progress import (
    check_local_models,
    fetch_models,
    live_is_wanted,
    work_off,
    worker_flag,
)
from mcranker.cli.results import show_estimates
from mcranker.cli.verb import Reads, Verb, WholeNumber, flag, output_flag
from mcranker.config import RankerConfig
from mcranker.errors import InputError
from mcranker.inputs.topics import TopicField
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.paths import is_file
from mcranker.rag.config import SHARED, models_of, stage_keys
from mcranker.rankers.keys import Key, keys_of, needed_models, shared_keys
from personas.console import print_page
from personas.io.atomic import check_place
from personas.io.lines import read_texts
from personas.sanitize import plain

_WARNINGS = ("MissingScores", "Unsupported")
_BM25 = ("k1", "b")
WHAT, OUTPUT = "What is run", "Output"
_KEYS = {
    "depth": Key("depth", int | None, help="As --depth."),
    "dataset": Key("dataset", help="Description of the collection, for criteria=dataset."),
    "topic_field": Key("topic_field", TopicField | None, help="Field of TREC topics to rank for."),
    "k1": Key("k1", float, limits=(AllowInfNan(False), Interval(ge=0))),
    "b": Key("b", float, limits=(AllowInfNan(False), Interval(ge=0, le=1))),
}
"""Options of this verb's data sets and first stage, in the file of ``--config`` or after ``-o``."""

_OF_RANKERS = ("datasets", "split", "ranker", "label", "queries", "passages", "worker")
_OF_PIPELINES = ("questions", "docs", "index_folder", "judge_model", "runs")
"""Parameters that go with suites of one kind alone."""
_FLAGS = {"passages": "depth", "datasets": "dataset", "index_folder": "index"}


def _run(ctx: click.Context) -> int:
    given, invocation = ctx.params, ctx.ensure_object(Invocation)
    invocation.doing("getting ready; nothing was sent")
    experiment = _experiment(ctx)
    quiet, out, pipelines = given["quiet"], Path(experiment.plan.out), experiment.suite.pipelines
    models, ledger = _models(experiment), experiment.plan.options["ledger"] or "none"
    with invocation.noting(live_is_wanted(quiet=quiet)), saying_where(ledger):
        if given["dry_run"]:
            invocation.doing("estimating; nothing was sent")
            headings = ["data set", "ranker"]
            note = "A call whose answer the ledger will have from an earlier row is counted there."
            if pipelines:
                headings, note = ["pipeline"], "Of all runs, with their judges."
            else:
                check_local_models(models)
            rows = [
                ({"dataset": name, "label": label} if name else {"label": label}, each)
                for name, label, each in experiment.estimate()
            ]
            return show_estimates(ctx, headings, rows, note)
        fetch_models(models, quiet=quiet)
    if given["worker"]:
        return run_loop(partial(work_off, ctx, experiment.work(), experiment.queries()))
    # An error before anything is paid for if nothing can be written.
    out.mkdir(parents=True, exist_ok=True)
    check_place(out / "probe")
    with saying_where(ledger):
        results = run_loop(partial(_run_all, experiment, invocation, quiet=quiet))
    return _show(ctx, experiment, results)


def _models(experiment: Experiment) -> list[str]:
    """Return the models that will be asked, the default ones included."""
    specs = experiment.rankers
    if not experiment.suite.pipelines:
        return needed_models((spec.ranker, spec.options) for spec in specs if not spec.run)
    found = [name for spec in specs for name in models_of(*spec.stages())]
    if any(judge_of(name).asks for name in experiment.form.judges):
        found.append(experiment.form.judge_model)
    return list(dict.fromkeys(found))


async def _run_all(
    experiment: Experiment, invocation: Invocation, *, quiet: bool
) -> list[CellResult]:
    watch = Display(invocation, quiet=quiet)
    try:
        with invocation.held():
            return [result async for result in experiment.run(watch)]
    finally:
        watch.close()


def _show(ctx: click.Context, experiment: Experiment, results: list[CellResult]) -> int:
    code, errors = verdict(results)
    pipelines, out = experiment.suite.pipelines, experiment.plan.out
    warned, found = analysed(experiment, results) if pipelines else ([], None)
    if ctx.params["output"] == "json":
        more: dict[str, Any] = {"warnings": warned} if pipelines else {}
        more |= {} if found is None else {"anova": found.to_dict()}
        listed = [as_dict(result) for result in results]
        return print_json(code, [each.entry for each in errors], results=listed, **more)
    if pipelines:
        print_page(lambda console: show_pipelines(console, experiment, results, found))
    else:
        print_page(lambda console: show_rankers(console, results))
    for sentence in warned:
        say(f"warning: {sentence}")
    for error in errors:
        say(f"{'warning' if error.code in _WARNINGS else 'error'}: {error.message}")
    if any(result.metrics or result.answers for result in results):
        print_line(f"For tables, significance and figures: beir-eval report {out}")
    if any(result.metrics and result.metrics.taken for result in results):
        print_line(f"To see why: personas report {out} --out FOLDER")
    return code


def _experiment(ctx: click.Context) -> Experiment:
    """Return the experiment that the flags describe."""
    given, models = ctx.params, _named_models(ctx)
    suite = None if given["suite"] is None else load_suite(given["suite"], models=models)
    pipelines = suite is not None and bool(suite.pipelines)
    for name in _OF_RANKERS if pipelines else _OF_PIPELINES:
        if given.get(name):
            shown = _FLAGS.get(name, name).replace("_", "-")
            how = "does not go" if pipelines else "goes"
            raise click.UsageError(f"--{shown} {how} with a suite of pipelines", ctx)
    if given["docs"] and given["index_folder"]:
        raise click.UsageError("--docs and --index do not go together; leave one out", ctx)
    if pipelines:
        others = shared_keys().keys() - set(SHARED)
        what = "a suite of pipelines"
        options = given_options(ctx, default=None, own=stage_keys(), without=others, what=what)
        chosen, own = {**options.options, **options.own}, dict[str, Any]()
    else:
        options = given_options(ctx, default=None, own=_KEYS)
        chosen = {k: value for k, value in options.options.items() if k in shared_keys()}
        own = dict(options.own)
    if suite is None:
        if models:
            raise click.UsageError("--use goes with a suite that names models; name a suite", ctx)
        suite = _made_up(ctx, options)
    else:
        for name, value in (("ranker", options.rankers), ("label", given["label"])):
            if value:
                raise click.UsageError(f"--{name} does not go with a suite; leave it out", ctx)
        for spec in suite.rankers:
            if taken := [name for name in chosen if name in spec.own]:
                hint = "; --use names models" if taken[0] in MODEL_OPTIONS else ""
                raise click.UsageError(
                    f"{taken[0]} is what the suite sets for {spec.label!r} itself; leave it out"
                    f"{hint}",
                    ctx,
                )
    return Experiment(suite, _plan(ctx, suite, {"ledger": "default"} | chosen, own))


def _named_models(ctx: click.Context) -> dict[str, str]:
    models = {}
    for text in ctx.params["use"]:
        name, equals, model = text.partition("=")
        if not (name and equals and model):
            raise click.UsageError(
                f"--use {text!r}: write NAME=MODEL, e.g. strong=openai:NAME", ctx
            )
        models[name.strip()] = model.strip()
    return models


def _made_up(ctx: click.Context, options: Given) -> Suite:
    """The rankers of the flags, which have no suite."""
    given, rankers = ctx.params, options.rankers
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


def _plan(
    ctx: click.Context, suite: Suite, options: Mapping[str, Any], own: Mapping[str, Any]
) -> Plan:
    given = ctx.params
    changes = {"split": given["split"], "topic_field": own.get("topic_field")}
    changes = {name: value for name, value in changes.items() if value}
    about = {"about": own["dataset"]} if own.get("dataset") else {}
    named = tuple(DatasetSpec(name) for name in given["datasets"])
    return Plan(
        out=given["out"] or (str(Path("runs") / suite.name) if suite.name else "runs"),
        datasets=tuple(replace(each, **changes, **about) for each in named or suite.datasets),
        rankers=given["only"],
        queries=_query_ids(ctx, given["queries"]),
        limit=given["limit"],
        depth=given["passages"] or own.get("depth"),
        first_stage=_first_stage(given["first_stage"], own),
        measures=tuple(measure_names(given["measures"])),
        options=options,
        cache=not given["no_cache"],
        questions=given["questions"] or "",
        documents=given["docs"] or "",
        index=given["index_folder"] or "",
        judge_model=given["judge_model"] or "",
        runs=given["runs"],
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


def _flags() -> list[click.Parameter]:
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


command = Verb(
    "run",
    _run,
    params=_flags(),
    help="""Run rankers over data sets, or pipelines over questions, into run folders.

    SUITE is a name that --suites lists, or a TOML file. What was stopped goes on when
    the same command is given again: rankings that are there are kept, and every answer is in
    the ledger. Options hold for all rankers of the suite, but not before what one sets itself.
    -o dataset=TEXT says what the collection is, -o topic_field=desc which field of TREC topics is
    the query; -o k1=X and b=X are as in 'beir-eval retrieve'.
    A suite of pipelines answers questions, and judges say how good the answers are.

    \b
      beir-eval run smoke
      beir-eval run table1 --dataset scifact --model openai:NAME --dry-run
      beir-eval run table4 --dataset nfcorpus --limit 50 --model openai:NAME --max-cost 5
      beir-eval run --dataset ./my_folder --ranker mcranker --ranker direct --model openai:NAME \\
          -o temperature=0
      beir-eval run rebel_fig1 --questions questions.jsonl --docs papers/ --limit 20
    """,
)
