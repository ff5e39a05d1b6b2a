"""Changes between two rankings of a query, and the scores that moved each passage.

No call is made. A persona's part in a move is found by putting its scores of before in place of
those of after, all others as they are, and ranking again. Where several personas changed, their
parts need not add up to the move.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from personas.ensembles import Rule, descending, distinct
from personas.errors import SchemaError
from personas.format import counted, exact
from personas.ranking.agreement import ndcg
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.schema import Member
from personas.team_diff import TeamDiff, diff_teams

NOT_ON_TEAM = "not on the team"
"""Why there is no score of a persona that joined or left."""

_TINY = 1e-9
_LONGEST = 200  # characters of a query or a reason within a note
_EDITS = ("renamed", "description", "whole_rubric", "rubric", "topics")
_OF_HIT = "rank score scores criteria missing"
_Columns: TypeAlias = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting, model or prompt that the rankings do not share, as text; empty for none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class CriterionChange:
    """A criterion by which a persona scored a passage, and that is not as it was."""

    name: str
    before: float | None
    after: float | None
    weight_before: float | None
    weight_after: float | None

    @property
    def added(self) -> float:
        """Effect on the persona's score: weight x score now, less before."""
        now = (self.after or 0.0) * (self.weight_after or 0.0)
        return now / 100 - (self.before or 0.0) * (self.weight_before or 0.0) / 100


