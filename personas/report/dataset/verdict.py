"""What to know before believing a run over a data set, in sentences, worst news first.

Foreign text in them is on one line, with unsafe characters as visible escapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from personas.plain import plain
from personas.report.formats import alpha_reading
from personas.report.query.verdict import ORDER, Finding
from personas.survey.model import Difference, Survey
from personas.weak_judges import judge_note
from personas.words import counted, optional, p_text, signed, whole

FEW = 20
"""Below so many queries, intervals and tests are rough."""
_NAME = 80


def findings(survey: Survey) -> tuple[Finding, ...]:
    """What to know before believing the run, worst news first; empty where nothing was ranked."""
    totals = survey.totals
    if totals.queries == totals.failed:
        return ()
    found = [
        *_what_went_wrong(survey),
        *_effectiveness(survey),
        *_judge(survey),
        *_agreement(survey),
    ]
    return tuple(sorted(found, key=lambda each: ORDER.index(each.kind)))


def against(difference: Difference) -> str:
    """``+0.025 (95% interval -0.031 to +0.081, p 0.341)``, with true minus signs."""
    return (
        f"{signed(difference.mean)} (95% interval {signed(difference.low)} to "
        f"{signed(difference.high)}, p {p_text(difference.p_value)})"
    )


def _what_went_wrong(survey: Survey) -> Iterator[Finding]:
    totals = survey.totals
    if totals.failed:
        yield Finding(
            "bad",
            f"{whole(totals.failed)} of {counted(totals.queries, 'query', 'queries')} "
            f"{'was' if totals.failed == 1 else 'were'} not ranked.",
        )
    if totals.missing:
        touched = sum(query.missing > 0 for query in survey.queries)
        yield Finding(
            "bad",
            f"{counted(totals.missing, 'score')} in {counted(touched, 'query', 'queries')} "
            f"{'is' if totals.missing == 1 else 'are'} missing.",
        )


def _effectiveness(survey: Survey) -> Iterator[Finding]:
    totals = survey.totals
    if totals.ndcg is None:
        yield Finding("warn", "No judgements are known, so nobody can tell whether it ranks well.")
        return
    values = {survey.first_stage: totals.first_stage_ndcg, survey.other: totals.other_ndcg}
    for each in survey.differences:
        name = plain(each.against, _NAME)
        theirs = values.get(each.against)
        figures = f"{optional(totals.ndcg)} and {optional(theirs)}, " if theirs is not None else ""
        said = f"{name} in nDCG@10: {figures}{against(each)}."
        if each.sign > 0:
            yield Finding("good", f"It ranks better than {said}")
        elif each.sign < 0:
            yield Finding("bad", f"It ranks worse than {said}")
        else:
            yield Finding("warn", f"It is not shown to rank better than {said}")
    if survey.differences and (judged := max(each.queries for each in survey.differences)) < FEW:
        yield Finding(
            "warn",
            f"Only {counted(judged, 'query', 'queries')} {'has' if judged == 1 else 'have'} "
            "judgements, so intervals and tests are rough.",
        )


def _judge(survey: Survey) -> Iterator[Finding]:
    if note := judge_note(survey.weak_judge, survey.models.get("scoring", "")):
        yield Finding("warn", f"{plain(note)} Treat its order as approximate.")
    for note in survey.notes:
        yield Finding("warn", plain(note))


def _agreement(survey: Survey) -> Iterator[Finding]:
    alpha = survey.totals.alpha
    if alpha is None:
        return
    said = f"The personas {alpha_reading(alpha)} (Krippendorff's alpha {optional(alpha, 2)})"
    if alpha > 0 and len(set(survey.models.values())) <= 1:
        # One model speaks for all: that it agrees with itself proves nothing.
        said += ", but one model speaks for all of them"
    yield Finding("note", f"{said}.")
