"""The page of one ranked query: by itself, or as pages of a report over many."""

from __future__ import annotations

import base64
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from markupsafe import Markup

from personas.ensembles import Rule
from personas.files import dumps
from personas.provenance import ORIGINS, Provenance, provenance
from personas.ranking.record import Hit, OtherRanking, RankingRecord
from personas.report.formats import alpha_reading, cut, tau_reading
from personas.report.markup import page_bytes
from personas.report.page import render_page
from personas.report.query.passages import (
    GENEROUS,
    IMPUTED,
    MISSING,
    SKIPPED,
    SUSPICIOUS,
    TEXT_LIMIT,
    TIGHT,
    Limits,
    PassageFormat,
    passage,
)
from personas.report.query.verdict import judgements, verdict
from personas.report.site import (
    LINK_BYTES,
    OVERVIEW,
    PAGE_BYTES,
    PERSONAS,
    QUERIES,
    Page,
    PageContext,
    ends_of_pages,
    pages_of,
    query_page,
)
from personas.schema import Criterion, Member
from personas.words import exact, fixed, optional

PAGE_LIMIT = 600_000
"""Bytes of all passages' texts on a page by itself; long ones are cut alike to fit."""

_LONG_WORD = 16
_TEAM_FILE = 30_000
"""Bytes of a team's file, up to which a page holds it."""
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


MOST_PAIRS = 200
"""Pairs of personas that are shown, at most."""
_PLACES = 2
_WRITTEN, _EDITED = "Written by a person", "Edited by a person"


@dataclass(frozen=True, slots=True)
class _Column:
    """One persona's column, with the mean of its scores; a long word must be broken."""

    name: str
    mean: str
    long_word: bool


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How much is shown around the passages: characters, and rows of a list."""

    text: int = 2000
    line: int = 1000
    name: int = 200
    rows: int = 200
    criteria: int = 20


_BOUNDS = (
    _Bounds(),
    _Bounds(text=400, line=200, name=100, rows=100),
    _Bounds(text=60, line=30, name=30, rows=40, criteria=5),
    _Bounds(text=20, line=10, name=20, rows=3, criteria=3),
)
"""From generous to tight, for what would otherwise fill a page."""


def render_inspection(
    data: RankingRecord | Mapping[str, Any],
    *,
    grades: Mapping[str, int] | None = None,
    other: OtherRanking | None = None,
) -> str:
    """The inspection report of one ranked query: one HTML page that needs nothing else.

    The same data give the same page, byte for byte. Passages are cut to `TEXT_LIMIT` bytes,
    and further where all of them together exceed `PAGE_LIMIT`; the page says how much was
    left out. Bytes are those of the page: UTF-8, with markup in the text escaped.

    Args:
        data: a ranking, or what its `to_dict` made.
        grades: document id -> judgement for this query, above 0 for relevant; without, the
            page says nothing of judgements.
        other: what another ranker made of the query.

    Raises:
        SchemaError: `data` is something else.
    """
    inspection = RankingRecord.of(data).beside(grades=grades, other=other)
    hits = inspection.hits
    limit = _fair_limit([hit.text for hit in hits], TEXT_LIMIT, PAGE_LIMIT)
    page = _QueryPages(inspection)
    pieces = [page.piece(hit, Limits(text=limit)) for hit in hits]
    return page.render(pages_of([""], [len(hits)]), 0, pieces)


def inspection_pages(inspection: RankingRecord, around: PageContext) -> list[str]:
    """The page of one query within a report, in several parts where one would be too large.

    Each has less than `PAGE_BYTES` bytes in UTF-8, with links to the report, to the queries
    before and after, and to its other parts. Every part has the next passages, best first,
    with their rows of the heat map; the team, the calls and the settings stand on part 1. That
    holds for teams of some hundred personas at most.

    Args:
        inspection: the query.
        around: its place in the report; part n is to be called
            ``query_page(around.place, n)``.
    """
    page = _QueryPages(inspection, around)
    pieces, left = [], PAGE_BYTES
    for hit in inspection.hits:
        piece = page.piece(hit)
        left -= len(piece)  # characters, of a byte or more
        if left <= 0:
            return _in_parts(inspection, around)
        pieces.append(piece)
    made = page.render(pages_of([_name(around, 1)], [len(pieces)]), 0, pieces)
    return [made] if len(made.encode()) < PAGE_BYTES else _in_parts(inspection, around)


def _in_parts(inspection: RankingRecord, around: PageContext) -> list[str]:
    hits, room = inspection.hits, PAGE_BYTES - LINK_BYTES
    page = _QueryPages(inspection, around, team_page=_name(around, 1))
    for bounds in _BOUNDS:
        page.bounds = bounds
        # What stands around the passages may fill half a page.
        first, other = _frames(page, around)
        if 2 * max(first, other) <= room:
            break
    pieces = [page.piece(hit) for hit in hits]
    for place, hit in enumerate(hits):
        if 2 * len(pieces[place].encode()) > room:
            pieces[place] = page.piece(hit, TIGHT)
    sizes = [len(piece.encode()) for piece in pieces]
    ends = ends_of_pages(sizes, room - first, room - other)
    parts = pages_of([_name(around, each) for each in range(1, len(ends) + 1)], ends)
    return [page.render(parts, place, pieces) for place in range(len(parts))]


def _frames(page: _QueryPages, around: PageContext) -> tuple[int, int]:
    """Bytes of part 1 and of another part without passages."""
    parts = pages_of([_name(around, 1), _name(around, 2)], [0, len(page.inspection.hits)])
    first, other = (len(page.render(parts, place, []).encode()) for place in (0, 1))
    return first, other


def _name(around: PageContext, part: int) -> str:
    return query_page(around.place, part).rpartition("/")[2]


class _QueryPages:
    """Renders the page of one query, or any part of it.

    Args:
        inspection: the query.
        around: its place in a report; None for a page by itself.
        team_page: name of the page that has the team; empty if it is the same one.

    Attributes:
        inspection: the query.
        bounds: how much is shown around the passages.
    """

    def __init__(
        self,
        inspection: RankingRecord,
        around: PageContext | None = None,
        *,
        team_page: str = "",
    ) -> None:
        self.inspection = inspection
        self.bounds = _BOUNDS[0]
        judged = judgements(inspection)
        self._form = PassageFormat(
            inspection, team_page=team_page, graded=judged is not None and judged.graded
        )
        members = seen_members(inspection)
        self._values: dict[str, Any] = {
            "inspection": inspection,
            "around": around,
            "links": _links(around) if around else {},
            "form": self._form,
            "judgements": judged,
            "agreement": agreement(inspection),
            "columns": _columns(inspection, self._form),
            "crowd": len(inspection.judges) > _CROWD,
            "verdict": verdict(inspection),
            "imputed": any(hit.imputed for hit in inspection.hits),
            "last_rank": inspection.last_sure_rank,
            "members": members,
            "by_person": by_person(members),
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
                (hit.rank, name, why)
                for hit in inspection.hits
                for name, why in hit.missing.items()
            ],
            "missing_mark": MISSING,
            "skipped_mark": SKIPPED,
            "star": IMPUTED,
            "flag": SUSPICIOUS,
            "suspicious": any(hit.suspicions for hit in inspection.hits),
            "models": _models(inspection),
        }

    def piece(self, hit: Hit, limits: Limits = GENEROUS) -> str:
        """The passage's row and details, as markup."""
        return passage(self._form, hit, limits)

    def render(self, parts: Sequence[Page], place: int, pieces: Sequence[str]) -> str:
        """The part in that place; `pieces` are those of all parts, or none to measure its frame."""
        part = parts[place]
        its = pieces[part.first - 1 : part.last]
        starts = [each.first for each in parts]

        def page_of(rank: int) -> str:
            """The page with the passage's details; empty if it is the same one."""
            if part.first <= rank <= part.last:
                return ""
            return parts[bisect_right(starts, rank) - 1].name

        bounds = self.bounds
        rubrics = self._form.rubrics(most=bounds.criteria, name=bounds.name)
        return render_page(
            "inspection.html",
            **self._values,
            bounds=self.bounds,
            rubrics=[Markup(each) for each in rubrics],  # noqa: S704 - is escaped already
            part=part,
            parts=parts,
            page_of=page_of,
            filled={"passages": self._with_line(its, part.first)},
        )

    def _with_line(self, pieces: Sequence[str], first: int) -> str:
        """The passages from rank `first` on, with a line below the last rank asked for."""
        last = self.inspection.last_sure_rank
        if last is None or not first <= last < first + len(pieces):
            return "".join(pieces)
        what = "Ranks below were not asked for"
        if not (self.inspection.top_k or self.inspection.comparisons):
            how = "dropped or not judged" if self.inspection.dropped else "not judged"
            what = f"Passages below were {how} and keep first-stage order"
        cell = f'<td colspan="{self._form.columns}">{what}.</td>'
        line = f'<tbody class="line"><tr>{cell}</tr></tbody>\n'
        above = last - first + 1
        return "".join([*pieces[:above], line, *pieces[above:]])


