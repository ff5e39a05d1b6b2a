"""Output of rankings: the chosen format, files to keep, the report; and estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

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
from mcranker.cli.progress import is_here
from mcranker.errors import InputError
from mcranker.estimate import Estimate
from personas.console import letter, numbers, print_page, rendered, table
from personas.format import counted, dollars, seconds, weight
from personas.io.atomic import write_whole
from personas.ranking.usage import Usage
from personas.report.screen import NOTE, Screen, clipped
from personas.report.terminal import show_warnings
from personas.report.terminal_passages import show_legend, show_missing, show_table
from personas.report.warnings import problems
from personas.sanitize import json_text, plain

if TYPE_CHECKING:
    import click
    from rich.console import Console

    from mcranker.rankers import RankedQuery
    from mcranker.ranking import Ranking

Output = Literal["table", "json", "jsonl", "trec"]
OUTPUTS = get_args(Output)

_MOST = 2000  # characters of a query, or of a line about a member


@dataclass(slots=True)
class Results:
    """Takes rankings one by one, in the order in which they are to be written."""

    wanted: Mapping[str, Any]
    many: bool
    ledger: str
    _write: Write
    _saving: ExitStack
    _save: Write | None
    unwritten: bool = False
    _rankings: list[dict[str, Any]] = field(default_factory=list)
    _errors: list[dict[str, Any]] = field(default_factory=list)
    _first_error: str = ""
    _taken: int = 0
    _missing: int = 0
    _missing_in: int = 0

    def add(self, ranked: RankedQuery) -> None:
        """Write one ranking, or note a query that was not ranked."""
        self._taken += 1
        ranking, form = ranked.ranking, self.wanted["output"]
        if ranking is None:
            assert ranked.error is not None
            found = failure(ranked.error)
            self._first_error = self._first_error or f"{ranked.query.id!r}: {found.message}"
            self._errors.append({**found.entry, "query_id": ranked.query.id})
            return
        self._missing += len(ranking.missing)
        self._missing_in += bool(ranking.missing)
        of_many = f"query {ranking.query.id!r}: " if self.many else ""
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
        if self._save is not None:
            self._save(ranking.to_json() + "\n")
        else:
            line = f"{ranking.to_json()}\n".encode(errors="surrogateescape")
            self._keep(self.wanted["save"], lambda name: write_whole(name, line))
            self._keep(self.wanted.get("report"), ranking.to_html)
        # Those that top_n and min_relevance leave.
        hits = [hit.to_dict() for hit in ranking] if form.startswith("json") else []
        match form:
            case "json":
                self._rankings.append({**ranking.to_dict(), "hits": hits})
            case "jsonl":
                lines = ({"query_id": ranking.query.id, **hit} for hit in hits)
                self._write("".join(f"{json_text(each)}\n" for each in lines))
            case "trec":
                self._write(ranking.to_trec())
            case "table":

                def show(console: Console) -> None:
                    show_ranking(console, ranking, self.wanted["top"])

                if self.wanted["out"] is None:
                    print_page(show)
                else:
                    self._write(rendered(show))
                self._write("\n" if self.many else "")

    def finish(self, queries: int) -> int:
        """Report missing scores on standard error; return the exit code."""
        self._keep(self.wanted["save"], lambda _: self._saving.close())
        code = MISSING_SCORES if self._errors else DONE
        if self._missing:
            code = MISSING_SCORES
            lost = f"{counted(self._missing, 'score')} missing"
            if self.many:
                say(f"warning: {lost} in {self._missing_in} of {queries} queries")
            self._errors.append({"code": "MissingScores", "message": lost, "retryable": True})
        if self._first_error or self._taken < queries:
            code = ERROR
            failed = queries - self._taken + sum("query_id" in each for each in self._errors)
            say(
                f"error: {failed} of {counted(queries, 'query', 'queries')} not ranked; "
                f"the first, {self._first_error}"
            )
        code = ERROR if self.unwritten else code
        if self.wanted["output"] == "json":
            found = {"rankings": self._rankings} if self.many else {"ranking": self._rankings[0]}
            self._write(envelope(code, self._errors, **found))
        return code

    def _keep(self, name: str | None, write: Callable[[str], None]) -> None:
        if found := keep(name, write, self.ledger):
            self.unwritten = True
            self._errors.append(found.entry)


@contextmanager
def opened(wanted: Mapping[str, Any], *, many: bool, ledger: str) -> Iterator[Results]:
    """Open `Results` whose files appear at the end, unless an error occurs."""
    with saying_where(ledger), output(wanted["out"]) as write, ExitStack() as saving:
        streamed = many and wanted["save"] is not None
        save = saving.enter_context(output(wanted["save"])) if streamed else None
        yield Results(wanted, many, ledger, write, saving, save)


def show_ranking(console: Console, ranking: Ranking, top: int) -> None:
    """The team in short, the first `top` hits, warnings, and what it took."""
    screen, team = Screen(console), ranking.team
    screen.words(clipped(ranking.query.text, _MOST), "bold")
    for place, member in enumerate(team.members if team else ()):
        text = Text(f"  {letter(place)}  ").append(clipped(member.name, _MOST), style="cyan")
        if team and member.name in team.shares:
            text.append(f" counts {weight(team.shares[member.name])}")
        if why := member.persona.reason or member.persona.description:
            text.append(f": {clipped(why, _MOST)}", style=NOTE)
        screen.line(text)
        listed = (
            f"{clipped(each.name, 200)} {weight(each.weight)}"
            for each in (member.rubric.criteria if member.rubric else ())
        )
        if member.rubric:
            screen.words(", ".join(listed), indent=5)
    screen.line()
    hits = ranking[:top]
    if hits:
        show_table(screen, ranking, hits)
    else:
        screen.words("no passages", NOTE)
    if rest := len(ranking) - len(hits):
        screen.words(f"{rest:,} more; --top {len(ranking)} shows all", NOTE)
    if hits:
        show_legend(screen, ranking)
    screen.line()
    show_warnings(screen, ranking)
    if left_out := len(ranking.passages) - len(ranking.dropped) - len(ranking):
        limits = " and ".join(
            f"{name}={ranking.config[name]:g}"
            for name in ("min_relevance", "top_n")
            if ranking.config.get(name) is not None
        )
        screen.words(f"{counted(left_out, 'passage')} left out by {limits}", NOTE)
    screen.words(_taken(ranking), NOTE)
    show_missing(screen, ranking)


def _taken(ranking: Ranking) -> str:
    usage, reused = ranking.usage, ranking.reused.calls
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    parts = [
        counted(usage.calls, "call"),
        f"{counted(reused, 'answer')} from the ledger" if reused else "",
        f"{counted(usage.input_tokens, 'token')} in{cached}",
        f"{usage.output_tokens:,} out",
        dollars(ranking.cost) if ranking.cost != 0 else "",
        seconds(ranking.seconds["total"]),
        *dict.fromkeys(clipped(name, 200) for name in ranking.models.values()),
    ]
    return ", ".join(filter(None, parts))


def check_local_models(models: Iterable[str]) -> None:
    """Refuse local models that would have to be fetched first."""
    from mcranker.llm.local.catalogue import find

    for model in models:
        kind, _, name = model.strip().partition(":")
        entry = find(name.strip()) if kind == "local" else None
        if entry is not None and not is_here(entry):
            raise InputError(
                f"{model} is not on this machine, and --dry-run fetches nothing; "
                f"run 'mcranker models --download {entry.name}' first"
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
        counts = (each.reused, each.input_tokens, each.output_tokens)
        costs = (cost_text(each.cost), cost_text(each.cost_at_most))
        return [_calls(each, f"{each.calls:,}"), *(f"{count:,}" for count in counts), *costs]

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


def _calls(estimate: Estimate, most: str) -> str:
    fewest = estimate.calls_at_least
    return f"{fewest:,} to {most}" if fewest < estimate.calls else most


def _models(estimate: Estimate) -> list[str]:
    return list(dict.fromkeys(model for _, _, model in (*estimate.table, *estimate.table.reused)))


def _rows(estimate: Estimate) -> Iterator[tuple[str, str, str, Usage, Usage]]:
    """Stage, persona, model, usage of new calls, and of known answers."""
    table, reused = estimate.table, estimate.table.reused
    for key in dict.fromkeys([*table, *reused]):
        yield *key, table.get(key, Usage()), reused.get(key, Usage())


def _summary(estimate: Estimate) -> str:
    parts = [_calls(estimate, counted(estimate.calls, "call"))]
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
