"""The page of one ranked query: by itself, or as pages of a report over many."""

from __future__ import annotations

import base64
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from personas.ensembles import Rule
from personas.files import dumps
from personas.provenance import ORIGINS, Provenance, provenance
from personas.ranking.record import OtherRanking, RankingRecord
from personas.report.formats import cut
from personas.report.page import render_page
from personas.report.query.passages import MISSING, SKIPPED, PassageFormat
from personas.report.query.verdict import judgements, verdict
from personas.report.site import (
    OVERVIEW,
    PERSONAS,
    QUERIES,
    Page,
    PageContext,
    pages_of,
    query_page,
)
from personas.schema import Criterion, Member
from personas.words import exact, fixed

PAGE_LIMIT = 400_000
"""Characters of all passages' texts on a page; long ones are cut alike to fit."""
TEXT_LIMIT = 20_000
"""Characters of one passage's text that are shown, at most."""
ROWS = 100
"""Passages on a page of a report, with up to six personas; with more, fewer."""
_LEAST_ROWS = 10

_LONG_WORD = 16
_TEAM_FILE = 30_000
"""Characters of a team as JSON, up to which a page holds its file."""
_CROWD = 6
_IN_SHORT = (
    "preset",
    "ensemble",
    "scoring",
    "scale",
    "labels",
    "missing",
    "criteria",
    "recruiting",
    "depth",
    "first_stage_weight",
    "prompts",
)


_WRITTEN, _EDITED = "Written by a person", "Edited by a person"


@dataclass(frozen=True, slots=True)
class _Column:
    """One persona's column, with the mean of its scores; a long word must be broken."""

    name: str
    mean: str
    long_word: bool


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Limits of the text around passages: characters, and rows of a list."""

    text: int = 2000
    line: int = 1000
    name: int = 200
    rows: int = 200
    criteria: int = 20


_TIGHT = _Bounds(text=300, line=150, name=80, rows=100, criteria=5)
"""For a team of more than `_MANY` members."""
_MANY = 12


def render_inspection(
    data: RankingRecord | Mapping[str, Any],
    *,
    grades: Mapping[str, int] | None = None,
    other: OtherRanking | None = None,
) -> str:
    """The inspection report of one ranked query: one HTML page that needs nothing else.

    The same data give the same page, byte for byte. A passage is cut to `TEXT_LIMIT` characters,
    and further where all of them together exceed `PAGE_LIMIT`; the page shows how much was left
    out.

    Args:
        data: a ranking, or what its `to_dict` made.
        grades: document id -> judgement for this query, above 0 for relevant; without, the
            page says nothing of judgements.
        other: what another ranker made of the query.

    Raises:
        SchemaError: `data` is something else.
    """
    record = RankingRecord.of(data).beside(grades=grades, other=other)
    return _render(record, pages_of([""], [len(record.hits)]))[0]


def inspection_pages(record: RankingRecord, around: PageContext) -> list[str]:
    """The page of one query within a report, in several parts where it has many passages.

    Each links to the report, to the queries before and after, and to the other parts. A part has
    `ROWS` passages, fewer with large teams, best first; the team, the calls and the settings are on
    part 1.

    Args:
        record: the ranking.
        around: its place in the report; part n is to be called
            ``query_page(around.place, n)``.
    """
    count = len(record.hits)
    rows = max(_LEAST_ROWS, min(ROWS, 6 * ROWS // max(1, len(record.judges))))
    ends = [*range(rows, count, rows), count]
    names = [query_page(around.place, each + 1).rpartition("/")[2] for each in range(len(ends))]
    return _render(record, pages_of(names, ends), around)


def _render(
    inspection: RankingRecord, parts: Sequence[Page], around: PageContext | None = None
) -> list[str]:
    """The pages, one for each of `parts`; without `around` it is a page by itself."""
    form, judged = PassageFormat(inspection), judgements(inspection)
    members = seen_members(inspection)
    values: dict[str, Any] = {
        "inspection": inspection,
        "around": around,
        "links": _links(around) if around else {},
        "form": form,
        "judgements": judged,
        "columns": _columns(inspection, form),
        "crowd": len(inspection.judges) > _CROWD,
        "warnings": verdict(inspection),
        "imputed": any(hit.imputed for hit in inspection.hits),
        "last_rank": inspection.last_sure_rank,
        "members": members,
        "by_person": [each for each in members if each.parts],
        "written": _written(members),
        "team_file": _team_file(inspection),
        "shared_reason": _shared_reason(members),
        "in_short": [
            (name.replace("_", " "), inspection.config[name])
            for name in _in_short(inspection)
            if inspection.config.get(name) not in (None, "", [], (), 0.0)
        ],
        "ensemble": _ensemble(inspection),
        "judged": len(inspection.judged),
        "partly": len(inspection.partly_judged),
        "missing": [
            (hit.rank, name, why) for hit in inspection.hits for name, why in hit.missing.items()
        ],
        "missing_mark": MISSING,
        "skipped_mark": SKIPPED,
        "star": "*",
        "flag": "\N{BLACK FLAG}",
        "suspicious": any(hit.suspicions for hit in inspection.hits),
        "models": _models(inspection),
        "bounds": _TIGHT if len(members) > _MANY else _Bounds(),
        "parts": parts,
    }
    starts = [each.first for each in parts]

    def render(part: Page) -> str:
        def page_of(rank: int) -> str:
            """The page with the passage's details; empty if it is the same one."""
            if part.first <= rank <= part.last:
                return ""
            return parts[bisect_right(starts, rank) - 1].name

        hits = inspection.hits[part.first - 1 : part.last]
        limit = _fair_limit([len(hit.text) for hit in hits])
        home = "" if part.number == 1 else parts[0].name
        return render_page(
            "inspection.html",
            **values,
            part=part,
            page_of=page_of,
            hits=hits,
            home=home,
            text_limit=limit,
        )

    return [render(part) for part in parts]


