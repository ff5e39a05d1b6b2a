"""``personas list``: what the library has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, output_flag

if TYPE_CHECKING:
    from rich.console import Console


def _list(ctx: click.Context) -> int:
    words = [word.casefold() for word in ctx.params["topics"]]
    teams = ctx.params["teams"]
    entries = [entry for entry in (_teams() if teams else _members()) if _has(entry, words)]
    if ctx.params["output"] == "json":
        print_json(**{"teams" if teams else "members": entries})
    elif entries:
        from personas.console import print_page

        print_page(lambda console: (_show_teams if teams else _show_members)(console, entries))
    else:
        every = "personas list --teams" if teams else "personas list"
        say(f"the library has nothing on {' '.join(ctx.params['topics'])!r}; '{every}' shows all")
    return DONE


def _members() -> list[dict[str, Any]]:
    from personas import library

    named = zip(library.member_names(), library.members(), strict=True)
    return [
        {
            "name": name,
            "persona": member.name,
            "description": member.persona.description,
            "topics": list(member.persona.topics),
            "criteria": len(member.rubric.criteria) if member.rubric else 0,
        }
        for name, member in named
    ]


def _teams() -> list[dict[str, Any]]:
    from personas import library

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


def _has(entry: dict[str, Any], words: list[str]) -> bool:
    """Whether every word occurs in some text of the entry."""
    text = " ".join(
        value if isinstance(value, str) else " ".join(value)
        for value in entry.values()
        if not isinstance(value, int)
    ).casefold()
    return all(word in text for word in words)


def _show_members(console: Console, entries: list[dict[str, Any]]) -> None:
    from rich.table import Column

    from personas.console import table

    # A line each, whatever the width; 'personas show' says all.
    persona = Column("persona", no_wrap=True, min_width=_longest(entries, "persona"))
    name = Column("name", style="cyan", no_wrap=True, min_width=_longest(entries, "name"))
    criteria = Column("criteria", justify="right", no_wrap=True, min_width=len("criteria"))
    topics = Column("topics", ratio=1, no_wrap=True, overflow="ellipsis")
    rows = (
        (each["name"], each["persona"], str(each["criteria"]), ", ".join(each["topics"]))
        for each in entries
    )
    console.print(table([name, persona, criteria, topics], rows))


def _longest(entries: list[dict[str, Any]], key: str) -> int:
    return max(len(each[key]) for each in entries)


def _show_teams(console: Console, entries: list[dict[str, Any]]) -> None:
    from rich.table import Column

    from personas.console import table

    columns = [
        Column("name", style="cyan", no_wrap=True, min_width=_longest(entries, "name")),
        Column("members", ratio=2, no_wrap=True, overflow="ellipsis"),
        Column("what for", ratio=3, no_wrap=True, overflow="ellipsis"),
    ]
    rows = ((each["name"], ", ".join(each["members"]), each["description"]) for each in entries)
    console.print(table(columns, rows))


command = Verb(
    "list",
    _list,
    params=[
        click.Argument(["topics"], metavar="[TOPIC]...", nargs=-1),
        click.Option(["--teams"], is_flag=True, help="List the teams instead of the personas."),
        output_flag("members or teams,"),
    ],
    help="""List the personas of the library that have to do with every TOPIC, or all.

    Use their names with 'personas show', in the list of members of a team's file, and in
    team=[...] in Python; a team's name with --team of 'mcranker rank'.

    \b
      personas list
      personas list medicine drug
      personas list --teams
    """,
)
