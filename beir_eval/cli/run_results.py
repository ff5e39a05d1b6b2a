"""What ``beir-eval run`` prints: estimates, results, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcranker.cli.failures import DONE, ERROR, MISSING_SCORES, failure
from personas.words import counted, dollars

if TYPE_CHECKING:
    from rich.console import Console

    from beir_eval.experiment.run import CellResult
    from mcranker.estimate import Estimate

__all__ = ["as_dict", "show_estimates", "show_results", "verdict"]


def show_estimates(
    console: Console, rows: list[tuple[str, str, Estimate]], total: Estimate
) -> None:
    """A row for each cell, and the sum."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from personas.plain import plain

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("data set")
    table.add_column("ranker")
    for heading in ("calls", "in ledger", "tokens in", "tokens out", "cost", "at most"):
        table.add_column(heading, justify="right", no_wrap=True)
    for dataset, label, each in [*rows, ("all", "", total)]:
        if dataset == "all" and not label:
            table.add_section()
        counts = (each.calls, each.reused, each.input_tokens, each.output_tokens)
        costs = ("-" if cost is None else dollars(cost) for cost in (each.cost, each.cost_at_most))
        table.add_row(
            Text(plain(dataset)), Text(plain(label)), *(f"{count:,}" for count in counts), *costs
        )
    console.print(table)
    console.print(
        Text(
            "A call whose answer the ledger will have from an earlier row is counted there. "
            "Nothing was sent."
        )
    )


def verdict(results: list[CellResult]) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and what to tell, as entries of an envelope's ``errors``."""
    code, errors = DONE, []
    finished = [(result, result.metrics) for result in results if result.metrics is not None]
    missing = sum(metrics.scores.missing for _, metrics in finished if metrics.scores)
    if missing:
        code = MISSING_SCORES
        message = f"{counted(missing, 'score')} missing; the report tells why"
        errors.append({"code": "MissingScores", "message": message, "retryable": False})
    for result, metrics in finished:
        if metrics.failed:
            code = ERROR
            query_id, why = next(iter(metrics.failed.items()))
            count = counted(len(metrics.failed), "query", "queries")
            message = (
                f"{result.dataset}, {result.label}: {count} not ranked; the first, "
                f"{query_id!r}: {why}; run it again to try them again"
            )
            errors.append({"code": "QueriesFailed", "message": message, "retryable": True})
    for result in results:
        if result.stopped is not None:
            code = ERROR
            found = failure(result.stopped)
            message = f"{result.dataset}, {result.label}: stopped: {found.message}"
            errors.append({**found.entry, "message": message})
    return code, errors


def as_dict(result: CellResult) -> dict[str, Any]:
    """A result as plain values that JSON can hold."""
    return {
        "dataset": result.dataset,
        "label": result.label,
        "path": str(result.path),
        "metrics": result.metrics.model_dump(mode="json") if result.metrics else None,
        "first_stage": dict(result.first_stage.means),
        "calls": result.calls,
        "reused": result.reused,
        "cost": result.cost,
    }


def show_results(console: Console, results: list[CellResult]) -> None:
    """A row for each cell."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from personas.plain import plain

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    measure = results[0].first_stage.measures[0] if results else ""
    table.add_column("data set")
    table.add_column("ranker")
    for heading in (measure, "first stage", "calls now", "from ledger", "missing", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        metrics = result.metrics
        table.add_row(
            Text(plain(result.dataset)),
            Text(plain(result.label)),
            "stopped" if metrics is None else f"{metrics.means[measure]:.4f}",
            f"{result.first_stage.means[measure]:.4f}",
            f"{result.calls:,}",
            f"{result.reused:,}",
            f"{metrics.scores.missing:,}" if metrics and metrics.scores else "-",
            "-" if result.cost is None else dollars(result.cost),
        )
    console.print(table)
