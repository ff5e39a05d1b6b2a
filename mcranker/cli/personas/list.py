"""``personas list``: what the library has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mcranker.cli.failures import DONE, print_json
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, output_flag
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 100  # columns from which on there is room for the persona beside its name


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
    """True if every word occurs in some text of the entry."""
    text = " ".join(
        value if isinstance(value, str) else " ".join(value)
        for value in entry.values()
        if not isinstance(value, int)
    ).casefold()
    return all(word in text for word in words)


def _show_members(console: Console, entries: list[dict[str, Any]]) -> None:
    wide = console.width >= _WIDE
    shown = [
        {**each, "topics": ", ".join(each["topics"]), "criteria": str(each["criteria"])}
        for each in entries
    ]
    _show(console, shown, ("name", *(("persona",) if wide else ()), "criteria"), "topics")


def _show_teams(console: Console, entries: list[dict[str, Any]]) -> None:
    shown = [{**each, "members": ", ".join(each["members"])} for each in entries]
    _show(console, shown, ("name",), "members")


def _show(
    console: Console, entries: list[dict[str, Any]], whole: tuple[str, ...], cut: str
) -> None:
    """A line each, whatever the width: columns that are `whole`, and one that is cut to fit."""
    from rich.text import Text

    from personas.report.terminal.screen import Column, Screen

    screen = Screen(console)
    columns = [
        Column(
            (heading,),
            [Text(plain(each[heading]), style="cyan" * (heading == "name")) for each in entries],
            right=heading == "criteria",
        )
        for heading in whole
    ]
    cells = [Text(plain(each[cut])) for each in entries]
    screen.cells(columns, rest=Column((cut,), cells, right=False))


command = Verb(
    "list",
    _list,
    params=[
        click.Argument(["topics"], metavar="[TOPIC]...", nargs=-1),
        click.Option(["--teams"], is_flag=True, help="List the teams instead of the personas."),
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
