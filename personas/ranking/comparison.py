"""Changes between two rankings of a query, and the personas whose scores changed. Makes no call.

Sums of teams of different sizes cannot be compared. A persona's part in a change is therefore of
the passage's mean score, weighted as the ranking weighs it and brought to 0 to 1; the parts of all
personas add up to the change of that mean. Joining with a score above the mean raises it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from personas.errors import SchemaError
from personas.format import counted, exact
from personas.ranking.agreement import ndcg
from personas.ranking.hit import Hit
from personas.ranking.record import RankingRecord
from personas.team_diff import TeamDiff, diff_teams

_TINY = 1e-9
_LONGEST = 200  # characters of a query or a reason within a note
_OF_HIT = "rank score relevance scores criteria missing"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting, model or prompt that the rankings do not share, as text; empty for none."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PersonaChange:
    """A persona's scores of a passage, and its part in the change of its mean score."""

    persona: str
    before: float | None
    after: float | None
    part: float
    joined: bool
    left: bool


@dataclass(frozen=True, slots=True)
class ComparedPassage:
    """One passage of either ranking; `gain` is its part of the change of nDCG."""

    doc_id: str
    title: str
    text: str
    grade: int | None
    gain: float
    before: Hit | None
    after: Hit | None
    causes: tuple[PersonaChange, ...]

    @property
    def moved(self) -> int | None:
        """Ranks it rose (positive) or fell (negative); None unless both ranked it."""
        return self.before.rank - self.after.rank if self.before and self.after else None

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
    depth: int | None
    ndcg_before: float | None
    ndcg_after: float | None

    @classmethod
    def of(
        cls,
        before: RankingRecord | Mapping[str, Any],
        after: RankingRecord | Mapping[str, Any],
        *,
        grades: Mapping[str, int] | None = None,
        depth: int | None = 10,
    ) -> Self:
        """Compare; a `SchemaError` if one is no ranking, or has an id twice."""
        one = RankingRecord.of(before).beside(grades=grades)
        two = RankingRecord.of(after).beside(grades=grades)
        for side, name in ((one, "before"), (two, "after")):
            found = Counter(hit.doc_id for hit in side.hits).most_common(1)
            if found and found[0][1] > 1:
                raise SchemaError(
                    f"the ranking {name} has the id {found[0][0][:_LONGEST]!r} twice, so its "
                    "passages cannot be told apart; make ids unique"
                )
        team = diff_teams(one.team, two.team) if one.team and two.team else None
        passages = _passages(one, two, team.renamed if team else {}, depth)
        return cls(
            before=one,
            after=two,
            team=team,
            settings=setting_changes(_settings(one, two), _settings(two, one)),
            notes=tuple(_notes(one, two, passages)),
            passages=passages,
            depth=depth,
            ndcg_before=_ndcg(one, depth),
            ndcg_after=_ndcg(two, depth),
        )

    @property
    def measure(self) -> str:
        """``"nDCG@10"``."""
        return "nDCG" if self.depth is None else f"nDCG@{self.depth}"

    @property
    def movers(self) -> tuple[ComparedPassage, ...]:
        """Passages with another rank than before, those of only one ranking included."""
        return tuple(each for each in self.passages if each.moved != 0)

    @property
    def shares(self) -> dict[str, float]:
        """Persona -> its share of all changes of scores, 0 to 1, the largest first."""
        sums: dict[str, float] = {}
        for cause in (cause for each in self.passages for cause in each.causes):
            sums[cause.persona] = sums.get(cause.persona, 0.0) + abs(cause.part)
        total = math.fsum(sums.values())
        ordered = sorted(sums, key=lambda name: -sums[name])
        return {name: sums[name] / total for name in ordered} if total else {}

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
                | {"models": dict(side.models), "personas": list(side.personas)}
                for name, side in (("before", self.before), ("after", self.after))
            },
            "notes": list(self.notes),
            "team_differs": None if self.team is None else bool(self.team),
            "team": [asdict(line) for line in self.team.lines] if self.team else [],
            "settings": [asdict(each) for each in self.settings],
            self.measure.lower(): {"before": self.ndcg_before, "after": self.ndcg_after},
            "passages": len(self.passages),
            "moved": len(self.movers),
            "shared_top_10": self.shared_top(),
            "shares": self.shares,
            "hits": [
                {
                    **_named(each, "doc_id title grade moved gain"),
                    "before": each.before and _named(each.before, _OF_HIT),
                    "after": each.after and _named(each.after, _OF_HIT),
                    "causes": [asdict(cause) for cause in each.causes],
                }
                for each in self.passages
            ],
        }


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Two runs of several queries: figures of all, and some of the queries explained."""

    title: str
    names: tuple[str, str]
    notes: Sequence[str]
    verdict: Sequence[str]
    comparisons: Sequence[RankingComparison]
    values: Mapping[str, tuple[float, float]]  # query id -> the measure before and after
    measure: str
    facts: Mapping[str, str] = field(default_factory=dict)
    settings: Sequence[SettingChange] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of each query that is explained: values, moves, and passages both have in the top 10."""
        return [
            {
                "query_id": each.after.query.id,
                "text": each.after.query.text[:300],
                "moved": len(each.movers),
                "passages": len(each.passages),
                "shared": each.shared_top(),
                **dict(zip(("before", "after"), self.values[each.after.query.id], strict=True)),
            }
            for each in self.comparisons
        ]

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
            "queries": self.rows,
            "comparisons": [each.to_dict() for each in self.comparisons],
        }