@dataclass(frozen=True, slots=True)
class PersonaChange:
    """A persona whose scores, or whose place on the team, are not as they were."""

    persona: str
    was: str
    before: float | None
    after: float | None
    absent_before: str
    absent_after: str
    edited: bool
    effect: int
    criteria: tuple[CriterionChange, ...]
    rank_before: int | None = None
    rank_after: int | None = None

    @property
    def joined(self) -> bool:
        """True if it was not on the team before."""
        return self.absent_before == NOT_ON_TEAM

    @property
    def left(self) -> bool:
        """True if it is not on the team any more."""
        return self.absent_after == NOT_ON_TEAM

    @property
    def change(self) -> float | None:
        """Score after less score before; None unless there are both."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class ComparedPassage:
    """One passage of either ranking."""

    doc_id: str
    title: str
    text: str
    grade: int | None
    first_stage_rank: int | None
    gain: float
    before: Hit | None
    after: Hit | None
    causes: tuple[PersonaChange, ...]
    combining_effect: int

    @property
    def moved(self) -> int | None:
        """Ranks it rose (positive) or fell (negative); None unless both ranked it."""
        if self.before is None or self.after is None:
            return None
        return self.before.rank - self.after.rank

    @property
    def weight(self) -> float:
        """Size of the move: the change of 1 / log2(1 + rank), as nDCG discounts ranks."""
        return abs(_discount(self.after) - _discount(self.before))


@dataclass(frozen=True, slots=True)
class RankingComparison:
    """Two rankings of a query."""

    before: RankingRecord
    after: RankingRecord
    team: TeamDiff | None
    settings: tuple[SettingChange, ...]
    notes: tuple[str, ...]
    passages: tuple[ComparedPassage, ...]
    idle: tuple[str, ...]
    exact: bool
    depth: int | None
    ndcg_before: float | None
    ndcg_after: float | None

    @property
    def measure(self) -> str:
        """``"nDCG@10"``."""
        return "nDCG" if self.depth is None else f"nDCG@{self.depth}"

    @property
    def movers(self) -> tuple[ComparedPassage, ...]:
        """Passages with another rank than before, those of only one ranking included."""
        return tuple(each for each in self.passages if each.moved != 0)

    def shared_top(self, depth: int = 10) -> int:
        """Number of passages that both rankings have among their first `depth`."""
        tops = [{hit.doc_id for hit in side.hits[:depth]} for side in (self.before, self.after)]
        return len(tops[0] & tops[1])

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; texts of passages are left out."""
        return {
            "query": {"text": self.after.query.text, "id": self.after.query.id},
            **{
                name: _named(side, "ranker weak_judge")
                | {"models": dict(side.models), "personas": list(side.judges)}
                for name, side in (("before", self.before), ("after", self.after))
            },
            "notes": list(self.notes),
            "team_differs": None if self.team is None else bool(self.team),
            "idle": list(self.idle),
            "settings": [asdict(each) for each in self.settings],
            self.measure.lower(): {"before": self.ndcg_before, "after": self.ndcg_after},
            "passages": len(self.passages),
            "moved": len(self.movers),
            "shared_top_10": self.shared_top(),
            "exact": self.exact,
            "hits": [_plain(each) for each in self.passages],
        }


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A query of two runs in the list of all."""

    query_id: str
    text: str
    moved: int
    passages: int
    shared: int
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Rankings of several queries, before and after: some of them explained, and figures of all."""

    title: str
    notes: Sequence[str]
    verdict: Sequence[str]
    rows: Sequence[QueryRow]
    comparisons: Sequence[RankingComparison]
    measure: str = ""
    facts: Sequence[tuple[str, str]] = ()
    settings: Sequence[SettingChange] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; texts of passages are left out."""
        return {
            "title": self.title,
            "notes": list(self.notes),
            "verdict": list(self.verdict),
            "measure": self.measure,
            "facts": dict(self.facts),
            "settings": [asdict(each) for each in self.settings],
            **self.figures,
            "queries": [asdict(row) for row in self.rows],
            "comparisons": [each.to_dict() for each in self.comparisons],
        }


def compare_rankings(
    before: RankingRecord | Mapping[str, Any],
    after: RankingRecord | Mapping[str, Any],
    *,
    grades: Mapping[str, int] | None = None,
    depth: int | None = 10,
    first_stage: Mapping[str, int] | None = None,
) -> RankingComparison:
    """Find the changes from one ranking to another, and the scores that moved each passage."""
    one = RankingRecord.of(before).beside(grades=grades)
    two = RankingRecord.of(after).beside(grades=grades)
    for side, name in ((one, "before"), (two, "after")):
        found = Counter(hit.doc_id for hit in side.hits).most_common(1)
        if found and found[0][1] > 1:
            raise SchemaError(
                f"the ranking {name} has the id {found[0][0][:_LONGEST]!r} twice, so its passages "
                "cannot be told apart; make ids unique"
            )
    effects = _Effects(one, two, diff_teams(one.team, two.team) if one.team and two.team else None)
    passages = _passages(effects, depth, first_stage)
    used = [_used(one), _used(two)]
    # What only one of them used, such as a model for recruiting, was not needed by the other.
    shared = used[0].keys() & used[1].keys()
    settings = [
        {name: said for name, said in of_side.items() if name in shared} | _chosen(side)
        for of_side, side in zip(used, (one, two), strict=True)
    ]
    return RankingComparison(
        before=one,
        after=two,
        team=effects.team,
        settings=setting_changes(*settings),
        notes=tuple(_notes(one, two, passages)),
        passages=passages,
        idle=effects.idle,
        exact=effects.exact,
        depth=depth,
        ndcg_before=_ndcg(one, depth),
        ndcg_after=_ndcg(two, depth),
    )


def setting_changes(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[SettingChange, ...]:
    """Settings, name -> value as text, that are not the same in both."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(SettingChange(*each) for each in pairs if each[1] != each[2])


