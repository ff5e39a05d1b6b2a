"""``personas show``: a persona, rubric or team in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from mcranker.cli.failures import DONE
from mcranker.cli.files import Reads, output
from mcranker.cli.invocation import say
from mcranker.cli.teams_view import show_record
from mcranker.cli.verb import Verb, output_flag, present
from personas import Member, Persona, SchemaError, Team, dumps
from personas.files import weight_notes
from personas.records import Record, edited_names, find, kind
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console


def _show(ctx: click.Context) -> int:
    given = ctx.params
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
    return present(ctx, lambda console: _show_records(console, found), records=entries)


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


def _show_records(console: Console, found: list[tuple[str, Record]]) -> None:
    for place, (name, record) in enumerate(found):
        if place:
            console.print()
        if len(found) > 1:
            console.print(Text(plain(name), style="dim"), no_wrap=True, overflow="ellipsis")
        show_record(console, record)


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
    ],
    help="""Show personas, rubrics and teams in full.

    NAME is a persona or a team of the library, FILE a .yaml or .json file with a team, a
    member, a rubric or a persona, or a saved ranking for its team. With --output yaml,
    several members become one team.

    \b
      personas show clinician
      personas show team.yaml
      personas show ranking.json --output yaml > team.yaml
      personas show nlp_scientist clinician patient --output yaml > team.yaml
    """,
)
