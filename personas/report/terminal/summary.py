"""The head, warnings, agreement and calls of a ranking in the terminal view."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rich.text import Text

from personas.console import letter
from personas.format import counted, dollars, seconds
from personas.ranking.record import RankingRecord
from personas.ranking.usage import Calls
from personas.report.formats import alpha_reading
from personas.report.query.warnings import warnings
from personas.report.terminal.screen import NOTE, Screen, clipped
from personas.survey.query import DEPTH, QueryFindings

_MOST_QUERY = 1000
_MOST_PAIRS = 10
_MOST_STAGES = 20
_MOST_IDS = 5
MARKS = {
    "bad": ("x", "bold red"),
    "warn": ("!", "yellow"),
    "note": ("-", NOTE),
    "good": ("+", "green"),
}


def show_head(screen: Screen, inspection: RankingRecord) -> None:
    """The query, and what ranked how many passages."""
    screen.words(clipped(inspection.query.text, _MOST_QUERY), "bold")
    # Without scores there is no scheme of scoring, and of a single order no ensemble.
    settings = ["preset"] if inspection.comparisons else ["preset", "scoring", "ensemble"]
    settings += ["ensemble"] if inspection.by_rank else []
    parts = [f"query {clipped(inspection.query.id, 80)}"] if inspection.query.id else []
    parts += [
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
    for each in warnings(inspection):
        mark, style = MARKS[each.kind]
        screen.words(f"{mark} {clipped(each.sentence, 800)}", style, hang=2)


def show_agreement(screen: Screen, inspection: RankingRecord) -> None:
    """The agreement of the personas, and the effectiveness where judgements are known."""
    findings = QueryFindings.of(1, inspection)
    if len(findings.judges) > 1 and inspection.hits:
        screen.line()
        _show_agreement(screen, findings, by_rank=inspection.by_rank)
    if inspection.grades is not None:
        screen.line()
        _show_effectiveness(screen, inspection, findings)


def show_calls(screen: Screen, inspection: RankingRecord) -> None:
    """Calls, tokens, cost and time, by stage and in total; the models."""
    screen.line()
    screen.line("Calls", "bold")
    names = list(dict.fromkeys(inspection.models.values()))
    rows: dict[tuple[str, str], Calls] = {}
    for row in inspection.rows_of_calls():
        known = rows.setdefault((row.stage, row.model), row)
        if known is not row:
            costs = (known.cost, row.cost)
            cost = None if None in costs else sum(filter(None, costs))
            usage = known.usage + row.usage
            rows[row.stage, row.model] = Calls.of(row.stage, "", row.model, usage, cost)
    if not inspection.usage.calls:
        screen.words("no model was called")
    for row in islice(rows.values(), _MOST_STAGES):
        by = f" ({clipped(row.model, 80)})" if len(names) > 1 else ""
        screen.words(f"{clipped(row.stage, 40):<9} {_counts(row)}{by}", NOTE, hang=10)
    if len(rows) > 1:
        total = Calls.of("", "", "", inspection.usage, inspection.cost)
        screen.words(f"{'together':<9} {_counts(total)}", hang=10)
    if reused := inspection.reused.calls:
        screen.words(f"{counted(reused, 'answer')} from the ledger, which took no call")
    times = [
        f"{clipped(stage, 40)} {seconds(spent)}"
        for stage, spent in islice(inspection.seconds.items(), _MOST_STAGES)
    ]
    if times:
        screen.words(f"{'time':<9} {', '.join(times)}", NOTE, hang=10)
    for name in names[:_MOST_STAGES]:
        roles = [clipped(role, 40) for role, used in inspection.models.items() if used == name]
        of = f" ({', '.join(roles)})" if len(names) > 1 else ""
        screen.words(f"{'model':<9} {clipped(name, 120)}{of}", NOTE, hang=10)


def _counts(row: Calls) -> str:
    used = row.usage
    cached = f" ({used.cached_input_tokens:,} cached)" if used.cached_input_tokens else ""
    return (
        f"{counted(used.calls, 'call')}, {counted(used.input_tokens, 'token')} in{cached}, "
        f"{used.output_tokens:,} out, {dollars(row.cost)}"
    )


def _show_agreement(screen: Screen, findings: QueryFindings, *, by_rank: bool) -> None:
    tau, alpha = findings.figures.tau, findings.figures.alpha
    screen.line("Agreement", "bold")
    screen.words(
        "Kendall's tau-b is not defined: no two of them scored the same passages apart."
        if tau is None
        else f"Kendall's tau-b {tau:.2f}{_pairs(findings)}"
    )
    screen.words(
        "Krippendorff's alpha is not defined: all scores are equal, or under two passages have two."
        if alpha is None
        else f"Krippendorff's alpha {alpha:.2f}: the personas {alpha_reading(alpha)}"
    )
    if (apart := findings.figures.disagreement) is not None:
        most = "number of ranks" if by_rank else "highest score"
        screen.words(f"mean disagreement {100 * apart:.1f}% of the {most}")
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
    figures = findings.figures
    relevant = [doc_id for doc_id, grade in (inspection.grades or {}).items() if grade > 0]
    here = {hit.doc_id for hit in inspection.hits}
    ranks = [str(hit.rank) for hit in inspection.hits if (hit.grade or 0) > 0]
    listed = ", ".join(ranks[:DEPTH]) + (", ..." if len(ranks) > DEPTH else "")
    at = f", at {'ranks' if len(ranks) > 1 else 'rank'} {listed}" if ranks else ""
    screen.line("Judgements", "bold")
    screen.words(f"{counted(len(relevant), 'relevant passage')}, {len(ranks)} of them here{at}")
    if lost := [doc_id for doc_id in relevant if doc_id not in here]:
        names = ", ".join(clipped(doc_id, 40) for doc_id in lost[:_MOST_IDS])
        more = f" and {len(lost) - _MOST_IDS} more" if len(lost) > _MOST_IDS else ""
        screen.words(f"not found by the first stage: {names}{more}", NOTE)
    if figures.ndcg is None:
        screen.words("no judgement is known for this query")
        return
    values = Text(f"nDCG@10 {figures.ndcg:.3f}", style="bold")
    other = clipped(inspection.other.name, 40) if inspection.other else ""
    for name, ndcg in (("first stage", figures.first_stage_ndcg), (other, figures.other_ndcg)):
        values.append("" if ndcg is None else f", {name} {ndcg:.3f}", style="not bold")
    screen.words(values)
    if without := ", ".join(_without(findings)):
        screen.words(f"nDCG@10 without {without}", NOTE)


def _without(findings: QueryFindings) -> Iterator[str]:
    left_out = findings.left_out.without if findings.left_out else {}
    for place, judge in enumerate(findings.judges[:_MOST_PAIRS]):
        if judge.name in left_out and len(findings.judges) > 1:
            yield f"{letter(place)} {left_out[judge.name]:.3f}"
