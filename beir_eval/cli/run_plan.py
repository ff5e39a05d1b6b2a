"""From the flags of ``beir-eval run`` to a suite and a plan."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beir_eval.cli.flags import (
    FIRST_STAGE,
    bm25_flags,
    measures_flag,
    no_cache_flag,
    topic_field_flag,
)
from beir_eval.experiment.run import Experiment, Plan
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.options import (
    COMPARISON_OPTIONS,
    FUSION_OPTIONS,
    comparison_flags,
    config_flags,
    fusion_flags,
    given_config,
    given_ledger,
    given_options,
    ledger_flag,
    model_flags,
    team_flag,
    with_criteria_flag,
)
from mcranker.cli.verb import GroupedOption, output_flag, quiet_flag
from mcranker.config import RankerConfig
from mcranker.errors import InputError
from mcranker.models import MODEL_OPTIONS, ROLES
from mcranker.paths import is_file
from mcranker.rankers import RANKERS
from personas.io.lines import read_texts
from personas.sanitize import plain

if TYPE_CHECKING:
    from beir_eval.experiment.suite import DatasetSpec, Suite
    from beir_eval.retrieval.first_stage import FirstStage

ENGINES = ("bm25s", "pyserini")


WHAT, OUTPUT = "What is run", "Output"
_OF_ONE_RANKER = ("team", "with_criteria", *COMPARISON_OPTIONS, *FUSION_OPTIONS)


def given_experiment(ctx: click.Context) -> Experiment:
    """Return the experiment that the flags describe.

    Raises:
        click.UsageError: flags that do not go together.
        BeirEvalError, MCRankerError: the suite or an option cannot be, or the file of query ids
            cannot be read.
    """
    suite = _suite(ctx)
    experiment = Experiment(suite, _plan(ctx, suite))
    _check_not_varied(ctx, experiment)
    return experiment


def needed_models(experiment: Experiment) -> list[str]:
    """Names of all models that the rankers will need, that of the default included."""
    from mcranker.llm.connect import choose_default
    from mcranker.rankers import RANKERS

    names = []
    for spec in experiment.rankers:
        if spec.run or not RANKERS.get(spec.ranker).asks_models(spec.options):
            continue
        model = spec.options.get("model")
        roles = [spec.options.get(f"{role}_model") or model for role in ROLES]
        names += [each or choose_default(os.environ)[0] for each in roles]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _suite(ctx: click.Context) -> Suite:
    from beir_eval.experiment.suite import RankerSpec, Suite, load_suite
    from beir_eval.experiment.suite_form import folder_name

    given = ctx.params
    named = dict(_pair(ctx, text) for text in given["use"])
    if given["suite"] is not None:
        for flag in ("ranker", "label", *given_options(given, _OF_ONE_RANKER)):
            if given[flag] or given[flag] == 0:
                name = flag.replace("_", "-")
                raise click.UsageError(f"--{name} does not go with a suite; leave it out", ctx)
        return load_suite(given["suite"], models=named)
    if named:
        raise click.UsageError("--use goes with a suite that names models; name a suite", ctx)
    if not given["ranker"]:
        raise click.UsageError("name a suite, or --ranker and --dataset", ctx)
    if given["label"] and len(given["ranker"]) > 1:
        raise click.UsageError("--label names one run; give one --ranker", ctx)
    specific = given_options(given, _OF_ONE_RANKER)
    rankers = tuple(
        RankerSpec(
            given["label"] or _label(ctx, name, specific), name, specific, None, frozenset(specific)
        )
        for name in dict.fromkeys(given["ranker"])
    )
    for ranker in rankers:
        folder_name(ranker.label)
    return Suite("", "", "", (), rankers)


def _label(ctx: click.Context, ranker: str, specific: dict[str, Any]) -> str:
    """The ranker with what was set for it, e.g. ``direct scale=20``."""
    shown = {**given_config(ctx).model_dump(exclude_unset=True), **specific}
    parts = [ranker, *(f"{name}={_in_short(value)}" for name, value in shown.items())]
    return " ".join(parts)


def _in_short(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if text.isprintable() else plain(text)


def _plan(ctx: click.Context, suite: Suite) -> Plan:
    from beir_eval.experiment.suite import DatasetSpec
    from beir_eval.measures.metrics import measure_names

    given = ctx.params
    datasets = tuple(
        DatasetSpec(name, given["split"], given["about"], given["topic_field"] or "title")
        for name in given["datasets"]
    ) or tuple(
        replace(
            each,
            about=given["about"] or each.about,
            split=given["split"] or each.split,
            topic_field=given["topic_field"] or each.topic_field,
        )
        for each in suite.datasets
    )
    config = given_config(ctx)
    options = {name: getattr(config, name) for name in config.model_fields_set}
    options |= {name: given[name] for name in MODEL_OPTIONS if given[name]}
    options |= {} if given["base_url"] is None else {"base_url": given["base_url"]}
    options["ledger"] = given_ledger(ctx)
    out = given["out"] or (str(Path("runs") / suite.name) if suite.name else "runs")
    return Plan(
        out=out,
        datasets=_with_split(datasets),
        rankers=given["only"],
        queries=_query_ids(ctx, given["queries"]),
        limit=given["limit"],
        depth=given["passages"],
        first_stage=_first_stage(given),
        measures=tuple(measure_names(given["measures"])),
        options=options,
        cache=not given["no_cache"],
    )


def _with_split(datasets: tuple[DatasetSpec, ...]) -> tuple[DatasetSpec, ...]:
    return tuple(each if each.split else replace(each, split="test") for each in datasets)


def _first_stage(given: dict[str, Any]) -> FirstStage:
    from beir_eval.retrieval.first_stage import FirstStage

    name = given["first_stage"]
    if name not in ENGINES:
        return FirstStage(engine="file", run=Path(name))
    return FirstStage(
        engine=name,
        k1=given["k1"],
        b=given["b"],
        index=given["index"] or "corpus",
        fields=given["fields"] or "flat",
    )


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


def _pair(ctx: click.Context, text: str) -> tuple[str, str]:
    name, equals, model = text.partition("=")
    if not (name and equals and model):
        raise click.UsageError(f"--use {text!r}: write NAME=MODEL, e.g. strong=openai:NAME", ctx)
    return name.strip(), model.strip()


def _check_not_varied(ctx: click.Context, experiment: Experiment) -> None:
    """Refuse flags for what the suite's rankers set themselves."""
    for spec in experiment.suite.rankers:
        for name in experiment.plan.options:
            if name in spec.own and ctx.params["suite"] is not None:
                hint = "; --use names models" if name in MODEL_OPTIONS else ""
                raise click.UsageError(
                    f"--{name.replace('_', '-')} is what the suite sets for "
                    f"{spec.label!r} itself; leave it out{hint}",
                    ctx,
                )