class _Effects:
    """Return the effect of each persona's change on the rank of each passage judged in both."""

    def __init__(self, before: RankingRecord, after: RankingRecord, team: TeamDiff | None) -> None:
        self.before, self.after, self.team = before, after, team
        edits = team.changed if team else ()
        self.edited = {each.name for each in edits if any(getattr(each, edit) for edit in _EDITS)}
        renamed = {each.renamed.after: each.renamed.before for each in edits if each.renamed}
        known = {name.casefold(): name for name in before.judges}
        pairs = [(known.pop(renamed.get(new, new).casefold(), ""), new) for new in after.judges]
        self.pairs = (*pairs, *((old, "") for old in known.values()))
        """Columns that belong together: name before and name after, one of them perhaps empty."""
        self.by_pair: dict[tuple[str, str], dict[str, int]] = {}
        self.combining: dict[str, int] = {}
        self.idle: tuple[str, ...] = ()
        judged = {hit.doc_id: hit for hit in before.judged}
        given = sorted(after.judged, key=lambda hit: hit.first_stage_rank)
        self._hits = [hit for hit in given if hit.doc_id in judged]
        former = [judged[hit.doc_id] for hit in self._hits]
        self.known = not _without_scores(before, after)
        old_rule, self._rule = Rule.of(before.config), Rule.of(after.config)
        now, then = (
            {each.name: each for each in side.team.members} if side.team else {}
            for side in (after, before)
        )
        self._members = list({**then, **now}.values())
        weights = {new: then[old].weight for old, new in self.pairs if old in then}
        old_members = [
            each.model_copy(update={"weight": weights.get(each.name, each.weight)})
            for each in self._members
        ]
        if after.by_rank:
            count = len({hit.passage.content for hit in after.hits if hit.ranks})
            old_rule, self._rule = (each.for_points(count) for each in (old_rule, self._rule))

        def column(name: str, hits: Sequence[Hit]) -> NDArray[np.float64]:
            return np.array([hit.marks.get(name) for hit in hits], dtype=np.float64)

        columns = {name: column(name, self._hits) for name in after.judges}
        self._now = self._ranks(columns, self._rule)
        by_rank = sorted(self._hits, key=lambda hit: hit.rank)
        places = [self._now[hit.doc_id] for hit in by_rank if columns]
        added_up = after.ensemble is not None and not after.ensemble.asks
        self.exact = bool(columns) and added_up and places == sorted(places)
        if not columns or not self.known:
            return
        self.idle = tuple(
            new
            for old, new in self.pairs
            if old
            and new in self.edited
            and all(
                was.marks[old] == now.marks[new]
                for was, now in zip(former, self._hits, strict=True)
            )
        )
        for old, new in self.pairs:
            changed = dict(columns)
            if old:
                past = column(old, former) * (after.top / before.top)
                if new and np.allclose(past, columns[new], rtol=0, atol=_TINY, equal_nan=True):
                    continue
                changed[new or old] = past
            else:
                del changed[new]
            if changed:
                self.by_pair[old, new] = self._against(changed, self._rule)
        if old_rule != self._rule or old_members != self._members:
            self.combining = self._against(columns, old_rule, old_members)

    def causes(self, was: Hit | None, now: Hit | None) -> tuple[PersonaChange, ...]:
        """Personas with a change of this passage, the one that moved it most first."""
        if not (self.known and was and now and was.judged and now.judged):
            return ()
        found = []
        for old, new in self.pairs:
            before, after = was.marks.get(old), now.marks.get(new)
            effect = self.by_pair.get((old, new), {}).get(now.doc_id, 0)
            criteria = _criteria(was, now, old, new)
            if old and new and before == after and not criteria and not effect:
                continue
            found.append(
                PersonaChange(
                    persona=new or old,
                    was=old if old and new and old != new else "",
                    before=before,
                    after=after,
                    absent_before=_absent(was, old, before),
                    absent_after=_absent(now, new, after),
                    edited=not (old and new) or new in self.edited,
                    effect=effect,
                    criteria=criteria,
                    rank_before=was.ranks.get(old),
                    rank_after=now.ranks.get(new),
                )
            )
        sign = 1 if was.rank >= now.rank else -1
        found.sort(key=lambda each: (-sign * each.effect, -abs(each.change or 0.0)))
        return tuple(found)

    def _against(
        self, columns: _Columns, rule: Rule, members: Sequence[Member] | None = None
    ) -> dict[str, int]:
        """Document id -> by how many ranks it is better now than by these scores and this rule."""
        then = self._ranks(columns, rule, members)
        return {doc_id: then[doc_id] - rank for doc_id, rank in self._now.items()}

    def _ranks(
        self, columns: _Columns, rule: Rule, members: Sequence[Member] | None = None
    ) -> dict[str, int]:
        """Document id -> rank by these scores among the passages that both rankings judged."""
        hits = self._hits
        if not hits or not columns:
            return {}
        values = np.stack(list(columns.values()), axis=1)
        judged = zip(hits, values.tolist(), strict=True)
        rows, group_of = distinct((*hit.passage.content, *map(repr, row)) for hit, row in judged)
        first_stage = [hit.first_stage_score for hit in hits]
        rule = rule.for_columns(self._members if members is None else members, list(columns))
        order = descending(rule.final(values[rows], group_of, first_stage))
        return {hits[place].doc_id: rank for rank, place in enumerate(order.tolist(), start=1)}


