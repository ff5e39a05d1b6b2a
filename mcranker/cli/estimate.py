"""``--dry-run``: what ranking would take, shown instead of doing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from mcranker.cli.fetching import is_here
from mcranker.cli.verb import present
from mcranker.errors import InputError
from mcranker.estimate import Estimate
from personas.console import numbers, table
from personas.format import counted, dollars
from personas.ranking.usage import Usage
from personas.sanitize import plain

if TYPE_CHECKING:
    import click
    from rich.console import Console

    from personas.ranking.usage import Stage

MOST_NAMED = 20  # personas of a stage with a row each


def check_local_models(models: Iterable[str]) -> None:
    """Refuse local models that would have to be fetched first."""
    from mcranker.llm.local.catalogue import find

    for model in models:
        kind, _, name = model.strip().partition(":")
        entry = find(name.strip()) if kind == "local" else None
        if entry is not None and not is_here(entry):
            raise InputError(
                f"{model} is not on this machine, and --dry-run fetches nothing; "
                f"run 'mcranker models download {entry.name}' first"
            )


def show_estimate(ctx: click.Context, estimate: Estimate) -> int:
    """Print the estimate to standard output, as JSON or else as a table; the exit code."""
    words = 2 + (len(_models(estimate)) > 1)
    rows = (
        (
            *texts[:words],
            *(f"{n:,}" for n in (new.calls, known.calls, new.input_tokens, new.output_tokens)),
        )
        for *texts, new, known in _rows(estimate)
    )
    columns = numbers("calls", "in ledger", "tokens in", "tokens out")

    def show(console: Console) -> None:
        console.print(table([*("stage", "persona", "model")[:words], *columns], rows))
        console.print(Text(_summary(estimate)))

    return present(ctx, show, estimate=estimate.to_dict())


def show_estimates(
    ctx: click.Context,
    headings: Sequence[str],
    rows: Sequence[tuple[Mapping[str, str], Estimate]],
    note: str,
) -> int:
    """Print estimates, a row each, and their sum; return the exit code."""
    total = sum((estimate for _, estimate in rows), start=Estimate())

    def figures(each: Estimate) -> list[str]:
        fewest = f"{each.calls_at_least:,} to " if each.calls_at_least < each.calls else ""
        counts = (each.reused, each.input_tokens, each.output_tokens)
        costs = (cost_text(each.cost), cost_text(each.cost_at_most))
        return [f"{fewest}{each.calls:,}", *(f"{count:,}" for count in counts), *costs]

    def show(console: Console) -> None:
        columns = numbers("calls", "in ledger", "tokens in", "tokens out", "cost", "at most")
        cells = ((*names.values(), *figures(each)) for names, each in rows)
        made = table([*headings, *columns], cells)
        made.add_section()
        made.add_row("all", *[""] * (len(headings) - 1), *figures(total))
        console.print(made)
        console.print(Text(f"{note} Nothing was sent."))

    listed = [{**names, **estimate.to_dict()} for names, estimate in rows]
    return present(ctx, show, estimates=listed, total=total.to_dict())


def cost_text(cost: float | None) -> str:
    """Return US dollars as tables show them."""
    return "-" if cost is None else dollars(cost)


def _models(estimate: Estimate) -> list[str]:
    return list(dict.fromkeys(model for _, _, model in (*estimate.table, *estimate.table.reused)))


def _rows(estimate: Estimate) -> Iterator[tuple[str, str, str, Usage, Usage]]:
    """Stage, persona, model, usage of new calls, and of known answers; many personas as one."""
    table, reused = estimate.table, estimate.table.reused
    personas: dict[tuple[Stage, str], list[str]] = {}
    for stage, persona, model in dict.fromkeys([*table, *reused]):
        personas.setdefault((stage, model), []).append(persona)
    for (stage, model), names in personas.items():
        new = [table.get((stage, name, model), Usage()) for name in names]
        known = [reused.get((stage, name, model), Usage()) for name in names]
        if len(names) > MOST_NAMED:
            together = sum(new, start=Usage()), sum(known, start=Usage())
            yield stage, f"{len(names):,} personas", model, *together
        else:
            for name, each, other in zip(names, new, known, strict=True):
                yield stage, name, model, each, other


def _summary(estimate: Estimate) -> str:
    calls = counted(estimate.calls, "call")
    if estimate.calls_at_least < estimate.calls:
        calls = f"{estimate.calls_at_least:,} to {calls}"
    parts = [calls]
    if estimate.reused:
        parts.append(f"{counted(estimate.reused, 'answer')} from the ledger")
    parts.append(f"about {counted(estimate.input_tokens, 'token')} in")
    parts.append(f"{estimate.output_tokens:,} out")
    if estimate.cost is None or estimate.cost_at_most is None:
        parts.append("no price is known")
    elif estimate.cost_at_most:
        parts.append(f"about {dollars(estimate.cost)}, at most {dollars(estimate.cost_at_most)}")
    parts += map(plain, _models(estimate))
    return ", ".join(parts) + "; nothing was sent"
