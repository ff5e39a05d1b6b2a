"""``personas show``: a persona, rubric or team in full, and who wrote what of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.files import output
from mcranker.cli.verb import Verb, output_flag

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.cli.personas.records import Record
    from personas import Team


def _show(ctx: click.Context) -> int:
    from mcranker.cli.personas.records import as_dict, find, hands, kind

    found = [(name, find(name)) for name in ctx.params["names"]]
    form = ctx.params["output"]
    if form == "table":
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


def _one_team(records: list[Record], ctx: click.Context) -> Team:
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
                f"--output yaml makes a team of several members, and one is a {kind(record)}; "
                "name members only, or nothing else",
                ctx,
            )
    try:
        return Team(members=tuple(members))
    except ValueError as error:
        names = ", ".join(repr(member.name) for member in members)
        raise SchemaError(f"{names} are no team: a name stands there twice") from error


def _show_records(console: Console, found: list[tuple[str, Record]]) -> None:
    from rich.text import Text

    from mcranker.cli.teams_view import line
    from personas.plain import plain

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
        click.Argument(["names"], metavar="NAME|FILE...", nargs=-1, required=True),
        output_flag(
            "records",
            forms=("table", "yaml", "json"),
            said="yaml: ready to be kept as a file and edited. ",
        ),
    ],
    help="""Show personas, rubrics and teams in full, and who wrote which part.

    NAME is a persona or a team of the library, FILE a .yaml or .json file with a team, a
    member, a rubric or a persona. With --output yaml, several members become one team.

    \b
      personas show clinician
      personas show team.yaml
      personas show nlp_scientist clinician patient --output yaml > team.yaml
    """,
)