def run_flags() -> list[click.Parameter]:
    """Every parameter, in the order of the help."""
    what, out = partial(GroupedOption, section=WHAT), partial(GroupedOption, section=OUTPUT)
    config = [name for name in RankerConfig.model_fields if name not in ("dataset", "depth")]
    return [
        click.Argument(["suite"], required=False),
        what(
            ["--dataset", "datasets"],
            multiple=True,
            metavar="NAME|FOLDER",
            help="A data set, instead of the suite's; may be repeated. See 'beir-eval datasets'.",
        ),
        what(["--split"], default="", metavar="NAME", help="Which judgements ('test')."),
        topic_field_flag(WHAT),
        what(
            ["--about"],
            default="",
            metavar="TEXT",
            help="What the collection is, for criteria of the data set.",
        ),
        what(
            ["--ranker"],
            multiple=True,
            type=click.Choice(RANKERS.names),
            help="A ranker, without a suite; may be repeated.",
        ),
        what(["--label"], metavar="TEXT", help="Names the run of one --ranker."),
        what(
            ["--only"],
            multiple=True,
            metavar="LABEL",
            help="A ranker of the suite to run, instead of all; may be repeated.",
        ),
        what(
            ["--queries"],
            metavar="ID,ID,...|FILE",
            help="Only these queries; in a file, an id a line.",
        ),
        what(
            ["--limit"],
            type=WholeNumber(min=1),
            metavar="N",
            help="Only the first N queries of each data set.",
        ),
        what(
            ["--depth", "passages"],
            type=WholeNumber(min=1),
            metavar="N",
            help="Passages a query that the first stage hands over (the suite's, or 100).",
        ),
        GroupedOption(
            ["--first-stage"],
            default="bm25s",
            show_default=True,
            section=FIRST_STAGE,
            metavar="bm25s|pyserini|FILE",
            help="What finds the passages: BM25 as built in, Lucene's, or a TREC run.",
        ),
        *bm25_flags(),
        measures_flag(),
        what(
            ["--use"],
            multiple=True,
            metavar="NAME=MODEL",
            help="The model for a name that the suite gives to models.",
        ),
        out(["--out"], metavar="FOLDER", help="Where run folders go (runs/SUITE)."),
        output_flag("results"),
        out(
            ["--dry-run"],
            is_flag=True,
            help="Show calls, tokens and cost instead; nothing is sent, no file is written.",
        ),
        no_cache_flag(),
        team_flag(
            "A saved team, or one of the library, for all queries; none is recruited, unless "
            "--team-size is larger."
        ),
        with_criteria_flag(),
        *comparison_flags(),
        *fusion_flags(),
        *config_flags(config),
        *model_flags(ROLES),
        ledger_flag(),
        quiet_flag(),
    ]
