"""The page of a team by itself, to be read and signed off before it judges anything."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from personas.files import dumps
from personas.format import counted
from personas.provenance import HANDS, Hand, provenance, weights_count, written
from personas.report.page import render_page
from personas.report.site import NO_FOOTER, ReportFooter
from personas.schema import Member, Team

_MEMBERS = 100
_DIGITS = 12
_LARGEST_FILE = 200_000  # bytes as JSON; of a larger team the page does not hold the file
_BOUNDS = {"rows": 100, "name": 200, "line": 1000}
_HANDS: dict[Hand, str] = {
    "model": "written by a model",
    "library": "from the library",
    "human": "written or changed by a person",
}


@dataclass(frozen=True, slots=True)
class MemberCost:
    """Calls and tokens of a member, estimated; US dollars, None if no price is known."""

    persona: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class TeamCosts:
    """Estimated effort of a team for one query, with `passages` of `words` words each."""

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


def render_team(
    team: Team,
    *,
    costs: TeamCosts | None = None,
    no_costs: str = "",
    notes: Sequence[str] = (),
    source: str = "",
    footer: ReportFooter = NO_FOOTER,
) -> str:
    """The team as one HTML page that needs nothing else: who, why, by what, and at what cost."""
    small = len(team.model_dump_json()) <= _LARGEST_FILE  # the YAML of a large one takes long
    return render_page(
        "team_page.html",
        assets=("team_page",),
        team=team,
        title=team.name or f"Team of {counted(len(team.members), 'persona')}",
        source=source,
        members=[_seen(member) for member in team.members[:_MEMBERS]],
        verdict=_verdict(team, costs),
        notes=notes,
        costs=costs,
        no_costs=no_costs,
        text=dumps(team) if small else "",
        longest=2 * _LARGEST_FILE,
        digest=team_digest(team),
        bounds=_BOUNDS,
        footer=footer,
    )


def team_digest(team: Team) -> str:
    """12 hexadecimal digits of the SHA-256 of the team as JSON; others for any change."""
    text = team.model_dump_json(exclude_defaults=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _verdict(team: Team, costs: TeamCosts | None) -> list[str]:
    """Return the team's signs of a person's work in sentences, the worst first."""
    said = []
    without = sum(member.rubric is None for member in team.members)
    if without:
        has = "has" if without == 1 else "have"
        rest = "a model writes them for each query, and they are not on this page."
        if team.locked:
            rest = "the team is locked, so it cannot judge by criteria."
        of_all = counted(len(team.members), "persona")
        said.append(f"{without:,} of {of_all} {has} no criteria; {rest}")
    said.append(_who_wrote(team))
    if team.locked:
        said.append("Locked: no persona joins it, and nothing is rewritten.")
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
    for hand in HANDS:
        if count := hands[hand]:
            number = "all" if count == hands.total() else f"{count:,}"
            said.append(f"{number} {'is' if count == 1 else 'are'} {_HANDS[hand]}")
    weighed = sum(
        each.weights == "human" and weights_count(member)
        for each, member in zip(found, team.members, strict=True)
    )
    what = counted(hands.total(), "persona and criterion", "personas and criteria")
    weights = f"; a person set the weights of {counted(weighed, 'rubric')}" if weighed else ""
    return f"Of {what}, {', '.join(said)}{weights}."


def _seen(member: Member) -> dict[str, object]:
    """A member for the page; what was said of another text than it has now is not shown."""
    wrote = provenance(member)
    text = written(member, wrote)
    criteria = member.rubric.criteria if member.rubric else ()
    by_others = member.origin != "human"
    return {
        "member": member,
        "written": f"{text[0].upper()}{text[1:]}.",
        "rewritten": by_others and wrote.persona == "human",
        "rubric_edited": by_others and "human" in (wrote.weights, *wrote.criteria),
        "criteria": [
            {"criterion": each, "tag": "Written by a person" * (by_others and hand == "human")}
            for each, hand in zip(criteria, wrote.criteria, strict=True)
        ],
    }
