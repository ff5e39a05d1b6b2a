"""``beir-eval run``: rankers over data sets, or pipelines over questions, into run folders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from beir_eval.answers.judges import judge_of
from beir_eval.cli.flags import (
    ENGINES,
    WHAT,
    listing_flags,
    measures_flag,
    no_cache_flag,
    print_lines,
)
from beir_eval.cli.run_results import (
    Display,
    as_dict,
    cautions_of,
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
from mcranker.cli.flags import Reads, Verb, WholeNumber, dry_run_flag, flag, output_flag, refuse
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import Given, given_options, option_flags
from mcranker.cli.output import present, saying_where
from mcranker.cli.progress import (
    check_local_models,
    fetch_models,
    live_is_wanted,
    work_off,
    worker_flag,
)
from mcranker.cli.results import show_estimates
from mcranker.llm.models import MODEL_OPTIONS
from mcranker.rag.config import SHARED, models_of, stage_keys
from mcranker.rankers.keys import Key, keys_of, needed_models, shared_keys
from personas.io.atomic import check_place
from personas.sanitize import plain

_WARNINGS = ("MissingScores", "Unsupported")
_KEYS = {"dataset": Key("dataset", help="Description of the collection, for criteria=dataset.")}
"""Option of this verb's data sets, in the file of ``--config`` or after ``-o``."""

_OF_RANKERS = ("datasets", "split", "ranker", "queries", "passages", "worker")
_OF_PIPELINES = ("questions", "docs", "index_folder", "judge_model", "runs")
"""Parameters that go with suites of one kind alone."""


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

    async def run() -> list[CellResult]:
        with closing(Display(invocation, quiet=quiet)) as watch, invocation.held():
            return [result async for result in experiment.run(watch)]

    with saying_where(ledger):
        results = run_loop(run)
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


def _show(ctx: click.Context, experiment: Experiment, results: list[CellResult]) -> int:
    code, errors = verdict(results)
    pipelines, out = experiment.suite.pipelines, experiment.plan.out
    warned = cautions_of(experiment, results) if pipelines else []

    def show(console: Console) -> None:
        if pipelines:
            show_pipelines(console, experiment.form.judges, results)
        else:
            show_rankers(console, results)
        for sentence in warned:
            say(f"warning: {sentence}")
        for error in errors:
            say(f"{'warning' if error.code in _WARNINGS else 'error'}: {error.message}")
        if any(each.metrics or each.answers for each in results):
            line = f"For tables, significance and figures: beir-eval report {out}"
            print_lines(console, [line])
        if any(each.metrics and each.metrics.taken for each in results):
            print_lines(console, [f"To see why: personas report {out} --out FOLDER"])

    more = {"warnings": warned} if pipelines else {}
    entries = [each.entry for each in errors]
    return present(ctx, show, code, entries, results=[*map(as_dict, results)], **more)


def _experiment(ctx: click.Context) -> Experiment:
    """The experiment that the flags describe."""
    given, models = ctx.params, dict(_named_model(ctx, text) for text in ctx.params["use"])
    suite = None if given["suite"] is None else load_suite(given["suite"], models=models)
    pipelines = suite is not None and bool(suite.pipelines)
    flags = {each.name: each.opts[0] for each in ctx.command.params}
    how = "does not go" if pipelines else "goes"
    unfit = _OF_RANKERS if pipelines else _OF_PIPELINES
    two = "--docs and --index do not go together; leave one out"
    refuse(
        ctx,
        *((given.get(x), f"{flags[x]} {how} with a suite of pipelines") for x in unfit),
        (given["docs"] and given["index_folder"], two),
    )
    if pipelines:
        others = shared_keys().keys() - set(SHARED)
        what = "a suite of pipelines"
        options = given_options(ctx, default=None, own=stage_keys(), without=others, what=what)
        chosen = {**options.options, **options.own}
    else:
        options = given_options(ctx, default=None, own=_KEYS)
        chosen = {k: value for k, value in options.options.items() if k in shared_keys()}
    if suite is None:
        refuse(ctx, (models, "--use goes with a suite that names models; name a suite"))
        suite = _made_up(ctx, options)
    else:
        taken = [(spec, name) for spec in suite.rankers for name in chosen if name in spec.own]
        refuse(
            ctx,
            (options.rankers, "--ranker does not go with a suite; leave it out"),
            *((True, _set_already(spec, name)) for spec, name in taken),
        )
    about = "" if pipelines else options.own.get("dataset", "")
    return Experiment(suite, _plan(ctx, suite, {"ledger": "default"} | chosen, about))


def _set_already(spec: RankerSpec, option: str) -> str:
    hint = "; --use names models" if option in MODEL_OPTIONS else ""
    return f"{option} is what the suite sets for {spec.label!r} itself; leave it out{hint}"


