"""What a pipeline gives: the answer, which shows itself, one of many, and events on the way."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TextIO, TypeAlias

from mcranker.errors import MCRankerError
from mcranker.events import Event
from mcranker.rag.record import AnswerRecord, StageName, StageRecord
from personas.io.atomic import write_whole
from personas.ranking.types import Query


class RAGResult(AnswerRecord):
    """An answer; write it with `save`, read it with `load`. `AnswerRecord` has its fields."""

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one page from question to answer, and write it to `path` if given.

        Raises:
            OSError: it cannot be written.
        """
        from mcranker.rag.show import render_answer

        page = render_answer(self)
        if path is not None:
            write_whole(path, page)
        return page

    def show(self, *, file: TextIO | None = None) -> None:
        """Print the answer with its numbered sources, to standard output if `file` is None."""
        from mcranker.rag.show import print_answer

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
