"""``beir-eval evaluate``: measures of TREC runs, and whether their differences may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from beir_eval.cli.findings import LEVEL, Findings
from beir_eval.cli.flags import judgement_flags, measures_flag, statistics_flags
from beir_eval.measures.significance import usual_correction
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.verb import Verb, output_flag

if TYPE_CHECKING:
    from beir_eval.measures.metrics import Evaluation
    from beir_eval.measures.significance import Comparison, Interval
    from beir_eval.runs import Run

__all__ = ["command"]

Qrels = Mapping[str, Mapping[str, int]]


def _evaluate(ctx: click.Context) -> int:
    _check_flags(ctx)
    from beir_eval.measures.metrics import evaluate, measure_names
    from beir_eval.runs import read_trec

    given = ctx.params
    measures = measure_names(given["measures"])
    names = _names(ctx)
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is told before the work
    qrels = _qrels(given)
    evaluations: dict[str, Evaluation] = {}
    for name, path in names.items():
        run: Run = read_trec(path)
        evaluations[name] = evaluate(run, qrels, measures)
    findings = _findings(given, evaluations)
    if given["output"] == "json":
        return print_json(evaluation=_record(findings, given))
    from beir_eval.cli.evaluate_tables import show_findings
    from mcranker.cli.tables import print_page

    print_page(lambda console: show_findings(console, findings, per_query=given["per_query"]))
    return DONE


def _check_flags(ctx: click.Context) -> None:
    given = ctx.params
    if (given["qrels"] is None) == (given["dataset"] is None):
        raise click.UsageError("say what to measure by: --qrels FILE or --dataset NAME", ctx)
    companions = {
        "split": ("dataset",),
        "test": ("compare",),
        "correction": ("compare",),
        "resamples": ("intervals",),
        "seed": ("compare", "intervals"),
    }
    for name, needed in companions.items():
        is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and not any(given[each] for each in needed):
            flags = " or ".join(f"--{each}" for each in needed)
            raise click.UsageError(f"--{name} goes with {flags}; give both", ctx)
    if given["compare"] and len(given["runs"]) < 2:
        raise click.UsageError("--compare takes two or more runs; the first is the baseline", ctx)
    if given["test"] == "tukey" and given["correction"] not in (None, "none"):
        raise click.UsageError("--test tukey corrects by itself; leave --correction out", ctx)


def _names(ctx: click.Context) -> dict[str, str]:
    """Name -> path of every run: short where that tells them apart."""
    paths: tuple[str, ...] = ctx.params["runs"]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise click.UsageError(f"the run {path!r} is given twice", ctx)
    short = [Path(path).stem for path in paths]
    return dict(zip(short if len(set(short)) == len(short) else paths, paths, strict=True))


def _qrels(given: Mapping[str, Any]) -> Qrels:
    if given["qrels"] is not None:
        from beir_eval.data.qrels import read_qrels

        return read_qrels(given["qrels"])
    from beir_eval.data.datasets import load

    return load(given["dataset"], split=given["split"]).qrels


def _findings(given: Mapping[str, Any], evaluations: Mapping[str, Evaluation]) -> Findings:
    values = {
        measure: {name: each.per_query[measure] for name, each in evaluations.items()}
        for measure in next(iter(evaluations.values())).means
    }
    comparisons: dict[str, Mapping[str, Comparison]] = {}
    intervals: dict[str, Mapping[str, Interval]] = {}
    if given["compare"]:
        from beir_eval.measures.significance import compare_runs

        options = {name: given[name] for name in ("test", "correction", "seed")}
        baseline = next(iter(evaluations))
        for measure, by_run in values.items():
            comparisons[measure] = compare_runs({measure: by_run}, baseline, **options)[measure]
    if given["intervals"]:
        from beir_eval.measures.significance import bootstrap_intervals

        options = {name: given[name] for name in ("resamples", "seed")}
        for measure, by_run in values.items():
            intervals[measure] = bootstrap_intervals(by_run, level=LEVEL, **options)
    first = next(iter(values.values()))
    return Findings(
        judged=len(next(iter(first.values()))),
        evaluations=evaluations,
        comparisons=comparisons,
        intervals=intervals,
        test=given["test"],
        correction=given["correction"] or usual_correction(given["test"]),
        resamples=given["resamples"],
        seed=given["seed"],
    )


def _record(findings: Findings, given: Mapping[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {"measures": findings.measures, "judged_queries": findings.judged}
    if given["compare"]:
        record |= {
            "baseline": findings.baseline,
            "test": findings.test,
            "correction": findings.correction,
        }
    if given["intervals"]:
        record |= {"level": LEVEL, "resamples": findings.resamples}
    if given["compare"] or given["intervals"]:
        record["seed"] = findings.seed
    record["runs"] = [
        _run_record(name, each, findings, per_query=given["per_query"])
        for name, each in findings.evaluations.items()
    ]
    return record


def _run_record(
    name: str, evaluation: Evaluation, findings: Findings, *, per_query: bool
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "run": name,
        "means": evaluation.means,
        "missing_queries": evaluation.missing_queries,
    }
    for key, found in (("intervals", findings.intervals), ("compared", findings.comparisons)):
        of_run = {measure: asdict(each[name]) for measure, each in found.items() if name in each}
        if of_run:
            record[key] = of_run
    if per_query:
        record["per_query"] = evaluation.per_query
    return record


command = Verb(
    "evaluate",
    _evaluate,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUN..."),
        *judgement_flags(),
        measures_flag(),
        click.Option(["--per-query"], is_flag=True, help="Show the value of every query as well."),
        click.Option(
            ["--compare"],
            is_flag=True,
            help="Test every other run against the first one, query by query.",
        ),
        click.Option(
            ["--intervals"],
            is_flag=True,
            help=f"Show {LEVEL:.0%} confidence intervals of the means (bootstrap over queries).",
        ),
        *statistics_flags(),
        output_flag("evaluation"),
    ],
    help="""Measure TREC runs by judgements, and test whether their differences may be chance.

    Documents of a query are ranked by score, those with equal scores by the rank in the file.
    A judged query without results counts as an empty list, which is 0 for NDCG; their number
    is shown.
    """,
)
