"""The page of a tuned team: weights before and after, and the gain that they show."""

from __future__ import annotations

from collections.abc import Iterator

from beir_eval.report.html import rendered
from beir_eval.tuning.tune import MEASURE, TunedTeam
from personas.format import counted
from personas.report.site import NO_FOOTER, ReportFooter

_MOST_QUERIES = 2_000


def render_tuned(tuned: TunedTeam, *, footer: ReportFooter = NO_FOOTER) -> str:
    """The page; the same result gives the same one, byte for byte."""
    queries = sorted(
        ((label, *values) for label, values in tuned.per_query.items()),
        key=lambda each: (-abs(each[3] - each[2]), each[0]),
    )
    return rendered(
        "tuning.html",
        tuned=tuned,
        title=tuned.before.name or counted(len(tuned.team.members), "persona"),
        measure=MEASURE,
        before=sum(each[2] for each in queries) / len(queries),
        weights=list(weights(tuned)),
        queries=queries[:_MOST_QUERIES],
        footer=footer,
    )


def weights(tuned: TunedTeam) -> Iterator[tuple[str, str, float, float]]:
    """Persona, criterion (empty for the persona itself), and its percent before and after."""
    before, after = tuned.before, tuned.team
    equal = 100 / len(before.members)
    for was, now in zip(before.members, after.members, strict=True):
        yield was.name, "", before.shares.get(was.name, equal), after.shares.get(now.name, equal)
        if was.rubric and now.rubric:
            for old, new in zip(was.rubric.criteria, now.rubric.criteria, strict=True):
                yield was.name, new.name, old.weight, new.weight
