"""Events of an answer, as frozen records; those of its ranking come between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from mcranker.events import Event
from mcranker.rag.record import StageName, StageRecord
from mcranker.rag.result import RAGResult


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
