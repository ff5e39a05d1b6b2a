"""``personas report``: a folder of pages that show why passages rank where they do."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from beir_eval.cli.made import command_line, today
from mcranker.cli.failures import DONE, envelope
from mcranker.cli.files import output
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.progress import Live, live_is_wanted
from mcranker.cli.verb import Verb, output_flag, quiet_flag
from personas.plain import one_line
from personas.words import counted

if TYPE_CHECKING:
    from beir_eval.persona_report.build import PersonaReport, ReportedRun

_MOST_PROCESSES = 61
_UNKNOWN = "-"


@dataclass(slots=True)
class Tracker:
    """Counts the queries whose pages are written, for `mcranker.cli.progress.Live`."""

    stage: str = "reading"
    done: int = 0
    total: int | None = None
    unit: str = "queries"
    used: str = ""
    _since: float = field(default_factory=time.perf_counter)

    def take(self, done: int, total: int) -> None:
        """Note how many of how many queries are done."""
        if self.total is None:
            self.stage, self._since = "writing pages of queries", time.perf_counter()
        self.done, self.total = done, total

    @property
    def reached(self) -> str:
        """Progress in words."""
        if self.total is None:
            return "while reading; no report was written"
        of = counted(self.total, "query", "queries")
        return f"after {self.done:,} of {of}; no report was written"

    def per_second(self) -> float | None:
        if not self.done:
            return None
        return self.done / (time.perf_counter() - self._since)

    def seconds_left(self) -> float | None:
        if not self.done or not self.total:
            return None
        return (self.total - self.done) * (time.perf_counter() - self._since) / self.done


def _report(ctx: click.Context) -> int:
    from beir_eval.persona_report.build import write_persona_report

    given = ctx.params
    quiet, tracker = given["quiet"], Tracker()
    ctx.ensure_object(Invocation).reached = lambda: tracker.reached
    with Live(tracker, wanted=live_is_wanted(quiet=quiet)) as live:

        def progress(done: int, total: int) -> None:
            tracker.take(done, total)
            live.update()

        report = write_persona_report(
            given["runs"],
            given["out"],
            against=given["against"],
            processes=given["processes"],
            progress=progress,
            command=command_line(ctx),
            date=today(),
        )
    if not quiet:
        _say_notes(report)
    with output(None) as write:
        if given["output"] == "json":
            write(envelope(DONE, [], report=_record(report)))
        else:
            write("".join(f"{line}\n" for line in _lines(report)))
    return DONE


def _say_notes(report: PersonaReport) -> None:
    for sentence in report.left_out:
        say(sentence)
    titles_of: dict[str, list[str]] = {}
    for run in report.runs:
        for note in run.notes:
            titles_of.setdefault(note, []).append(run.entry.title)
    for note, titles in titles_of.items():
        who = titles[0] if len(titles) == 1 else f"{len(titles)} of {len(report.runs)} runs"
        say(f"{who}: {note}")


def _lines(report: PersonaReport) -> list[str]:
    lines = [str(report.index)]
    for run in report.runs:
        lines += ["", one_line(run.entry.title), f"  {one_line(run.entry.dataset)}"]
        lines += [f"  {name:<10}{one_line(value)}" for name, value in _figures(run)]
    return lines


def _figures(run: ReportedRun) -> list[tuple[str, str]]:
    entry, totals = run.entry, run.entry.totals
    queries = f"{totals.queries - totals.failed:,} ranked"
    if totals.failed:
        queries += f", {totals.failed:,} failed"
    if not entry.finished:
        queries += " so far"
    rows = [*([("judge", entry.judge)] if entry.judge else []), ("queries", queries)]
    if entry.personas:
        rows += [
            ("personas", f"{entry.personas:,} different"),
            ("agreement", f"alpha {_number(totals.alpha, 2)}, tau {_number(totals.tau, 2)}"),
        ]
    ndcg = _number(totals.ndcg, 3)
    others = ((entry.first_stage, totals.first_stage_ndcg), (entry.other, totals.other_ndcg))
    compared = [f"{name} {_number(value, 3)}" for name, value in others if value is not None]
    rows.append(("nDCG@10", f"{ndcg} ({', '.join(compared)})" if compared else ndcg))
    if totals.missing:
        rows.append(("missing", counted(totals.missing, "score")))
    return rows


def _number(value: float | None, places: int) -> str:
    return _UNKNOWN if value is None else f"{value:.{places}f}"


def _record(report: PersonaReport) -> dict[str, Any]:
    return {
        "index": str(report.index),
        "pages": report.pages,
        "runs": [
            {
                "path": str(run.run),
                "index": str(run.index),
                "title": run.entry.title,
                "dataset": run.entry.dataset,
                "first_stage": run.entry.first_stage,
                "other": run.entry.other or None,
                "judge": run.entry.judge or None,
                "finished": run.entry.finished,
                "personas": run.entry.personas,
                "totals": asdict(run.entry.totals),
                "notes": list(run.notes),
            }
            for run in report.runs
        ],
        "left_out": list(report.left_out),
    }


command = Verb(
    "report",
    _report,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUNS..."),
        click.Option(
            ["--out"],
            required=True,
            metavar="FOLDER",
            help="Where the pages go: a new or empty folder, or a former report, which is "
            "replaced once the new one is whole.",
        ),
        click.Option(
            ["--against"],
            metavar="LABEL|FOLDER|none",
            help="The run over the same data to compare with. Without: DIRECT with the same "
            "highest score, else the first run without a team; given, or beside the run.",
        ),
        click.Option(
            ["--processes"],
            type=WholeNumber(1, _MOST_PROCESSES),
            metavar="N",
            help="How many make pages at the same time. Without: one a processor, 8 at most.",
        ),
        output_flag("report", said="What is printed. "),
        quiet_flag(),
    ],
    help="""Report over a data set: who judged, how they agreed, what they were worth.

    RUNS are folders of 'beir-eval run', or folders that hold some. Every run of a team below
    them is reported: its personas and criteria, how far they agree, what each of them is worth,
    where the team and another ranker differ, and a page for every query. Runs without a team
    are reported only where there are no others. No model is asked.

    \b
      personas report runs/table1 --out report
      personas report runs/table1/scifact/mc-2-recruits --out report --against none
    """,
)
