"""What differs between teams, members or rubrics as lines: the same in terminals and on pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from personas.provenance import ORIGINS
from personas.schema import Criterion, Member
from personas.team_diff import (
    Changed,
    CriterionDiff,
    MemberDiff,
    Moved,
    RubricDiff,
    TeamDiff,
)
from personas.words import exact, weight

Mark: TypeAlias = Literal["+", "-", "~", ">", "!"]
"""Added, removed, changed, elsewhere, and a remark on the lines before."""

_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line.

    Attributes:
        mark: what happened.
        said: to what; foreign text.
        level: how far it is indented, from 0.
        heads: whether it begins what differs in a member.
    """

    mark: Mark
    said: str
    level: int
    heads: bool = False


def diff_lines(diff: TeamDiff | MemberDiff | RubricDiff) -> Iterator[DiffLine]:
    """Everything that differs, of the team first."""
    if isinstance(diff, TeamDiff):
        yield from _team(diff)
    elif isinstance(diff, MemberDiff):
        yield from _member(diff, 0)
    else:
        yield from _rubric(diff, 0)


def _team(diff: TeamDiff) -> Iterator[DiffLine]:
    yield from _texts("name", diff.title, 0)
    yield from _texts("description", diff.description, 0)
    yield from _texts("query", diff.query, 0)
    if diff.locked:
        said = "locked: no → yes" if diff.locked.after else "locked: yes → no"
        yield DiffLine("~", said, 0)
    for member in diff.added:
        yield from _whole_member("+", member)
    for member in diff.removed:
        yield from _whole_member("-", member)
    for changed in diff.changed:
        yield from _member(changed, 0)
    yield from _moves(diff.moved, 0)


def _member(diff: MemberDiff, level: int) -> Iterator[DiffLine]:
    was = f", was {diff.renamed.before}" if diff.renamed else ""
    yield DiffLine("~", f"{diff.name}{was}", level, heads=True)
    yield from _texts("description", diff.description, level + 1)
    yield from _texts("why", diff.reason, level + 1)
    if diff.topics:
        yield _topics(diff.topics, level + 1)
    if diff.origin:
        before, after = ORIGINS[diff.origin.before], ORIGINS[diff.origin.after]
        yield DiffLine("~", f"{before} → {after}", level + 1)
    if diff.whole_rubric:
        for criterion in diff.whole_rubric.before.criteria if diff.whole_rubric.before else ():
            yield _criterion("-", criterion, level + 1)
        for criterion in diff.whole_rubric.after.criteria if diff.whole_rubric.after else ():
            yield _criterion("+", criterion, level + 1)
    if diff.rubric:
        yield from _rubric(diff.rubric, level + 1)
    if diff.by_model:
        yield DiffLine("~", "notes on what a model wrote", level + 1)


def _rubric(diff: RubricDiff, level: int) -> Iterator[DiffLine]:
    yield from _texts("reason", diff.reason, level)
    for criterion in diff.added:
        yield _criterion("+", criterion, level)
    for criterion in diff.removed:
        yield _criterion("-", criterion, level)
    for changed in diff.changed:
        yield from _changed_criterion(changed, level)
    scaled = _scaled(diff)
    if scaled:
        yield DiffLine("!", scaled, level)
    yield from _moves(diff.moved, level)


def _scaled(diff: RubricDiff) -> str:
    """What weights were typed, where those of all other criteria shrank or grew alike."""
    kept = [
        each for each in diff.changed if each.weight and each.weight.before and each.weight.after
    ]
    shares = [each.weight.after / each.weight.before for each in kept if each.weight]
    alike = next(
        (one for one in shares if sum(abs(other - one) < _TINY for other in shares) > 1), None
    )
    if alike is None or abs(alike - 1) < _TINY:
        return ""
    typed = [
        (each.name, each.weight.after / alike)
        for each, share in zip(kept, shares, strict=True)
        if each.weight and abs(share - alike) >= _TINY
    ]
    typed += [(each.name, each.weight / alike) for each in diff.added]
    if not typed:
        return ""
    said = ", ".join(
        f"{name}, given {exact(round(given, 3))}, counts {weight(given * alike)}"
        for name, given in typed
    )
    return f"the weights given sum to {exact(round(100 / alike, 3))} and are brought to 100: {said}"


def _whole_member(mark: Mark, member: Member) -> Iterator[DiffLine]:
    yield DiffLine(mark, f"{member.name}, {ORIGINS[member.origin]}", 0, heads=True)
    if member.persona.description:
        yield DiffLine(mark, member.persona.description, 1)
    for criterion in member.rubric.criteria if member.rubric else ():
        yield _criterion(mark, criterion, 1)


def _criterion(mark: Mark, criterion: Criterion, level: int) -> DiffLine:
    said = f": {criterion.description}" if criterion.description else ""
    return DiffLine(mark, f"{weight(criterion.weight)} {criterion.name}{said}", level)


def _changed_criterion(diff: CriterionDiff, level: int) -> Iterator[DiffLine]:
    was = f", was {diff.renamed.before}" if diff.renamed else ""
    weights = f": {_weights(diff.weight)}" if diff.weight else ""
    yield DiffLine("~", f"{diff.name}{was}{weights}", level)
    if diff.description:
        yield from _before_and_after(diff.description, level + 1)


def _topics(topics: Changed[tuple[str, ...]], level: int) -> DiffLine:
    new = [f"+{topic}" for topic in topics.after if topic not in topics.before]
    gone = [f"-{topic}" for topic in topics.before if topic not in topics.after]
    said = ", ".join(new + gone) or "in another order"
    return DiffLine("~", f"topics: {said}", level)


def _texts(label: str, texts: Changed[str] | None, level: int) -> Iterator[DiffLine]:
    if texts:
        yield DiffLine("~", label, level)
        yield from _before_and_after(texts, level + 1)


def _before_and_after(texts: Changed[str], level: int) -> Iterator[DiffLine]:
    if texts.before:
        yield DiffLine("-", texts.before, level)
    if texts.after:
        yield DiffLine("+", texts.after, level)


def _moves(moved: Sequence[Moved], level: int) -> Iterator[DiffLine]:
    for each in moved:
        yield DiffLine(">", f"{each.name}: from place {each.before} to {each.after}", level)


def _weights(weights: Changed[float]) -> str:
    before, after = weight(weights.before), weight(weights.after)
    if before == after:
        before, after = f"{weights.before:.6f}%", f"{weights.after:.6f}%"
    return f"{before} → {after}"
