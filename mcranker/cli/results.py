"""Output of rankings: the chosen format, files to keep, the report; and estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from rich.text import Text

from mcranker.cli.invocation import say
from mcranker.cli.output import (
    DONE,
    ERROR,
    MISSING_SCORES,
    Write,
    envelope,
    failure,
    keep,
    output,
    present,
    saying_where,
)
from mcranker.estimate import Estimate
from personas.console import numbers, print_page, rendered, table
from personas.format import counted, dollars
from personas.io.atomic import write_whole
from personas.ranking.usage import Usage
from personas.report.terminal import show_ranking
from personas.report.warnings import problems
from personas.sanitize import json_text

if TYPE_CHECKING:
    import click
    from rich.console import Console

    from mcranker.rankers import RankedQuery
    from mcranker.ranking import Ranking


class Results:
    """Takes rankings one by one, in the order in which they are to be written."""

    def __init__(
        self, wanted: Mapping[str, Any], write: Write, saving: ExitStack, *, many: bool, ledger: str
    ) -> None:
        self.unwritten = False
        self._wanted, self._many, self._ledger = wanted, many, ledger
        self._write, self._saving = write, saving
        self._save: Write | None = None
        if many and wanted["save"] is not None:
            self._save = saving.enter_context(output(wanted["save"]))
        self._rankings: list[dict[str, Any]] = []
        self._errors: list[dict[str, Any]] = []
        self._failed: list[str] = []
        self._ranked = 0
        self._missing: list[int] = []

    @classmethod
    @contextmanager
    def open(cls, wanted: Mapping[str, Any], *, many: bool, ledger: str) -> Iterator[Self]:
        """Open its files, which appear at the end of the block unless an error occurs."""
        with saying_where(ledger), output(wanted["out"]) as write, ExitStack() as saving:
            yield cls(wanted, write, saving, many=many, ledger=ledger)

    def add(self, found: RankedQuery) -> None:
        """Write one ranking, or note a query that was not ranked."""
        ranking, form = found.ranking, self._wanted["output"]
        if ranking is None:
            assert found.error is not None
            error = failure(found.error)
            self._failed.append(f"{found.query.id!r}: {error.message}")
            self._errors.append({**error.entry, "query_id": found.query.id})
            return
        self._ranked += 1
        self._missing += [len(ranking.missing)] if ranking.missing else []
        of_many = f"query {ranking.query.id!r}: " if self._many else ""
        for notice in problems(ranking):
            message = f"{of_many}{notice.sentence}"
            if notice.code or form != "table":  # a table has them all
                say(f"warning: {message}")
            if notice.code:
                self._errors.append({"code": notice.code, "message": message, "retryable": True})
        if ranking.dropped and form != "table":
            dropped = counted(len(ranking.dropped), "passage")
            least = ranking.config["min_relevance_score"]
            say(f"{of_many}{dropped} dropped: relevance below {least}")
        line = f"{ranking.to_json()}\n"
        if self._save is not None:
            self._save(line)
        else:
            raw = line.encode(errors="surrogateescape")
            self._keep(self._wanted["save"], lambda name: write_whole(name, raw))
            self._keep(self._wanted.get("report"), ranking.to_html)
        self._print(ranking)

    def _print(self, ranking: Ranking) -> None:
        def show(console: Console) -> None:
            show_ranking(console, ranking, ranking, self._wanted["top"])

        match self._wanted["output"]:
            case "json":  # its hits are those that top_n and min_relevance leave
                hits = [hit.to_dict() for hit in ranking]
                self._rankings.append({**ranking.to_dict(), "hits": hits})
            case "jsonl":
                for hit in ranking:
                    line = {"query_id": ranking.query.id, **hit.to_dict()}
                    self._write(f"{json_text(line)}\n")
            case "trec":
                self._write(ranking.to_trec())
            case "table":
                if self._wanted["out"] is None:
                    print_page(show)
                else:
                    self._write(rendered(show))
                self._write("\n" if self._many else "")

    def finish(self, queries: int) -> int:
        """Report missing scores on standard error; return the exit code."""
        self._keep(self._wanted["save"], lambda _: self._saving.close())
        if self._missing:
            lost = f"{counted(sum(self._missing), 'score')} missing"
            if self._many:
                say(f"warning: {lost} in {len(self._missing)} of {queries} queries")
            self._errors.append({"code": "MissingScores", "message": lost, "retryable": True})
        if failed := queries - self._ranked:
            first = self._failed[0] if self._failed else "which was not begun"
            of_all = counted(queries, "query", "queries")
            say(f"error: {failed} of {of_all} not ranked; the first, {first}")
        code = MISSING_SCORES if self._errors else DONE
        code = ERROR if failed or self.unwritten else code
        if self._wanted["output"] == "json":
            found = {"rankings": self._rankings} if self._many else {"ranking": self._rankings[0]}
            self._write(envelope(code, self._errors, **found))
        return code

    def _keep(self, name: str | None, write: Callable[[str], None]) -> None:
        if found := keep(name, write, self._ledger):
            self.unwritten = True
            self._errors.append(found.entry)


def show_estimate(ctx: click.Context, estimate: Estimate) -> int:
    """Print an estimate by stage, persona and model, and its sum; the exit code."""
    new, known = estimate.table, estimate.table.reused

    def show(console: Console) -> None:
        keys = dict.fromkeys([*new, *known])
        rows = [(*key, *_counts(new.get(key, Usage()), known.get(key, Usage()))) for key in keys]
        console.print(table(["stage", "persona", "model", *numbers(*_COUNTS)], rows))
        console.print(Text(f"{estimate}; nothing was sent"))

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
        counts = _counts(each.table.total, each.table.reused.total)
        costs = map(cost_text, (each.cost, each.cost_at_most))
        return [each.range_of_calls, *counts[1:], *costs]

    def show(console: Console) -> None:
        cells = ((*names.values(), *figures(each)) for names, each in rows)
        made = table([*headings, *numbers(*_COUNTS, "cost", "at most")], cells)
        made.add_section()
        made.add_row("all", *[""] * (len(headings) - 1), *figures(total))
        console.print(made)
        console.print(Text(f"{note} Nothing was sent."))

    listed = [{**names, **estimate.to_dict()} for names, estimate in rows]
    return present(ctx, show, estimates=listed, total=total.to_dict())


_COUNTS = ("calls", "in ledger", "tokens in", "tokens out")


def _counts(new: Usage, known: Usage) -> list[str]:
    return [f"{n:,}" for n in (new.calls, known.calls, new.input_tokens, new.output_tokens)]


def cost_text(cost: float | None) -> str:
    """Return US dollars as tables show them."""
    return "-" if cost is None else dollars(cost)
