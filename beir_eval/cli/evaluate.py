"""``beir-eval evaluate``: measures of TREC runs, and whether their differences may be chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.table import Column, Table
from rich.text import Text

from beir_eval.cli.flags import judgement_flags, measures_flag, statistics_flags
from beir_eval.errors import SettingError
from beir_eval.measures.metrics import Evaluation, evaluate, measure_names
from beir_eval.measures.significance import Comparison, Interval, compare_runs, confidence_intervals
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, flag, output_flag, present
from mcranker.trec import read_trec
from personas.console import table
from personas.format import counted
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.trec import Run

Qrels = Mapping[str, Mapping[str, int]]
SHOWN_IDS = 5
SMALLEST_P = 0.0001
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class _Measured:
    """Everything that the verb shows.

    Attributes:
        given: the flags.
        evaluations: run's name -> its values; the first run is the baseline.
        comparisons: measure -> run's name -> against the first run; empty if not asked for.
        intervals: measure -> run's name -> of its mean; empty if not asked for.
    """

    given: Mapping[str, Any]
    evaluations: Mapping[str, Evaluation]
    comparisons: Mapping[str, Mapping[str, Comparison]]
    intervals: Mapping[str, Mapping[str, Interval]]

    @property
    def baseline(self) -> str:
        """Name of the first run."""
        return next(iter(self.evaluations))

    @property
    def measures(self) -> list[str]:
        """Names in the order in which they were asked for."""
        return list(self.evaluations[self.baseline].means)

    @property
    def judged(self) -> int:
        """Queries with judgements."""
        return len(self.evaluations[self.baseline].per_query[self.measures[0]])


def _evaluate(ctx: click.Context) -> int:
    names = _checked_names(ctx)
    given = ctx.params
    measures = measure_names(given["measures"])
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is an error before the work
    qrels = _qrels(given)
    evaluations: dict[str, Evaluation] = {}
    for name, path in names.items():
        run = read_trec(path)
        evaluations[name] = evaluate(run, qrels, measures)
        _warn_of_strangers(name, run, qrels)
    measured = _measured(given, evaluations)
    return present(ctx, lambda console: _show(console, measured), evaluation=_record(measured))


def _warn_of_strangers(name: str, run: Run, qrels: Qrels) -> None:
    """Warn of a run that shares no query, or no document, with the judgements."""
    common = [query_id for query_id in run if qrels.get(query_id)]
    if not common:
        theirs, ours = next(iter(run), None), next(iter(qrels), None)
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
    for name, other in (("split", "dataset"), ("correction", "compare"), ("margin", "compare")):
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
        from beir_eval.data.qrels import read_qrels

        return read_qrels(given["qrels"])
    from beir_eval.data.load import load

    return load(given["dataset"], split=given["split"]).qrels


def _measured(given: Mapping[str, Any], evaluations: Mapping[str, Evaluation]) -> _Measured:
    baseline = next(iter(evaluations))
    comparisons: dict[str, Mapping[str, Comparison]] = {}
    intervals: dict[str, Mapping[str, Interval]] = {}
    options = {name: given[name] for name in ("correction", "margin")}
    for measure in evaluations[baseline].means:
        by_run = {name: each.per_query[measure] for name, each in evaluations.items()}
        if given["compare"]:
            comparisons |= compare_runs({measure: by_run}, baseline, **options)
        if given["intervals"] and len(by_run[baseline]) == 1:
            raise SettingError("one query has no interval; leave --intervals out")
        if given["intervals"]:
            intervals[measure] = confidence_intervals(by_run, level=LEVEL)
    return _Measured(given, evaluations, comparisons, intervals)


def _record(measured: _Measured) -> dict[str, Any]:
    given = measured.given
    record: dict[str, Any] = {"measures": measured.measures, "judged_queries": measured.judged}
    if given["compare"]:
        record["baseline"] = measured.baseline
        record |= {name: given[name] for name in ("correction", "margin")}
    if given["intervals"]:
        record["level"] = LEVEL
    record["runs"] = []
    for name, each in measured.evaluations.items():
        run = {"run": name, "means": each.means, "missing_queries": each.missing_queries}
        for key, found in (("intervals", measured.intervals), ("compared", measured.comparisons)):
            if of_run := {of: asdict(runs[name]) for of, runs in found.items() if name in runs}:
                run[key] = of_run
        record["runs"].append(run | ({"per_query": each.per_query} if given["per_query"] else {}))
    return record


def _show(console: Console, measured: _Measured) -> None:
    """Print means, then comparisons, then the values of every query."""
    console.print(_means(measured))
    queries = counted(measured.judged, "judged query", "judged queries")
    text = f"Means over {queries}."
    if measured.intervals:
        text += f" In brackets: {LEVEL:.0%} confidence intervals (Student's)."
    console.print(Text(text))
    for name, evaluation in measured.evaluations.items():
        if missing := evaluation.missing_queries:
            shown = ", ".join(missing[:SHOWN_IDS]) + (", ..." if missing[SHOWN_IDS:] else "")
            count = counted(len(missing), "judged query has", "judged queries have")
            line = f"{name}: {count} no results (taken as an empty list): {shown}"
            console.print(Text(plain(line)), style="yellow", soft_wrap=True)
    for measure in measured.comparisons:
        console.print()
        console.print(_comparisons(measured, measure))
    for measure in measured.measures if measured.given["per_query"] else ():
        columns = [each.per_query[measure] for each in measured.evaluations.values()]
        rows = ((each, *(f"{column[each]:.4f}" for column in columns)) for each in columns[0])
        console.print()
        console.print(_table(f"{measure} of query", list(measured.evaluations), rows))


def _table(first: str, others: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    columns = [Column(Text(plain(each)), justify="right", overflow="fold") for each in others]
    return table([Column(Text(plain(first)), overflow="fold"), *columns], rows)


def _means(measured: _Measured) -> Table:
    with_missing = any(each.missing_queries for each in measured.evaluations.values())
    rows = []
    for name, evaluation in measured.evaluations.items():
        cells = [name]
        for measure, mean in evaluation.means.items():
            interval = measured.intervals.get(measure, {}).get(name)
            span = f" [{interval.low:.4f}, {interval.high:.4f}]" if interval else ""
            cells.append(f"{mean:.4f}{span}")
        rows.append([*cells, *([str(len(evaluation.missing_queries))] if with_missing else [])])
    return _table("run", [*measured.measures, *(["no results"] if with_missing else [])], rows)


def _comparisons(measured: _Measured, measure: str) -> Table:
    correction, margin = measured.given["correction"], measured.given["margin"]
    corrected = [] if correction == "none" else [f"p ({correction})"]
    headings = ["difference", "p", *corrected, f"p of worse by {margin:g}"]
    rows = []
    for name, each in measured.comparisons[measure].items():
        p_values = [each.p_value, *([each.p_adjusted] if corrected else []), each.p_not_worse]
        shown = (f"{p:.4f}" if p >= SMALLEST_P else f"<{SMALLEST_P}" for p in p_values)
        counts = map(str, (each.wins, each.ties, each.losses))
        rows.append([name, f"{each.difference:+.4f}", *shown, *counts])
    first = f"{measure} against {measured.baseline}"
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
        *statistics_flags(),
        output_flag("evaluation"),
    ],
    help="""Measure TREC runs by judgements, and test whether their differences may be chance.

    Documents of a query are ranked by score, those with equal scores by the rank in the file.
    A judged query without results counts as an empty list, which is 0 for nDCG; their number
    is shown.
    """,
)
