"""The result of a pipeline, from the question to sentences and their passages, and its page."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO, TypeAlias

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from rich.text import Text

from mcranker.errors import InputError, MCRankerError
from mcranker.events import Event
from personas.console import print_page
from personas.errors import explain, shown
from personas.format import counted, dollars, seconds
from personas.io.atomic import write_whole
from personas.io.lines import megabytes, parsed, read_text
from personas.ranking.types import Query
from personas.report.formats import escaped
from personas.report.inspection import fair_limit, inspection_values
from personas.report.page import ReportFooter, render_notebook, render_page
from personas.report.screen import NOTE, Screen, clipped
from personas.report.terminal import MARKS
from personas.sanitize import json_text
from personas.untrusted import encodable

if TYPE_CHECKING:
    from mcranker.ranking import Ranking

StageName = Literal["query", "retrieval", "rerank", "context", "answer", "citations"]
Verdict = Literal["found", "misattributed", "stitched", "invented"]

LONGEST_FILE = 100_000_000  # bytes of a saved answer
BOUNDS = {"text": 2000, "line": 1000, "name": 200, "rows": 200}
"""Characters and rows that are shown around the passages."""
SNIPPET = 600  # characters of a passage that is not in the context
KINDS = {
    "answer": "written by a model",
    "extract": "sentences of the passages, no model wrote it",
    "abstained": "“I don’t know”",  # noqa: RUF001
    "none": "none",
}
STAGES = {
    "query": "Queries",
    "retrieval": "Retrieval",
    "rerank": "Reranking",
    "context": "Context",
    "answer": "Answer",
    "citations": "Citations",
}
_QUOTE = 400  # characters
_LOOKED_AT = 3  # passages that an answer "I don't know" names
_AROUND = 200  # characters around a quote in a part of a passage that is cut otherwise


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _encodable(cls, value: Any) -> Any:
        if isinstance(value, str):
            return encodable(value)
        if isinstance(value, Mapping):
            return {cls._encodable(key): cls._encodable(each) for key, each in value.items()}
        return [*map(cls._encodable, value)] if isinstance(value, list | tuple) else value


class SentQuery(_Record):
    """A query that was searched with."""

    text: str
    origin: Literal["question", "hypothetical answer", "variant", "rephrased", "sub-query"]


class SourcePassage(_Record):
    """A passage that was retrieved."""

    id: str
    document: str
    title: str = ""
    text: str
    start: int = 0
    end: int = 0
    score: float | None = None
    found_by: tuple[int, ...] = ()
    rank: int = 0
    relevance: float | None = None
    number: int = 0
    dropped: str = ""


class Citation(_Record):
    """A claim with the passage and the verbatim quote that the writer gave for it, checked."""

    claim: str
    passage: int
    quote: str
    verdict: Verdict
    start: int | None = None
    end: int | None = None
    elsewhere: int = 0
    note: str = ""


class Sentence(_Record):
    """A sentence of the answer, with the places of its citations in `RAGResult.all_citations`."""

    text: str
    citations: tuple[int, ...] = ()


class StageRecord(_Record):
    """A stage's effort."""

    name: StageName
    seconds: float = 0.0
    calls: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reused_tokens: tuple[int, int] = (0, 0)
    cost: float | None = 0.0
    reused_cost: float | None = 0.0
    failure: str = ""
    notes: tuple[str, ...] = ()


