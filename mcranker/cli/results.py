"""Output of rankings: the chosen format, the file to keep, the report, and the envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from mcranker.cli.failures import DONE, ERROR, MISSING_SCORES, Failure, envelope, failure
from mcranker.cli.files import Write, output, saying_where
from mcranker.cli.invocation import say
from personas.format import counted
from personas.io.atomic import write_whole
from personas.sanitize import json_text, one_line

if TYPE_CHECKING:
    from mcranker.rankers import RankedQuery
    from mcranker.ranking import Ranking

Output = Literal["table", "json", "jsonl", "trec"]
OUTPUTS = get_args(Output)


@dataclass(frozen=True, slots=True)
class Destinations:
    """The outputs the user asked for.

    Attributes:
        output: the format of the results.
        out: file for them, or None for standard output.
        save: file for the whole ranking as JSON (one a line if there are many), or None.
        report: file for the report, or None.
        top: hits in a table.
        many: whether there may be several queries.
        ledger: the ledger's name, as ``--ledger`` takes it.
    """

    output: Output
    out: str | None
    save: str | None
    report: str | None
    top: int
    many: bool
    ledger: str


@dataclass(slots=True)
class Results:
    """Takes rankings one by one, in the order in which they are to be written.

    Attributes:
        wanted: what the user wants to have.
        unwritten: whether a file besides the output could not be written.
    """

    wanted: Destinations
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

    def add(self, ranking: Ranking) -> None:
        """Write one ranking."""
        self._taken += 1
        self._missing += len(ranking.missing)
        self._missing_in += bool(ranking.missing)
        self._note_limits(ranking)
        self._note_comparisons(ranking)
        self._note_windows(ranking)
        self._note_members(ranking)
        if self._save is not None:
            self._save(ranking.to_json() + "\n")
        else:
            self._keep(self.wanted.save, lambda name: _save(ranking, name))
            self._keep(self.wanted.report, ranking.to_html)
        match self.wanted.output:
            case "json":
                self._rankings.append({**ranking.to_dict(), "hits": _hits(ranking)})
            case "jsonl":
                self._write("".join(_hit_lines(ranking)))
            case "trec":
                self._write(ranking.to_trec())
            case "table":
                self._write_table(ranking)

    def add_failed(self, ranked: RankedQuery) -> None:
        """Note a query that was not ranked."""
        self._taken += 1
        assert ranked.error is not None
        found: Failure = failure(ranked.error)
        self._first_error = self._first_error or f"{ranked.query.id!r}: {found.message}"
        self._errors.append({**found.entry, "query_id": ranked.query.id})

    def finish(self, queries: int) -> int:
        """Report missing scores on standard error; return the exit code.

        Args:
            queries: how many there were to rank.
        """
        self._keep(self.wanted.save, lambda _: self._saving.close())
        code = MISSING_SCORES if self._errors else DONE
        if self._missing:
            code = MISSING_SCORES
            lost = f"{counted(self._missing, 'score')} missing"
            if self.wanted.many:
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
        if self.wanted.output == "json":
            if self.wanted.many:
                self._write(envelope(code, self._errors, rankings=self._rankings))
            else:
                self._write(envelope(code, self._errors, ranking=self._rankings[0]))
        return code

    def _keep(self, name: str | None, write: Callable[[str], None]) -> None:
        """Write a file besides the output; if that fails, the others are written all the same."""
        if name is None:
            return
        try:
            with saying_where(self.wanted.ledger):
                write(name)
        except OSError as error:
            self.unwritten = True
            found = failure(error)
            say(f"error: {found.message}")
            self._errors.append(found.entry)

    def _note_limits(self, ranking: Ranking) -> None:
        """Note a ranking that lacks what a deadline, or a failure, has kept from it."""
        query_id = ranking.query.id
        of_many = f"query {query_id!r}: " if self.wanted.many else ""
        if ranking.failure:
            code, message = (
                "FirstStageOrder",
                f"not ranked, in first-stage order: {ranking.failure}",
            )
        elif ranking.partial:
            seconds = ranking.config.get("deadline")
            code, message = "Deadline", f"the deadline of {seconds:g} s came before all scores"
        else:
            return
        message = f"{of_many}{one_line(message)}"
        say(f"warning: {message}")
        self._errors.append({"code": code, "message": message, "retryable": True})

    def _note_comparisons(self, ranking: Ranking) -> None:
        """Note comparisons that failed, and replies that were no simple answer."""
        counts = ranking.comparisons
        if counts is None or ranking.failure:
            return
        of_many = f"query {ranking.query.id!r}: " if self.wanted.many else ""
        if counts.failed:
            message = (
                f"{of_many}{counts.failed} of {counted(counts.asked, 'comparison')} failed, and "
                f"their passages kept their order; the first: {one_line(counts.reason)}"
            )
            say(f"warning: {message}")
            self._errors.append(
                {"code": "FailedComparisons", "message": message, "retryable": True}
            )
        for name, why in (ranking.orders.left_out if ranking.orders else {}).items():
            message = f"{of_many}{name} gave no order and is left out: {one_line(why)}"
            say(f"warning: {message}")
            self._errors.append({"code": "LeftOut", "message": message, "retryable": True})
        if counts.tied:
            say(
                f"warning: {of_many}{counted(counts.tied, 'pair')} undecided, of "
                f"{counts.inconsistent} the choice went with the order they were shown in"
            )
        if 3 <= counts.as_shown == counts.asked - counts.failed:
            say(
                f"warning: {of_many}all {counts.as_shown} replies keep the order in which passages "
                "were shown: the model may go by place alone, and the order be the first stage's"
            )
        if counts.odd:
            say(
                f"warning: {of_many}{counts.odd} of {counted(counts.asked, 'reply', 'replies')} "
                f"left out {counted(counts.missing, 'passage')}, repeated {counts.repeated} and "
                f"named {counts.unknown} that were not shown"
            )

    def _note_windows(self, ranking: Ranking) -> None:
        """Note passages that were dropped, and replies that were not simply all scores."""
        counts = ranking.windows
        if counts is None or ranking.failure:
            return
        of_many = f"query {ranking.query.id!r}: " if self.wanted.many else ""
        if ranking.dropped and self.wanted.output != "table":
            dropped = counted(len(ranking.dropped), "passage")
            say(f"{of_many}{dropped} dropped: relevance below {ranking.config['drop_below']}")
        if counts.odd or counts.failed:
            asked = counted(counts.asked + counts.failed, "reply", "replies")
            say(
                f"warning: {of_many}of {asked}, {counts.failed} failed and {counts.odd} left out "
                f"{counted(counts.missing, 'passage')}, repeated {counts.repeated}, named "
                f"{counts.unknown} that were not shown, and gave {counts.unreadable} no score of "
                "the scale; what they lacked was asked for again"
            )
        if counts.differing:
            say(
                f"{of_many}{counts.differing} of {counted(counts.sums, 'sum')} by the model are "
                "not what its scores add up to; ours count"
            )

    def _note_members(self, ranking: Ranking) -> None:
        """Note members of a fused ranking without, or with incomplete, results."""
        of_many = f"query {ranking.query.id!r}: " if self.wanted.many else ""
        for member in ranking.members:
            if member.failure:
                message = f"left out of the fusion: {one_line(member.failure)}"
            elif member.missing:
                message = f"{counted(member.missing, 'score')} missing"
            else:
                continue
            message = f"{of_many}{one_line(member.label)}: {message}"
            say(f"warning: {message}")
            self._errors.append({"code": "FusedMember", "message": message, "retryable": True})

    def _write_table(self, ranking: Ranking) -> None:
        from mcranker.cli.tables import show_ranking
        from personas.console import print_page, rendered

        if self.wanted.out is None:
            print_page(lambda console: show_ranking(console, ranking, self.wanted.top))
        else:
            self._write(rendered(lambda console: show_ranking(console, ranking, self.wanted.top)))
        if self.wanted.many:
            self._write("\n")


@contextmanager
def opened(wanted: Destinations) -> Iterator[Results]:
    """Open results whose files appear at the end, unless an error occurs.

    Raises:
        OSError: the output cannot be written, or, with many queries, what is saved of each.
    """
    with saying_where(wanted.ledger), output(wanted.out) as write, ExitStack() as saving:
        streamed = wanted.many and wanted.save is not None
        save = saving.enter_context(output(wanted.save)) if streamed else None
        yield Results(wanted, write, saving, save)


def _save(ranking: Ranking, name: str) -> None:
    write_whole(name, f"{ranking.to_json()}\n".encode(errors="surrogateescape"))


def _hits(ranking: Ranking) -> list[dict[str, Any]]:
    """Return the hits that ``top_n`` and ``min_relevance`` leave."""
    return [hit.to_dict() for hit in ranking]


def _hit_lines(ranking: Ranking) -> Iterator[str]:
    for hit in _hits(ranking):
        yield json_text({"query_id": ranking.query.id, **hit}) + "\n"
