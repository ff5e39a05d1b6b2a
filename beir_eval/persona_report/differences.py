"""Advantage of teams over other orders, with intervals and tests over the queries."""

from __future__ import annotations

from collections.abc import Sequence

from beir_eval.experiment.labels import models_of
from beir_eval.experiment.run_folder import RunFolder
from beir_eval.measures.values import Values, compare_runs, confidence_intervals
from beir_eval.persona_report.sources import Source, same_judge
from beir_eval.report.load import Loader
from personas.survey.model import Difference
from personas.survey.query import DEPTH

MEASURE = f"nDCG@{DEPTH}"


def differences(sources: Sequence[Source]) -> list[tuple[Difference, ...]]:
    """Of each run over its first stage and over the other ranker; none of runs not finished."""
    cache = Loader(MEASURE)
    teams = any(source.team for source in sources)
    pairs: dict[tuple[int, str], tuple[Values, Values, str]] = {}
    for place, source in enumerate(sources):
        if not source.run.manifest.finished:
            continue
        ours = cache.of_run(source.run, source.data).values
        first = cache.of_first_stage(source.data).values
        against = {source.data.manifest.first_stage.name: (first, _flaw(source.run, ours))}
        if source.other is not None:
            other = cache.of_run(source.other, source.data).values
            against[source.other.manifest.label] = other, _why_not(source, ours, other)
        for name, (base, why_not) in against.items():
            if teams and not source.team:
                why_not = why_not or "this report tests its teams alone"
            pairs[place, name] = ours, base, why_not
    tests = compare_runs(
        {
            key: {"ours": ours, "theirs": theirs}
            for key, (ours, theirs, why_not) in pairs.items()
            if not why_not
        },
        "theirs",
    )
    found: list[list[Difference]] = [[] for _ in sources]
    for (place, name), (ours, base, why_not) in pairs.items():
        values, theirs = ours.fair, base.fair
        gains = {each: value - theirs[each] for each, value in values.items()}
        interval = confidence_intervals({"gain": gains}, low=-1, high=1)["gain"]
        test = tests.get((place, name))
        p_value = test["ours"].p_adjusted if test else None
        if not why_not and p_value is None:
            why_not = "a test takes 6 queries, and differences that vary"
        found[place].append(
            Difference(
                against=name,
                queries=len(gains),
                ours=sum(values.values()) / len(values),
                theirs=sum(theirs.values()) / len(theirs),
                low=interval.low,
                high=interval.high,
                p_value=p_value,
                why_not=why_not,
            )
        )
    return list(map(tuple, found))


def _why_not(source: Source, ours: Values, theirs: Values) -> str:
    """Why a difference to the other run would not be the team's; empty if it would be."""
    assert source.other is not None, "there is one to compare with"
    if not same_judge(source.run, source.other):
        judges = (models_of(each.manifest) for each in (source.other, source.run))
        return "its judge is {}, and here it is {}".format(*judges)
    return _flaw(source.run, ours) or _flaw(source.other, theirs)


def _flaw(run: RunFolder, values: Values) -> str:
    said = f"what {run.manifest.label} lacks of {values.unit} or queries could change its mean"
    return said if values.is_open else ""
