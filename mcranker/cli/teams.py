"""Teams: ``mcranker recruit``, ``personas list`` and ``personas show``."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from mcranker.cli.invocation import Invocation, run_loop, say
from mcranker.cli.options import given_options, option_flags
from mcranker.cli.output import DONE, ERROR, Failure, keep, output, present, print_json, print_line
from mcranker.cli.progress import QueryTracker, fetch_models, live_is_wanted, showing
from mcranker.cli.verb import Reads, Verb, Writes, flag, output_flag, refuse
from mcranker.paths import is_folder
from mcranker.rankers.judge import MCRanker
from personas import Member, Persona, Rubric, SchemaError, Team, dumps, library
from personas.files import FORMATS, weight_notes
from personas.format import counted, weight
from personas.io.atomic import write_whole
from personas.provenance import edited, origin
from personas.ranking.types import Query
from personas.records import check_file, edited_names, find, kind
from personas.report.screen import NOTE, Column, Screen
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.events import Event
    from personas.records import Record

_BAR = 16  # columns of a weight of 100%
_WIDE = 100  # columns from which on there is room for the persona beside its name


def _recruit(ctx: click.Context) -> int:
    params, invocation = ctx.params, ctx.ensure_object(Invocation)
    out, as_json = params["out"], params["output"] == "json"
    refuse(
        ctx,
        (
            out is not None and Path(out).suffix.lower() not in FORMATS,
            f"--out {out!r}: the name must end in .yaml, .yml or .json",
        ),
        (
            params["lock"] and out is None and not as_json,
            "--lock goes with --out FILE or --output json",
        ),
    )
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
        out,
        lambda name: write_whole(name, dumps(team, format=FORMATS[Path(name).suffix.lower()])),
        given.ledger,
    )
    code, errors = (ERROR, [unwritten.entry]) if unwritten else (DONE, [])
    record = team.model_dump(mode="json")
    return present(ctx, lambda console: show_record(console, team), code, errors, team=record)


async def _team_for(ctx: click.Context, ranker: MCRanker) -> Team:
    async with ranker:
        with showing(ctx, QueryTracker.of(ranker)) as display:

            async def take(event: Event) -> None:
                display.take(event)

            query = Query(ctx.params["query"])
            return await ranker.arecruit_team(query, ctx.params["example"], emit=take)


def _list(ctx: click.Context) -> int:
    topics, teams = ctx.params["topics"], ctx.params["teams"]
    words = [word.casefold() for word in topics]
    found = _library_teams() if teams else _library_members()
    # Every word occurs in some text of the entry.
    entries = [each for each in found if all(word in _text(each) for word in words)]
    if not entries and ctx.params["output"] != "json":
        every = "personas list --teams" if teams else "personas list"
        say(f"the library has nothing on {' '.join(topics)!r}; '{every}' shows all")
        return DONE

    def show(console: Console) -> None:
        """Print a line each, whatever the width; the last column is cut to fit."""
        wide = () if teams or console.width < _WIDE else ("persona",)
        headings = ("name", *wide, *(() if teams else ("criteria",)))
        columns = [
            Column(
                (heading,),
                [
                    Text(plain(str(each[heading])), style="cyan" * (heading == "name"))
                    for each in entries
                ],
                right=heading == "criteria",
            )
            for heading in headings
        ]
        rest = "members" if teams else "topics"
        cells = [Text(plain(", ".join(each[rest]))) for each in entries]
        Screen(console).cells(columns, rest=Column((rest,), cells, right=False))

    return present(ctx, show, **{"teams" if teams else "members": entries})


def _library_members() -> list[dict[str, Any]]:
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


def _library_teams() -> list[dict[str, Any]]:
    teams = [(name, library.team(name)) for name in library.team_names()]
    return [
        {
            "name": name,
            "team": team.name,
            "description": team.description,
            "members": list(team.names),
        }
        for name, team in teams
    ]


def _text(entry: dict[str, Any]) -> str:
    texts = (value for value in entry.values() if not isinstance(value, int))
    return " ".join(each if isinstance(each, str) else " ".join(each) for each in texts).casefold()


def _show(ctx: click.Context) -> int:
    given = ctx.params
    if given["check"]:
        return _check(ctx)
    found = [(name, find(name)) for name in given["names"]]
    records = [record for _, record in found]
    for name, _ in found:
        for _, note in weight_notes(name):
            say(f"warning: {plain(name)}: {note}")
    if given["output"] == "yaml":
        with output(None) as write:
            write(dumps(records[0] if len(records) == 1 else _one_team(records, ctx)))
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


def _one_team(records: list[Record], ctx: click.Context) -> Team:
    members = []
    for record in records:
        if not isinstance(record, Persona | Member):
            raise click.UsageError(
                f"--output yaml makes a team of several members, and one is a {kind(record)}; "
                "name members only, or nothing else",
                ctx,
            )
        members.append(Member(persona=record) if isinstance(record, Persona) else record)
    try:
        return Team(members=tuple(members))
    except ValueError as error:
        names = ", ".join(repr(member.name) for member in members)
        raise SchemaError(f"{names} are no team: a name occurs twice") from error


def _check(ctx: click.Context) -> int:
    """Check that files can be used, and list faults."""
    if ctx.params["output"] == "yaml":
        raise click.UsageError("--check goes with --output table or json", ctx)
    checked = [check_file(path) for path in _files(ctx.params["names"])]
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


def _files(names: tuple[str, ...]) -> list[Path]:
    """Return the files, and those of the folders, without repetition; a folder must have one."""
    found: list[Path] = []
    for path in map(Path, names):
        if not is_folder(path):
            found.append(path)
            continue
        below = sorted(
            each
            for each in path.rglob("*")
            if each.suffix.lower() in FORMATS
            and each.is_file()
            and not any(part.startswith(".") for part in each.relative_to(path).parts)
        )
        if not below:
            raise SchemaError(f"{path}: has no .yaml, .yml or .json file below it")
        found += below
    return list(dict.fromkeys(found))


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
            screen.words(plain(record.name), "bold cyan")
            _show_about(screen, record)
        case Rubric():
            _show_rubric(screen, record)


def _show_member(screen: Screen, member: Member, share: float | None = None) -> None:
    title = Text(plain(member.name), style="bold cyan")
    if share is not None:
        title.append(f"  counts {weight(share)}", style="not bold")
    style = "not bold yellow" if edited(member) else "not bold dim"
    screen.words(title.append(f"  {origin(member)}", style=style))
    _show_about(screen, member.persona)
    if member.rubric is None:
        screen.line("no criteria", NOTE)
    else:
        _show_rubric(screen, member.rubric)


def _show_about(screen: Screen, persona: Persona) -> None:
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

    A line each; 'personas show NAME' says all. Use their names there, in the list of members of a
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
            "Check files, and those in folders, instead; exit code 1 if one cannot be used.",
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
    member, a rubric or a persona, or a saved ranking for its team. With --output yaml,
    several members become one team.

    With --check every problem is a line with file, line, place and what to do; a good file is a
    line that says what it holds. Of a folder, all .yaml, .yml and .json files below it are checked.
    Weights that do not sum to 100 are warnings.

    \b
      personas show clinician
      personas show ranking.json --output yaml > team.yaml
      personas show nlp_scientist clinician patient --output yaml > team.yaml
      personas show team.yaml --check
    """,
)
