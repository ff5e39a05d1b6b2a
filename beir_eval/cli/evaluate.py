"""``beir-eval evaluate``: measures of TREC runs, and whether their differences may be chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.table import Column, Table
from rich.text import Text

from beir_eval.cli.flags import correction_flag, judgement_flags, measures_flag
from beir_eval.errors import SettingError
from beir_eval.measures.metrics import Evaluation, evaluate, measure_names
from beir_eval.measures.significance import compare_runs, confidence_intervals
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, flag, output_flag, present
from mcranker.inputs.trec import read_trec
from personas.console import table
from personas.format import counted
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.inputs.trec import Run

Qrels = Mapping[str, Mapping[str, int]]
SHOWN_IDS = 5
SMALLEST_P = 0.0001
LEVEL = 0.95


def _evaluate(ctx: click.Context) -> int:
    names = _checked_names(ctx)
    given = ctx.params
    measures = measure_names(given["measures"])
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is an error before the work
    qrels = _qrels(given)
    evaluations: dict[str, Evaluation] = {}
    for name, path in names.items():
        run = read_trec(Path(path, "run.trec") if Path(path).is_dir() else path)
        evaluations[name] = evaluate(run, qrels, measures)
        _warn_of_strangers(name, run, qrels)
    record = _record(given, evaluations)
    return present(ctx, lambda console: _show(console, record), evaluation=record)


def _warn_of_strangers(name: str, run: Run, qrels: Qrels) -> None:
    """Warn of a run that shares no query, or no document, with the judgements."""
    common = [query_id for query_id in run if qrels.get(query_id)]
    if not run:
        say(f"warning: {name}: there is no line of a run in it")
    elif not common:
        theirs, ours = next(iter(run)), next(iter(qrels))
        say(
            f"warning: {name}: none of its queries has judgements, so all its values are those of "
            f"an empty run; a query of the run is {theirs!r}, one of the judgements {ours!r}"
        )
    elif not any(doc_id in qrels[query_id] for query_id in common for doc_id, _ in run[query_id]):
        theirs, ours = run[common[0]][0][0], next(iter(qrels[common[0]]))
        say(
            f"warning: {name}: none of its documents has a judgement; one of the run is "
            f"{theirs!r}, one of the judgements {ours!r}: see whether they belong together"
        )


def _checked_names(ctx: click.Context) -> dict[str, str]:
    """Check the flags; return name -> path of every run: short names where they differ."""
    given, paths = ctx.params, ctx.params["runs"]
    if (given["qrels"] is None) == (given["dataset"] is None):
        raise click.UsageError("say what to measure by: --qrels FILE or --dataset NAME", ctx)
    for name, other in (("split", "dataset"), ("correction", "compare")):
        is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and not given[other]:
            raise click.UsageError(f"--{name} goes with --{other}; give both", ctx)
    if given["compare"] and len(paths) < 2:
        raise click.UsageError("--compare takes two or more runs; the first is the baseline", ctx)
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise click.UsageError(f"the run {path!r} is given twice", ctx)
    short = [Path(path).stem for path in paths]
    return dict(zip(short if len(set(short)) == len(short) else paths, paths, strict=True))


def _qrels(given: Mapping[str, Any]) -> Qrels:
    if given["qrels"] is not None:
        from beir_eval.data.datasets import read_qrels

        return read_qrels(given["qrels"])
    from beir_eval.data.load import load

    return load(given["dataset"], split=given["split"]).qrels


def _record(given: Mapping[str, Any], evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return everything that the verb shows, as ``--output json`` has it."""
    baseline, first = next(iter(evaluations.items()))
    runs: dict[str, dict[str, Any]] = {
        name: {"run": name, "means": each.means, "missing_queries": each.missing_queries}
        for name, each in evaluations.items()
    }
    judged = len(next(iter(first.per_query.values())))
    record = {"measures": list(first.means), "judged_queries": judged, "runs": list(runs.values())}
    correction = given["correction"]
    if given["compare"]:
        record |= {"baseline": baseline, "correction": correction}
    if given["intervals"]:
        if judged == 1:
            raise SettingError("one query has no interval; leave --intervals out")
        record["level"] = LEVEL
    for measure in first.means:
        values = {name: each.per_query[measure] for name, each in evaluations.items()}
        if given["compare"]:
            compared = compare_runs({measure: values}, baseline, correction=correction)[measure]
            for name, found in compared.items():
                runs[name].setdefault("compared", {})[measure] = asdict(found)
        if given["intervals"]:
            for name, interval in confidence_intervals(values, level=LEVEL).items():
                runs[name].setdefault("intervals", {})[measure] = asdict(interval)
    for name, each in evaluations.items() if given["per_query"] else ():
        runs[name]["per_query"] = each.per_query
    return record


