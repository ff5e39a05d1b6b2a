"""``personas tune``: weights of personas and criteria from judgements, at no call."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from beir_eval.cli.flags import qrels_flag
from beir_eval.tuning.page import render_tuned, weights
from beir_eval.tuning.tune import MEASURE, TunedTeam, tune
from mcranker.cli.files import Writes
from mcranker.cli.footer import footer, today
from mcranker.cli.invocation import say
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.progress import ProgressDisplay, Tracker, live_is_wanted
from mcranker.cli.verb import Verb, flag, output_flag, present, quiet_flag
from personas.files import FORMATS, save
from personas.format import signed, weight
from personas.io.atomic import write_whole
from personas.report.terminal.screen import NOTE, Column, Screen, clipped

_NAME = 40


def _tune(ctx: click.Context) -> int:
    given, tracker = ctx.params, Tracker("fitting")
    out = given["out"]
    if out is not None and Path(out).suffix.lower() not in FORMATS:
        raise click.UsageError(f"--out {out!r}: the name must end in .yaml, .yml or .json", ctx)
    with ProgressDisplay(tracker, wanted=live_is_wanted(quiet=given["quiet"])) as live:

        def progress(done: int, total: int) -> None:
            tracker.done, tracker.total = done, total
            live.update()

        tuned = tune(
            given["runs"],
            **{name: given[name] for name in ("qrels", "folds", "seed", "anyway")},
            date=today(),
            progress=progress,
        )
    if out is not None:
        save(tuned.team, out)
    if given["html"] is not None:
        write_whole(given["html"], render_tuned(tuned, footer=footer(ctx)))
    for name in ("out", "html"):
        if given[name] is not None and not given["quiet"]:
            say(f"--{name}: {given[name]}")
    return present(
        ctx,
        lambda console: _show(Screen(console), tuned),
        team=tuned.team.model_dump(mode="json", exclude_defaults=True),
        method=tuned.method,
        gain=asdict(tuned.gain) | {"shown": tuned.gain.is_shown and not tuned.notes},
        gains={name: asdict(each) for name, each in tuned.gains.items()},
        fitted=tuned.fitted,
        notes=list(tuned.notes),
        per_query={
            name: {"before": before, "after": after}
            for name, (_, before, after) in tuned.per_query.items()
        },
    )


def _show(screen: Screen, tuned: TunedTeam) -> None:
    for note in tuned.notes:
        screen.words(note, "bold yellow")
    found = list(weights(tuned))
    names = [
        f"  {clipped(each, _NAME)}" if each else clipped(name, _NAME) for name, each, *_ in found
    ]
    columns = [
        Column(("weights",), [Text(each) for each in names], right=False),
        Column(("before",), [Text(weight(old)) for *_, old, _ in found]),
        Column(("after",), [Text(weight(new)) for *_, new in found]),
        Column(("change",), [Text(signed(new - old, 1)) for *_, old, new in found]),
    ]
    screen.cells(columns, 2)
    screen.line()
    gain, count = tuned.gain, len(tuned.per_query)
    screen.words(f"{MEASURE}, gain on held-out queries: {gain}", "bold")
    screen.words(
        f"better on {gain.wins:,}, equal on {gain.ties:,}, worse on {gain.losses:,} of {count:,}; "
        + "; ".join(f"by {name} {each}" for name, each in tuned.gains.items()),
        NOTE,
    )


command = Verb(
    "tune",
    _tune,
    params=[
        click.Argument(["runs"], nargs=-1, required=True, metavar="RUNS..."),
        qrels_flag(" Run folders have their own."),
        flag("--out", "Write the team with the new weights.", type=Writes(), metavar="TEAM.yaml"),
        flag("--html", "Write a page: weights, gain and queries, before and after.", type=Writes()),
        flag("--folds", "Parts of the queries.", type=WholeNumber(2, 20), default=5),
        flag("--seed", "Of the folds and the bootstrap.", type=WholeNumber(0), default=0),
        flag("--anyway", "Fit to fewer than 50 judged queries; nothing is shown.", is_flag=True),
        output_flag("team, method, gain, gains, fitted, notes, per_query"),
        quiet_flag(),
    ],
    help="""Fit the weights of personas and criteria to judgements. No model is asked.

    RUNS are folders of 'beir-eval run' whose queries were all ranked by one team. Weights of
    criteria are fitted where scores by criterion are there. The gain in nDCG@10 is that on
    queries the weights were not fitted to; below 50 judged queries nothing is claimed.

    \b
      beir-eval run --dataset scifact --ranker mcranker --team scientific_claims --out runs/s
      personas tune runs/s --out team.yaml --html tuned.html
      mcranker rank "do masks work" --docs passages.jsonl --team team.yaml
    """,
)
