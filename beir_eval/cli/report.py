"""``beir-eval report``: tables and figures from run folders, beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import click

from beir_eval.experiment.run_folder import find_runs
from beir_eval.report.build import build_report
from beir_eval.report.figures import render_svg
from beir_eval.report.forms import render_html, render_json, render_latex, render_markdown
from beir_eval.report.model import Report
from mcranker.cli.flags import Verb, Writes, flag, refuse
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, output
from personas.format import counted

_SUFFIXES = (".md", ".html", ".tex", ".json")


def _report(ctx: click.Context) -> int:
    given, out = ctx.params, ctx.params["out"]
    alone, suffixes = bool(_files_of(out)), ", ".join(_SUFFIXES)
    is_file = out and not alone and Path(out).exists() and not Path(out).is_dir()
    names = f"name a folder, or a file that ends in {suffixes}"
    refuse(ctx, (is_file, f"--out {out!r} is a file; {names}"))
    runs = find_runs(given["runs"], pipelines=True)
    report = build_report(runs, measure=given["measure"], baseline=given["baseline"])
    unfinished = [place for section in report.sections for place in section.unfinished]
    if unfinished and not given["quiet"]:
        dataset, label = unfinished[0]
        say(
            f"{counted(len(unfinished), 'run')} not finished and left out, e.g. {label!r}"
            f"{dataset and f' on {dataset}'}; the same 'beir-eval run' again finishes it"
        )
    if out is None or alone:
        with output(out) as write:
            write(_rendered(ctx, report, Path(out or "report.md").suffix.lower(), {}))
        return DONE
    drawn = {each.name: each.figure for each in report.sections if each.figure}
    # The figures that Markdown and LaTeX refer to.
    figures = {name: f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.svg" for name in drawn}
    files = {figures[name]: render_svg(drawn[name], measure=report.measure) for name in drawn}
    files |= {f"report{each}": _rendered(ctx, report, each, figures) for each in _SUFFIXES}
    Path(out).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with output(str(Path(out) / name)) as write:
            write(text)
    if not given["quiet"]:
        say(f"wrote {', '.join(files)} to {out!r}")
    return DONE


def _files_of(out: str | None) -> list[str]:
    """The file that ``--out`` names; none for a folder."""
    return [out] if out and Path(out).suffix.lower() in _SUFFIXES else []


def _rendered(ctx: click.Context, report: Report, suffix: str, figures: Mapping[str, str]) -> str:
    match suffix:
        case ".md":
            return render_markdown(report, figures=figures)
        case ".tex":
            return render_latex(report, figures=figures)
        case ".json":
            return render_json(report, per_query=True)
    return render_html(report, footer=footer(ctx))


command = Verb(
    "report",
    _report,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUNS..."),
        flag(
            "--out",
            "Folder for the report in all forms with its figures, or a file that ends in .md, "
            ".html, .tex or .json. Without: Markdown to standard output.",
            type=Writes(_files_of),
            metavar="FOLDER|FILE",
        ),
        flag("--measure", "Measure, or judge, of the tables (the runs' first).", metavar="NAME"),
        flag("--baseline", "Row to compare with (the suite's, or 'first stage').", metavar="LABEL"),
    ],
    help="""Tables and figures from run folders, beside the paper's numbers.

    RUNS are folders of 'beir-eval run', or folders that hold some: everything below them is
    taken. Runs of a suite make a section. The same folders always make the same report, but
    for the day and the command in the last line of the page; SOURCE_DATE_EPOCH sets the day.

    \b
      beir-eval report runs/table1 --out report
      beir-eval report runs/table1 --baseline "first stage"
    """,
)
