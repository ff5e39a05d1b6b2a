"""Teams: ``mcranker recruit``, ``personas list`` and ``personas show``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from mcranker.cli.flags import Reads, Verb, Writes, flag, output_flag
from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, ERROR, Failure, keep, present, print_json, print_line
from mcranker.cli.progress import Tracker, fetch_models, live_is_wanted, showing
from mcranker.rankers.judge import MCRanker
from personas import Member, Team, dumps, library
from personas.console import names, numbers, table
from personas.files import FORMATS, Record, check_file, find, weight_notes
from personas.format import counted
from personas.io.atomic import write_whole
from personas.origins import edited
from personas.ranking.types import Query
from personas.report.terminal import show_record
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.events import Event


def _recruit(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    out, form = params["out"], None if params["out"] is None else Path(params["out"]).suffix.lower()
    if form is not None and form not in FORMATS:
        raise click.UsageError(f"--out {out!r}: the name must end in .yaml, .yml or .json", ctx)
    if params["lock"] and out is None and params["output"] != "json":
        raise click.UsageError("--lock goes with --out FILE or --output json", ctx)
    given = given_options(ctx)
    if given.ranker != MCRanker.name:
        raise click.UsageError(f"the ranker {given.ranker!r} recruits no team; leave it out", ctx)
    invocation.doing("getting ready; nothing was sent")
    with invocation.noting(live_is_wanted(quiet=params["quiet"])):
        fetch_models(given.models, quiet=params["quiet"])
        ranker = given.make()
    assert isinstance(ranker, MCRanker)
    team = run_loop(partial(_team_for, ctx, ranker))
    invocation.doing("writing the team")
    if params["lock"]:
        team = team.lock()
    # Where it cannot be written, the team is shown all the same.
    unwritten = keep(
        out, lambda name: write_whole(name, dumps(team, format=FORMATS[form or ""])), given.ledger
    )
    code, errors = (ERROR, [unwritten.entry]) if unwritten else (DONE, [])
    record = team.model_dump(mode="json")
    return present(ctx, lambda console: show_record(console, team), code, errors, team=record)


async def _team_for(ctx: click.Context, ranker: MCRanker) -> Team:
    async with ranker:
        with showing(ctx, Tracker("starting", unit="")) as display:

            async def take(event: Event) -> None:
                display.take(event)

            query = Query(ctx.params["query"])
            return await ranker.arecruit_team(query, ctx.params["example"], emit=take)


def _list(ctx: click.Context) -> int:
    topics, teams = ctx.params["topics"], ctx.params["teams"]
    entries = [each for each in (_teams() if teams else _members()) if _is_about(each, topics)]
    if not entries and ctx.params["output"] != "json":
        command = f"personas list{' --teams' * teams}"
        say(f"the library has nothing on {' '.join(topics)!r}; '{command}' shows all")
        return DONE
    if teams:
        made = table(
            [names("name"), "members"], ([x["name"], ", ".join(x["members"])] for x in entries)
        )
    else:
        rows = ([x["name"], str(x["criteria"]), ", ".join(x["topics"])] for x in entries)
        made = table([names("name"), *numbers("criteria"), "topics"], rows)
    kind = "teams" if teams else "members"
    return present(ctx, lambda console: console.print(made), **{kind: entries})


def _teams() -> Iterator[dict[str, Any]]:
    for name in library.team_names():
        team = library.team(name)
        said = {"team": team.name, "description": team.description}
        yield {"name": name, **said, "members": list(team.names)}


def _members() -> Iterator[dict[str, Any]]:
    for name, member in zip(library.member_names(), library.members(), strict=True):
        persona, criteria = member.persona, member.rubric.criteria if member.rubric else ()
        said = {"persona": persona.name, "description": persona.description}
        yield {"name": name, **said, "topics": list(persona.topics), "criteria": len(criteria)}


def _is_about(entry: dict[str, Any], words: Iterable[str]) -> bool:
    texts = str(list(entry.values())).casefold()
    return all(word.casefold() in texts for word in words)


def _show(ctx: click.Context) -> int:
    given = ctx.params
    if given["check"]:
        return _check(ctx)
    if given["output"] == "yaml" and len(given["names"]) > 1:
        raise click.UsageError("--output yaml writes one file; name one persona or team", ctx)
    found = [(name, find(name)) for name in given["names"]]
    for name, _ in found:
        for _, note in weight_notes(name):
            say(f"warning: {plain(name)}: {note}")
    if given["output"] == "yaml":
        print_line(dumps(found[0][1]).rstrip("\n"))
        return DONE
    entries = [
        {
            "source": name,
            "kind": type(record).__name__.lower(),
            "edited": [each.name for each in _members_of(record) if edited(each)],
            "record": record.model_dump(mode="json", exclude_defaults=True),
        }
        for name, record in found
    ]

    def show(console: Console) -> None:
        for place, (name, record) in enumerate(found):
            if len(found) > 1:
                title = Text("\n" * (place > 0) + plain(name), style="dim")
                console.print(title, no_wrap=True, overflow="ellipsis")
            show_record(console, record)

    return present(ctx, show, records=entries)


def _members_of(record: Record) -> Iterable[Member]:
    if isinstance(record, Team):
        return record.members
    return (record,) if isinstance(record, Member) else ()


def _check(ctx: click.Context) -> int:
    if ctx.params["output"] == "yaml":
        raise click.UsageError("--check goes with --output table or json", ctx)
    checked = [check_file(Path(name)) for name in dict.fromkeys(ctx.params["names"])]
    bad = [each for each in checked if each.problems]
    code = ERROR if bad else DONE
    message = f"{len(bad):,} of {counted(len(checked), 'file')} cannot be used"
    errors = [Failure("SchemaError", message).entry] if bad else []
    for each in checked if ctx.params["output"] == "table" else ():
        for text in each.problems or [f"{each.file}: {each.holds}"]:
            print_line(plain(text))
        for text in each.warnings:
            say(f"warning: {text}")
    if ctx.params["output"] == "json":
        print_json(code, errors, files=[asdict(each) for each in checked])
    if bad:
        say(f"error: {message}")
    return code


out = partial(flag, section="Output")

recruit = Verb(
    "recruit",
    _recruit,
    params=[
        click.Argument(["query"]),
        flag("--example", "A passage that the recruiter sees.", metavar="PASSAGE", section="Input"),
        *option_flags(without=("ranker", "scoring", "ensemble", "depth")),
        out("--out", "Save the team as .yaml or .json, for --team.", type=Writes()),
        output_flag("team", section="Output"),
        out("--lock", "Lock it: no one joins it later, and it gets no criteria.", is_flag=True),
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

members = Verb(
    "list",
    _list,
    params=[
        click.Argument(["topics"], metavar="[TOPIC]...", nargs=-1),
        flag("--teams", "List the teams instead of the personas.", is_flag=True),
        output_flag("members or teams,"),
    ],
    help="""List the personas of the library that have to do with every TOPIC, or all.

    'personas show NAME' says all. Use their names there, in the list of members of a
    team's file, and in team=[...] in Python; a team's name with --team of 'mcranker rank'.

    \b
      personas list
      personas list medicine drug
      personas list --teams
    """,
)

show = Verb(
    "show",
    _show,
    params=[
        click.Argument(["names"], type=Reads(), metavar="NAME|FILE...", nargs=-1, required=True),
        flag("--check", "Check files instead; exit code 1 if one cannot be used.", is_flag=True),
        output_flag(
            "records (or, with --check, files)",
            forms=("table", "yaml", "json"),
            said="yaml: ready to be kept as a file and edited. ",
        ),
    ],
    help="""Show personas, rubrics and teams in full, or check files before they are used.

    NAME is a persona or a team of the library, FILE a .yaml or .json file with a team, a
    member, a rubric or a persona, or a saved ranking for its team.

    With --check every problem is a line with file, line, place and what to do; a good file is a
    line that says what it holds. Weights that do not sum to 100 are warnings.

    \b
      personas show clinician
      personas show ranking.json --output yaml > team.yaml
      personas show team.yaml --check
    """,
)
