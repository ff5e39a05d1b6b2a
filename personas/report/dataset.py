"""The page of a report over a data set, and the list of several such reports.

Foreign text in warnings is on one line, with unsafe characters as visible escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from personas.format import counted, optional, p_text, signed, whole
from personas.report.formats import alpha_reading, cut, tau_reading, value
from personas.report.page import NO_FOOTER, ReportFooter, query_page, render_page
from personas.report.warnings import ORDER, Notice
from personas.sanitize import plain
from personas.survey import QueryFigures, Survey

WORTHS = 15
FEW = 20
"""With fewer queries, intervals and tests are rough."""
_NAME, _HEADING = 80, 40
_MOST_EVERYWHERE = 2_000


def findings(survey: Survey) -> tuple[Notice, ...]:
    """A weak judge first, then what it gained, then by severity; empty if all queries failed."""
    if survey.totals.queries == survey.totals.failed:
        return ()
    found = [
        *_what_went_wrong(survey),
        *(Notice("warn", plain(note)) for note in survey.notes),
        *_agreement(survey),
    ]
    found.sort(key=lambda each: ORDER.index(each.kind))
    found[:0] = _effectiveness(survey)
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


def _agreement(survey: Survey) -> Iterator[Notice]:
    alpha = survey.totals.alpha
    if alpha is None:
        return
    said = f"The personas {alpha_reading(alpha)} (Krippendorff's alpha {optional(alpha, 2)})"
    if alpha > 0 and len(set(survey.models.values())) <= 1:
        # One model speaks for all: that it agrees with itself proves nothing.
        said += "; all of them use the same model"
    yield Notice("note", f"{said}.")


def render_survey(
    survey: Survey, *, runs: str = "", figures: str = "", footer: ReportFooter = NO_FOOTER
) -> str:
    """The page of a run; `runs` and `figures` are addresses of the list of runs and of a file."""
    survey = replace(
        survey,
        title=survey.title if survey.title.strip() else "Unnamed run",
        first_stage=survey.first_stage if survey.first_stage.strip() else "first stage",
        other=survey.other if not survey.other or survey.other.strip() else "the other ranker",
    )
    models = tuple(survey.models.items())
    if len(set(survey.models.values())) == 1:
        models = (("", models[0][1]),)
    personas, totals = survey.personas, survey.totals
    chart = [(each, each.recruited) for each in personas if each.recruited]
    left_out = [(each, each.without) for each in personas if each.without][:WORTHS]
    worths = [each for each in left_out if signed(each[1].worth) != "0.000"]
    contests = (
        ("gain", survey.first_stage, [query.gain for query in survey.queries]),
        ("other", survey.other, [query.gain_over_other for query in survey.queries]),
    )
    return render_page(
        "dataset.html",
        assets=("survey",),
        survey=survey,
        runs=runs,
        figures=figures,
        footer=footer,
        query_page=query_page,
        teamless=not personas and totals.failed < totals.queries,
        headline=_headline(survey),
        verdict=findings(survey),
        alpha_reading=alpha_reading,
        tau_reading=tau_reading,
        counted=sum(query.ndcg is not None for query in survey.queries),
        # As in Fig. 7; all judges where none was recruited.
        recruited=bool(chart),
        chart=sorted(
            chart or [(each, each.queries) for each in personas], key=lambda each: -each[1]
        ),
        not_recruited=[
            (each, queries)
            for each in personas
            if chart and (queries := each.queries - each.recruited)
        ],
        worths=worths,
        unmoved=[each for each in left_out if each not in worths],
        contests=[
            (key, name, *_outcomes(gains))
            for key, name, gains in contests
            if any(gain is not None for gain in gains)
        ],
        models=models,
        settings=[(name.replace("_", " "), value(each)) for name, each in survey.settings.items()],
        table=_table(survey),
    )


def _headline(survey: Survey) -> str:
    """The report's subject in words: ``How a team of 3 ranked mini``."""
    sizes = {len(query.personas) for query in survey.queries if not query.error}
    who = survey.title
    if sizes and min(sizes) > 0:
        least, most = min(sizes), max(sizes)
        who = f"a team of {most}" if least == most else f"teams of {least} to {most}"
    return f"How {who} ranked {survey.collection or 'these queries'}"


