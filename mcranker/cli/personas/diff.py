"""``personas diff``: what differs between two teams, members or rubrics."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from pydantic import BaseModel
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcranker.cli.failures import DONE, ERROR, Failure, print_json
from mcranker.cli.files import print_line
from mcranker.cli.verb import Verb, flag, output_flag
from personas import Member, Persona, Rubric, Team, diff_teams
from personas.console import print_page
from personas.files import written_weights
from personas.records import Record, find, kind
from personas.report.diff_lines import diff_lines
from personas.sanitize import plain
from personas.team_diff import MemberDiff, RubricDiff, TeamDiff, diff_members, diff_rubrics

if TYPE_CHECKING:
    from rich.console import Console

Diff: TypeAlias = TeamDiff | MemberDiff | RubricDiff

INDENT = 2  # columns a level
_STYLES = {"+": "green", "-": "red", "~": "yellow", ">": "cyan"}


def _diff(ctx: click.Context) -> int:
    given = ctx.params
    found = _compared(find(given["a"]), find(given["b"]), ctx)
    code = ERROR if found and given["exit_code"] else DONE
    if given["output"] == "json":
        message = f"{given['a']!r} and {given['b']!r} differ"
        errors = [Failure("Differs", message).entry] if code else []
        print_json(code, errors, differs=bool(found), diff=_plain_data(asdict(found)))
    elif found:
        print_page(lambda console: _show_diff(console, found, given["a"], given["b"]))
    else:
        print_line("no differences")
    return code


def _compared(before: Record, after: Record, ctx: click.Context) -> Diff:
    if isinstance(before, Team) and isinstance(after, Team):
        return diff_teams(before, after)
    if isinstance(before, Rubric) and isinstance(after, Rubric):
        return diff_rubrics(before, after)
    first = Member(persona=before) if isinstance(before, Persona) else before
    second = Member(persona=after) if isinstance(after, Persona) else after
    if isinstance(first, Member) and isinstance(second, Member):
        return diff_members(first, second)
    raise click.UsageError(
        f"{ctx.params['a']!r} is a {kind(before)} and {ctx.params['b']!r} a {kind(after)}; "
        "give two of a kind",
        ctx,
    )


def _plain_data(value: Any) -> Any:
    """The difference as JSON takes it, without what did not change."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, dict):
        whole = value.keys() == {"before", "after"}
        return {
            key: _plain_data(each) for key, each in value.items() if whole or each not in (None, ())
        }
    if isinstance(value, tuple):
        return [_plain_data(each) for each in value]
    return value


def _show_diff(console: Console, diff: Diff, before: str, after: str) -> None:
    """Print all differences, those of the team first; weights as the files have them."""
    for each in diff_lines(diff, before=written_weights(before), after=written_weights(after)):
        style = f"{'bold ' if each.heads else ''}{_STYLES[each.mark]}"
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_row(Text(each.mark, style=style), Text(plain(each.said), style=style))
        console.print(Padding(row, (0, 0, 0, INDENT * each.level)))


command = Verb(
    "diff",
    _diff,
    params=[
        click.Argument(["a"], metavar="A"),
        click.Argument(["b"], metavar="B"),
        flag("--exit-code", "Exit code 1 if they differ.", is_flag=True),
        output_flag("differs, diff"),
    ],
    help="""See what differs between two teams, members or rubrics: the changes from A to B.

    A and B are files, or names of the library. Members and criteria are matched by their names;
    one under another name is the same where its text clearly is.

    \b
      personas diff team.yaml edited.yaml
      personas diff clinician my_clinician.yaml
    """,
)