def _show(console: Console, record: Mapping[str, Any]) -> None:
    """Print means, then comparisons, then the values of every query."""
    runs = record["runs"]
    console.print(_means(record))
    text = f"Means over {counted(record['judged_queries'], 'judged query', 'judged queries')}."
    if "level" in record:
        text += f" In brackets: {LEVEL:.0%} confidence intervals (Student's)."
    console.print(Text(text))
    for run in runs:
        if missing := run["missing_queries"]:
            shown = ", ".join(missing[:SHOWN_IDS]) + (", ..." if missing[SHOWN_IDS:] else "")
            count = counted(len(missing), "judged query has", "judged queries have")
            line = f"{run['run']}: {count} no results (taken as an empty list): {shown}"
            console.print(Text(plain(line)), style="yellow", soft_wrap=True)
    for measure in record["measures"] if "baseline" in record else ():
        console.print()
        console.print(_comparisons(record, measure))
    for measure in record["measures"] if "per_query" in runs[0] else ():
        columns = [run["per_query"][measure] for run in runs]
        rows = ((each, *(f"{column[each]:.4f}" for column in columns)) for each in columns[0])
        console.print()
        console.print(_table(f"{measure} of query", [run["run"] for run in runs], rows))


def _table(first: str, others: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    columns = [Column(Text(plain(each)), justify="right", overflow="fold") for each in others]
    return table([Column(Text(plain(first)), overflow="fold"), *columns], rows)


def _means(record: Mapping[str, Any]) -> Table:
    with_missing = any(run["missing_queries"] for run in record["runs"])
    rows = []
    for run in record["runs"]:
        spans = {
            measure: f" [{interval['low']:.4f}, {interval['high']:.4f}]"
            for measure, interval in run.get("intervals", {}).items()
        }
        means = (f"{mean:.4f}{spans.get(measure, '')}" for measure, mean in run["means"].items())
        missing = [str(len(run["missing_queries"]))] if with_missing else []
        rows.append([run["run"], *means, *missing])
    return _table("run", [*record["measures"], *(["no results"] if with_missing else [])], rows)


def _comparisons(record: Mapping[str, Any], measure: str) -> Table:
    correction = record["correction"]
    corrected = [] if correction == "none" else [f"p ({correction})"]
    headings = ["difference", "p", *corrected]
    names = ("p_value", *(["p_adjusted"] if corrected else []))
    rows = []
    for run in record["runs"][1:]:
        each = run["compared"][measure]
        p_values = (each[name] for name in names)
        shown = (f"{p:.4f}" if p >= SMALLEST_P else f"<{SMALLEST_P}" for p in p_values)
        counts = (str(each[name]) for name in ("wins", "ties", "losses"))
        rows.append([run["run"], f"{each['difference']:+.4f}", *shown, *counts])
    first = f"{measure} against {record['baseline']}"
    return _table(first, [*headings, "better", "equal", "worse"], rows)


command = Verb(
    "evaluate",
    _evaluate,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUN..."),
        *judgement_flags(),
        measures_flag(),
        flag("--per-query", "Show the value of every query as well.", is_flag=True),
        flag(
            "--compare", "Test every other run against the first one, query by query.", is_flag=True
        ),
        flag(
            "--intervals",
            f"Show {LEVEL:.0%} confidence intervals of the means (Student's, over queries).",
            is_flag=True,
        ),
        correction_flag(),
        output_flag("evaluation"),
    ],
    help="""Measure TREC runs by judgements, and test whether their differences may be chance.

    RUN is a TREC file or a run folder of 'beir-eval run'.

    Documents of a query are ranked by score, those with equal scores by the rank in the file.
    A judged query without results counts as an empty list, which is 0 for nDCG; their number
    is shown.
    """,
)
