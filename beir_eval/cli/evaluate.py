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

from beir_eval.cli.flags import judgement_flags, measures_flag
from beir_eval.data.datasets import judging_model, read_qrels
from beir_eval.errors import SettingError
from beir_eval.experiment.run_folder import RANKINGS, RunFolder
from beir_eval.measures.metrics import Evaluation, ceiling, evaluate, measure_names
from beir_eval.measures.ties import Tied, tie_figures
from beir_eval.measures.values import LEVEL, Values, compare_runs
from beir_eval.report.load import flawed, ties_of_rankings
from beir_eval.report.tables import NOTHING
from mcranker.cli.invocation import say
from mcranker.cli.output import present
from mcranker.cli.verb import Verb, flag, output_flag
from mcranker.inputs.trec import read_trec, with_ties
from personas.console import table
from personas.format import counted
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.inputs.trec import Run

Qrels = Mapping[str, Mapping[str, int]]
SHOWN_IDS = 5
SMALLEST_P = 0.0001


def _evaluate(ctx: click.Context) -> int:
    names = _checked_names(ctx)
    given = ctx.params
    measures = measure_names(given["measures"])
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is an error before the work
    qrels, judge = _qrels(given)
    evaluations: dict[str, Evaluation] = {}
    values: dict[str, dict[str, Values]] = {each: {} for each in measures}
    for name, path in names.items():
        run = read_trec(Path(path, "run.trec") if Path(path).is_dir() else path)
        evaluations[name] = evaluate(run, qrels, measures)
        _warn_of_strangers(name, run, qrels)
        for measure, found in _values(Path(path), run, qrels, evaluations[name], judge).items():
            values[measure][name] = found
    record = _record(given, evaluations, values)
    return present(ctx, lambda console: _show(console, record), evaluation=record)


def _values(
    path: Path, run: Run, qrels: Qrels, evaluation: Evaluation, judge: str
) -> dict[str, Values]:
    """Measure -> values of a run, with what its folder says of ties and of what is missing."""
    tied = {each: Tied.of_scores(with_ties(found)) for each, found in run.items()}
    depth = max(map(len, run.values()), default=0)
    metrics, folder = None, None
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
            empty=len(evaluation.missing_queries),
            depth=depth,
            judge=judge,
        )
        if folder and metrics:
            of = flawed(of, metrics, folder, qrels, ceiling(data.first_stage(), qrels, measure))
        found[measure] = of
    return found


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
    by_split = ctx.get_parameter_source("split") is ParameterSource.COMMANDLINE
    if by_split and not given["dataset"]:
        raise click.UsageError("--split goes with --dataset; give both", ctx)
    if given["compare"] and len(paths) < 2:
        raise click.UsageError("--compare takes two or more runs; the first is the baseline", ctx)
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise click.UsageError(f"the run {path!r} is given twice", ctx)
    short = [Path(path).stem for path in paths]
    return dict(zip(short if len(set(short)) == len(short) else paths, paths, strict=True))


def _qrels(given: Mapping[str, Any]) -> tuple[Qrels, str]:
    """The judgements, and the model that made them, if it was one."""
    if given["qrels"] is not None:
        return read_qrels(given["qrels"]), judging_model(given["qrels"])
    from beir_eval.data.load import load

    dataset = load(given["dataset"], split=given["split"])
    return dataset.qrels, dataset.by_model


def _record(
    given: Mapping[str, Any],
    evaluations: Mapping[str, Evaluation],
    values: Mapping[str, Mapping[str, Values]],
) -> dict[str, Any]:
    """Return everything that the verb shows, as ``--output json`` has it."""
    baseline, first = next(iter(evaluations.items()))
    runs: dict[str, dict[str, Any]] = {
        name: {
            "run": name,
            "means": each.means,
            "by_lot": {measure: of[name].by_lot for measure, of in values.items()},
            "missing_queries": each.missing_queries,
            "flaws": [
                {"measure": measure, **flaw._asdict()}
                for measure, of in values.items()
                for flaw in of[name].flaws()
            ],
        }
        for name, each in evaluations.items()
    }
    judged = len(next(iter(first.per_query.values())))
    record = {"measures": list(first.means), "judged_queries": judged, "runs": list(runs.values())}
    if given["compare"]:
        record["baseline"] = baseline
    if given["intervals"]:
        if judged == 1:
            raise SettingError("one query has no interval; leave --intervals out")
        record["level"] = LEVEL
    for measure, of in values.items():
        if given["compare"]:
            compared = compare_runs({measure: of}, baseline)[measure]
            for name, found in compared.items():
                runs[name].setdefault("compared", {})[measure] = asdict(found)
        for name, each in of.items() if given["intervals"] else ():
            interval = asdict(each.interval)
            runs[name].setdefault("intervals", {})[measure] = interval
    for name, evaluation in evaluations.items() if given["per_query"] else ():
        runs[name]["per_query"] = evaluation.per_query
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
    for run in runs:
        # Queries without results are in the lines above.
        flaws = (each["said"] for each in run["flaws"] if each["kind"] != "empty")
        said = dict.fromkeys(f"{run['run']}: {each}." for each in flaws)
        for line in said:
            console.print(Text(plain(line)), style="yellow", soft_wrap=True)
    for measure in record["measures"] if "baseline" in record else ():
        console.print()
        console.print(_comparisons(record, measure))
        for run in runs[1:]:
            for note in run["compared"][measure]["notes"]:
                line = f"{run['run']} against {record['baseline']}: {note}."
                console.print(Text(plain(line)), style="yellow", soft_wrap=True)
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
        means = []
        for measure, mean in run["means"].items():
            lot = f"{run['by_lot'][measure]:.4f}"
            by_lot = f" ({lot} by lot)" if lot != f"{mean:.4f}" and mean <= 1 else ""
            means.append(f"{mean:.4f}{by_lot}{spans.get(measure, '')}")
        missing = [str(len(run["missing_queries"]))] if with_missing else []
        rows.append([run["run"], *means, *missing])
    return _table("run", [*record["measures"], *(["no results"] if with_missing else [])], rows)


def _comparisons(record: Mapping[str, Any], measure: str) -> Table:
    headings = ["difference", "p", "p (Holm)"]
    rows = []
    for run in record["runs"][1:]:
        each = run["compared"][measure]
        p_values = (each[name] for name in ("p_value", "p_adjusted"))
        shown = (
            NOTHING if p is None else f"{p:.4f}" if p >= SMALLEST_P else f"<{SMALLEST_P}"
            for p in p_values
        )
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
        output_flag("evaluation"),
    ],
    help="""Measure TREC runs by judgements, and test whether their differences may be chance.

    RUN is a TREC file or a run folder of 'beir-eval run'.

    Documents of a query are ranked by score, those with equal scores by the rank in the file.
    A judged query without results counts as an empty list, which is 0 for nDCG; their number
    is shown.
    """,
)
