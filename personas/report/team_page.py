"""The page of a team by itself, to be read and signed off before it judges anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from personas.files import dumps
from personas.overlap import ALIKE, MOST_COMPARED, Overlap, overlaps
from personas.provenance import HANDS, ORIGINS, Hand, provenance
from personas.report.page import render_page
from personas.schema import Criterion, Member, Team
from personas.words import counted

_MEMBERS, _OVERLAPS, _SHARED_WORDS = 100, 50, 6
_DIGITS = 12
_LONGEST_FILE = 200_000
_CRITERIA = 100


@dataclass(frozen=True, slots=True)
class MemberCost:
    """What a member takes, estimated.

    Attributes:
        persona: its name.
        calls: to a model.
        input_tokens: of all prompts.
        output_tokens: of all replies.
        cost: US dollars; None if no price is known.
    """

    persona: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class TeamCosts:
    """What a team takes to judge the passages of one query, estimated.

    Attributes:
        passages: how many.
        words: of each passage.
        model: who is asked; empty for any.
        members: what each takes, in the team's order; what no persona takes for itself under an
            empty name.
    """

    passages: int
    words: int
    model: str
    members: tuple[MemberCost, ...]

    @property
    def total(self) -> MemberCost:
        """All together; its persona is empty."""
        costs = [each.cost for each in self.members]
        known = [cost for cost in costs if cost is not None]
        return MemberCost(
            "",
            sum(each.calls for each in self.members),
            sum(each.input_tokens for each in self.members),
            sum(each.output_tokens for each in self.members),
            sum(known) if len(known) == len(costs) else None,
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    number: int
    member: Member
    origin: str
    hand: str
    by_person: bool
    criteria: Sequence[tuple[Criterion, str, bool]]
    more_criteria: int
    weights: str
    shared: int


def render_team(
    team: Team,
    *,
    costs: TeamCosts | None = None,
    no_costs: str = "",
    notes: Sequence[str] = (),
    source: str = "",
) -> str:
    """The team as one HTML page that needs nothing else: who, why, by what, and at what cost.

    The same data give the same page, byte for byte.

    Args:
        team: the team.
        costs: what its members take; without, the page says nothing of it, or `no_costs`.
        no_costs: why that is not known.
        notes: what else must be known before it is signed off; a sentence each.
        source: where the team is from, such as its file.
    """
    found = overlaps(team.members)
    text = dumps(team)
    members = [
        _seen(number, member, found)
        for number, member in enumerate(team.members[:_MEMBERS], start=1)
    ]
    return render_page(
        "team_page.html",
        assets=("team_page",),
        team=team,
        title=team.name or f"Team of {counted(len(team.members), 'persona')}",
        source=source,
        members=members,
        verdict=_verdict(team, found, costs),
        notes=notes,
        overlaps=[
            (each, f"{100 * each.share:.0f}%", ", ".join(each.words[:_SHARED_WORDS]))
            for each in found[:_OVERLAPS]
        ],
        more_overlaps=max(0, len(found) - _OVERLAPS),
        alike=f"{100 * ALIKE:.0f}%",
        uncompared=max(0, _criteria_of(team) - MOST_COMPARED),
        costs=costs,
        no_costs=no_costs,
        text=text,
        longest=_LONGEST_FILE,
        digest=team_digest(team),
    )


def team_digest(team: Team) -> str:
    """12 hexadecimal digits of the SHA-256 of the team as YAML; others for any change."""
    return hashlib.sha256(dumps(team).encode()).hexdigest()[:_DIGITS]


def _verdict(team: Team, found: Sequence[Overlap], costs: TeamCosts | None) -> list[str]:
    """What a person signs, in sentences, the worst first."""
    said = []
    without = [member for member in team.members if member.rubric is None]
    if without:
        said.append(
            f"{len(without):,} of {counted(len(team.members), 'persona')} "
            f"{'has' if len(without) == 1 else 'have'} no criteria; "
            + (
                "the team is locked, so it cannot judge by criteria."
                if team.locked
                else "a model writes them for each query, and they are not on this page."
            )
        )
    if found:
        said.append(
            f"{counted(len(found), 'pair')} of criteria of different personas "
            f"{'asks' if len(found) == 1 else 'ask'} for much the same, and so count twice."
        )
    said.append(_who_wrote(team))
    if team.locked:
        said.append("Locked: nobody joins it, and nothing is rewritten.")
    if costs is not None and costs.members:
        total = costs.total
        said.append(
            f"For {counted(costs.passages, 'passage')} it takes about "
            f"{counted(total.calls, 'call')} and "
            f"{counted(total.input_tokens + total.output_tokens, 'token')}."
        )
    return said


def _who_wrote(team: Team) -> str:
    hands: dict[Hand, int] = dict.fromkeys(HANDS, 0)
    weighed = 0
    for member in team.members:
        wrote = provenance(member)
        weighed += wrote.weights == "human"
        for hand in (wrote.persona, *wrote.criteria):
            hands[hand] += 1
    total = sum(hands.values())
    parts = [
        f"{'all' if count == total else f'{count:,}'} by {HANDS[hand]}"
        for hand, count in hands.items()
        if count
    ]
    what = counted(total, "persona and criterion", "personas and criteria")
    said = f"Of {what}, {', '.join(parts)} as they are now"
    weights = counted(weighed, "rubric")
    return f"{said}; a person set the weights of {weights}." if weighed else f"{said}."


def _seen(number: int, member: Member, found: Sequence[Overlap]) -> _Seen:
    wrote = provenance(member)
    criteria = member.rubric.criteria if member.rubric else ()
    return _Seen(
        number=number,
        member=member,
        origin=ORIGINS[member.origin].capitalize(),
        hand=f"Written by {HANDS[wrote.persona]}",
        by_person=wrote.persona == "human",
        criteria=[
            (criterion, f"by {HANDS[hand]}", hand == "human")
            for criterion, hand in zip(criteria[:_CRITERIA], wrote.criteria, strict=False)
        ],
        more_criteria=max(0, len(criteria) - _CRITERIA),
        weights="" if wrote.weights is None else f"Weights by {HANDS[wrote.weights]}",
        shared=sum(member.name in (each.first, each.second) for each in found),
    )


def _criteria_of(team: Team) -> int:
    return sum(len(member.rubric.criteria) for member in team.members if member.rubric)
