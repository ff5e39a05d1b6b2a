"""Which queries two runs differ on most, and why: the passages that moved and who moved them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from beir_eval.compare.model import (
    ChangedQuery,
    MovedPassage,
    PersonaScore,
    Place,
    QuerySide,
    RunComparison,
    RunSide,
    SettingChange,
    TeamMember,
)
from beir_eval.errors import MeasureError, SettingError
from beir_eval.measures.metrics import cutoff_of
from beir_eval.measures.overlap import rank_biased_overlap
from beir_eval.measures.significance import EQUAL, compare_runs

if TYPE_CHECKING:
    from beir_eval.compare.sources import ComparedRun, Pair, Ranked
    from personas.ranking.record import Hit

Direction = Literal["both", "gains", "losses"]

EXCERPT = 300
"""Characters of a passage's text that are kept."""

_Hits = Mapping[str, "Hit"]


def compare_pair(
    pair: Pair,
    *,
    measure: str = "nDCG@10",
    top: int = 5,
    passages: int = 4,
    direction: Direction = "both",
) -> RunComparison:
    """Compare two runs, and explain the queries that changed most.

    Args:
        pair: the runs, as `beir_eval.compare.sources.open_pair` finds them.
        measure: name as ir-measures writes it.
        top: how many queries to explain, at most: those with the greatest differences.
        passages: how many passages a query, at most; about two thirds of them relevant ones,
            if there are as many that moved.
        direction: explain only gains, or only losses.

    Raises:
        SettingError: `top` or `passages` is below 1.
        MeasureError: the measure is unknown or cannot be computed.
        RunError, RunFolderError: a run, or a file of its folder, cannot be used.
        ExtraMissing: a package for the measure or the significance test is not installed.
    """
    for name, value in (("top", top), ("passages", passages)):
        if value < 1:
            raise SettingError(f"{name}={value!r} is below 1; give 1 or more")
    values_a, values_b = pair.a.values(measure), pair.b.values(measure)
    ids = [each for each in pair.common if each in values_a and each in values_b]
    if not ids:
        raise MeasureError(f"no query has a value of {measure!r} in both runs")
    of_a = {each: values_a[each] for each in ids}
    of_b = {each: values_b[each] for each in ids}
    lots_a, lots_b = pair.a.lots(measure), pair.b.lots(measure)
    tested = {
        "a": {each: lots_a.get(each, of_a[each]) for each in ids},
        "b": {each: lots_b.get(each, of_b[each]) for each in ids},
    }
    runs = pair.a.run(), pair.b.run()
    lists = [[[doc_id for doc_id, _ in run.get(each, ())] for run in runs] for each in ids]
    overlaps = [rank_biased_overlap(a, b) for a, b in lists]
    cutoff = cutoff_of(measure)
    chosen = _most_changed({each: of_b[each] - of_a[each] for each in ids}, top, direction)
    explained = _explained(pair, chosen, (of_a, of_b), cutoff=cutoff, limit=passages)
    return RunComparison(
        dataset=pair.basis.dataset,
        first_stage=pair.basis.first_stage_name,
        measure=measure,
        effect_measure="nDCG" if cutoff is None else f"nDCG@{cutoff}",
        queries=len(ids),
        left_out=pair.left_out,
        a=_side(pair.a, of_a, measure),
        b=_side(pair.b, of_b, measure),
        comparison=compare_runs({"": tested}, "a")[""]["b"],
        overlap=math.fsum(overlaps) / len(overlaps),
        settings=_setting_changes(pair.a.settings, pair.b.settings),
        losses=tuple(each for each in explained if each.difference < 0),
        gains=tuple(each for each in explained if each.difference > 0),
    )


def _side(run: ComparedRun, values: Mapping[str, float], measure: str) -> RunSide:
    mean = math.fsum(values.values()) / len(values)
    return RunSide(run.name, run.label, run.models, mean, run.note, run.warnings(measure, values))


def _most_changed(changes: Mapping[str, float], top: int, direction: Direction) -> list[str]:
    """Ids by falling size of the change; equal ones stay in the data set's order."""
    wanted = [
        query_id
        for query_id, change in changes.items()
        if abs(change) > EQUAL and (direction == "both" or (change > 0) == (direction == "gains"))
    ]
    # Rounded, so that equal changes stay equal whatever they are made of.
    return sorted(wanted, key=lambda query_id: -round(abs(changes[query_id]), 9))[:top]


def _explained(
    pair: Pair,
    chosen: Sequence[str],
    values: tuple[Mapping[str, float], Mapping[str, float]],
    *,
    cutoff: int | None,
    limit: int,
) -> list[ChangedQuery]:
    ranked = pair.a.ranked(chosen), pair.b.ranked(chosen)
    hits = [
        {each: of_run[each].hits if each in of_run else {} for each in chosen} for of_run in ranked
    ]
    effects = {
        each: _effects(pair.basis.qrels.get(each, {}), hits[0][each], hits[1][each], cutoff, limit)
        for each in chosen
    }
    # All texts at once: they are read from one large file.
    texts = pair.texts({doc_id for of_query in effects.values() for doc_id in of_query})
    return [
        ChangedQuery(
            query_id=query_id,
            text=pair.basis.queries.get(query_id, ""),
            difference=values[1][query_id] - values[0][query_id],
            a=_query_side(pair.a, query_id, values[0], ranked[0]),
            b=_query_side(pair.b, query_id, values[1], ranked[1]),
            passages=_moved(
                pair, query_id, effects[query_id], hits[0][query_id], hits[1][query_id], texts
            ),
        )
        for query_id in chosen
    ]


