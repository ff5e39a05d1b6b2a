"""Warnings about a ranking and notes on it, in sentences, most severe first.

Foreign text in them is on one line, with unsafe characters as visible escapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from personas.format import counted, decimals, exact, fixed, optional, percent, whole
from personas.ranking.agreement import ndcg
from personas.ranking.record import RankingRecord
from personas.ranking.types import Comparisons, WindowCounts
from personas.report.formats import alpha_reading
from personas.sanitize import plain

Kind: TypeAlias = Literal["bad", "warn", "note", "good"]

ORDER: tuple[Kind, ...] = ("bad", "warn", "note", "good")

_NARROW = 1 / 3  # of the scale; scores closer together hardly separate passages
_MANY_TIES = 0.25  # of the passages share their final score with others
_UNSURE = 0.5  # mean confidence of a judge
_NAME = 80
_REASON = 300


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about a ranking, how severe it is, and, of a failure, its name for programs."""

    kind: Kind
    sentence: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Judgements:
    """Summary of the judgements of a ranking."""

    sentence: str  # how many relevant passages there are, and how many of them were found
    # nDCG@10, 0 to 1; None where no passage is relevant, as those of other rankings.
    ndcg: float | None = None
    first_stage_ndcg: float | None = None
    other_ndcg: float | None = None
    graded: bool = False  # whether grades above 1 occur


def warnings(inspection: RankingRecord) -> tuple[Notice, ...]:
    """Warnings and notes, most severe first; empty without passages."""
    if not inspection.hits:
        return ()
    found = [
        *_missing(inspection),
        *problems(inspection),
        *_effectiveness(inspection),
        *_judge(inspection),
        *_suspicious(inspection),
        *_scores(inspection),
        *_left_out(inspection),
        *_agreement(inspection),
    ]
    return tuple(sorted(found, key=lambda each: ORDER.index(each.kind)))


def _missing(inspection: RankingRecord) -> Iterator[Notice]:
    hits = inspection.hits
    if missing := len(inspection.missing):
        asked = missing + sum(len(hit.known_scores) for hit in hits)
        said = f"{whole(missing)} of {counted(asked, 'score')} {_is(missing)} missing"
        if any(hit.imputed for hit in hits):
            said += "; what was imputed counts in the final scores marked *"
        yield Notice("bad", f"{said}.")


def problems(inspection: RankingRecord) -> Iterator[Notice]:
    """Yield what went wrong besides missing scores; needs no arithmetic over the passages."""
    hits = inspection.hits
    if inspection.failure:
        yield Notice(
            "bad",
            "No passage was judged, so they keep their first-stage order: "
            f"{_ended(plain(inspection.failure, _REASON))}",
            "FirstStageOrder",
        )
    elif inspection.partial:
        said = "The deadline came before all scores"
        if inspection.personas:
            said += f": {whole(len(inspection.judged))} of {whole(len(hits))} passages were judged"
        yield Notice("bad", f"{said}.", "Deadline")
    if inspection.comparisons and not inspection.failure:
        yield from _comparisons(inspection.comparisons)
    if inspection.windows and not inspection.failure:
        yield from _windows(inspection.windows)


def _comparisons(counts: Comparisons) -> Iterator[Notice]:
    if counts.failed:
        reason = f": {_ended(plain(counts.reason, _REASON))}" if counts.reason else "."
        yield Notice(
            "bad",
            f"{whole(counts.failed)} of {counted(counts.asked, 'comparison')} failed, and their "
            f"passages kept their order{reason}",
            "FailedComparisons",
        )
    if counts.odd:
        yield Notice("warn", f"Of {counted(counts.asked, 'comparison')}: {_flaws(counts)}.")
    if 3 <= counts.as_shown == counts.asked - counts.failed:
        yield Notice(
            "bad",
            f"All {counted(counts.as_shown, 'reply', 'replies')} keep the order in which passages "
            "were shown: the model may go by place alone, and the order be the first stage's.",
        )


def _windows(counts: WindowCounts) -> Iterator[Notice]:
    if counts.odd or counts.failed:
        asked = counted(counts.asked + counts.failed, "reply", "replies")
        failed = f"{whole(counts.failed)} failed, " if counts.failed else ""
        unread = f", {whole(counts.unreadable)} without a score of the scale"
        said = f"{failed}{_flaws(counts)}{unread if counts.unreadable else ''}".removesuffix(", ")
        yield Notice("warn", f"Of {asked}: {said}; what they lacked was asked for again.")


def _flaws(counts: Comparisons | WindowCounts) -> str:
    kinds = (
        (counts.odd, "odd in form"),
        (counts.missing, "left out"),
        (counts.repeated, "named twice"),
        (counts.unknown, "named that were not shown"),
    )
    return ", ".join(f"{whole(number)} {what}" for number, what in kinds if number)


def _effectiveness(inspection: RankingRecord) -> Iterator[Notice]:
    found = judgements(inspection)
    if found is None or found.ndcg is None or found.first_stage_ndcg is None:
        return
    own, given = fixed(found.ndcg, 3), fixed(found.first_stage_ndcg, 3)
    figures = f"nDCG@10 is {own}, the first stage's {given}"
    if inspection.other is not None and found.other_ndcg is not None:
        name = plain(inspection.other.name, _NAME)
        figures += f", and that of {name} {fixed(found.other_ndcg, 3)}"
    outcome: tuple[Kind, str] = ("good", "better")
    if own == given:
        outcome = ("warn", "no better")
    elif found.ndcg < found.first_stage_ndcg:
        outcome = ("bad", "worse")
    yield Notice(outcome[0], f"It ranks {outcome[1]} than the first stage: {figures}.")


