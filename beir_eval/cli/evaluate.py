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
from beir_eval.measures.metrics import Evaluation
from beir_eval.measures.significance import Comparison, Interval
from mcranker.cli.failures import DONE, print_json
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, output_flag
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


def _evaluate(ctx: click.Context) -> int:
    _check_flags(ctx)
    from beir_eval.measures.metrics import evaluate, measure_names
    from mcranker.trec import read_trec

    given = ctx.params
    measures = measure_names(given["measures"])
    names = _names(ctx)
    evaluate({}, {"query": {"document": 1}}, measures)  # a bad name is told before the work
    qrels = _qrels(given)
    evaluations: dict[str, Evaluation] = {}
    for name, path in names.items():
        run: Run = read_trec(path)
        evaluations[name] = evaluate(run, qrels, measures)
        _say_strangers(name, run, qrels)
    findings = _findings(given, evaluations)
    if given["output"] == "json":
        return print_json(evaluation=_record(findings, given))
    from personas.console import print_page

    print_page(lambda console: _show_findings(console, findings, per_query=given["per_query"]))
    return DONE


def _say_strangers(name: str, run: Run, qrels: Qrels) -> None:
    """Tell of a run that shares no query, or no document, with the judgements."""
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


def _check_flags(ctx: click.Context) -> None:
    given = ctx.params
    if (given["qrels"] is None) == (given["dataset"] is None):
        raise click.UsageError("say what to measure by: --qrels FILE or --dataset NAME", ctx)
    companions = {
        "split": ("dataset",),
        "correction": ("compare",),
        "margin": ("compare",),
    }
    for name, needed in companions.items():
        is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and not any(given[each] for each in needed):
            flags = " or ".join(f"--{each}" for each in needed)
            raise click.UsageError(f"--{name} goes with {flags}; give both", ctx)
    if given["compare"] and len(given["runs"]) < 2:
        raise click.UsageError("--compare takes two or more runs; the first is the baseline", ctx)


def _names(ctx: click.Context) -> dict[str, str]:
    """Return name -> path of every run: short names where they differ."""
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
    from beir_eval.data.load import load

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

        options = {name: given[name] for name in ("correction", "margin")}
        baseline = next(iter(evaluations))
        for measure, by_run in values.items():
            comparisons[measure] = compare_runs({measure: by_run}, baseline, **options)[measure]
    if given["intervals"]:
        from beir_eval.measures.significance import confidence_intervals

        for measure, by_run in values.items():
            if len(next(iter(by_run.values()))) == 1:
                raise SettingError("one query has no interval; leave --intervals out")
            intervals[measure] = confidence_intervals(by_run, level=LEVEL)
    first = next(iter(values.values()))
    return Findings(
        judged=len(next(iter(first.values()))),
        evaluations=evaluations,
        comparisons=comparisons,
        intervals=intervals,
        correction=given["correction"],
        margin=given["margin"],
    )


def _record(findings: Findings, given: Mapping[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {"measures": findings.measures, "judged_queries": findings.judged}
    if given["compare"]:
        record |= {
            "baseline": findings.baseline,
            "correction": findings.correction,
            "margin": findings.margin,
        }
    if given["intervals"]:
        record["level"] = LEVEL
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


def _show_findings(console: Console, findings: Findings, *, per_query: bool) -> None:
    """Means, then comparisons, then the values of every query."""
    console.print(_means(findings))
    queries = counted(findings.judged, "judged query", "judged queries")
    text = f"Means over {queries}."
    if findings.intervals:
        text += f" In brackets: {LEVEL:.0%} confidence intervals (Student's)."
    console.print(Text(text))
    for name, evaluation in findings.evaluations.items():
        missing = evaluation.missing_queries
        if missing:
            shown = ", ".join(missing[:SHOWN_IDS]) + (", ..." if missing[SHOWN_IDS:] else "")
            count = counted(len(missing), "judged query has", "judged queries have")
            line = f"{name}: {count} no results (taken as an empty list): {shown}"
            console.print(Text(plain(line)), style="yellow", soft_wrap=True)
    for measure in findings.comparisons:
        console.print()
        console.print(_comparisons(findings, measure))
    if per_query:
        for measure in findings.measures:
            console.print()
            console.print(_per_query(findings, measure))


def _table(first: str, others: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    columns = [Column(Text(plain(each)), justify="right", overflow="fold") for each in others]
    return table([Column(Text(plain(first)), overflow="fold"), *columns], rows)


def _means(findings: Findings) -> Table:
    with_missing = any(each.missing_queries for each in findings.evaluations.values())
    rows = []
    for name, evaluation in findings.evaluations.items():
        cells = [name]
        for measure, mean in evaluation.means.items():
            interval = findings.intervals.get(measure, {}).get(name)
            span = f" [{interval.low:.4f}, {interval.high:.4f}]" if interval else ""
            cells.append(f"{mean:.4f}{span}")
        missing = [str(len(evaluation.missing_queries))] if with_missing else []
        rows.append([*cells, *missing])
    return _table("run", [*findings.measures, *(["no results"] if with_missing else [])], rows)


def _comparisons(findings: Findings, measure: str) -> Table:
    corrected = [] if findings.correction == "none" else [f"p ({findings.correction})"]
    rows = []
    for name, each in findings.comparisons[measure].items():
        p_values = [each.p_value, *([each.p_adjusted] if corrected else []), each.p_not_worse]
        counts = (each.wins, each.ties, each.losses)
        rows.append([name, f"{each.difference:+.4f}", *map(_p_text, p_values), *map(str, counts)])
    return _table(
        f"{measure} against {findings.baseline}",
        [
            *("difference", "p", *corrected, f"p of worse by {findings.margin:g}"),
            *("better", "equal", "worse"),
        ],
        rows,
    )


def _p_text(p_value: float) -> str:
    return f"{p_value:.4f}" if p_value >= SMALLEST_P else f"<{SMALLEST_P}"


def _per_query(findings: Findings, measure: str) -> Table:
    columns = [each.per_query[measure] for each in findings.evaluations.values()]
    rows = (
        (query_id, *(f"{column[query_id]:.4f}" for column in columns)) for query_id in columns[0]
    )
    return _table(f"{measure} of query", list(findings.evaluations), rows)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the verb shows.

    Attributes:
        judged: queries with judgements.
        evaluations: run's name -> its values.
        comparisons: measure -> run's name -> against the first run; empty if not asked for.
        intervals: measure -> run's name -> of its mean; empty if not asked for.
        correction: of the p-values of `comparisons`.
        margin: of `Comparison.p_not_worse` and `Comparison.p_equivalent`.
    """

    judged: int
    evaluations: Mapping[str, Evaluation]
    comparisons: Mapping[str, Mapping[str, Comparison]]
    intervals: Mapping[str, Mapping[str, Interval]]
    correction: str
    margin: float

    @property
    def baseline(self) -> str:
        """Name of the first run."""
        return next(iter(self.evaluations))

    @property
    def measures(self) -> Sequence[str]:
        """In the order in which they were asked for."""
        return list(next(iter(self.evaluations.values())).means)


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
            help=f"Show {LEVEL:.0%} confidence intervals of the means (Student's, over queries).",
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
