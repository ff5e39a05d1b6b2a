"""The page of a tuned team: weights before and after, and the gain that they show."""

from __future__ import annotations

from collections.abc import Iterator

from beir_eval.report.html import rendered
from beir_eval.tuning.tune import MEASURE, TunedTeam
from personas.format import counted, signed
from personas.report.site import NO_FOOTER, ReportFooter
from personas.schema import Team

_MOST_QUERIES = 2_000


def render_tuned(tuned: TunedTeam, *, footer: ReportFooter = NO_FOOTER) -> str:
    """The page; the same result gives the same one, byte for byte."""
    gain, name = tuned.gain, tuned.before.name
    queries = sorted(
        ((label, *values) for label, values in tuned.per_query.items()),
        key=lambda each: (-abs(each[3] - each[2]), each[0]),
    )
    count = counted(len(queries), "judged query", "judged queries")
    verdict = f"On held-out queries the fitted weights change {MEASURE} by {gain}."
    return rendered(
        "tuning.html",
        tuned=tuned,
        title=name or counted(len(tuned.team.members), "persona"),
        measure=MEASURE,
        count=count,
        before=sum(each[2] for each in queries) / len(queries),
        verdict=verdict,
        gain_text=signed(gain.difference, 4),
        weights=list(weights(tuned.before, tuned.team)),
        queries=queries[:_MOST_QUERIES],
        rest=max(0, len(queries) - _MOST_QUERIES),
        footer=footer,
    )


def weights(before: Team, after: Team) -> Iterator[tuple[str, str, float, float]]:
    """Persona, criterion (empty for the persona itself), and its percent before and after."""
    equal = 100 / len(before.members)
    for was, now in zip(before.members, after.members, strict=True):
        shares = (before.shares.get(was.name, equal), after.shares.get(now.name, equal))
        yield (was.name, "", *shares)
        pairs = zip(
            was.rubric.criteria if was.rubric else (),
            now.rubric.criteria if now.rubric else (),
            strict=True,
        )
        for old, new in pairs:
            yield was.name, new.name, old.weight, new.weight
