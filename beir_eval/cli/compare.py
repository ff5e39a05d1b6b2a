"""``beir-eval compare``: the queries on which two runs differ most, and why."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beir_eval.cli.flags import count_flag, judgement_flags, run_folders
from mcranker.cli.failures import DONE, envelope
from mcranker.cli.files import Writes, output
from mcranker.cli.invocation import say
from mcranker.cli.made import command_line, today
from mcranker.cli.verb import Verb, output_flag
from mcranker.paths import is_folder

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.compare.runs import Direction
    from beir_eval.compare.sources import ComparisonData
    from personas.ranking.comparison import ComparedRuns
    from personas.report.compare.text import Compared


def _compare(ctx: click.Context) -> int:
    from beir_eval.compare.runs import compare_pair
    from beir_eval.compare.sources import open_pair

    given = ctx.params
    if given["qrels"] and given["dataset"]:
        raise click.UsageError("give --qrels or --dataset, not both", ctx)
    if given["html"] is not None and (given["output"] != "table" or given["out"] is not None):
        raise click.UsageError(
            "--html writes the page and prints nothing; leave --output and --out out", ctx
        )
    pair = open_pair(given["a"], given["b"], data=_data(ctx))
    found = compare_pair(
        pair, measure=given["measure"], top=given["top"], direction=_direction(ctx)
    )
    if given["html"] is not None:
        write_page(ctx, found, (given["a"], given["b"]), (pair.a.label, pair.b.label))
    else:
        _write(found, given["output"], given["out"], given["passages"])
    return DONE


def write_page(
    ctx: click.Context, found: Compared, files: tuple[str, str], names: tuple[str, str]
) -> None:
    """Write the page of a comparison to ``--html``.

    Args:
        ctx: of the command.
        found: what was compared.
        files: where from; the page says when they were written.
        names: how the page calls them.
    """
    from mcranker import __version__
    from personas.io.atomic import write_whole
    from personas.report.compare.page import render_comparison
    from personas.report.site import Made

    page = render_comparison(
        found,
        before=names[0],
        after=names[1],
        dates=(_written(files[0]), _written(files[1])),
        made=Made(__version__, today(), command_line(ctx)),
    )
    write_whole(ctx.params["html"], page)
    say(f"the page is {ctx.params['html']}")


def _written(name: str) -> str:
    """The day on which a file, or the manifest of a run folder, was last written."""
    path = Path(name)
    with suppress(OSError):
        seconds = (path / "manifest.json" if is_folder(path) else path).stat().st_mtime
        return f"file of {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    return ""


def _direction(ctx: click.Context) -> Direction:
    gains, losses = ctx.params["gains"], ctx.params["losses"]
    if gains == losses:
        return "both"
    return "gains" if gains else "losses"


def _data(ctx: click.Context) -> ComparisonData | None:
    from beir_eval.compare.sources import ComparisonData

    if ctx.params["qrels"]:
        return ComparisonData.of_qrels(ctx.params["qrels"])
    if ctx.params["dataset"]:
        return ComparisonData.of_dataset(ctx.params["dataset"], split=ctx.params["split"])
    return None


def _write(found: ComparedRuns, form: str, out: str | None, passages: int) -> None:
    from personas.console import print_page, rendered
    from personas.report.compare.text import as_dict, as_markdown, show_comparison

    def show(console: Console) -> None:
        show_comparison(console, found, top=passages)

    if form == "table" and out is None:
        print_page(show)
        return
    if form == "json":
        text = envelope(DONE, [], comparison=as_dict(found))
    else:
        text = as_markdown(found, top=passages) if form == "md" else rendered(show)
    with output(out) as write:
        write(text)


command = Verb(
    "compare",
    _compare,
    params=[
        click.Argument(["a"], type=run_folders(), metavar="A"),
        click.Argument(["b"], type=run_folders(), metavar="B"),
        click.Option(
            ["--measure"],
            default="nDCG@10",
            show_default=True,
            metavar="NAME",
            help="Measure to compare by, as ir-measures writes it.",
        ),
        count_flag("top", 5, "Queries to explain: those that changed most."),
        count_flag("passages", 4, "Passages to show for each of them, at most."),
        click.Option(["--gains"], is_flag=True, help="Only queries on which B is better."),
        click.Option(["--losses"], is_flag=True, help="Only queries on which B is worse."),
        *judgement_flags(),
        output_flag("comparison", forms=("table", "md", "json"), said="md: Markdown; "),
        click.Option(["--out"], type=Writes(), help="Write to FILE instead of standard output."),
        click.Option(
            ["--html"],
            type=Writes(),
            help="Write an HTML page instead, with the ranks before and after of each query.",
        ),
    ],
    help="""See which queries two runs differ on most, and why.

    A and B are folders of 'beir-eval run' (OUT/DATASET/RANKER), TREC files, or
    'first-stage' for the first stage's run of the other one. Differences are those from A
    to B: what got better is better in B.

    For each query: the passages whose moves made the difference, where the first stage, A and B
    ranked them, what each move adds to nDCG, and whose scores moved them.
    """,
)
