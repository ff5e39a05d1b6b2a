"""``personas report``: a folder of pages that show why passages rank where they do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from beir_eval.persona_report.build import write_persona_report
from beir_eval.report.tables import NOTHING
from mcranker.cli.flags import Verb, flag, output_flag
from mcranker.cli.invocation import say
from mcranker.cli.output import command_line, present, today
from mcranker.cli.progress import Tracker, showing
from personas.format import counted, optional
from personas.report.dataset import ReportedRun
from personas.sanitize import one_line


def _report(ctx: click.Context) -> int:
    given = ctx.params
    tracker = Tracker("reading", unit="")
    with showing(ctx, tracker, "{}; no report was written") as live:

        def progress(done: int, total: int) -> None:
            tracker.stage, tracker.done, tracker.total = "writing pages of queries", done, total
            live.update()

        report = write_persona_report(
            given["runs"],
            given["out"],
            against=given["against"],
            progress=progress,
            command=command_line(ctx),
            date=today(),
        )
    if not given["quiet"]:
        for sentence in report.left_out:
            say(sentence)
        for note in dict.fromkeys(each for run in report.runs for each in run.survey.notes):
            titles = [run.survey.title for run in report.runs if note in run.survey.notes]
            count = f"{len(titles)} of {len(report.runs)} runs"
            say(f"{titles[0] if len(titles) == 1 else count}: {note}")

    def show(console: Console) -> None:
        lines = [str(report.index)]
        for run in report.runs:
            lines += ["", one_line(run.survey.title), f"  {one_line(run.survey.dataset)}"]
            lines += [f"  {name:<10}{one_line(value)}" for name, value in _figures(run)]
        for line in lines:
            console.print(Text(line), soft_wrap=True)

    runs = [_record(run) for run in report.runs]
    record = {"index": str(report.index), "pages": report.pages, "runs": runs}
    return present(ctx, show, report=record | {"left_out": list(report.left_out)})


def _figures(run: ReportedRun) -> Iterator[tuple[str, str]]:
    survey, totals = run.survey, run.survey.totals
    if survey.judge:
        yield "judge", survey.judge
    failed = f", {totals.failed:,} failed" if totals.failed else ""
    so_far = "" if run.finished else " so far"
    yield "queries", f"{totals.queries - totals.failed:,} ranked{failed}{so_far}"
    if survey.personas_in_all:
        yield "personas", f"{survey.personas_in_all:,} different"
        alpha, tau = (optional(each, 2) or NOTHING for each in (totals.alpha, totals.tau))
        yield "agreement", f"alpha {alpha}, tau {tau}"
    others = ((survey.first_stage, totals.first_stage_ndcg), (survey.other, totals.other_ndcg))
    compared = ", ".join(f"{name} {value:.3f}" for name, value in others if value is not None)
    yield "nDCG@10", (optional(totals.ndcg, 3) or NOTHING) + (f" ({compared})" if compared else "")
    if totals.missing:
        yield "missing", counted(totals.missing, "score")


def _record(run: ReportedRun) -> dict[str, Any]:
    survey = run.survey
    return {
        "path": str(run.run),
        "index": str(run.index),
        "title": survey.title,
        "dataset": survey.dataset,
        "first_stage": survey.first_stage,
        "other": survey.other or None,
        "judge": survey.judge or None,
        "finished": run.finished,
        "personas": survey.personas_in_all,
        "totals": asdict(survey.totals),
        "notes": list(survey.notes),
    }


command = Verb(
    "report",
    _report,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUNS..."),
        flag("--out", "New or empty, or a report to replace.", required=True, metavar="FOLDER"),
        flag(
            "--against",
            "The run over the same data to compare with. Without: DIRECT with the same highest "
            "score, else the first run without a team; given, or beside the run.",
            metavar="LABEL|FOLDER|none",
        ),
        output_flag("report", said="What is printed. "),
    ],
    help="""Report over a data set: who judged, how they agreed, what they were worth.

    RUNS are folders of 'beir-eval run', or folders that hold some. Every run of a ranker below
    them is reported on one page, with a page for every query. Of teams, it shows the personas, how
    far they agree, what each of them is worth, and where the team and another ranker differ. No
    model is asked.

    \b
      personas report runs/table1 --out report
      personas report runs/table1/scifact/mc-2-recruits --out report --against none
    """,
)
