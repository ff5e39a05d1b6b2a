"""One query on its way through the stages, and what a ranker keeps between queries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mcranker.config import RankerConfig
from mcranker.events import Emit
from mcranker.llm.chat import ChatModel, Stage
from mcranker.method.judges import Desk
from mcranker.models import Models
from mcranker.passages import PassageText
from mcranker.replies.ask import Asker
from mcranker.types import Passage, Query, UsageTable
from personas import PromptSet, Rubric

__all__ = ["Memory", "Session"]


@dataclass(frozen=True, slots=True)
class Memory:
    """What a ranker keeps from query to query.

    Attributes:
        dataset_rubrics: persona -> its rubric for the data set, ``criteria="dataset"``.
        subject_baselines: a weak recruiter's answers to the calibration queries.
    """

    dataset_rubrics: dict[str, Rubric] = field(default_factory=dict)
    subject_baselines: list[Mapping[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """One query on its way through the stages.

    Attributes:
        query: as the agents see it.
        passages: those that are judged, in first-stage order.
        distinct: places in `passages` of the first of each set of equal passages (title
            and text).
        group_of: for each passage the place in `distinct` of its equal.
        asked: the query as the user gave it.
        given: all passages, those beyond ``depth`` included.
        usage: every call so far.
        seconds: wall time by stage.
        started: when work began, on the clock of `time.perf_counter`.
        number: tells the rankings of this process apart.
    """

    query: Query
    passages: tuple[Passage, ...]
    config: RankerConfig
    models: Models
    prompts: PromptSet
    memory: Memory
    emit: Emit | None
    distinct: Sequence[int]
    group_of: NDArray[np.intp]
    asked: Query
    given: tuple[Passage, ...]
    usage: UsageTable = field(default_factory=UsageTable)
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    number: int = field(default_factory=count(1).__next__)

    @classmethod
    def open(
        cls,
        asked: Query,
        given: tuple[Passage, ...],
        *,
        config: RankerConfig,
        models: Models,
        prompts: PromptSet,
        memory: Memory,
        emit: Emit | None,
    ) -> Session:
        """A session for the passages within ``depth``; equal ones are judged once."""
        query = Query(asked.text.lower(), asked.id) if config.lowercase_query else asked
        passages = given[: config.depth]
        distinct, group_of = _distinct(passages)
        return cls(
            query=query,
            passages=passages,
            config=config,
            models=models,
            prompts=prompts,
            memory=memory,
            emit=emit,
            distinct=distinct,
            group_of=group_of,
            asked=asked,
            given=given,
        )

    @property
    def desk(self) -> Desk:
        """What the agents share."""
        return Desk(self.query, self.config, self.prompts, PassageText.of(self.config), self.number)

    def asker(self, model: ChatModel) -> Asker:
        """Somebody who asks `model` and counts it here."""
        return Asker(model, self.config, self.prompts, self.usage)

    @contextmanager
    def timed(self, stage: Stage) -> Iterator[None]:
        """Add the wall time of the block, in seconds, to `seconds`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def _distinct(passages: tuple[Passage, ...]) -> tuple[Sequence[int], NDArray[np.intp]]:
    """The places of the first of each set of equal passages, and for each passage its set."""
    number = len(passages)
    # Different hashes are enough to know that all differ, and take little room.
    if len({hash((each.title, each.text)) for each in passages}) == number:
        return range(number), np.arange(number, dtype=np.intp)
    seen: dict[tuple[str, str], int] = {}
    distinct: list[int] = []
    group_of = np.empty(number, dtype=np.intp)
    for place, each in enumerate(passages):
        group_of[place] = group = seen.setdefault((each.title, each.text), len(distinct))
        if group == len(distinct):
            distinct.append(place)
    return distinct, group_of
