"""``mcranker team``: recruit and write rubrics, without scoring anything."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from mcranker.cli.failures import DONE, ERROR, Failure, failure, print_json
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Writes, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import (
    WEAK_MODEL_NOTE,
    config_flags,
    ledger_flag,
    make_ranker,
    model_flags,
    model_names,
    team_flag,
)
from mcranker.cli.progress import Live, QueryTracker, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.teams_view import show_team
from mcranker.cli.verb import GroupedOption, Verb, output_flag, quiet_flag
from mcranker.events import Event
from mcranker.rankers.mcranker import MCRanker
from personas import Team, dumps
from personas.console import print_page
from personas.files import FORMATS
from personas.io.atomic import write_whole
from personas.ranking.types import Query

_FIELDS = (
    "preset",
    "team_size",
    "nlp_scientist",
    "recruiting",
    "require",
    "forbid",
    "criteria",
    "dataset",
    "dataset_team",
    "reask",
    "ask_anew",
    "lowercase_query",
    "snake_case_personas",
    "prompts",
    "temperature",
    "seed",
    "max_tokens",
    "sample",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "max_calls",
    "max_cost",
    "batch",
)


def _team(ctx: click.Context) -> int:
    given = ctx.params
    invocation = ctx.ensure_object(Invocation)
    out, quiet = given["out"], given["quiet"]
    if out is not None and Path(out).suffix.lower() not in FORMATS:
        raise click.UsageError(f"--out {out!r}: the name must end in .yaml, .yml or .json", ctx)
    if given["lock"] and out is None and given["output"] != "json":
        raise click.UsageError("--lock goes with --out FILE or --output json", ctx)
    invocation.doing("getting ready; nothing was sent")
    with invocation.noting(live_is_wanted(quiet=quiet)):
        fetch_models(model_names(ctx), quiet=quiet)
        ranker = make_ranker(ctx, MCRanker.name)
    assert isinstance(ranker, MCRanker)
    query, example = Query(given["query"]), given["example"]
    live = live_is_wanted(quiet=quiet)
    team = run_loop(partial(_recruit, ranker, query, example, invocation, live=live))
    invocation.doing("writing the team")
    if given["lock"]:
        team = team.lock()
    unwritten: Failure | None = None
    if out is not None:
        try:
            with saying_where(given["ledger"]):
                write_whole(out, dumps(team, format=FORMATS[Path(out).suffix.lower()]))
        except OSError as error:  # the team is shown all the same
            unwritten = failure(error)
            say(f"error: {unwritten.message}")
    if given["output"] == "json":
        errors = [unwritten.entry] if unwritten else []
        print_json(ERROR if unwritten else DONE, errors, team=team.model_dump(mode="json"))
    else:
        print_page(lambda console: show_team(console, team))
    return ERROR if unwritten else DONE


async def _recruit(
    ranker: MCRanker, query: Query, example: str | None, invocation: Invocation, *, live: bool
) -> Team:
    tracker = QueryTracker.of(ranker)
    invocation.reached = lambda: tracker.reached
    async with ranker:
        with Live(tracker, wanted=live) as display, invocation.held():

            async def take(event: Event) -> None:
                tracker.take(event)
                display.update()

            return await ranker.arecruit_team(query, example, emit=take)


command = Verb(
    "team",
    _team,
    params=[
        click.Argument(["query"]),
        GroupedOption(
            ["--example"],
            metavar="PASSAGE",
            section="Input",
            help="A passage of the kind that will be judged, for the recruiter to see.",
        ),
        GroupedOption(
            ["--out"],
            type=Writes(),
            section="Output",
            help="Save the team as .yaml or .json, for --team of 'mcranker rank'.",
        ),
        output_flag("team", said="What is printed. ", section="Output"),
        GroupedOption(
            ["--lock"],
            is_flag=True,
            section="Output",
            help="Lock what is saved: no one joins it later, and no criteria are written for it.",
        ),
        team_flag(
            "A saved team, or one of the library, to start from: recruits join it up to "
            "--team-size, and missing criteria are written."
        ),
        *config_flags(_FIELDS),
        *model_flags(("recruiter", "criteria")),
        ledger_flag(),
        quiet_flag(),
    ],
    help="""Recruit a team for a query and let it write its criteria, without scoring anything.

    \b
      mcranker team "best masks against covid" --out team.yaml
      mcranker rank "best masks against covid" --docs passages.jsonl --team team.yaml
      mcranker team "best masks against covid" --team clinician --team lawyer \\
          --team-size 4 --out team.yaml --lock
    """,
    epilog=WEAK_MODEL_NOTE,
)
