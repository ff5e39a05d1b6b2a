"""``beir-eval steer``: a person's sentence, and how far a ranking follows it."""

from __future__ import annotations

from functools import partial

import click
from rich.console import Console

from beir_eval.cli.flags import html_flag, print_lines
from beir_eval.data.load import load
from beir_eval.steering import COLLECTION, GOALS, flaws, render, steer, ways, wishes, work
from mcranker import DirectRanker, Ranking
from mcranker.cli.flags import Verb, dry_run_flag, output_flag, refuse_page
from mcranker.cli.invocation import run_loop, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, MISSING_SCORES, Failure, footer, present, saying_where
from mcranker.cli.progress import Tracker, check_local_models, fetch_models, showing
from mcranker.cli.results import show_estimates
from personas.console import numbers, table
from personas.io.atomic import write_whole

_FIXED = ("ranker", "team", "team_size", "instruction", "criteria", "depth", "top_n")


def _steer(ctx: click.Context) -> int:
    given = ctx.params
    refuse_page(ctx)
    options = given_options(ctx, default="direct", without=_FIXED)
    if given["dry_run"]:
        check_local_models(options.models)
        rows = [
            ({"asks for": wish.wanted, "way to ask": label}, ranker.estimate_many(work(wish)))
            for wish in wishes()
            for label, ranker in ways(wish, options.options).items()
        ]
        return show_estimates(ctx, ["asks for", "way to ask"], rows, "")
    fetch_models(options.models, quiet=given["quiet"])
    tracker = Tracker("steering", unit="rankings")
    with DirectRanker(**options.options) as ranker:
        judge = ranker.models.scoring.name
        tracker.total = len(ways(wishes()[0], options.options)) * len(load(COLLECTION).queries)
    with saying_where(options.ledger), showing(ctx, tracker) as display:

        def note(ranking: Ranking) -> None:
            tracker.count(ranking.calls)
            display.update()

        found = run_loop(partial(steer, options.options, note))
    missing = sum(row.relevance.missing for row in found)
    code = MISSING_SCORES if missing else DONE
    if given["html"] is not None:
        write_whole(given["html"], render(found, judge, footer=footer(ctx)))
        for line in [*flaws(found), f"wrote {given['html']}"]:
            say(line)
        return code

    def show(console: Console) -> None:
        columns = [f"{name}{end}" for name in GOALS for end in ("", " ±", " p")]
        cells = ((row.label, *row.cells()) for row in found)
        console.print(table(["nDCG@10", *numbers(*columns)], cells))
        print_lines(console, flaws(found), style="yellow")

    errors = [Failure("MissingScores", f"{missing} scores are missing").entry] if missing else []
    record = {"judge": judge, "rows": [row.record() for row in found], "flaws": flaws(found)}
    return present(ctx, show, code, errors, steering=record)


command = Verb(
    "steer",
    _steer,
    params=[
        *option_flags(without=_FIXED),
        output_flag("steering"),
        html_flag(),
        dry_run_flag(),
    ],
    help="""Measure how far a ranking follows a person's sentence, and whether relevance holds.

    \b
      beir-eval steer --model openai:NAME --html steer.html
      beir-eval steer --model openai:NAME -o passages_per_call=10 --dry-run

    20 queries of the collection steer, each with a sentence such as "Studies of people count for
    more than studies of animals". It is given as an instruction, as 20, 50 and 80% of a judge's
    rubric, and as the criterion of one of three personas. An encoder reads no criteria: it has the
    first two rows.
    """,
)