def _passages(
    effects: _Effects, depth: int | None, first_stage: Mapping[str, int] | None
) -> tuple[ComparedPassage, ...]:
    grades = effects.after.grades or {}
    gains = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    ideal = math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, start=1))
    old = {hit.doc_id: hit for hit in effects.before.hits}
    new = {hit.doc_id: hit for hit in effects.after.hits}
    found = []
    for doc_id in dict.fromkeys((*new, *old)):
        was, now = old.get(doc_id), new.get(doc_id)
        shown = now or old[doc_id]
        rank = shown.first_stage_rank if first_stage is None else first_stage.get(doc_id)
        risen = _discount(now, depth) - _discount(was, depth)
        found.append(
            ComparedPassage(
                doc_id=doc_id,
                title=shown.title,
                text=shown.text,
                grade=grades.get(doc_id),
                first_stage_rank=rank,
                gain=max(grades.get(doc_id, 0), 0) * risen / (ideal or 1.0) + 0.0,
                before=was,
                after=now,
                causes=effects.causes(was, now),
                combining_effect=effects.combining.get(doc_id, 0),
            )
        )

    def place(each: ComparedPassage) -> tuple[float, float, int, int]:
        ranks = (
            each.after.rank if each.after else len(new) + 1,
            each.before.rank if each.before else 0,
        )
        # Rounded, so that equal weights stay equal.
        return (-round(abs(each.gain), 12), -round(each.weight, 12), *ranks)

    return tuple(sorted(found, key=place))


def _absent(hit: Hit, name: str, score: float | None) -> str:
    if score is not None:
        return ""
    if not name:
        return NOT_ON_TEAM
    return f"missing: {hit.missing[name]}" if name in hit.missing else "not asked for"


def _criteria(was: Hit, now: Hit, old: str, new: str) -> tuple[CriterionChange, ...]:
    before, after = was.criteria.get(old), now.criteria.get(new)
    if not before or not after:
        return ()
    sides = (before, after, _weights(was, old), _weights(now, new))
    names = dict.fromkeys((*after, *before))
    found = [CriterionChange(name, *(side.get(name) for side in sides)) for name in names]
    changed = [
        each
        for each in found
        if each.before != each.after
        or abs((each.weight_before or 0) - (each.weight_after or 0)) > _TINY
    ]
    return tuple(sorted(changed, key=lambda each: -abs(each.added)))


def _weights(hit: Hit, persona: str) -> dict[str, float]:
    member = hit.ranking.member(persona)
    criteria = member.rubric.criteria if member and member.rubric else ()
    return {each.name: each.weight for each in criteria}


def _discount(hit: Hit | None, depth: int | None = None) -> float:
    if hit is None or (depth is not None and hit.rank > depth):
        return 0.0
    return 1 / math.log2(1 + hit.rank)


def _ndcg(side: RankingRecord, depth: int | None) -> float | None:
    grades = (side.grades or {}).values()
    if not any(grade > 0 for grade in grades):
        return None
    found = [hit.grade for hit in side.hits]
    return ndcg(found, grades, depth or len(found) + len(grades))


def _used(side: RankingRecord) -> dict[str, str]:
    models = {f"{role} model": name for role, name in side.models.items()}
    prompts = {f"prompt {name}": each[:12] for name, each in side.prompt_hashes.items()}
    return {"ranker": side.ranker, **models, **prompts}


def _chosen(side: RankingRecord) -> dict[str, str]:
    return {
        name.replace("_", " "): setting
        if isinstance(setting, str)
        else json.dumps(setting, ensure_ascii=False)
        for name, setting in side.config.items()
        if setting is not None
    }


