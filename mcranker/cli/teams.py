"""Teams: ``mcranker recruit``, ``personas list`` and ``personas show``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Column
from rich.text import Text

from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, ERROR, Failure, keep, present, print_json, print_line
from mcranker.cli.progress import QueryTracker, fetch_models, live_is_wanted, showing
from mcranker.cli.verb import Reads, Verb, Writes, flag, output_flag
from mcranker.rankers.judge import MCRanker
from personas import Member, Persona, Rubric, Team, dumps, library
from personas.console import names, numbers, table
from personas.files import FORMATS, check_file, edited_names, find, kind, weight_notes
from personas.format import counted, weight
from personas.io.atomic import write_whole
from personas.provenance import edited, origin
from personas.ranking.types import Query
from personas.report.screen import NOTE, Screen
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.events import Event
    from personas.files import Record

_BAR = 16  # columns of a weight of 100%


def _recruit(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    out, form = params["out"], None if params["out"] is None else Path(params["out"]).suffix.lower()
    if form is not None and form not in FORMATS:
        raise click.UsageError(f"--out {out!r}: the name must end in .yaml, .yml or .json", ctx)
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
        with showing(ctx, QueryTracker()) as display:

            async def take(event: Event) -> None:
                display.take(event)

            query = Query(ctx.params["query"])
            return await ranker.arecruit_team(query, ctx.params["example"], emit=take)


def _list(ctx: click.Context) -> int:
    topics, teams = ctx.params["topics"], ctx.params["teams"]
    entries = [each for each in _library(teams=teams) if _is_about(each, topics)]
    if not entries and ctx.params["output"] != "json":
        every = "personas list --teams" if teams else "personas list"
        say(f"the library has nothing on {' '.join(topics)!r}; '{every}' shows all")
        return DONE
    rest = "members" if teams else "topics"
    columns = [names("name"), *([] if teams else numbers("criteria")), Column(rest)]
    counts = [[] if teams else [str(each["criteria"])] for each in entries]
    rows = [
        (each["name"], *count, ", ".join(each[rest]))
        for each, count in zip(entries, counts, strict=True)
    ]
    made = table(columns, rows)
    return present(
        ctx, lambda console: console.print(made), **{"teams" if teams else "members": entries}
    )


def _library(*, teams: bool) -> list[dict[str, Any]]:
    if teams:
        return [
            {
                "name": name,
                "team": team.name,
                "description": team.description,
                "members": list(team.names),
            }
            for name, team in ((name, library.team(name)) for name in library.team_names())
        ]
    return [
        {
            "name": name,
            "persona": member.name,
            "description": member.persona.description,
            "topics": list(member.persona.topics),
            "criteria": len(member.rubric.criteria) if member.rubric else 0,
        }
        for name, member in zip(library.member_names(), library.members(), strict=True)
    ]


def _is_about(entry: dict[str, Any], words: Iterable[str]) -> bool:
    """True if every word occurs in some text of the entry."""
    texts = " ".join(
        " ".join(value) if isinstance(value, list) else str(value) for value in entry.values()
    )
    return all(word.casefold() in texts.casefold() for word in words)


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
            "kind": kind(record),
            "record": record.model_dump(mode="json", exclude_defaults=True),
            "edited": edited_names(record),
        }
        for name, record in found
    ]

    def show(console: Console) -> None:
        for place, (name, record) in enumerate(found):
            if place:
                console.print()
            if len(found) > 1:
                console.print(Text(plain(name), style="dim"), no_wrap=True, overflow="ellipsis")
            show_record(console, record)

    return present(ctx, show, records=entries)


def _check(ctx: click.Context) -> int:
    """Check that files can be used, and list faults."""
    if ctx.params["output"] == "yaml":
        raise click.UsageError("--check goes with --output table or json", ctx)
    checked = [check_file(Path(name)) for name in dict.fromkeys(ctx.params["names"])]
    bad = [each for each in checked if each.problems]
    code = ERROR if bad else DONE
    message = f"{len(bad):,} of {counted(len(checked), 'file')} cannot be used"
    if ctx.params["output"] == "json":
        errors = [Failure("SchemaError", message).entry] if bad else []
        print_json(code, errors, files=[asdict(each) for each in checked])
    else:
        for each in checked:
            for text in each.problems or [f"{each.file}: {each.holds}"]:
                print_line(plain(text))
            for text in each.warnings:
                say(f"warning: {text}")
    if bad:
        say(f"error: {message}")
    return code


def show_record(console: Console, record: Record) -> None:
    """Show a team, member, persona or rubric in full."""
    screen = Screen(console)
    match record:
        case Team():
            for text in filter(None, (record.name, record.query)):
                screen.words(plain(text), "bold")
            if record.description:
                screen.words(plain(record.description))
            locked = ", locked: nothing is recruited or rewritten" if record.locked else ""
            members = counted(len(record.members), "member")
            screen.words(f"{members}, digest {record.digest}{locked}", NOTE)
            for member in record.members:
                screen.line()
                _show_member(screen, member, record.shares.get(member.name))
        case Member():
            _show_member(screen, record)
        case Persona():
            _show_persona(screen, record, Text(plain(record.name), style="bold cyan"))
        case Rubric():
            _show_rubric(screen, record)


def _show_member(screen: Screen, member: Member, share: float | None = None) -> None:
    title = Text(plain(member.name), style="bold cyan")
    if share is not None:
        title.append(f"  counts {weight(share)}", style="not bold")
    style = "not bold yellow" if edited(member) else "not bold dim"
    _show_persona(screen, member.persona, title.append(f"  {origin(member)}", style=style))
    if member.rubric is None:
        screen.line("no criteria", NOTE)
    else:
        _show_rubric(screen, member.rubric)


def _show_persona(screen: Screen, persona: Persona, title: Text) -> None:
    screen.words(title)
    labelled = (("", persona.description), ("why: ", persona.reason))
    for label, said in (*labelled, ("topics: ", ", ".join(persona.topics))):
        if said:
            screen.words(Text(label, style=NOTE).append(plain(said), style="not dim"))


def _show_rubric(screen: Screen, rubric: Rubric) -> None:
    """The criteria with their weights as bars."""
    if rubric.reason:
        screen.words(plain(rubric.reason))
    for criterion in rubric.criteria:
        line = screen.bar(criterion.weight / 100, _BAR)
        line.append(f" {weight(criterion.weight):>5}  ", style="not cyan")
        line.append(plain(criterion.name), style="bold not cyan")
        screen.words(line, hang=_BAR + 8)
        if criterion.description:
            screen.words(plain(criterion.description), indent=_BAR + 8)


out = partial(flag, section="Output")

recruit = Verb(
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
        flag(
            "--check",
            "Check files instead; exit code 1 if one cannot be used.",
            is_flag=True,
        ),
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
