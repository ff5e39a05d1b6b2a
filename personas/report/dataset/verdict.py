"""Warnings about a run over a data set, most severe first.

Foreign text in them is on one line, with unsafe characters as visible escapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from personas.format import counted, optional, p_text, signed, whole
from personas.report.formats import alpha_reading
from personas.report.query.warnings import ORDER, Notice
from personas.sanitize import plain
from personas.survey.model import Survey

FEW = 20
"""With fewer queries, intervals and tests are rough."""
_NAME = 80
_LEAST = 0.0005
"""The smallest worth that is more than 0.000."""


def findings(survey: Survey) -> tuple[Notice, ...]:
    """A weak judge first, then by severity; empty if all queries failed."""
    if survey.totals.queries == survey.totals.failed:
        return ()
    found = [
        *_what_went_wrong(survey),
        *_effectiveness(survey),
        *(Notice("warn", plain(note)) for note in survey.notes),
        *_agreement(survey),
    ]
    found.sort(key=lambda each: ORDER.index(each.kind))
    if survey.judge:
        found.insert(0, Notice("warn", f"{plain(survey.judge)} Treat its order as approximate."))
    return tuple(found)


def _what_went_wrong(survey: Survey) -> Iterator[Notice]:
    totals = survey.totals
    if totals.failed:
        yield Notice(
            "bad",
            f"{whole(totals.failed)} of {counted(totals.queries, 'query', 'queries')} "
            f"{'was' if totals.failed == 1 else 'were'} not ranked.",
        )
    if totals.missing:
        touched = sum(query.missing > 0 for query in survey.queries)
        yield Notice(
            "bad",
            f"{counted(totals.missing, 'score')} in {counted(touched, 'query', 'queries')} "
            f"{'is' if totals.missing == 1 else 'are'} missing.",
        )


def _effectiveness(survey: Survey) -> Iterator[Notice]:
    totals = survey.totals
    if totals.ndcg is None:
        yield Notice("warn", "No judgements are known, so effectiveness is not measured.")
        return
    for each in survey.differences:
        name = plain(each.against, _NAME)
        figures = f"{optional(each.ours)} and {optional(each.theirs)}"
        if each.p_value is None:
            yield Notice("warn", f"Not tested against {name} ({figures}): {plain(each.why_not)}.")
            continue
        said = (
            f"{name} in nDCG@10: {figures}, {signed(each.mean)} (95% interval {signed(each.low)} "
            f"to {signed(each.high)}, p {p_text(each.p_value)})."
        )
        if each.sign > 0:
            yield Notice("good", f"It ranks better than {said}")
        elif each.sign < 0:
            yield Notice("bad", f"It ranks worse than {said}")
        else:
            yield Notice("warn", f"No significant difference from {said}")
    if survey.differences and (judged := max(each.queries for each in survey.differences)) < FEW:
        yield Notice(
            "warn",
            f"Only {counted(judged, 'query', 'queries')} {'has' if judged == 1 else 'have'} "
            "judgements, so intervals and tests are rough.",
        )
    if (recruits := survey.recruits) is not None and recruits.worth < _LEAST:
        yield Notice(
            "warn",
            f"A recruit adds {signed(recruits.worth)} to nDCG@10 on average "
            f"({counted(recruits.queries, 'query', 'queries')}).",
        )


def _agreement(survey: Survey) -> Iterator[Notice]:
    alpha = survey.totals.alpha
    if alpha is None:
        return
    said = f"The personas {alpha_reading(alpha)} (Krippendorff's alpha {optional(alpha, 2)})"
    if alpha > 0 and len(set(survey.models.values())) <= 1:
        # One model speaks for all: that it agrees with itself proves nothing.
        said += ", but all personas use the same model"
    yield Notice("note", f"{said}.")
