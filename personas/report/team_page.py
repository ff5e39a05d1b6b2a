"""The page of a team by itself, to be read and signed off before it judges anything."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from personas.files import dumps
from personas.overlap import ALIKE, MOST_COMPARED, Overlap, overlaps
from personas.provenance import HANDS, ORIGINS, Hand, Provenance, provenance
from personas.report.page import render_page
from personas.report.site import NOBODY, Made
from personas.schema import Criterion, Member, Team
from personas.words import counted

_MEMBERS, _OVERLAPS, _SHARED_WORDS = 100, 50, 6
_DIGITS = 12
_LONGEST_FILE = 200_000
_BOUNDS = {"rows": 100, "name": 200, "line": 1000}


_HANDS: dict[Hand, str] = {
    "model": "written by a model",
    "library": "from the library",
    "human": "written or changed by a person",
}


@dataclass(frozen=True, slots=True)
class MemberCost:
    """Estimated effort of a member.

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
    """Estimated effort of a team to judge the passages of one query.

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
    """A member; what was said of another text than it has now is `rewritten` and not shown."""

    number: int
    member: Member
    written: str
    rewritten: bool
    rubric_edited: bool
    criteria: Sequence[_SeenCriterion]
    shared: int


@dataclass(frozen=True, slots=True)
class _SeenCriterion:
    criterion: Criterion
    tag: str


def render_team(
    team: Team,
    *,
    costs: TeamCosts | None = None,
    no_costs: str = "",
    notes: Sequence[str] = (),
    source: str = "",
    made: Made = NOBODY,
) -> str:
    """The team as one HTML page that needs nothing else: who, why, by what, and at what cost.

    The same data give the same page, byte for byte.

    Args:
        team: the team.
        costs: what its members take; without, the page says nothing of it, or `no_costs`.
        no_costs: why that is not known.
        notes: what else must be known before it is signed off; a sentence each.
        source: where the team is from, such as its file.
        made: what the last line of the page says.
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
        bounds=_BOUNDS,
        made=made,
    )


def team_digest(team: Team) -> str:
    """12 hexadecimal digits of the SHA-256 of the team as YAML; others for any change."""
    return hashlib.sha256(dumps(team).encode()).hexdigest()[:_DIGITS]


def _verdict(team: Team, found: Sequence[Overlap], costs: TeamCosts | None) -> list[str]:
    """Return the team's signs of a person's work in sentences, the worst first."""
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
        said.append("Locked: no one joins it, and nothing is rewritten.")
    if costs is not None and costs.members:
        total = costs.total
        said.append(
            f"For {counted(costs.passages, 'passage')} it takes about "
            f"{counted(total.calls, 'call')} and "
            f"{counted(total.input_tokens + total.output_tokens, 'token')}."
        )
    return said


def _who_wrote(team: Team) -> str:
    found = [provenance(member) for member in team.members]
    hands = Counter(hand for each in found for hand in (each.persona, *each.criteria))
    said = []
    for hand, count in ((hand, hands[hand]) for hand in HANDS if hands[hand]):
        number = "all" if count == hands.total() else f"{count:,}"
        said.append(f"{number} {'is' if count == 1 else 'are'} {_HANDS[hand]}")
    weighed = sum(
        each.weights == "human" and _weights_count(member)
        for each, member in zip(found, team.members, strict=True)
    )
    what = counted(hands.total(), "persona and criterion", "personas and criteria")
    weights = f"; a person set the weights of {counted(weighed, 'rubric')}" if weighed else ""
    return f"Of {what}, {', '.join(said)}{weights}."


def _weights_count(member: Member) -> bool:
    """True if some criteria count more than others."""
    criteria = member.rubric.criteria if member.rubric else ()
    return len({round(each.weight, 6) for each in criteria}) > 1


def _seen(number: int, member: Member, found: Sequence[Overlap]) -> _Seen:
    wrote = provenance(member)
    criteria = member.rubric.criteria if member.rubric else ()
    by_others = member.origin != "human"
    return _Seen(
        number=number,
        member=member,
        written=_written(member, wrote),
        rewritten=by_others and wrote.persona == "human",
        rubric_edited=by_others and "human" in (wrote.weights, *wrote.criteria),
        criteria=[
            _SeenCriterion(criterion, "Written by a person" if hand == "human" else "")
            for criterion, hand in zip(criteria, wrote.criteria, strict=True)
        ],
        shared=sum(member.name in (each.first, each.second) for each in found),
    )


def _written(member: Member, wrote: Provenance) -> str:
    """A sentence: where the member comes from, and who else wrote what of it."""
    own = {"human": "human", "recruited": "model"}.get(member.origin, "library")
    said = [ORIGINS[member.origin].capitalize()]
    for hand, who in HANDS.items():
        number, all_of_them = wrote.criteria.count(hand), len(wrote.criteria)
        parts = ["its name and description"] if wrote.persona == hand else []
        if number:
            few = f"{number} of its {all_of_them} criteria"
            parts.append("its criteria" if number == all_of_them else few)
        if wrote.weights == hand and _weights_count(member):
            parts.append("the weights")
        if parts and hand != own:
            listed = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
            said.append(f"{who} wrote {listed}")
    return f"{'; '.join(said)}."


def _criteria_of(team: Team) -> int:
    return sum(len(member.rubric.criteria) for member in team.members if member.rubric)
