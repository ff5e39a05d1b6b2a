"""``beir-eval report``: tables and figures from run folders, beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beir_eval.experiment.run_folder import find_runs
from beir_eval.report.build import build_report
from beir_eval.report.forms import render_html, render_json, render_latex, render_markdown
from mcranker.cli.flags import Verb, Writes, flag
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, output
from personas.format import counted

if TYPE_CHECKING:
    from beir_eval.report.model import Report

_SUFFIXES = (".md", ".html", ".tex", ".json")


def _report(ctx: click.Context) -> int:
    given, out = ctx.params, ctx.params["out"]
    alone = bool(_files_of(out))
    if out and not alone and Path(out).exists() and not Path(out).is_dir():
        raise click.UsageError(
            f"--out {out!r} is a file; name a folder, or a file that ends in "
            f"{', '.join(_SUFFIXES)}",
            ctx,
        )
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
            write(_rendered(ctx, report, Path(out or "report.md").suffix, {}))
        return DONE
    files = _all_forms(ctx, report)
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


def _all_forms(ctx: click.Context, report: Report) -> dict[str, str]:
    """A file a form, and the figures that Markdown and LaTeX refer to."""
    from beir_eval.report.figures import render_svg

    figures, files = dict[str, str](), dict[str, str]()
    for section in report.sections:
        if section.figure:
            figures[section.name] = f"{re.sub(r'[^A-Za-z0-9._-]', '_', section.name)}.svg"
            files[figures[section.name]] = render_svg(section.figure, measure=report.measure)
    forms = {f"report{each}": _rendered(ctx, report, each, figures) for each in _SUFFIXES}
    return files | forms


def _rendered(ctx: click.Context, report: Report, suffix: str, figures: Mapping[str, str]) -> str:
    match suffix.lower():
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
            "Write report.md, report.html, report.tex, report.json and the figures into a folder, "
            "or one file that ends in .md, .html, .tex or .json. Without: Markdown to standard "
            "output.",
            type=Writes(_files_of),
            metavar="FOLDER|FILE",
        ),
        flag(
            "--measure",
            "Measure in the tables, as ir-measures writes it: nDCG@10, R@100, AP(rel=2). Computed "
            "from the runs if need be. Of pipelines, a judge. Without: the first of the runs.",
            metavar="NAME",
        ),
        flag(
            "--baseline",
            "Compare with this row, or with 'first stage'. Without: the suite's baseline, else "
            "the first stage; of pipelines the best.",
            metavar="LABEL",
        ),
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
