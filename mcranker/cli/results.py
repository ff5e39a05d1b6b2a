"""Output of rankings: the chosen format, the file to keep, the report, and the envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from mcranker.cli.failures import DONE, ERROR, MISSING_SCORES, envelope, failure
from mcranker.cli.files import Write, output, saying_where
from mcranker.cli.invocation import say
from personas.format import counted
from personas.io.atomic import write_whole
from personas.report.warnings import problems
from personas.sanitize import json_text

if TYPE_CHECKING:
    from rich.console import Console

    from mcranker.rankers import RankedQuery

Output = Literal["table", "json", "jsonl", "trec"]
OUTPUTS = get_args(Output)


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
        ranking = ranked.ranking
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
            # A table has them all.
            if notice.code or self.wanted["output"] != "table":
                say(f"warning: {of_many}{notice.sentence}")
            if notice.code:
                message = f"{of_many}{notice.sentence}"
                self._errors.append({"code": notice.code, "message": message, "retryable": True})
        if ranking.dropped and self.wanted["output"] != "table":
            dropped = counted(len(ranking.dropped), "passage")
            least = ranking.config["min_relevance_score"]
            say(f"{of_many}{dropped} dropped: relevance below {least}")
        if self._save is not None:
            self._save(ranking.to_json() + "\n")
        else:
            self._keep(
                self.wanted["save"],
                lambda name: write_whole(
                    name, f"{ranking.to_json()}\n".encode(errors="surrogateescape")
                ),
            )
            self._keep(self.wanted["report"], ranking.to_html)
        # Those that top_n and min_relevance leave.
        hits = (
            [hit.to_dict() for hit in ranking] if self.wanted["output"].startswith("json") else []
        )
        match self.wanted["output"]:
            case "json":
                self._rankings.append({**ranking.to_dict(), "hits": hits})
            case "jsonl":
                lines = ({"query_id": ranking.query.id, **hit} for hit in hits)
                self._write("".join(f"{json_text(each)}\n" for each in lines))
            case "trec":
                self._write(ranking.to_trec())
            case "table":
                from mcranker.cli.tables import show_ranking
                from personas.console import print_page, rendered

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
        if self.unwritten:
            code = ERROR
        if self.wanted["output"] == "json":
            if self.many:
                self._write(envelope(code, self._errors, rankings=self._rankings))
            else:
                self._write(envelope(code, self._errors, ranking=self._rankings[0]))
        return code

    def _keep(self, name: str | None, write: Callable[[str], None]) -> None:
        if entry := keep(name, write, self.ledger):
            self.unwritten = True
            self._errors.append(entry)


def keep(name: str | None, write: Callable[[str], object], ledger: str) -> dict[str, Any] | None:
    """Write a file besides the output, if it has a name."""
    if name is None:
        return None
    try:
        with saying_where(ledger):
            write(name)
    except OSError as error:
        found = failure(error)
        say(f"error: {found.message}")
        return found.entry
    return None


@contextmanager
def opened(wanted: Mapping[str, Any], *, many: bool, ledger: str) -> Iterator[Results]:
    """Open `Results` whose files appear at the end, unless an error occurs."""
    with saying_where(ledger), output(wanted["out"]) as write, ExitStack() as saving:
        streamed = many and wanted["save"] is not None
        save = saving.enter_context(output(wanted["save"])) if streamed else None
        yield Results(wanted, many, ledger, write, saving, save)
