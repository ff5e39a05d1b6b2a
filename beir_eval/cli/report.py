"""``beir-eval report``: tables and figures from run folders, beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from beir_eval.answers.report import (
    build_answer_report,
    is_answer_folder,
    render_answer_report,
)
from beir_eval.cli.flags import STATISTICS, correction_flag
from beir_eval.experiment.run_folder import find_runs
from beir_eval.report.as_json import render_json
from beir_eval.report.build import build_report
from beir_eval.report.texts import render_latex, render_markdown
from mcranker.cli.invocation import say
from mcranker.cli.output import DONE, footer, output
from mcranker.cli.verb import RealNumber, Verb, Writes, flag
from mcranker.rag.page import render_answer
from personas.format import counted

if TYPE_CHECKING:
    from beir_eval.report.model import Report

_OF_RANKERS = ("measure", "baseline", "correction", "level", "provider_prices")
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
    main = Path(out).name if alone else "report.html"
    if any(map(is_answer_folder, given["runs"])):
        files = _of_answers(ctx, main)
    else:
        files = _of_rankers(ctx, main if alone else None)
    if out is None:
        with output(None) as write:
            write(files["report.md"] if "report.md" in files else files[main])
        return DONE
    folder = Path(out).parent if alone else Path(out)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with output(str(folder / name)) as write:
            write(text)
    if not given["quiet"]:
        say(f"wrote {out!r}" if alone else f"wrote {', '.join(files)} to {out!r}")
    return DONE


def _of_answers(ctx: click.Context, main: str) -> dict[str, str]:
    """The page of a suite of pipelines, and a page for each of the worst answers."""
    folder, *others = ctx.params["runs"]
    if not main.lower().endswith(".html"):
        raise click.UsageError("the report of a suite of pipelines is a page: name.html", ctx)
    if others:
        raise click.UsageError("a suite of pipelines has a page of its own; name one folder", ctx)
    for name in _OF_RANKERS:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} does not go with a suite of pipelines", ctx)
    report = build_answer_report(folder)
    worst = {f"{Path(main).stem}/{n}.html": answer for n, (answer, _) in enumerate(report.worst, 1)}
    pages = {answer.id: name for name, answer in worst.items()} if ctx.params["out"] else {}
    page = render_answer_report(report, footer=footer(ctx), pages=pages)
    return {main: page, **{name: render_answer(each) for name, each in worst.items()}}


def _files_of(out: str | None) -> list[str]:
    """The file that ``--out`` names; none for a folder."""
    return [out] if out and Path(out).suffix.lower() in _SUFFIXES else []


def _of_rankers(ctx: click.Context, alone: str | None) -> dict[str, str]:
    """The report in the form of one file, or in every form, with figures that two refer to."""
    given = ctx.params
    report = build_report(find_runs(given["runs"]), **{name: given[name] for name in _OF_RANKERS})
    unfinished = [place for section in report.sections for place in section.unfinished]
    if unfinished and not given["quiet"]:
        dataset, label = unfinished[0]
        say(
            f"{counted(len(unfinished), 'run')} not finished and left out, e.g. {label!r} on "
            f"{dataset}; the same 'beir-eval run' again finishes it"
        )
    if alone or given["out"] is None:
        return {alone or "report.md": _rendered(ctx, report, Path(alone or "report.md").suffix, {})}
    from beir_eval.report.figures import render_svg

    figures, files = dict[str, str](), dict[str, str]()
    for section in report.sections:
        if section.figure:
            figures[section.name] = f"{re.sub(r'[^A-Za-z0-9._-]', '_', section.name)}.svg"
            files[figures[section.name]] = render_svg(section.figure)
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
    from beir_eval.report.html import render_html

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
            "from the runs if need be. Without: the first measure of the runs.",
            metavar="NAME",
        ),
        flag(
            "--provider-prices",
            "Price answers of other servers (--base-url) like the provider's own of that model. "
            "Without, their cost is not known.",
            is_flag=True,
        ),
        flag(
            "--baseline",
            "Compare with this ranker, or with 'first stage'. Without: the suite's baseline, else "
            "the first stage.",
            metavar="LABEL",
            section=STATISTICS,
        ),
        flag(
            "--level",
            "Confidence level of the intervals.",
            type=RealNumber(0, 1, min_open=True, max_open=True),
            default=0.95,
            metavar="X",
            section=STATISTICS,
        ),
        correction_flag(),
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