def setting_changes(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[SettingChange, ...]:
    """Settings, name -> value as text, that are not the same in both."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(SettingChange(*each) for each in pairs if each[1] != each[2])


def _settings(side: RankingRecord, other: RankingRecord) -> dict[str, str]:
    # A prompt that only one of them used belongs to its ranker.
    prompts = side.prompt_hashes.items()
    found = {"ranker": side.ranker}
    found |= {f"{role} model": name for role, name in side.models.items()}
    found |= {f"prompt {name}": of[:12] for name, of in prompts if name in other.prompt_hashes}
    for name, of in side.config.items():
        if of is not None:
            said = of if isinstance(of, str) else json.dumps(of, ensure_ascii=False)
            found[name.replace("_", " ")] = said
    return found


def _passages(
    before: RankingRecord, after: RankingRecord, renamed: Mapping[str, str], depth: int | None
) -> tuple[ComparedPassage, ...]:
    """Every passage of either, those first whose moves count most."""
    names = {name.casefold(): name for name in after.personas}
    names |= {old.casefold(): new for new, old in renamed.items()}
    names_now = {name: names.get(name.casefold(), name) for name in before.personas}

    grades = after.grades or {}
    gains = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:depth]
    ideal = math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, start=1))
    old = {hit.doc_id: hit for hit in before.hits}
    new = {hit.doc_id: hit for hit in after.hits}
    found = []
    for doc_id in dict.fromkeys((*new, *old)):
        was, now = old.get(doc_id), new.get(doc_id)
        shown = now or old[doc_id]
        risen = _discount(now, depth) - _discount(was, depth)
        found.append(
            ComparedPassage(
                doc_id=doc_id,
                title=shown.title,
                text=shown.text,
                grade=grades.get(doc_id),
                gain=max(grades.get(doc_id, 0), 0) * risen / (ideal or 1.0) + 0.0,
                before=was,
                after=now,
                causes=_causes(was, now, names_now, before, after) if was and now else (),
            )
        )

    def place(each: ComparedPassage) -> tuple[float, float, int, int]:
        rank = each.after.rank if each.after else len(new) + 1
        # Rounded, so that equal weights stay equal.
        moves = (-round(abs(each.gain), 12), -round(each.weight, 12))
        return (*moves, rank, each.before.rank if each.before else 0)

    return tuple(sorted(found, key=place))


def _causes(
    was: Hit,
    now: Hit,
    names_now: Mapping[str, str],
    before: RankingRecord,
    after: RankingRecord,
) -> tuple[PersonaChange, ...]:
    """Personas that changed the mean score, or whose score changed, the most telling first."""
    team_before, team_after = set(names_now.values()), set(after.personas)
    old_scores = {names_now[name]: score for name, score in was.scores.items()}
    old = {names_now[name]: each for name, each in _weighed(was, before).items()}
    new = _weighed(now, after)
    if not old or not new or not team_before & team_after:
        return ()
    middle = math.fsum(math.prod(each) for side in (old, new) for each in side.values()) / 2
    found = []
    for name in {**new, **old}:
        weight_before, score_before = old.get(name, (0.0, middle))
        weight_after, score_after = new.get(name, (0.0, middle))
        # Parts add up to the change of the mean, as the weights add up to 1 on both sides.
        part = weight_after * (score_after - middle) - weight_before * (score_before - middle)
        if abs(part) < _TINY and abs(score_after - score_before) < _TINY:
            continue
        found.append(
            PersonaChange(
                persona=name,
                before=old_scores.get(name),
                after=now.scores.get(name),
                part=part,
                joined=name not in team_before,
                left=name not in team_after,
            )
        )
    sign = 1 if was.rank >= now.rank else -1
    return tuple(sorted(found, key=lambda each: -sign * each.part))


def _weighed(hit: Hit, side: RankingRecord) -> Mapping[str, tuple[float, float]]:
    """Persona -> its weight, all of them adding up to 1, and the score it gave, 0 to 1."""
    weights = dict(zip(side.personas, side.rule.weights, strict=False))
    known = {name: score for name, score in hit.scores.items() if score is not None}
    total = math.fsum(weights.get(name, 1.0) for name in known)
    return {name: (weights.get(name, 1.0) / total, mark / side.top) for name, mark in known.items()}


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
        if side.failure and not side.hits:
            yield f"There is no ranking {name}: {side.failure[:_LONGEST]}"
        elif side.unfinished:
            yield f"The ranking {name} is not complete. {side.unfinished[:_LONGEST]}"
    same = before.judge_note == after.judge_note
    for side, name in sides[same:]:
        if side.judge_note:
            yield side.judge_note if same else f"{name.capitalize()}: {side.judge_note}"
    without = [name for side, name in sides if not any(hit.known_scores for hit in side.hits)]
    if before.hits and after.hits:
        yield from _passage_notes(passages)
        if without:
            yield (
                f"There are no scores {' and '.join(without)}, only an order, so moves are shown "
                "without whose scores made them."
            )
    if before.top != after.top and not (without and before.hits and after.hits):
        yield f"Scores are from 0 to {exact(before.top)} before and to {exact(after.top)} after."
    counts = [(counted(len(side.missing), "score"), name) for side, name in sides if side.missing]
    if lost := " and ".join(f"{count} missing {name}" for count, name in counts):
        yield f"{lost}{'; what was imputed counts in the ranks' * (not without)}."


def _passage_notes(passages: Sequence[ComparedPassage]) -> Iterator[str]:
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
    firsts = sorted((was.first_stage_rank, now.first_stage_rank) for was, now in both)
    if [now for _, now in firsts] != sorted(now for _, now in firsts):
        yield "The passages were given in another order, which decides between equal scores."


def _named(record: object, names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names.split()}