def _links(around: PageContext) -> dict[str, str]:
    """What the page leads to -> address, from the folder that it stands in."""
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
        mean = fixed(math.fsum(known) / len(known), max(2, form.score_places)) if known else MISSING
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
    """How the final score comes about, in a sentence; empty where one persona gave it."""
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


def _fair_limit(texts: Sequence[str], most: int, room: int) -> int:
    """The longest limit up to `most` that keeps all texts together in `room`.

    All in bytes of the page, with markup in the texts escaped.
    """
    sizes = [min(most, page_bytes(text[:most])) for text in texts]
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return most


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


def agreement(inspection: RankingRecord) -> Agreement | None:
    """How far the personas agree; None where fewer than two judged."""
    number = len(inspection.judges)
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


def seen_members(inspection: RankingRecord) -> tuple[SeenMember, ...]:
    """The members of the query's team, in order; empty without one."""
    members = inspection.team.members if inspection.team else ()
    return tuple(_seen(number, member) for number, member in enumerate(members, start=1))


def _team_file(inspection: RankingRecord) -> Markup | None:
    """The team as a YAML file that the page holds; None without one, or for a very large one."""
    if inspection.team is None:
        return None
    data = dumps(inspection.team).encode()
    if len(data) > _TEAM_FILE:
        return None
    # Letters and digits alone, whatever the team says.
    return Markup(f"data:text/yaml;base64,{base64.b64encode(data).decode()}")  # noqa: S704


def _shared_reason(members: tuple[SeenMember, ...]) -> str:
    """Why they were recruited, where all who have a reason have the same; else empty."""
    reasons = [seen.member.persona.reason for seen in members if seen.member.persona.reason]
    return reasons[0] if len(reasons) > 1 and len(set(reasons)) == 1 else ""


def by_person(members: tuple[SeenMember, ...]) -> tuple[SeenMember, ...]:
    """Those of whom a person wrote a part."""
    return tuple(each for each in members if each.parts)


def _written(members: tuple[SeenMember, ...]) -> str:
    """Who wrote a team of which no person wrote a part."""
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
