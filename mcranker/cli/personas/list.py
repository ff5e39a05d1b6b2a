"""``personas list``: what the library has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from mcranker.cli.failures import DONE
from mcranker.cli.invocation import say
from mcranker.cli.verb import Verb, flag, output_flag, present
from personas import library
from personas.report.screen import Column, Screen
from personas.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 100  # columns from which on there is room for the persona beside its name


def _list(ctx: click.Context) -> int:
    topics, teams = ctx.params["topics"], ctx.params["teams"]
    words = [word.casefold() for word in topics]
    entries = [entry for entry in (_teams() if teams else _members()) if _has(entry, words)]
    if not entries and ctx.params["output"] != "json":
        every = "personas list --teams" if teams else "personas list"
        say(f"the library has nothing on {' '.join(topics)!r}; '{every}' shows all")
        return DONE
    return present(
        ctx,
        lambda console: _show(console, entries, teams=teams),
        **{"teams" if teams else "members": entries},
    )


def _members() -> list[dict[str, Any]]:
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


def _teams() -> list[dict[str, Any]]:
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


def _show(console: Console, entries: list[dict[str, Any]], *, teams: bool) -> None:
    """Print a line each, whatever the width; the last column is cut to fit."""
    wide = () if teams or console.width < _WIDE else ("persona",)
    columns = [
        Column(
            (heading,),
            [
                Text(plain(str(each[heading])), style="cyan" * (heading == "name"))
                for each in entries
            ],
            right=heading == "criteria",
        )
        for heading in ("name", *wide, *(() if teams else ("criteria",)))
    ]
    rest = "members" if teams else "topics"
    cells = [Text(plain(", ".join(each[rest]))) for each in entries]
    Screen(console).cells(columns, rest=Column((rest,), cells, right=False))


command = Verb(
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
