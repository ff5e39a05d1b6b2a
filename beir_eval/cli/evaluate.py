"""``beir-eval evaluate``: measures of TREC runs, and whether their differences may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Column
from rich.text import Text

from beir_eval.cli.flags import is_given, measures_flag, print_lines, qrels_flag, split_flag
from beir_eval.data.datasets import judging_model, read_qrels
from beir_eval.data.load import load
from beir_eval.experiment.run_folder import RANKINGS, RunFolder
from beir_eval.measures.metrics import Evaluation, ceiling, evaluate, measure_names
from beir_eval.measures.ties import Tied, tie_figures
from beir_eval.measures.values import LEVEL, Values, compare_runs
from beir_eval.report.load import flawed, ties_of_rankings
from beir_eval.report.tables import NOTHING, interval, p_text
from mcranker.cli.flags import Verb, flag, output_flag, refuse
from mcranker.cli.invocation import say
from mcranker.cli.output import present
from mcranker.inputs.trec import Run, read_trec, with_ties
from personas.console import numbers, table
from personas.format import counted

Qrels = Mapping[str, Mapping[str, int]]
SHOWN_IDS = 5


def _evaluate(ctx: click.Context) -> int:
    names = _checked_names(ctx)
    given = ctx.params
    measures = measure_names(given["measures"])
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is an error before the work
    qrels: Qrels
    if given["qrels"] is not None:
        qrels, judge = read_qrels(given["qrels"]), judging_model(given["qrels"])
    else:
        dataset = load(given["dataset"], split=given["split"])
        qrels, judge = dataset.qrels, dataset.by_model
    evaluations, values = dict[str, Evaluation](), dict[str, dict[str, Values]]()
    for name, path in names.items():
        run = read_trec(Path(path, "run.trec") if Path(path).is_dir() else path)
        evaluations[name] = evaluate(run, qrels, measures)
        _warn_of_strangers(name, run, qrels)
        values[name] = _values(Path(path), run, qrels, evaluations[name], judge)
    record = _record(evaluations, values, compare=given["compare"])
    return present(ctx, lambda console: _show(console, record), evaluation=record)


def _values(
    path: Path, run: Run, qrels: Qrels, evaluation: Evaluation, judge: str
) -> dict[str, Values]:
    """Measure -> values of a run, with what its folder says of ties and of what is missing."""
    tied = {each: Tied.of_scores(with_ties(found)) for each, found in run.items()}
    depth = max(map(len, run.values()), default=0)
    metrics, folder, empty = None, None, set(evaluation.missing_queries)
    if (path / "manifest.json").exists():
        folder = RunFolder.open(path)
        metrics, data = folder.metrics(), folder.data()
        depth = data.manifest.depth
        if (path / RANKINGS).exists():
            tied = ties_of_rankings(folder, data)
    lots = tie_figures(tied, qrels, [*evaluation.means]).by_lot
    found = {}
    for measure, mean in evaluation.means.items():
        of = Values(
            evaluation.per_query[measure],
            measure,
            total=mean,
            lots=lots[measure],
            empty=len(empty),
            depth=depth,
            judge=judge,
        )
        if folder and metrics:
            of = flawed(of, metrics, folder, qrels, ceiling(data.first_stage(), qrels, measure))
            of = replace(of, empty=len(empty - of.failed.keys()))
        found[measure] = of
    return found


def _warn_of_strangers(name: str, run: Run, qrels: Qrels) -> None:
    """Warn of a run that shares no query, or no document, with the judgements."""
    if not run:
        say(f"warning: {name}: there is no line of a run in it")
        return
    common = [query_id for query_id in run if qrels.get(query_id)]
    theirs, ours, what = next(iter(run)), next(iter(qrels)), "queries"
    if common:
        if any(doc_id in qrels[query_id] for query_id in common for doc_id, _ in run[query_id]):
            return
        theirs, ours, what = run[common[0]][0][0], next(iter(qrels[common[0]])), "documents"
    say(
        f"warning: {name}: none of its {what} has a judgement; one of the run is {theirs!r}, one "
        f"of the judgements {ours!r}: see whether they belong together"
    )


def _checked_names(ctx: click.Context) -> dict[str, str]:
    """Check the flags; return name -> path of every run: short names where they differ."""
    given, paths = ctx.params, ctx.params["runs"]
    by_file, by_name = given["qrels"] is not None, given["dataset"] is not None
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    no_judgements = "say what to measure by: --qrels FILE or --dataset NAME"
    too_few = "--compare takes two or more runs; the first is the baseline"
    refuse(
        ctx,
        (by_file == by_name, no_judgements),
        (is_given(ctx, "split") and not by_name, "--split goes with --dataset; give both"),
        (given["compare"] and len(paths) < 2, too_few),
        (twice is not None, f"the run {twice!r} is given twice"),
    )
    short = [Path(path).stem for path in paths]
    return dict(zip(short if len(set(short)) == len(short) else paths, paths, strict=True))


def _record(
    evaluations: Mapping[str, Evaluation],
    values: Mapping[str, Mapping[str, Values]],
    *,
    compare: bool,
) -> dict[str, Any]:
    """Everything that the verb shows, as ``--output json`` has it."""
    baseline, first = next(iter(evaluations.items()))
    judged = len(next(iter(first.per_query.values())))
    record: dict[str, Any] = {"measures": list(first.means), "judged_queries": judged}
    record |= {"level": LEVEL, "runs": []}
    compared = {}
    if compare:
        record["baseline"] = baseline
        for measure in first.means:
            of_measure = {name: own[measure] for name, own in values.items()}
            compared[measure] = compare_runs({"": of_measure}, baseline)[""]
    for name, each in evaluations.items():
        own = values[name]
        run = {
            "run": name,
            "means": each.means,
            "by_lot": {measure: of.by_lot for measure, of in own.items()},
            "intervals": {k: asdict(of.interval) if judged > 1 else None for k, of in own.items()},
            "missing_queries": each.missing_queries,
            "flaws": [
                {"measure": measure, **flaw._asdict()}
                for measure, of in own.items()
                for flaw in of.flaws()
            ],
            "per_query": each.per_query,
        }
        if compare and name != baseline:
            unknown = {} if judged > 1 else {"interval": None}
            run["compared"] = {x: asdict(of[name]) | unknown for x, of in compared.items()}
        record["runs"].append(run)
    return record


def _show(console: Console, record: Mapping[str, Any]) -> None:
    """Print a row a measure and run, and what misleads."""
    fourth = "{:.4f}".format
    rows, notes = list[list[str]](), list[str]()
    for measure, run in product(record["measures"], record["runs"]):
        ends, found = run["intervals"][measure], run.get("compared", {}).get(measure)
        span = NOTHING if ends is None else interval(**ends)
        row = [measure, run["run"], fourth(run["means"][measure]), fourth(run["by_lot"][measure])]
        rows.append([*row, span])
        if found:
            p_values = (p_text(found[name]) for name in ("p_value", "p_adjusted"))
            rows[-1] += [f"{found['difference']:+.4f}", *p_values]
            rows[-1].append(" / ".join(str(found[name]) for name in ("wins", "ties", "losses")))
            notes += (
                f"{run['run']} against {record['baseline']}: {note}." for note in found["notes"]
            )
    headings: list[Column | str] = [*numbers("mean", "by lot"), "95% interval"]
    if "baseline" in record:
        headings += [*numbers("difference", "p", "p (Holm)"), "better / equal / worse"]
    console.print(table(["measure", Column("run", overflow="fold"), *headings], rows))
    console.print(
        Text(f"Over {counted(record['judged_queries'], 'judged query', 'judged queries')}.")
    )
    for run in record["runs"]:
        if missing := run["missing_queries"]:
            shown = ", ".join(missing[:SHOWN_IDS]) + (", ..." if missing[SHOWN_IDS:] else "")
            count = counted(len(missing), "judged query has", "judged queries have")
            notes.append(f"{run['run']}: {count} no results (taken as an empty list): {shown}")
        # Queries without results are in the line above.
        notes += (f"{run['run']}: {x['said']}." for x in run["flaws"] if x["kind"] != "empty")
    print_lines(console, dict.fromkeys(notes), style="yellow")


command = Verb(
    "evaluate",
    _evaluate,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUN..."),
        qrels_flag(),
        flag("--dataset", "Take the judgements of this data set.", metavar="NAME|FOLDER"),
        split_flag("Which judgements of --dataset."),
        measures_flag(),
        flag("--compare", "Test every other run against the first one.", is_flag=True),
        output_flag("evaluation"),
    ],
    help="""Measure TREC runs by judgements, and test whether their differences may be chance.

    RUN is a TREC file or a run folder of 'beir-eval run'.

    Documents of a query are ranked by score, those with equal scores by the rank in the file.
    A judged query without results counts as an empty list, which is 0 for nDCG; their number
    is shown. Intervals are Student's, over queries; by lot: with ties drawn by lot. JSON has the
    values of each query.
    """,
)