def _notes(
    before: RankingRecord, after: RankingRecord, passages: Sequence[ComparedPassage]
) -> Iterator[str]:
    sides = ((before, "before"), (after, "after"))
    if before.query.text != after.query.text:
        yield (
            "The rankings are of different queries, so moves may come from the query: "
            f"“{before.query.text[:_LONGEST]}” before, “{after.query.text[:_LONGEST]}” after."
        )
    for side, name in sides:
        if side.failure and not side.passages:
            yield f"There is no ranking {name}: {side.failure[:_LONGEST]}"
        elif side.unfinished:
            yield f"The ranking {name} is not complete. {side.unfinished[:_LONGEST]}"
    if before.judge_note == after.judge_note:
        yield from filter(None, [after.judge_note])
    else:
        yield from (
            f"{name.capitalize()}: {side.judge_note}" for side, name in sides if side.judge_note
        )
    if before.passages and after.passages:
        yield from _passage_notes(before, after, passages)
    yield from _score_notes(before, after)
    missing = [(side, name) for side, name in sides if side.missing]
    if missing:
        lost = (f"{counted(len(side.missing), 'score')} missing {name}" for side, name in missing)
        counts = not all(_without_scores(side) for side, _ in missing)
        yield f"{' and '.join(lost)}{'; what was imputed counts in the ranks' * counts}."


def _passage_notes(
    before: RankingRecord, after: RankingRecord, passages: Sequence[ComparedPassage]
) -> Iterator[str]:
    both = [(each.before, each.after) for each in passages if each.before and each.after]
    gone = sum(each.after is None for each in passages)
    new = sum(each.before is None for each in passages)
    if not both:
        yield "The rankings have no passage in common, so nothing can be said to have moved."
    elif gone or new:
        yield (
            f"The rankings are not of the same passages: {gone:,} only before, {new:,} only after. "
            "Ranks are those among the passages that each was given."
        )
    if other := sum(was.passage.content != now.passage.content for was, now in both):
        yield f"{counted(other, 'passage')} with the same id and another text."
    given = [
        now for _, now in sorted((was.first_stage_rank, now.first_stage_rank) for was, now in both)
    ]
    if given != sorted(given) and not _without_scores(before, after):
        yield "The passages were given in another order, which decides between equal scores."


def _without_scores(*sides: RankingRecord) -> bool:
    """True if no persona gave a score or a rank, in one of these rankings."""
    return not all(any(hit.known_scores for hit in side.hits) for side in sides)


def _score_notes(before: RankingRecord, after: RankingRecord) -> Iterator[str]:
    sides = ((before, "before"), (after, "after"))
    if without := [name for side, name in sides if side.passages and _without_scores(side)]:
        yield (
            f"There are no scores {' and '.join(without)}, only an order, so moves are shown "
            "without whose scores made them."
        )
    if _without_scores(before, after):
        return
    if before.by_rank != after.by_rank:
        gave = ["ranks" if side.by_rank else "scores" for side, _ in sides]
        yield (
            f"The personas gave {gave[0]} before and {gave[1]} after; for parts in a move a rank "
            "counts one point for each passage below it, stretched to the scale of after."
        )
    elif before.top != after.top and not after.by_rank:
        yield (
            f"Scores are from 0 to {exact(before.top)} before and to {exact(after.top)} after; for "
            "parts in a move those of before are stretched to the scale of after."
        )
    if any(side.ensemble is None or side.ensemble.asks for side, _ in sides):
        yield (
            "A model, or an ensemble that is not installed here, combined the scores; parts in a "
            "move are worked out as if scores were added up."
        )


def _plain(each: ComparedPassage) -> dict[str, Any]:
    return {
        **_named(each, "doc_id title grade first_stage_rank moved gain combining_effect"),
        "before": each.before and _named(each.before, _OF_HIT),
        "after": each.after and _named(each.after, _OF_HIT),
        "causes": [
            asdict(cause)
            | {"change": cause.change, "criteria": [asdict(each) for each in cause.criteria]}
            for cause in each.causes
        ],
    }


def _named(record: object, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}
