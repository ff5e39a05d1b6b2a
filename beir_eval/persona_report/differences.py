"""What a team has over other orders, with intervals and tests over the queries."""

from __future__ import annotations

from operator import attrgetter

from beir_eval.measures.significance import compare_runs, confidence_intervals
from personas.survey.model import Difference, Survey

_KNOWN = (("first_stage", attrgetter("gain")), ("other", attrgetter("gain_over_other")))


def differences(survey: Survey) -> tuple[Difference, ...]:
    """Over the first stage and over the other ranker, of the queries where that is known.

    Intervals are Student's at 95%; p-values are of the paired t-test, Holm's correction for both.
    Values are as ranked, with ties in the order of the ranking.
    """
    gains = {
        getattr(survey, name): {
            str(query.place): gain for query in survey.queries if (gain := of(query)) is not None
        }
        for name, of in _KNOWN
    }
    known = {name: values for name, values in gains.items() if name and values}
    tests = compare_runs(
        {
            name: {"gain": values, "none": dict.fromkeys(values, 0.0)}
            for name, values in known.items()
        },
        "none",
    )
    found = []
    for name, values in known.items():
        interval = confidence_intervals({"gain": values}, low=-1, high=1)["gain"]
        test = tests[name]["gain"]
        found.append(
            Difference(
                against=name,
                queries=len(values),
                mean=test.difference,
                low=interval.low,
                high=interval.high,
                p_value=test.p_adjusted,
            )
        )
    return tuple(found)
