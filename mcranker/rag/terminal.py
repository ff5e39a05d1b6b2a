"""The answer on a terminal, with its numbered sources."""

from __future__ import annotations

from typing import TextIO

from rich.text import Text

from mcranker.rag.page import BOUNDS, KINDS, doubtful, sources, totals, verdict
from mcranker.rag.record import AnswerRecord
from personas.console import print_page
from personas.format import counted, dollars, seconds
from personas.report.screen import NOTE, Screen, clipped
from personas.report.terminal import MARKS

_QUOTE = 400  # characters


def print_answer(result: AnswerRecord, file: TextIO | None = None) -> None:
    """Print the answer: in colour on a terminal, as plain text anywhere else."""
    print_page(lambda console: show_answer(Screen(console), result), file)


def show_answer(screen: Screen, result: AnswerRecord) -> None:
    """Print warnings, the answer, its sources by number, and what it took."""
    warnings = verdict(result)
    for said in warnings:
        mark, style = MARKS[said["kind"]]
        screen.words(f"{mark} {clipped(said['sentence'], 800)}", style, hang=2)
    if warnings:
        screen.line()
    if result.all_citations:
        for sentence in result.sentences[: BOUNDS["rows"]]:
            screen.words(_cited(result, sentence.text, sentence.citations))
    else:
        for line in result.text[:20_000].splitlines():
            screen.words(clipped(line, BOUNDS["text"]))
    if found := sources(result):
        screen.line()
    for passage, cited in found:
        number = f"[{passage.number}] "
        name = clipped(passage.title or passage.document, BOUNDS["name"])
        where = f" ({clipped(passage.id, 80)})" if passage.id != name else ""
        screen.words(Text.assemble((number, "bold cyan"), (name, "bold"), (where, NOTE)), hang=4)
        for _, each in cited[: BOUNDS["rows"]]:
            supports = (
                "" if each.supports is None else f" (supports the claim: {each.supports:.0%})"
            )
            screen.words(f"“{clipped(each.quote, _QUOTE)}”{supports}", indent=len(number))
    for _, each, why in doubtful(result)[: BOUNDS["rows"]]:
        quote = clipped(each.quote, _QUOTE)
        screen.words(f"{each.verdict}: “{quote}”: {clipped(why, 300)}", "yellow", indent=2, hang=2)
    screen.line()
    total = totals(result)
    reused = f", {counted(total['reused'], 'answer')} from the ledger" if total["reused"] else ""
    tokens = total["input_tokens"] + total["output_tokens"]
    took = (
        f"Answer: {KINDS[result.kind]}; {counted(len(result.context), 'passage')} of "
        f"{len(result.passages):,} found; {counted(total['calls'], 'call')}{reused}, "
        f"{counted(tokens, 'token')}, {dollars(total['cost'])}, {seconds(total['seconds'])}"
    )
    screen.words(took, NOTE)


def _cited(result: AnswerRecord, text: str, places: tuple[int, ...]) -> Text:
    said = Text(clipped(text, BOUNDS["text"]))
    for place in places[:20]:
        each = result.all_citations[place]
        if each.verdict == "found":
            said.append(f" [{each.passage}]", "bold cyan")
        else:
            said.append(f" [{each.verdict}]", "yellow")
    return said if places else said.append(" [no source]", NOTE)