def _judge(inspection: RankingRecord) -> Iterator[Notice]:
    if note := inspection.judge_note:
        yield Notice("warn", f"{plain(note)} Treat its order as approximate.")
    sure = [(share, hit.rank) for hit in inspection.hits for share in hit.confidence.values()]
    if sure:
        average = sum(share for share, _ in sure) / len(sure)
        least, rank = min(sure)
        yield Notice(
            "warn" if average < _UNSURE else "note",
            f"The judge is {percent(average)} sure of a score on average, and least at rank "
            f"{rank}, {percent(least)}.",
        )


def _suspicious(inspection: RankingRecord) -> Iterator[Notice]:
    if ranks := [hit.rank for hit in inspection.hits if hit.suspicions]:
        where = f"rank {ranks[0]}"
        if len(ranks) > 1:
            where = f"{counted(len(ranks), 'passage')}, the first at {where}"
        yield Notice("warn", f"Possible spam or prompt injection: {where}.")


def _scores(inspection: RankingRecord) -> Iterator[Notice]:
    known = [score for hit in inspection.hits for score in hit.known_scores]
    if known and len(inspection.hits) > 1:
        low, high, places = min(known), max(known), decimals(known)
        least, most = fixed(low, places), fixed(high, places)
        span = f"from {least} to {most} on a scale of 0 to {exact(inspection.top)}"
        if low == high:
            yield Notice("bad", f"All scores are {least}: they do not tell passages apart.")
        elif high - low < _NARROW * inspection.top:
            yield Notice("warn", f"Scores lie close together, {span}.")
        elif (low, high) != (0, inspection.top):
            yield Notice("note", f"Scores go {span}.")
    finals = Counter(hit.score for hit in inspection.judged)
    tied = sum(number for number in finals.values() if number > 1)
    if tied and inspection.personas and len(finals) > 1:
        of = counted(len(inspection.judged), "passage")
        scores = counted(len(finals), "different score")
        yield Notice(
            "warn" if tied >= _MANY_TIES * len(inspection.judged) else "note",
            f"{whole(tied)} of {of} share their final score with others ({scores} in all); these "
            "keep the first stage's order.",
        )


def _left_out(inspection: RankingRecord) -> Iterator[Notice]:
    hits = inspection.hits
    if cut := sum(bool(hit.cut) for hit in hits):
        yield Notice(
            "note",
            f"{counted(cut, 'passage')} {_was(cut)} cut for the model, and judged by "
            f"{'its' if cut == 1 else 'their'} beginning.",
        )
    last = inspection.last_sure_rank
    if last is None or inspection.partial or inspection.failure:
        return
    if inspection.comparisons:
        said = f"Only the first {counted(last, 'rank')} of {whole(len(hits))} were asked for"
    elif dropped := len(inspection.dropped):
        said = f"{counted(dropped, 'passage')} {_was(dropped)} dropped for too little relevance"
    else:
        said = f"{whole(last)} of {whole(len(hits))} passages were judged; the others follow in "
        said += "first-stage order"
    yield Notice("note", f"{said}.")


def _agreement(inspection: RankingRecord) -> Iterator[Notice]:
    alpha = inspection.agreement.sums.alpha if len(inspection.personas) > 1 else None
    if alpha is None:
        return
    said = f"The personas {alpha_reading(alpha)} (Krippendorff's alpha {optional(alpha, 2)})"
    if alpha > 0:
        # That a model agrees with itself proves nothing.
        said += "; all of them use the same model"
    yield Notice("note", f"{said}.")


def judgements(inspection: RankingRecord) -> Judgements | None:
    """Summary of the judgements; None if none are known."""
    grades = inspection.grades
    if grades is None:
        return None
    if not grades:
        return Judgements("There are no judgements for this query.")
    relevant = sum(grade > 0 for grade in grades.values())
    if not relevant:
        said = "No passage is judged relevant to this query, so nDCG@10 is not defined."
        return Judgements(said)
    hits = inspection.hits
    given = sorted(hits, key=lambda hit: hit.first_stage_rank)
    places = inspection.other.places if inspection.other else {}
    others = [grades.get(doc) for doc in sorted(places, key=lambda doc: places[doc].rank)]
    return Judgements(
        _found(relevant, sum((hit.grade or 0) > 0 for hit in hits), len(hits)),
        ndcg=ndcg([hit.grade for hit in hits], grades.values()),
        first_stage_ndcg=ndcg([hit.grade for hit in given], grades.values()),
        other_ndcg=ndcg(others, grades.values()) if others else None,
        graded=max(grades.values()) > 1,
    )


def _found(relevant: int, found: int, passages: int) -> str:
    these = f"{_is(found)} among these {whole(passages)}"
    if relevant == 1 and found:
        return f"The one passage judged relevant {these}."
    if relevant == 1:
        return "The one passage judged relevant was not found by the first stage."
    if found == relevant:
        return f"All {whole(relevant)} passages judged relevant {these}."
    lost = relevant - found
    if not found:
        return f"None of the {whole(lost)} passages judged relevant was found by the first stage."
    missed = f"{whole(lost)} {_was(lost)} not found by the first stage"
    return f"Of {whole(relevant)} passages judged relevant, {whole(found)} {these}; {missed}."


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