def _links(around: PageContext) -> dict[str, str]:
    """Link of the page -> address, from its folder."""
    found = {
        "overview": f"../{OVERVIEW}",
        "queries": f"../{QUERIES}",
        "personas": f"../{PERSONAS}",
    }
    if around.place > 1:
        found["previous"] = f"../{query_page(around.place - 1)}"
    if around.place < around.queries:
        found["next"] = f"../{query_page(around.place + 1)}"
    return found


def _columns(inspection: RankingRecord, form: PassageFormat) -> list[_Column]:
    columns = []
    for name in inspection.judges:
        scores = [hit.scores.get(name) for hit in inspection.hits]
        known = [score for score in scores if score is not None]
        mean = (
            fixed(math.fsum(known) / len(known), max(2, form.score_places))
            if known
            else "\N{EN DASH}"
        )
        longest = max(map(len, name.split()), default=0)
        columns.append(_Column(name, mean, longest > _LONG_WORD))
    return columns


def _in_short(inspection: RankingRecord) -> list[str]:
    """The settings that say how the ranking came about."""
    left_out: tuple[str, ...] = ()
    if inspection.comparisons is not None:
        left_out = ("scoring", "scale", "labels", "missing")
    if inspection.unscored:
        left_out += ("ensemble", "criteria", "recruiting", "first_stage_weight")
    return [name for name in _IN_SHORT if name not in left_out]


def _ensemble(inspection: RankingRecord) -> str:
    """Describe the final score in a sentence; empty where one persona gave it."""
    if len(inspection.judges) < 2:
        return ""
    if inspection.ensemble is None:
        name = cut(str(inspection.config["ensemble"]), 80)
        return f"That of the ensemble “{name}”, which is not installed here."
    said = inspection.ensemble.description
    if inspection.by_rank and not inspection.ensemble.ranks:
        said = f"A persona’s score is here how many passages it ranks lower (Borda). {said}"  # noqa: RUF001
    weight = Rule.of(inspection.config).first_stage_weight
    if said and weight:
        return f"{said} The first stage’s score counts {exact(100 * weight)}% in it."  # noqa: RUF001
    return said


def _models(inspection: RankingRecord) -> list[tuple[str, str]]:
    roles = list(inspection.models.items())
    if len({name for _, name in roles}) == 1:
        return [("model", roles[0][1])]
    return [(f"{cut(role, 40)} model", name) for role, name in roles]


def _fair_limit(lengths: Sequence[int]) -> int:
    """The longest limit up to `TEXT_LIMIT` that keeps all texts together in `PAGE_LIMIT`."""
    room = PAGE_LIMIT
    for place, length in enumerate(sorted(min(TEXT_LIMIT, each) for each in lengths)):
        share = room // (len(lengths) - place)
        if length > share:
            return share
        room -= length
    return TEXT_LIMIT


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


def seen_members(inspection: RankingRecord) -> tuple[SeenMember, ...]:
    """The members of the query's team, in order; empty without one."""
    members = inspection.team.members if inspection.team else ()
    return tuple(_seen(number, member) for number, member in enumerate(members, start=1))


def _team_file(inspection: RankingRecord) -> Markup | None:
    """The team as a YAML file that the page holds; None without one, or for a very large one."""
    if inspection.team is None:
        return None
    if len(inspection.team.model_dump_json()) > _TEAM_FILE:
        return None  # before it is written as YAML, which is slow
    data = dumps(inspection.team).encode()
    # Letters and digits alone, whatever the team says.
    return Markup(f"data:text/yaml;base64,{base64.b64encode(data).decode()}")  # noqa: S704


def _shared_reason(members: tuple[SeenMember, ...]) -> str:
    """Why they were recruited, where all who have a reason have the same; else empty."""
    reasons = [seen.member.persona.reason for seen in members if seen.member.persona.reason]
    return reasons[0] if len(reasons) > 1 and len(set(reasons)) == 1 else ""


def _written(members: tuple[SeenMember, ...]) -> str:
    """Describe the authors of a team of which no person wrote a part."""
    hands: set[str] = set()
    for seen in members:
        found = provenance(seen.member)
        hands.update(hand for hand in (found.persona, found.weights, *found.criteria) if hand)
    if hands == {"model"}:
        return "A model wrote this team; no person wrote or changed a part of it."
    if hands == {"library"}:
        return "This team comes from the library as it is."
    return "Parts of this team come from the library as they are, and a model wrote the others."


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
