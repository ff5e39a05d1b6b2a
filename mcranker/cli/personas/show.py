"""``personas show``: a persona, rubric or team in full, and who wrote what of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import Reads, Writes, output
from mcranker.cli.invocation import say
from mcranker.cli.made import command_line, today
from mcranker.cli.number_types import WholeNumber
from mcranker.cli.verb import Verb, output_flag
from personas.sanitize import plain

MOST = 10_000
"""Passages, and words of each, that a cost can be estimated for."""

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.cli.personas.records import Record
    from personas import Team


def _show(ctx: click.Context) -> int:
    from mcranker.cli.personas.records import as_dict, find, hands, kind
    from personas.files import weight_notes

    found = [(name, find(name)) for name in ctx.params["names"]]
    for name, _ in found:
        for _, note in weight_notes(name):
            say(f"warning: {plain(name)}: {note}")
    form = ctx.params["output"]
    if ctx.params["html"] is not None:
        _write_page(ctx, found)
    elif form == "table":
        from personas.console import print_page

        print_page(lambda console: _show_records(console, found))
    elif form == "yaml":
        from personas import dumps

        records = [record for _, record in found]
        with output(None) as write:
            write(dumps(records[0] if len(records) == 1 else _one_team(records, ctx)))
    else:
        entries = [
            {
                "source": name,
                "kind": kind(record),
                "record": as_dict(record),
                "written_by": hands(record),
            }
            for name, record in found
        ]
        print_json(records=entries)
    return DONE


def _write_page(ctx: click.Context, found: list[tuple[str, Record]]) -> None:
    from mcranker.team_page import render_team_page
    from personas import Team
    from personas.io.atomic import write_whole

    given = ctx.params
    if given["output"] != "table":
        raise click.UsageError("--html writes the page and prints nothing; leave --output out", ctx)
    html = given["html"]
    records = [record for _, record in found]
    team = records[0] if isinstance(records[0], Team) and len(records) == 1 else None
    if team is None:
        team = _one_team(records, ctx, "--html")
    source = found[0][0] if len(found) == 1 else ""
    page = render_team_page(
        team,
        passages=given["passages"],
        words=given["words"],
        model=given["model"],
        source=source,
        date=today(),
        command=command_line(ctx),
    )
    write_whole(html, page)
    say(f"the page is {html}")


def _one_team(records: list[Record], ctx: click.Context, flag: str = "--output yaml") -> Team:
    from mcranker.cli.personas.records import kind
    from personas import Member, Persona, SchemaError, Team

    members = []
    for record in records:
        if isinstance(record, Persona):
            members.append(Member(persona=record))
        elif isinstance(record, Member):
            members.append(record)
        else:
            raise click.UsageError(
                f"{flag} makes a team of several members, and one is a {kind(record)}; "
                "name members only, or nothing else",
                ctx,
            )
    try:
        return Team(members=tuple(members))
    except ValueError as error:
        names = ", ".join(repr(member.name) for member in members)
        raise SchemaError(f"{names} are no team: a name occurs twice") from error


def _show_records(console: Console, found: list[tuple[str, Record]]) -> None:
    from rich.text import Text

    from mcranker.cli.teams_view import line

    for place, (name, record) in enumerate(found):
        if len(found) > 1:
            if place:
                console.print()
            line(console, Text(plain(name), style="dim"))
        _show_record(console, record)


def _show_record(console: Console, record: Record) -> None:
    from mcranker.cli.teams_view import show_member, show_persona, show_rubric, show_team
    from personas import Member, Persona, Team

    if isinstance(record, Team):
        show_team(console, record)
    elif isinstance(record, Member):
        show_member(console, record)
    elif isinstance(record, Persona):
        show_persona(console, record)
    else:
        show_rubric(console, record)


command = Verb(
    "show",
    _show,
    params=[
        click.Argument(["names"], type=Reads(), metavar="NAME|FILE...", nargs=-1, required=True),
        output_flag(
            "records",
            forms=("table", "yaml", "json"),
            said="yaml: ready to be kept as a file and edited. ",
        ),
        click.Option(
            ["--html"],
            type=Writes(),
            help="Write an HTML page of the team instead, to be signed off before it judges: with "
            "what is asked twice, and what each persona costs.",
        ),
        click.Option(
            ["--passages"],
            type=WholeNumber(min=1, max=MOST),
            default=100,
            show_default=True,
            help="Passages of a query, for the costs on the page.",
        ),
        click.Option(
            ["--words"],
            type=WholeNumber(min=1, max=MOST),
            default=150,
            show_default=True,
            help="Words of a passage, for the costs on the page.",
        ),
        click.Option(
            ["--model"],
            metavar="NAME",
            help="Whose prices are taken for the page; without, calls and tokens only.",
        ),
    ],
    help="""Show personas, rubrics and teams in full, and who wrote which part.

    NAME is a persona or a team of the library, FILE a .yaml or .json file with a team, a
    member, a rubric or a persona, or a saved ranking for its team. With --output yaml or --html,
    several members become one team.

    \b
      personas show clinician
      personas show team.yaml
      personas show ranking.json --output yaml > team.yaml
      personas show team.yaml --html team.html --model openai:gpt-5-mini
      personas show nlp_scientist clinician patient --output yaml > team.yaml
    """,
)
