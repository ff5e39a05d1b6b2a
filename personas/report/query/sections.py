"""What the sections of a query's page say: the judgements, how far the personas agree, the team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from personas.inspection.effectiveness import ndcg
from personas.inspection.inspection import Inspection, OtherRanking
from personas.provenance import ORIGINS, Provenance, provenance
from personas.report.formats import alpha_reading, tau_reading
from personas.schema import Criterion, Member
from personas.words import optional, whole

MOST_PAIRS = 200
"""Pairs of personas that are shown, at most."""

_PLACES = 2
_WRITTEN, _EDITED = "Written by a person", "Edited by a person"


@dataclass(frozen=True, slots=True)
class Judgements:
    """What the judgements say of a ranking.

    Attributes:
        ndcg: NDCG@10, 0 to 1; None where no passage is relevant.
        first_stage_ndcg: that of the first stage.
        other_ndcg: that of the ranking compared with; None if there is none.
        graded: whether grades above 1 occur.
        sentence: how many relevant passages there are, and how many of them were found.
    """

    ndcg: float | None
    first_stage_ndcg: float | None
    other_ndcg: float | None
    graded: bool
    sentence: str


def judgements(inspection: Inspection) -> Judgements | None:
    """What the judgements say; None if none are known."""
    grades = inspection.grades
    if grades is None:
        return None
    relevant = sum(grade > 0 for grade in grades.values())
    if not relevant:
        return Judgements(None, None, None, graded=False, sentence=_nothing(grades))
    hits = inspection.hits
    given = sorted(hits, key=lambda hit: hit.first_stage_rank)
    other = inspection.other if inspection.other and inspection.other.places else None
    found = sum(hit.grade is not None and hit.grade > 0 for hit in hits)
    return Judgements(
        ndcg=ndcg([hit.grade for hit in hits], grades.values()),
        first_stage_ndcg=ndcg([hit.grade for hit in given], grades.values()),
        other_ndcg=ndcg(_grades_of(other, grades), grades.values()) if other else None,
        graded=max(grades.values()) > 1,
        sentence=_sentence(relevant, found, len(hits)),
    )


def _grades_of(other: OtherRanking, grades: Mapping[str, int]) -> list[int | None]:
    order = sorted(other.places, key=lambda doc_id: other.places[doc_id].rank)
    return [grades.get(doc_id) for doc_id in order]


def _nothing(grades: Mapping[str, int]) -> str:
    if not grades:
        return "There are no judgements for this query."
    return "No passage is judged relevant to this query, so NDCG@10 cannot be told."


def _sentence(relevant: int, found: int, passages: int) -> str:
    these = f"{_are(found)} among these {whole(passages)}"
    if relevant == 1 and found:
        return f"The one passage judged relevant {these}."
    if relevant == 1:
        return "The one passage judged relevant was not found by the first stage."
    if found == relevant:
        return f"All {whole(relevant)} passages judged relevant {these}."
    lost = relevant - found
    if not found:
        return f"None of the {whole(lost)} passages judged relevant was found by the first stage."
    missed = f"{whole(lost)} {'was' if lost == 1 else 'were'} not found by the first stage"
    return f"Of {whole(relevant)} passages judged relevant, {whole(found)} {these}; {missed}."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two personas: Kendall's tau, and in words what it says; a dash where it is not defined."""

    first: str
    second: str
    tau: str
    reading: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a team agrees.

    Attributes:
        reading: what `alpha` says, to follow "The personas"; empty if it is not defined.
        alpha: Krippendorff's alpha.
        pairs: every two personas, in the order of the team, up to `MOST_PAIRS`.
        more_pairs: how many are not among them.
    """

    reading: str
    alpha: str
    pairs: tuple[Pair, ...]
    more_pairs: int


def agreement(inspection: Inspection) -> Agreement | None:
    """How far the personas agree; None where fewer than two judged."""
    number = len(inspection.personas)
    if number < 2 or not inspection.hits:
        return None
    alpha, taus = inspection.agreement.sums.alpha, inspection.agreement.taus
    return Agreement(
        reading="" if alpha is None else alpha_reading(alpha),
        alpha=optional(alpha, _PLACES),
        pairs=tuple(
            _pair(first, second, tau) for (first, second), tau in islice(taus.items(), MOST_PAIRS)
        ),
        more_pairs=max(0, number * (number - 1) // 2 - MOST_PAIRS),
    )


def _pair(first: str, second: str, tau: float | None) -> Pair:
    if tau is None:
        return Pair(first, second, "\N{EN DASH}", "cannot be told")
    return Pair(first, second, optional(tau, _PLACES), tau_reading(tau))


@dataclass(frozen=True, slots=True)
class SeenCriterion:
    """A criterion; `tag` says that a person wrote it, and is empty otherwise."""

    criterion: Criterion
    tag: str


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member of the team.

    Attributes:
        number: place on the team, from 1; names its place on the page.
        member: itself.
        origin: where it comes from, in words.
        tag: that a person wrote its name and description; empty otherwise.
        criteria: of its rubric; empty without one.
        weights_tag: that a person set the weights; empty otherwise.
        parts: what a person wrote of it, to be listed behind its name; empty if nothing.
    """

    number: int
    member: Member
    origin: str
    tag: str
    criteria: tuple[SeenCriterion, ...]
    weights_tag: str
    parts: str


def seen_members(inspection: Inspection) -> tuple[SeenMember, ...]:
    """The members of the query's team, in order; empty without one."""
    members = inspection.team.members if inspection.team else ()
    return tuple(_seen(number, member) for number, member in enumerate(members, start=1))


def by_person(members: tuple[SeenMember, ...]) -> tuple[SeenMember, ...]:
    """Those of whom a person wrote a part."""
    return tuple(each for each in members if each.parts)


def _seen(number: int, member: Member) -> SeenMember:
    found = provenance(member)
    # A part is called edited only where something was there before.
    tag = _EDITED if found.edited else _WRITTEN
    criteria = member.rubric.criteria if member.rubric else ()
    return SeenMember(
        number=number,
        member=member,
        origin=ORIGINS[member.origin].capitalize(),
        tag=(_WRITTEN if member.origin == "human" else tag) if found.persona == "human" else "",
        criteria=tuple(
            SeenCriterion(criterion, tag if hand == "human" else "")
            for criterion, hand in zip(criteria, found.criteria, strict=True)
        ),
        weights_tag="Weights set by a person" if found.weights == "human" else "",
        parts=_parts(found),
    )


def _parts(found: Provenance) -> str:
    parts = ["name and description"] if found.persona == "human" else []
    written, number = found.criteria.count("human"), len(found.criteria)
    if written:
        criteria = "criterion" if number == 1 else "criteria"
        parts.append(criteria if written == number else f"{written} of {number} {criteria}")
    if found.weights == "human":
        parts.append("weights")
    return ", ".join(parts)