class RAGResult(_Record):
    """An answer, with everything that led to it."""

    version: Literal[1] = 1
    question: str
    id: str = ""
    text: str = ""
    kind: Literal["answer", "extract", "abstained", "none"] = "none"
    failure: str = ""
    sentences: tuple[Sentence, ...] = ()
    all_citations: tuple[Citation, ...] = ()
    queries: tuple[SentQuery, ...] = ()
    passages: tuple[SourcePassage, ...] = ()
    stages: tuple[StageRecord, ...] = ()
    models: Mapping[str, str] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)
    partial: bool = False
    stored_ranking: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations whose quotes are in the passages they name."""
        return tuple(each for each in self.all_citations if each.verdict == "found")

    @property
    def context(self) -> Sequence[SourcePassage]:
        """The passages that the writer saw, by their number."""
        return sorted((each for each in self.passages if each.number), key=lambda each: each.number)

    @property
    def without(self) -> list[StageName]:
        """Stages that failed, so that the answer went on without them."""
        return [stage.name for stage in self.stages if stage.failure]

    @cached_property
    def ranking(self) -> Ranking | None:
        """The reranking, with its personas, scores and reasons; None without one."""
        from mcranker.ranking import Ranking

        return None if self.stored_ranking is None else Ranking.from_dict(self.stored_ranking)

    @model_validator(mode="after")
    def _check(self) -> Self:
        numbers = [each.number for each in self.passages if each.number]
        if len(set(numbers)) < len(numbers):
            raise ValueError("two passages have the same number in the context")
        cited = [place for each in self.sentences for place in each.citations]
        found_by = [place for each in self.passages for place in each.found_by]
        for what, places, there in (
            ("a sentence cites", cited, self.all_citations),
            ("a passage is found by query", found_by, self.queries),
        ):
            if any(not 0 <= place < len(there) for place in places):
                raise ValueError(f"{what} {max(places)}, and they are {len(there)}, from 0")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, stored: object) -> Self:
        """Read what `to_dict` gave."""
        try:
            result = cls.model_validate(stored)
        except ValidationError as error:
            raise InputError(explain(error, "an answer", "this is no stored answer")) from error
        _ = result.ranking  # an error if it is damaged
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a JSON file, which appears whole or not at all."""
        data = json_text(self.to_dict()).encode()
        if len(data) > LONGEST_FILE:
            raise InputError(
                f"the answer takes {megabytes(len(data))}, and at most "
                f"{megabytes(LONGEST_FILE)} are read again; retrieve fewer or shorter passages"
            )
        write_whole(path, data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        text = read_text(Path(path), InputError, LONGEST_FILE)
        stored = parsed(text, [str(path)], InputError)
        try:
            return cls.from_dict(stored)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one page from question to answer, and write it to `path` if given.

        Raises:
            OSError: it cannot be written.
        """
        page = render_answer(self)
        if path is not None:
            write_whole(path, page)
        return page

    def __repr__(self) -> str:
        cited = counted(len(self.all_citations), "citation")
        of = f"{cited}, {counted(len(self.passages), 'passage')}"
        return f"<RAGResult for {shown(self.question)}: {self.kind} {shown(self.text)}, {of}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The answer with its numbered sources, as a notebook shows it."""
        return render_notebook(result=self, warnings=verdict(self), sources=sources(self))

    def show(self, *, file: TextIO | None = None) -> None:
        """Print the answer with its numbered sources, to standard output if `file` is None."""
        print_answer(self, file)


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """One question of many: its answer, or the error that stopped it.

    Attributes:
        place: place of the question among those given, from 0.
        question: the question; its text is empty if it could not be read.
        answer: the result, or None.
        error: what went wrong, or None.
    """

    place: int
    question: Query
    answer: RAGResult | None = None
    error: MCRankerError | None = None

    def result(self) -> RAGResult:
        """The answer; raises the error if there is none."""
        if self.answer is None:
            raise self.error or MCRankerError("the question was not answered")
        return self.answer


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins."""

    name: StageName


@dataclass(frozen=True, slots=True)
class StageDone:
    """A stage has ended; its record says what it took, and whether it failed."""

    stage: StageRecord


@dataclass(frozen=True, slots=True)
class AnswerDone:
    """The answer is complete; always the last event."""

    result: RAGResult


RAGEvent: TypeAlias = Event | StageStarted | StageDone | AnswerDone

EmitAnswer: TypeAlias = Callable[[RAGEvent], Awaitable[None]]
"""Takes an event; waits if its reader is slow."""


def render_answer(result: RAGResult) -> str:
    """The answer as one HTML page that needs nothing else."""
    from mcranker import __version__

    ranking = result.ranking
    ranks = {} if ranking is None else {hit.doc_id: hit.rank for hit in ranking.hits}
    limit = fair_limit([len(each.text) for each in result.context])
    shown = {each.number: _marked(each, result.all_citations, limit) for each in result.context}
    anchors = {place: anchor for _, found in shown.values() for place, anchor in found.items()}
    values: dict[str, Any] = {} if ranking is None else inspection_values(ranking)
    values |= {f"ranking_{each}": values.get(each, ()) for each in ("warnings", "bounds")}
    return render_page(
        "answer.html",
        assets=("answer",),
        **values
        | {
            "result": result,
            "bounds": BOUNDS,
            "warnings": verdict(result),
            "snippet": SNIPPET,
            "kinds": KINDS,
            "stages": STAGES,
            "total": totals(result),
            "ranks": ranks,
            "places": {each.id: place for place, each in enumerate(result.passages, 1)},
            "anchors": anchors,
            "texts": {number: text for number, (text, _) in shown.items()},
            "sources": sources(result),
            "doubtful": doubtful(result),
            "left_out": [each for each in by_relevance(result) if not each[1].number],
            "has_ranking": ranking is not None,
            "footer": ReportFooter(__version__),
        },
    )


def print_answer(result: RAGResult, file: TextIO | None = None) -> None:
    """Print the answer: in colour on a terminal, as plain text anywhere else."""
    print_page(lambda console: show_answer(Screen(console), result), file)


def show_answer(screen: Screen, result: RAGResult) -> None:
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
    found, seen = sources(result), by_relevance(result) if result.kind == "abstained" else ()
    if found or seen:
        screen.line()
    for passage, cited in found:
        number = f"[{passage.number}] "
        name = clipped(passage.title or passage.document, BOUNDS["name"])
        where = f" ({clipped(passage.id, 80)})" if passage.id != name else ""
        screen.words(Text.assemble((number, "bold cyan"), (name, "bold"), (where, NOTE)), hang=4)
        for _, each in cited[: BOUNDS["rows"]]:
            screen.words(f"“{clipped(each.quote, _QUOTE)}”", indent=len(number))
    for _, passage in seen[:_LOOKED_AT]:
        worth = "" if passage.relevance is None else f"relevance {passage.relevance:.2f}: "
        screen.words(f"{worth}{clipped(passage.title or passage.document, BOUNDS['name'])}")
        screen.words(f"“{clipped(passage.text, _AROUND)}”", indent=4)
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


def _cited(result: RAGResult, text: str, places: tuple[int, ...]) -> Text:
    said = Text(clipped(text, BOUNDS["text"]))
    for place in places[:20]:
        each = result.all_citations[place]
        if each.verdict == "found":
            said.append(f" [{each.passage}]", "bold cyan")
        else:
            said.append(f" [{each.verdict}]", "yellow")
    return said if places else said.append(" [no source]", NOTE)


def sources(result: RAGResult) -> list[tuple[SourcePassage, list[tuple[int, Citation]]]]:
    """The passages that confirm the answer, by number, with their citations and the places."""
    found: dict[int, list[tuple[int, Citation]]] = {}
    for place, each in enumerate(result.all_citations):
        if each.verdict == "found":
            found.setdefault(each.passage, []).append((place, each))
    return [(each, found[each.number]) for each in result.context if each.number in found]


def by_relevance(result: RAGResult) -> list[tuple[int, SourcePassage]]:
    """All passages with their places in retrieval from 1, the most relevant first."""
    found = enumerate(result.passages, 1)
    return sorted(found, key=lambda each: -(each[1].relevance or 0))


def doubtful(result: RAGResult) -> list[tuple[int, Citation, str]]:
    """The citations that no source confirms, with their places and what is wrong."""
    said = {
        "stitched": "its parts are in the passage, but not together",
        "invented": "it is in none of the passages",
    }
    found = []
    for place, each in enumerate(result.all_citations):
        elsewhere = f"it is not in passage {each.passage}, but in passage {each.elsewhere}"
        if each.verdict != "found":
            found.append((place, each, each.note or said.get(each.verdict, elsewhere)))
    return found


def verdict(result: RAGResult) -> list[dict[str, str]]:
    """Notes for a reader, the worst first: ``kind`` and ``sentence`` of each."""
    said = []
    if result.kind == "none":
        said.append(("bad", f"There is no answer: {result.failure or 'no reason is known'}"))
    if result.partial and not any("deadline" in each for each in result.warnings):
        said.append(("bad", "The deadline came before all was done; this is what was there."))
    # Of the stage that should have answered it is said already.
    known = [result.failure] if result.kind == "none" and result.failure else []
    said += [("warn", each) for each in result.warnings if not any(map(each.endswith, known))]
    for stage in result.stages:
        if stage.failure and not any(stage.failure in each for each in result.warnings):
            said.append(("warn", f"{STAGES[stage.name]}: {stage.failure}"))
    if wrong := len(doubtful(result)):
        all_of = counted(len(result.all_citations), "citation")
        said.append(("warn", f"{wrong:,} of {all_of} could not be confirmed."))
    if result.kind == "abstained":
        found = [each.relevance for each in result.passages if each.relevance is not None]
        best = f" (best relevance {max(found):.2f})" if found else ""
        no = f"No passage answers the question{best}; below is what was looked at."
        said.append(("note", no))
    if result.text and not result.all_citations and result.kind == "answer":
        said.append(("note", "The answer names no passages, so no sentence could be checked."))
    return [{"kind": kind, "sentence": sentence} for kind, sentence in dict.fromkeys(said)]


def totals(result: RAGResult) -> dict[str, Any]:
    """Sums over all stages; the cost is None if one of theirs is."""
    names = ("calls", "reused", "input_tokens", "output_tokens", "seconds")
    sums = {name: sum(getattr(each, name) for each in result.stages) for name in names}
    costs = [each.cost for each in result.stages]
    return {**sums, "cost": None if None in costs else sum(each or 0 for each in costs)}


def _marked(
    passage: SourcePassage, citations: Sequence[Citation], limit: int
) -> tuple[Markup, dict[int, str]]:
    """The passage's text with its quotes marked, and the place of each citation -> its anchor."""
    marks: list[list[int]] = []  # first character, the one behind the last, place of the citation
    anchors: dict[int, str] = {}
    for start, end, place in _spans(passage, citations)[: BOUNDS["rows"]]:
        if marks and start < marks[-1][1]:
            marks[-1][1] = max(marks[-1][1], end)
        else:
            marks.append([start, end, place])
        anchors[place] = f"quote-{marks[-1][2]}"
    text, last = passage.text, len(passage.text)
    pieces, at = list[Markup](), 0
    for start, end, place in [*marks, [last, last, -1]]:
        until = min(start, max(at + _AROUND * (at > 0), limit))
        again = max(until, start - _AROUND) if place >= 0 else max(until, start)
        pieces.append(escaped(text[at:until], last))
        if again > until:
            more = f" (… {counted(again - until, 'more character')}) "
            pieces.append(Markup('<span class="more">{}</span>').format(more))
        pieces.append(escaped(text[again:start], last))
        if place >= 0:
            quote = escaped(text[start:end], BOUNDS["text"])
            pieces.append(Markup('<mark id="quote-{}">{}</mark>').format(place, quote))
        at = end
    return Markup("").join(pieces), anchors


def _spans(passage: SourcePassage, citations: Sequence[Citation]) -> list[tuple[int, int, int]]:
    """First character, end and place of each citation that is in the passage, in its order."""
    found = []
    for place, each in enumerate(citations):
        number = each.elsewhere if each.verdict == "misattributed" else each.passage
        if number == passage.number and each.start is not None and each.end is not None:
            start, end = max(0, each.start), min(each.end, len(passage.text))
            found += [(start, end, place)] if start < end else []
    return sorted(found)
