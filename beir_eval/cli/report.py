"""``beir-eval report``: tables and figures from run folders, beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beir_eval.cli.verify import verify
from beir_eval.experiment.run_folder import find_runs
from beir_eval.report.build import build_report
from beir_eval.report.forms import render_html, render_json, render_latex, render_markdown
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, output
from mcranker.cli.verb import Verb, Writes, flag
from personas.format import counted

if TYPE_CHECKING:
    from beir_eval.report.model import Report

NAME = "report"

_SUFFIXES = {".md": "md", ".html": "html", ".tex": "latex", ".json": "json"}


def _report(ctx: click.Context) -> int:
    given = ctx.params
    if given["verify"]:
        return verify(ctx)
    out, form = given["out"], given["format"]
    by_suffix = None if out is None else _SUFFIXES.get(Path(out).suffix.lower())
    if by_suffix and form not in (None, by_suffix):
        raise click.UsageError(
            f"--out {out!r} is a file for {by_suffix}, and --format says {form}; "
            "leave --format out, or name a folder",
            ctx,
        )
    if out is not None and not by_suffix and Path(out).exists() and not Path(out).is_dir():
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
    if out is None or by_suffix:
        with output(out) as write:
            write(_rendered(ctx, report, by_suffix or form or "md", {}))
        return DONE
    written = _write_folder(ctx, Path(out), report, [form] if form else [*_SUFFIXES.values()])
    if not given["quiet"]:
        say(f"wrote {', '.join(written)} to {out!r}")
    return DONE


def _files_of(out: str | None) -> list[str]:
    """Return the file that ``--out`` names; none for a folder."""
    return [out] if out and Path(out).suffix.lower() in _SUFFIXES else []


def _write_folder(
    ctx: click.Context, folder: Path, report: Report, formats: Sequence[str]
) -> list[str]:
    """Write a file a form, and the figures that Markdown and LaTeX refer to; return their names."""
    files: dict[str, str] = {}
    figures: dict[str, str] = {}
    if {"md", "latex"} & set(formats):
        from beir_eval.report.figures import render_svg

        for section in report.sections:
            if section.figure:
                figures[section.name] = f"{re.sub(r'[^A-Za-z0-9._-]', '_', section.name)}.svg"
                files[figures[section.name]] = render_svg(section.figure)
    for suffix, form in _SUFFIXES.items():
        if form in formats:
            files[f"{NAME}{suffix}"] = _rendered(ctx, report, form, figures)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        with output(str(folder / file)) as write:
            write(text)
    return list(files)


def _rendered(ctx: click.Context, report: Report, form: str, figures: Mapping[str, str]) -> str:
    if form == "md":
        return render_markdown(report, figures=figures)
    if form == "latex":
        return render_latex(report, figures=figures)
    if form == "json":
        return render_json(report, per_query=ctx.params["per_query"])
    return render_html(report, footer=footer(ctx))


command = Verb(
    "report",
    _report,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUNS..."),
        flag(
            "--format",
            "Without: as the file of --out ends; each of them into a folder; md to standard "
            "output.",
            type=click.Choice([*_SUFFIXES.values()]),
        ),
        flag(
            "--out",
            "Write report.md, report.html, report.tex, report.json and the figures into a folder, "
            "or one file that ends in .md, .html, .tex or .json. Without: standard output.",
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
            "--verify",
            "Instead, compare every file of finished runs, and of what they ranked, with the "
            "SHA-256 in the manifest; exit code 1 where one was changed or is gone. The manifest "
            "itself is not covered: this finds accidents, no forgery.",
            is_flag=True,
        ),
        flag("--per-query", "Every query's values in the JSON.", is_flag=True),
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
      beir-eval report runs/table1 --verify
    """,
)