def _named_model(ctx: click.Context, text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    wanted = "write NAME=MODEL, e.g. strong=openai:NAME"
    refuse(ctx, (not (name and model), f"--use {text!r}: {wanted}"))
    return name.strip(), model.strip()


def _made_up(ctx: click.Context, options: Given) -> Suite:
    """The rankers of the flags, which have no suite; their options make their labels."""
    if not options.rankers:
        raise click.UsageError("name a suite, or --ranker and --dataset", ctx)
    specs, hidden = [], {*MODEL_OPTIONS, "ledger", "base_url"}
    for ranker in dict.fromkeys(options.rankers):
        takes = keys_of(ranker)
        chosen = {k: v for k, v in options.options.items() if k in takes and k not in hidden}
        name = "MCRanker" if ranker == "mcranker" else ranker
        label = ", ".join([name, *(_in_short(k, v) for k, v in chosen.items())])
        folder_name(label)
        own = {k: v for k, v in chosen.items() if k not in shared_keys()}
        specs.append(RankerSpec(label, ranker, own, None, frozenset(own)))
    return Suite("", "", "", (), tuple(specs))


def _in_short(key: str, value: Any) -> str:
    values = [str(each) for each in (value if isinstance(value, tuple | list) else [value])]
    if key == "team":
        return plain(", ".join(Path(each).name for each in values))
    return plain(f"{key.replace('_', ' ')} {','.join(values)}")


def _plan(ctx: click.Context, suite: Suite, options: Mapping[str, Any], about: str) -> Plan:
    given, stage = ctx.params, ctx.params["first_stage"]
    changes = {key: value for key, value in (("split", given["split"]), ("about", about)) if value}
    named = tuple(DatasetSpec(name) for name in given["datasets"])
    text = given["queries"]
    queries = tuple(each.strip() for each in (text or "").split(",") if each.strip())
    refuse(ctx, (text is not None and not queries, f"--queries {text!r} names no query"))
    return Plan(
        out=given["out"] or (str(Path("runs") / suite.name) if suite.name else "runs"),
        datasets=tuple(replace(each, **changes) for each in named or suite.datasets),
        rankers=given["only"],
        queries=queries,
        limit=given["limit"],
        depth=given["passages"],
        first_stage=FirstStage(stage) if stage in ENGINES else FirstStage("file", run=Path(stage)),
        measures=tuple(measure_names(given["measures"])),
        options=options,
        cache=not given["no_cache"],
        questions=given["questions"] or "",
        documents=given["docs"] or "",
        index=given["index_folder"] or "",
        judge_model=given["judge_model"] or "",
        runs=given["runs"],
    )


_what = partial(flag, section=WHAT)
_several = partial(_what, multiple=True)
_pipelines, _whole = partial(flag, section="Suites of pipelines"), WholeNumber(min=1)
_PARAMS = [
    click.Argument(["suite"], required=False),
    _several(
        "--dataset datasets", "Instead of the suite's; may be repeated.", metavar="NAME|FOLDER"
    ),
    _what("--split", "Which judgements ('test').", default="", metavar="NAME"),
    _several("--ranker", "A ranker, without a suite; may be repeated.", metavar="NAME"),
    _several("--only", "Only this row of the suite; may be repeated.", metavar="LABEL"),
    _what("--queries", "Only these queries.", metavar="ID,ID,..."),
    *listing_flags(),
    _what("--limit", "Only the first N queries of each data set.", type=_whole, metavar="N"),
    _what("--depth passages", "Passages a query (the suite's, or 100).", type=_whole, metavar="N"),
    _what(
        "--first-stage",
        "BM25 as built in, Lucene's, or a TREC run.",
        default="bm25s",
        metavar="bm25s|pyserini|FILE",
    ),
    *option_flags(without=("ranker", "depth", "ensemble")),
    measures_flag(),
    _several("--use", "The model for a name that the suite gives.", metavar="NAME=MODEL"),
    _pipelines("--questions", "Questions with golden answers, JSONL.", type=Reads()),
    _pipelines("--docs", "Documents to index.", type=Reads(), metavar="DIR"),
    _pipelines("--index index_folder", "File of 'mcranker index'.", type=Reads(), metavar="INDEX"),
    _pipelines("--judge-model", "Asked by the judges, apart from the writers.", metavar="MODEL"),
    _pipelines("--runs", "Repetitions of every answer.", type=_whole, metavar="N"),
    flag("--out", "Where run folders go (runs/SUITE).", section="Output", metavar="FOLDER"),
    output_flag("results", section="Output"),
    dry_run_flag(),
    worker_flag(),
    no_cache_flag(),
]

command = Verb(
    "run",
    _run,
    params=_PARAMS,
    help="""Run rankers over data sets, or pipelines over questions, into run folders.

    SUITE is a name that --suites lists, or a TOML file. What was stopped goes on when
    the same command is given again: rankings that are there are kept, and every answer is in
    the ledger. Options hold for all rankers of the suite, but not before what one sets itself.
    -o dataset=TEXT says what the collection is; 'beir-eval retrieve' makes a FILE for
    --first-stage. A suite of pipelines answers questions, and judges say how good the answers are.

    \b
      beir-eval run smoke
      beir-eval run table1 --dataset scifact --model openai:NAME --dry-run
      beir-eval run table4 --dataset nfcorpus --limit 50 --model openai:NAME --max-cost 5
      beir-eval run --dataset ./my_folder --ranker mcranker --ranker direct --model openai:NAME \\
          -o temperature=0
      beir-eval run rebel_fig1 --questions questions.jsonl --docs papers/ --limit 20
    """,
)
