"""Lines before and after the ranking in the terminal view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rich.text import Text

from personas.console import letter
from personas.ranking.record import RankingRecord
from personas.ranking.usage import Calls, Usage
from personas.report.formats import alpha_reading
from personas.report.query.verdict import verdict
from personas.report.terminal.screen import NOTE, Screen, clipped
from personas.survey.query import DEPTH, QueryFindings
from personas.words import counted, dollars, seconds

_MOST_QUERY = 1000
_MOST_PAIRS = 10
_MOST_STAGES = 20
_MOST_IDS = 5
_MARKS = {
    "bad": ("x", "bold red"),
    "warn": ("!", "yellow"),
    "note": ("-", NOTE),
    "good": ("+", "green"),
}


def show_head(screen: Screen, inspection: RankingRecord) -> None:
    """The query, and what ranked how many passages."""
    screen.words(clipped(inspection.query.text, _MOST_QUERY), "bold")
    query = [f"query {clipped(inspection.query.id, 80)}"] if inspection.query.id else []
    # Without scores there is no scheme of scoring, and of a single order no ensemble.
    settings = ["preset"] if inspection.comparisons else ["preset", "scoring", "ensemble"]
    settings += ["ensemble"] if inspection.by_rank else []
    parts = [
        *query,
        counted(len(inspection.hits), "passage"),
        f"ranked by {clipped(inspection.ranker, 80)}",
        *(
            f"{name} {clipped(str(inspection.config[name]), 40)}"
            for name in settings
            if inspection.config.get(name)
        ),
    ]
    screen.words(", ".join(parts), NOTE)


def show_warnings(screen: Screen, inspection: RankingRecord) -> None:
    """Warnings and notes, as the page has them."""
    for each in verdict(inspection):
        mark, style = _MARKS[each.kind]
        screen.words(f"{mark} {clipped(each.sentence, 800)}", style, hang=2)


def show_agreement(screen: Screen, inspection: RankingRecord) -> None:
    """Describe the personas' agreement, and the ranking's quality where judgements are known."""
    findings = QueryFindings.of(1, inspection)
    if len(findings.judges) > 1 and inspection.hits:
        screen.line()
        _show_agreement(screen, findings, by_rank=inspection.by_rank)
    if inspection.grades is not None:
        screen.line()
        _show_effectiveness(screen, inspection, findings)


def show_calls(screen: Screen, inspection: RankingRecord) -> None:
    """Calls, tokens, cost and time, by stage and together; the models."""
    screen.line()
    screen.line("Calls", "bold")
    total, reused = inspection.usage, inspection.reused.calls
    if not total.calls:
        screen.words("no model was called")
    rows = _by_stage(inspection)
    for row in list(rows.values())[:_MOST_STAGES]:
        by = f" ({clipped(row.model, 80)})" if len(set(inspection.models.values())) > 1 else ""
        screen.words(
            f"{clipped(row.stage, 40):<9} {_counts(row.usage, row.cost)}{by}", NOTE, hang=10
        )
    if len(rows) > 1:
        screen.words(f"{'together':<9} {_counts(total, inspection.cost)}", hang=10)
    if reused:
        screen.words(f"{counted(reused, 'answer')} from the ledger, which took no call")
    times = [
        f"{clipped(stage, 40)} {seconds(spent)}"
        for stage, spent in list(inspection.seconds.items())[:_MOST_STAGES]
    ]
    if times:
        screen.words(f"{'time':<9} {', '.join(times)}", NOTE, hang=10)
    for model, roles in _models(inspection.models).items():
        screen.words(f"{'model':<9} {model}{roles}", NOTE, hang=10)


def _show_agreement(screen: Screen, findings: QueryFindings, *, by_rank: bool) -> None:
    figures = findings.figures
    screen.line("Agreement", "bold")
    if figures.tau is None:
        screen.words(
            "Kendall's tau-b is not defined: no two of them scored the same passages apart."
        )
    else:
        screen.words(f"Kendall's tau-b {figures.tau:.2f}{_pairs(findings)}")
    if figures.alpha is None:
        screen.words(
            "Krippendorff's alpha is not defined: no passage has two scores, or all are equal."
        )
    else:
        reading = f"the personas {alpha_reading(figures.alpha)}"
        screen.words(f"Krippendorff's alpha {figures.alpha:.2f}: {reading}")
    if figures.disagreement is not None:
        most = "number of ranks" if by_rank else "highest score"
        screen.words(f"mean disagreement {100 * figures.disagreement:.1f}% of the {most}")
    screen.words(
        "Tau and alpha are 1 for full agreement and about 0 for chance. Tau compares the orders, "
        f"alpha the {'distances of ranks' if by_rank else 'scores'}.",
        NOTE,
    )


def _pairs(findings: QueryFindings) -> str:
    taus = findings.taus
    if len(taus) < 2:
        return ""
    if len(taus) > _MOST_PAIRS:
        known = [tau for tau in taus.values() if tau is not None]
        return f", mean of {len(known)} pairs from {min(known):.2f} to {max(known):.2f}"
    each = [
        f"{letter(one)}-{letter(other)} {'undefined' if tau is None else f'{tau:.2f}'}"
        for (one, other), tau in taus.items()
    ]
    return f", mean of {', '.join(each)}"


def _show_effectiveness(screen: Screen, inspection: RankingRecord, findings: QueryFindings) -> None:
    grades, figures = inspection.grades or {}, findings.figures
    screen.line("Judgements", "bold")
    relevant = [doc_id for doc_id, grade in grades.items() if grade > 0]
    ranks = [hit.rank for hit in inspection.hits if (hit.grade or 0) > 0]
    listed = ", ".join(map(str, ranks[:DEPTH])) + (", ..." if len(ranks) > DEPTH else "")
    at = f", at {'ranks' if len(ranks) > 1 else 'rank'} {listed}" if ranks else ""
    screen.words(f"{counted(len(relevant), 'relevant passage')}, {len(ranks)} of them here{at}")
    here = {hit.doc_id for hit in inspection.hits}
    lost = [doc_id for doc_id in relevant if doc_id not in here]
    if lost:
        names = ", ".join(clipped(doc_id, 40) for doc_id in lost[:_MOST_IDS])
        more = f" and {len(lost) - _MOST_IDS} more" if len(lost) > _MOST_IDS else ""
        screen.words(f"not found by the first stage: {names}{more}", NOTE)
    if figures.ndcg is None:
        screen.words("no judgement is known for this query")
        return
    values = Text(f"nDCG@10 {figures.ndcg:.3f}", style="bold")
    if figures.first_stage_ndcg is not None:
        values.append(f", first stage {figures.first_stage_ndcg:.3f}", style="not bold")
    if inspection.other is not None and figures.other_ndcg is not None:
        name = clipped(inspection.other.name, 40)
        values.append(f", {name} {figures.other_ndcg:.3f}", style="not bold")
    screen.words(values)
    if findings.left_out is not None and len(findings.judges) > 1:
        without = [
            f"{letter(place)} {findings.left_out.without[judge.name]:.3f}"
            for place, judge in enumerate(findings.judges[:_MOST_PAIRS])
            if judge.name in findings.left_out.without
        ]
        if without:
            screen.words(f"nDCG@10 without {', '.join(without)}", NOTE)


def _by_stage(inspection: RankingRecord) -> Mapping[tuple[str, str], Calls]:
    rows: dict[tuple[str, str], Calls] = {}
    for row in inspection.rows_of_calls():
        key = (row.stage, row.model)
        known = rows.get(key)
        rows[key] = row if known is None else _added(known, row)
    return rows


def _added(one: Calls, other: Calls) -> Calls:
    cost = None if one.cost is None or other.cost is None else one.cost + other.cost
    return replace(one, usage=one.usage + other.usage, cost=cost)


def _counts(used: Usage, cost: float | None) -> str:
    cached = f" ({used.cached_input_tokens:,} cached)" if used.cached_input_tokens else ""
    return (
        f"{counted(used.calls, 'call')}, {counted(used.input_tokens, 'token')} in{cached}, "
        f"{used.output_tokens:,} out, {dollars(cost)}"
    )


def _models(models: Mapping[str, str]) -> dict[str, str]:
    """Model -> the roles it has, in brackets; nothing if it has all."""
    names = dict.fromkeys(models.values())
    return {
        clipped(name, 120): ""
        if len(names) == 1
        else f" ({', '.join(clipped(role, 40) for role, used in models.items() if used == name)})"
        for name in list(names)[:_MOST_STAGES]
    }
