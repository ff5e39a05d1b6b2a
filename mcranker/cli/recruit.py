"""``mcranker recruit``: recruit a team and write rubrics, without scoring anything."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from mcranker.cli.failures import DONE, ERROR, Failure, failure, print_json
from mcranker.cli.fetching import fetch_models
from mcranker.cli.files import Writes, saying_where
from mcranker.cli.invocation import Invocation, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.progress import ProgressDisplay, QueryTracker, live_is_wanted
from mcranker.cli.signals import run as run_loop
from mcranker.cli.teams_view import show_record
from mcranker.cli.verb import Verb, flag, output_flag, quiet_flag
from mcranker.events import Event
from mcranker.rankers.mcranker import MCRanker
from personas import Team, dumps
from personas.console import print_page
from personas.files import FORMATS
from personas.io.atomic import write_whole
from personas.ranking.types import Query


def _recruit(ctx: click.Context) -> int:
    params = ctx.params
    invocation = ctx.ensure_object(Invocation)
    out, quiet = params["out"], params["quiet"]
    if out is not None and Path(out).suffix.lower() not in FORMATS:
        raise click.UsageError(f"--out {out!r}: the name must end in .yaml, .yml or .json", ctx)
    if params["lock"] and out is None and params["output"] != "json":
        raise click.UsageError("--lock goes with --out FILE or --output json", ctx)
    given = given_options(ctx)
    if given.ranker != MCRanker.name:
        raise click.UsageError(f"the ranker {given.ranker!r} recruits no team; leave it out", ctx)
    invocation.doing("getting ready; nothing was sent")
    live = live_is_wanted(quiet=quiet)
    with invocation.noting(live):
        fetch_models(given.models, quiet=quiet)
        ranker = given.make()
    assert isinstance(ranker, MCRanker)
    query, example = Query(params["query"]), params["example"]
    team = run_loop(partial(_team_for, ranker, query, example, invocation, live=live))
    invocation.doing("writing the team")
    if params["lock"]:
        team = team.lock()
    unwritten: Failure | None = None
    if out is not None:
        try:
            with saying_where(given.ledger):
                write_whole(out, dumps(team, format=FORMATS[Path(out).suffix.lower()]))
        except OSError as error:  # the team is shown all the same
            unwritten = failure(error)
            say(f"error: {unwritten.message}")
    if params["output"] == "json":
        errors = [unwritten.entry] if unwritten else []
        print_json(ERROR if unwritten else DONE, errors, team=team.model_dump(mode="json"))
    else:
        print_page(lambda console: show_record(console, team))
    return ERROR if unwritten else DONE


async def _team_for(
    ranker: MCRanker, query: Query, example: str | None, invocation: Invocation, *, live: bool
) -> Team:
    tracker = QueryTracker.of(ranker)
    invocation.reached = lambda: tracker.reached
    async with ranker:
        with ProgressDisplay(tracker, wanted=live) as display, invocation.held():

            async def take(event: Event) -> None:
                tracker.take(event)
                display.update()

            return await ranker.arecruit_team(query, example, emit=take)


command = Verb(
    "recruit",
    _recruit,
    params=[
        click.Argument(["query"]),
        flag(
            "--example",
            "A passage of the kind that will be judged, for the recruiter to see.",
            metavar="PASSAGE",
            section="Input",
        ),
        *option_flags(without=("ranker", "scoring", "ensemble", "depth")),
        flag(
            "--out",
            "Save the team as .yaml or .json, for --team of 'mcranker rank'.",
            type=Writes(),
            section="Output",
        ),
        output_flag("team", section="Output"),
        flag(
            "--lock",
            "Lock what is saved: no one joins it later, and no criteria are written for it.",
            is_flag=True,
            section="Output",
        ),
        quiet_flag(),
    ],
    help="""Recruit a team for a query and let it write its criteria, without scoring anything.

    A team given by --team is completed: recruits join it up to --team-size, and missing criteria
    are written.

    \b
      mcranker recruit "best masks against covid" --out team.yaml
      mcranker rank "best masks against covid" --docs passages.jsonl --team team.yaml
      mcranker recruit "best masks against covid" --team clinician --team lawyer \\
          --team-size 4 --out team.yaml --lock
      mcranker recruit "best masks against covid" --team ranking.json --out team.yaml
    """,
)