def _query_side(
    run: ComparedRun, query_id: str, values: Mapping[str, float], ranked: Mapping[str, Ranked]
) -> QuerySide:
    team = _team(ranked.get(query_id))
    return QuerySide(values[query_id], run.failed.get(query_id, ""), team)


def _effects(
    grades: Mapping[str, int], hits_a: _Hits, hits_b: _Hits, cutoff: int | None, limit: int
) -> dict[str, float]:
    """Id -> effect of the passages whose moves made the difference, most telling first."""
    ideal = _ideal(grades, cutoff)
    room = {
        doc_id: _discount(hits_b.get(doc_id), cutoff) - _discount(hits_a.get(doc_id), cutoff)
        for doc_id in dict.fromkeys((*hits_a, *hits_b))
    }
    effects = {
        doc_id: max(grades.get(doc_id, 0), 0) * change / ideal if ideal else 0.0
        for doc_id, change in room.items()
    }
    return {doc_id: effects[doc_id] for doc_id in _most_telling(effects, room, limit)}


def _moved(
    pair: Pair,
    query_id: str,
    effects: Mapping[str, float],
    hits_a: _Hits,
    hits_b: _Hits,
    texts: Mapping[str, tuple[str, str]],
) -> tuple[MovedPassage, ...]:
    grades = pair.basis.qrels.get(query_id, {})
    first_stage = {
        doc_id: rank
        for rank, (doc_id, _) in enumerate(pair.basis.first_stage.get(query_id, ()), start=1)
    }
    places_a, places_b = _places(hits_a, effects), _places(hits_b, effects)
    moved = []
    for doc_id, effect in effects.items():
        title, text = texts.get(doc_id, ("", ""))
        moved.append(
            MovedPassage(
                doc_id=doc_id,
                title=title,
                text=text[:EXCERPT],
                grade=grades.get(doc_id),
                first_stage_rank=first_stage.get(doc_id),
                a=places_a[doc_id],
                b=places_b[doc_id],
                effect=effect,
            )
        )
    return tuple(moved)


def _most_telling(effects: Mapping[str, float], room: Mapping[str, float], limit: int) -> list[str]:
    relevant = sorted(
        (doc_id for doc_id, effect in effects.items() if abs(effect) > EQUAL),
        key=lambda doc_id: -abs(effects[doc_id]),
    )
    # Where relevant passages lost ranks, others took them, and the other way round.
    sign = -1.0 if math.fsum(effects.values()) > 0 else 1.0
    others = sorted(
        (doc_id for doc_id in room if not effects[doc_id] and sign * room[doc_id] > EQUAL),
        key=lambda doc_id: -sign * room[doc_id],
    )
    share = max(math.ceil(2 * limit / 3), limit - len(others))
    kept = relevant[:share]
    return [*kept, *others[: limit - len(kept)]]


def _ideal(grades: Mapping[str, int], cutoff: int | None) -> float:
    gains = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:cutoff]
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, start=1))


def _discount(hit: Hit | None, cutoff: int | None) -> float:
    if hit is None or (cutoff is not None and hit.rank > cutoff):
        return 0.0
    return 1 / math.log2(1 + hit.rank)


def _places(hits: _Hits, chosen: Iterable[str]) -> dict[str, Place]:
    equals = Counter(hit.score for hit in hits.values())
    means = _means(list(hits.values()))
    return {doc_id: _place(hits.get(doc_id), equals, means) for doc_id in chosen}


def _place(
    hit: Hit | None, equals: Mapping[float | None, int], means: Mapping[str, float]
) -> Place:
    if hit is None:
        return Place(None, None, None, 0, (), None)
    names = dict.fromkeys((*hit.scores, *hit.missing))
    scores = tuple(_persona_score(hit, name, means.get(name)) for name in names)
    return Place(
        rank=hit.rank,
        score=hit.score,
        at_most=hit.at_most,
        tied=0 if hit.score is None else equals[hit.score] - 1,
        scores=scores,
        pull=max((each for each in scores if _distance(each) > EQUAL), key=_distance, default=None),
    )


def _persona_score(hit: Hit, name: str, mean: float | None) -> PersonaScore:
    score = hit.scores.get(name)
    absent = ""
    if name in hit.missing:
        absent = f"missing: {hit.missing[name]}"
    elif name in hit.skipped:
        absent = "skipped"
    elif score is None:
        absent = "not judged"
    return PersonaScore(name, score, absent, mean, dict(hit.criteria.get(name, {})))


def _distance(score: PersonaScore) -> float:
    if score.score is None or score.mean is None:
        return 0.0
    return abs(score.score - score.mean)


def _means(hits: Sequence[Hit]) -> dict[str, float]:
    given: dict[str, list[float]] = {}
    for hit in hits:
        for name, score in hit.scores.items():
            if score is not None:
                given.setdefault(name, []).append(score)
    return {name: math.fsum(scores) / len(scores) for name, scores in given.items()}


def _team(ranked: Ranked | None) -> tuple[TeamMember, ...]:
    members = ranked.team.members if ranked and ranked.team else ()
    return tuple(
        TeamMember(
            member.name,
            {each.name: each.weight for each in (member.rubric.criteria if member.rubric else ())},
        )
        for member in members
    )


def _setting_changes(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[SettingChange, ...]:
    if not a or not b:
        return ()
    names = dict.fromkeys((*a, *b))
    return tuple(
        SettingChange(name, a.get(name, ""), b.get(name, ""))
        for name in names
        if a.get(name) != b.get(name)
    )