def _outcomes(gains: Iterable[float | None]) -> tuple[int, int, int]:
    """Queries with a higher, the same and a lower nDCG@10 than another order."""
    known = [gain for gain in gains if gain is not None]
    return (
        sum(gain > 0 for gain in known),
        sum(gain == 0 for gain in known),
        sum(gain < 0 for gain in known),
    )


def _table(survey: Survey) -> dict[str, Any]:
    """The table of all queries; columns where no row has anything to say are left out."""
    queries, totals = survey.queries, survey.totals
    first_stage, other = cut(survey.first_stage, _HEADING), cut(survey.other, _HEADING)
    common = _common_personas(queries)
    judges = {name.casefold() for name in common}
    shown: tuple[tuple[str, str, Callable[[QueryFigures], str]], ...] = (
        ("ndcg", "nDCG@10", lambda query: optional(query.ndcg)),
        ("gain", f"Gain over {first_stage}", lambda query: _signed(query.gain)),
        ("other", f"Gain over {other}", lambda query: _signed(query.gain_over_other)),
        ("disagreement", "Dis\u00adagree\u00adment", lambda query: optional(query.disagreement)),
        ("alpha", "Alpha", lambda query: optional(query.alpha, 2)),
        ("missing", "Missing scores", lambda query: whole(query.missing)),
    )
    figures = [
        (key, title, of)
        for key, title, of in shown
        if (totals.missing if key == "missing" else any(map(of, queries)))
    ]
    others = [
        [name for name in query.personas if name.casefold() not in judges] for query in queries
    ]
    orders = (
        ("-disagreement", "largest disagreement first"),
        ("-gain", f"largest gain over {first_stage} first"),
        ("gain", f"largest loss to {first_stage} first"),
        ("-other", f"largest gain over {other} first"),
        ("other", f"largest loss to {other} first"),
        ("ndcg", "lowest nDCG@10 first"),
        ("alpha", "lowest alpha first"),
    )
    keys = [key for key, _, _ in figures]
    shows = [("failed", "only failed ones")] if totals.failed else []
    shows += [("missing", "only with missing scores")] if totals.missing else []
    return {
        "known": keys,
        "columns": [(key, title) for key, title, _ in figures],
        "rows": [
            (query, [of(query) for _, _, of in figures], names)
            for query, names in zip(queries, others, strict=True)
        ],
        "named": any(others),
        "orders": [each for each in orders if each[0].lstrip("-") in keys],
        "shows": shows,
        "common": common,
        "everywhere": " \N{MIDDLE DOT} ".join(common)[:_MOST_EVERYWHERE],
    }


def _signed(gain: float | None) -> str:
    return "" if gain is None else signed(gain)


def _common_personas(queries: Iterable[QueryFigures]) -> tuple[str, ...]:
    """The judges of every ranked query, in the order of the first."""
    ranked = [query for query in queries if not query.error]
    if len(ranked) < 2:
        return ()
    common = {name.casefold() for name in ranked[0].personas}
    for query in ranked:
        common.intersection_update(name.casefold() for name in query.personas)
    return tuple(name for name in ranked[0].personas if name.casefold() in common)


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run of a report: its folder, its page, and the survey without the tables."""

    run: Path
    index: Path
    finished: bool
    survey: Survey


def render_runs(
    entries: Sequence[tuple[str, ReportedRun]],
    left_out: Sequence[str] = (),
    footer: ReportFooter = NO_FOOTER,
) -> str:
    """The list of runs, each with its address; those over the same data are together."""

    def shared(names: set[str]) -> str:
        return names.pop() if len(names) == 1 else ""

    groups = []
    for dataset in dict.fromkeys(run.survey.dataset for _, run in entries):
        its = [entry for entry in entries if entry[1].survey.dataset == dataset]
        first_stage = shared({run.survey.first_stage for _, run in its})
        other = shared({run.survey.other for _, run in its if run.survey.other})
        groups.append((dataset, its, first_stage, other))
    judges = dict.fromkeys(run.survey.judge for _, run in entries if run.survey.judge)
    return render_page(
        "runs.html",
        assets=("survey",),
        groups=groups,
        runs=len(entries),
        judges=[plain(each) for each in judges],
        left_out=left_out,
        footer=footer,
    )
