"""``personas diff``: what differs between two teams, members or rubrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcranker.cli.failures import DONE, ERROR, Failure, print_json
from mcranker.cli.files import print_line
from mcranker.cli.verb import Verb, output_flag
from personas.plain import plain
from personas.provenance import ORIGINS
from personas.team_diff import MemberDiff, RubricDiff, TeamDiff
from personas.words import weight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mcranker.cli.personas.records import Record
    from personas import Criterion, Member
    from personas.team_diff import Changed, CriterionDiff, Moved

    Diff: TypeAlias = TeamDiff | MemberDiff | RubricDiff

INDENT = 2  # columns a level
_STYLES = {"+": "green", "-": "red", "~": "yellow", ">": "cyan"}


def _diff(ctx: click.Context) -> int:
    from mcranker.cli.personas.records import find

    given = ctx.params
    found = _compared(find(given["a"]), find(given["b"]), ctx)
    code = ERROR if found and given["exit_code"] else DONE
    if given["output"] == "json":
        from dataclasses import asdict

        message = f"{given['a']!r} and {given['b']!r} differ"
        errors = [Failure("Differs", message).entry] if code else []
        diff = _plain_data(asdict(found))
        print_json(code, errors, differs=bool(found), diff=diff)
    elif found:
        from personas.console import print_page

        print_page(lambda console: _show_diff(console, found))
    else:
        print_line("no differences")
    return code


def _compared(before: Record, after: Record, ctx: click.Context) -> Diff:
    from mcranker.cli.personas.records import kind
    from personas import Member, Persona, Rubric, Team, diff_teams
    from personas.team_diff import diff_members, diff_rubrics

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
    """The difference as JSON takes it; what did not change is left out."""
    from pydantic import BaseModel

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


def _show_diff(console: Console, diff: TeamDiff | MemberDiff | RubricDiff) -> None:
    """Everything that differs, of the team first."""
    page = _Page(console)
    if isinstance(diff, TeamDiff):
        page.team(diff)
    elif isinstance(diff, MemberDiff):
        page.member(diff, 0)
    else:
        page.rubric(diff, 0)


class _Page:
    def __init__(self, console: Console) -> None:
        self._console = console

    def team(self, diff: TeamDiff) -> None:
        self._texts("name", diff.title, 0)
        self._texts("description", diff.description, 0)
        self._texts("query", diff.query, 0)
        if diff.locked:
            self._mark("~", "locked: no → yes" if diff.locked.after else "locked: yes → no", 0)
        for member in diff.added:
            self._whole_member("+", member)
        for member in diff.removed:
            self._whole_member("-", member)
        for changed in diff.changed:
            self.member(changed, 0)
        self._moves(diff.moved, 0)

    def member(self, diff: MemberDiff, level: int) -> None:
        was = f", was {diff.renamed.before}" if diff.renamed else ""
        self._mark("~", f"{diff.name}{was}", level, bold=True)
        self._texts("description", diff.description, level + 1)
        self._texts("why", diff.reason, level + 1)
        if diff.topics:
            self._topics(diff.topics, level + 1)
        if diff.origin:
            before, after = ORIGINS[diff.origin.before], ORIGINS[diff.origin.after]
            self._mark("~", f"{before} → {after}", level + 1)
        if diff.whole_rubric:
            for mark, rubric in (("-", diff.whole_rubric.before), ("+", diff.whole_rubric.after)):
                for criterion in rubric.criteria if rubric else ():
                    self._criterion(mark, criterion, level + 1)
        if diff.rubric:
            self.rubric(diff.rubric, level + 1)
        if diff.by_model:
            self._mark("~", "notes on what a model wrote", level + 1)

    def rubric(self, diff: RubricDiff, level: int) -> None:
        self._texts("reason", diff.reason, level)
        for criterion in diff.added:
            self._criterion("+", criterion, level)
        for criterion in diff.removed:
            self._criterion("-", criterion, level)
        for changed in diff.changed:
            self._changed_criterion(changed, level)
        self._moves(diff.moved, level)

    def _whole_member(self, mark: str, member: Member) -> None:
        self._mark(mark, f"{member.name}, {ORIGINS[member.origin]}", 0, bold=True)
        if member.persona.description:
            self._mark(mark, member.persona.description, 1)
        for criterion in member.rubric.criteria if member.rubric else ():
            self._criterion(mark, criterion, 1)

    def _criterion(self, mark: str, criterion: Criterion, level: int) -> None:
        said = f": {criterion.description}" if criterion.description else ""
        self._mark(mark, f"{weight(criterion.weight)} {criterion.name}{said}", level)

    def _changed_criterion(self, diff: CriterionDiff, level: int) -> None:
        was = f", was {diff.renamed.before}" if diff.renamed else ""
        weights = f": {_weights(diff.weight)}" if diff.weight else ""
        self._mark("~", f"{diff.name}{was}{weights}", level)
        if diff.description:
            self._before_and_after(diff.description, level + 1)

    def _topics(self, topics: Changed[tuple[str, ...]], level: int) -> None:
        new = [f"+{topic}" for topic in topics.after if topic not in topics.before]
        gone = [f"-{topic}" for topic in topics.before if topic not in topics.after]
        said = ", ".join(new + gone) or "in another order"
        self._mark("~", f"topics: {said}", level)

    def _texts(self, label: str, texts: Changed[str] | None, level: int) -> None:
        if texts:
            self._mark("~", label, level)
            self._before_and_after(texts, level + 1)

    def _before_and_after(self, texts: Changed[str], level: int) -> None:
        if texts.before:
            self._mark("-", texts.before, level)
        if texts.after:
            self._mark("+", texts.after, level)

    def _moves(self, moved: Sequence[Moved], level: int) -> None:
        for each in moved:
            self._mark(">", f"{each.name}: from place {each.before} to {each.after}", level)

    def _mark(self, mark: str, said: str, level: int, *, bold: bool = False) -> None:
        style = f"{'bold ' if bold else ''}{_STYLES[mark]}"
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_row(Text(mark, style=style), Text(plain(said), style=style))
        self._console.print(Padding(row, (0, 0, 0, INDENT * level)))


def _weights(weights: Changed[float]) -> str:
    before, after = weight(weights.before), weight(weights.after)
    if before == after:
        before, after = f"{weights.before:.6f}%", f"{weights.after:.6f}%"
    return f"{before} → {after}"


command = Verb(
    "diff",
    _diff,
    params=[
        click.Argument(["a"], metavar="A"),
        click.Argument(["b"], metavar="B"),
        click.Option(["--exit-code"], is_flag=True, help="Exit code 1 if they differ."),
        output_flag("differs, diff"),
    ],
    help="""See what differs between two teams, members or rubrics: what was done to A to get B.

    A and B are files, or names of the library. Members and criteria are told by their names;
    one under another name is the same where its text clearly is.

    \b
      personas diff team.yaml edited.yaml
      personas diff clinician my_clinician.yaml
    """,
)
