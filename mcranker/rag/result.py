"""The result of a pipeline: from the question to the sentences and the passages they rest on."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mcranker.errors import InputError, MCRankerError
from mcranker.events import Event
from personas.errors import explain
from personas.io.atomic import write_whole
from personas.io.lines import megabytes, parsed, read_text
from personas.ranking.types import Query
from personas.sanitize import encodable, json_text

if TYPE_CHECKING:
    from mcranker.ranking import Ranking

StageName = Literal["query", "retrieval", "rerank", "context", "answer", "citations"]
Verdict = Literal["found", "misattributed", "stitched", "invented"]

LONGEST_FILE = 100_000_000  # bytes of a saved answer


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
        from mcranker.rag.page import render_answer

        page = render_answer(self)
        if path is not None:
            write_whole(path, page)
        return page

    def show(self, *, file: TextIO | None = None) -> None:
        """Print the answer with its numbered sources, to standard output if `file` is None."""
        from mcranker.rag.page import print_answer

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
