"""One query: what is in effect for it, and the shared state of the actors that judge it."""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from operator import attrgetter
from typing import TypeVar, Unpack

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from mcranker.config import RankerConfig
from mcranker.events import Emit, Event
from mcranker.llm.chat import ChatModel, ChatReply, PassageStatistics, Tag, tokenizer_of
from mcranker.llm.models import Models
from mcranker.method.ask import Form, ReplyForm, ask
from mcranker.method.team_plan import TeamPlan
from personas import Member, PromptSet, Rubric
from personas.ensembles import distinct
from personas.ranking.types import Passage, Query
from personas.ranking.usage import Stage, UsageTable
from personas.templates import Turn
from personas.untrusted import Own, without_tokens

T = TypeVar("T")
_WORD = re.compile(r"\S+")

LONG = 100_000
"""Characters of passages that are delimited in a thread; fewer are faster without."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A ranker's memory between queries."""

    dataset_rubrics: dict[str, Rubric] = field(default_factory=dict)
    dataset_team: list[Member] = field(default_factory=list)

    def copy(self) -> Memory:
        return Memory(dict(self.dataset_rubrics), list(self.dataset_team))


@dataclass(frozen=True, slots=True)
class Job:
    """One query to be ranked: what a ranker's `_rank` gets.

    Attributes:
        query: as the caller gave it.
        passages: all of them, at least one, in first-stage order.
        config: the ranker's choices, and those of this call.
        models: for its calls; in an estimate, models that make up their replies.
        emit: takes events; None if there is no listener.
        deadline: when nothing is waited for any more, on the clock of `anyio.current_time`.
        calls: what was asked of models so far; to be added to.
        memory: of the ranker, between queries.
        estimated: whether this only counts the calls, of which there must be as many as possible.
    """

    query: Query
    passages: tuple[Passage, ...]
    config: RankerConfig
    models: Models
    emit: Emit | None = None
    deadline: float = math.inf
    calls: UsageTable = field(default_factory=UsageTable)
    memory: Memory = field(default_factory=Memory)
    estimated: bool = False


@dataclass(slots=True)
class Session:
    """One query in the method."""

    job: Job
    query: Query
    passages: tuple[Passage, ...]
    config: RankerConfig
    models: Models
    prompts: PromptSet
    plan: TeamPlan
    distinct: Sequence[int]
    group_of: NDArray[np.intp]
    seconds: dict[str, float] = field(default_factory=dict)
    number: int = field(default_factory=count(1).__next__)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    statistics: PassageStatistics | None = None
    forms: defaultdict[tuple[Stage, str], Form] = field(default_factory=partial(defaultdict, Form))
    _began: dict[str, float] = field(default_factory=dict)
    _delimited: dict[int, Own] = field(default_factory=dict)

    @classmethod
    def open(cls, job: Job, prompts: PromptSet, plan: TeamPlan | None = None) -> Session:
        """Open a session for the passages within ``depth``; equal ones are judged once."""
        config, query = job.config, job.query
        query = replace(query, text=query.text.lower()) if config.lowercase_query else query
        passages = job.passages[: config.depth]
        rows, group_of = distinct(map(attrgetter("content"), passages))
        plan = plan or TeamPlan()
        return cls(job, query, passages, config, job.models, prompts, plan, rows, group_of)

    @property
    def row_of(self) -> NDArray[np.intp]:
        """For each passage of the job its row, -1 beyond ``depth``."""
        beyond = len(self.job.passages) - len(self.passages)
        return np.concatenate([self.group_of, np.full(beyond, -1, dtype=np.intp)])

    def until_deadline(self) -> anyio.CancelScope:
        """Cancel the block at the deadline, and continue after it."""
        return anyio.CancelScope(deadline=self.job.deadline)

    def passage(self, row: int) -> Passage:
        """The passage of a row of the score matrix."""
        return self.passages[self.distinct[row]]

    def delimited(self, row: int) -> Own:
        """Return a row's passage for models: between markers that it cannot contain."""
        found = self._delimited.get(row)
        if found is None:
            text = self.titled(self.passages[self.distinct[row]])
            found = self._delimited[row] = self.prompts.passage(text, query=self.query.text)
        return found

    def numbered(self, rows: Sequence[int]) -> Own:
        """Return the passages of these rows for prompts, as number 1 and so on."""
        return self.named({str(number): row for number, row in enumerate(rows, start=1)})

    def named(self, rows: Mapping[str, int]) -> Own:
        """Return passages for prompts, each with its name: name -> row."""
        entries = (
            self.prompts.piece("compared_passage", {"name": name, "passage": self.delimited(row)})
            for name, row in rows.items()
        )
        return Own("\n\n".join(entries))

    @property
    def clean_query(self) -> str:
        """The query in typed questions."""
        return self.prompts.cleaner.text(self.query.text)

    def as_data(self, passage: Passage) -> str:
        """Return the passage for typed questions: its title, and the text that models see."""
        return without_tokens(self.titled(passage))

    def titled(self, passage: Passage) -> str:
        """Return the passage's title, a separator, and the text that models see."""
        config, text = self.config, self.shown_text(passage)
        if len(text) < len(passage.text) and self.models.scoring.capabilities.prompts:
            text = f"{text} …"  # not the passage's own end
        if passage.title:
            text = f"{passage.title}{config.title_separator}{text}"
        return text.replace('"', "'") if config.single_quotes else text

    def shown_text(self, passage: Passage) -> str:
        """Return the part of the passage's text that models see."""
        text, most = passage.text, self.config.max_passage_words
        if self.texts and (known := self.texts.get(passage.content)) is not None:
            return known
        if most is not None and len(text) > most:
            for number, word in enumerate(_WORD.finditer(text), start=1):
                if number > most:
                    return text[: word.start()].rstrip()
        return text

    async def prepare_texts(self) -> None:
        """Cut the passages' texts to ``max_passage_tokens``, and fence them if they are long."""
        most, characters = self.config.max_passage_tokens, 0
        tokenizer = None if most is None else tokenizer_of(self.models.scoring)
        for place in self.distinct:
            passage = self.passages[place]
            characters += len(passage.text)
            if most is not None and tokenizer is not None and passage.content not in self.texts:
                cut = await tokenizer.cut(self.shown_text(passage), most)
                self.texts[passage.content] = cut
        if characters > LONG and self.models.scoring.capabilities.prompts:
            # All at once, when the first call is made, it would hold up the event loop.
            await anyio.to_thread.run_sync(
                lambda: [self.delimited(row) for row in range(len(self.distinct))],
                abandon_on_cancel=True,
            )

    async def count_words(self) -> None:
        """Count the query's words in all passages."""
        from mcranker.encoders.term_coverage import statistics_of

        texts = {each.content: each for each in self.job.passages}.values()
        shown = (self.as_data(each) for each in texts)
        self.statistics = await anyio.to_thread.run_sync(
            statistics_of, self.clean_query, shown, abandon_on_cancel=True
        )

    def calls_at_once(self, model: ChatModel) -> int:
        """Return the number of calls to keep ready for `model`."""
        workers = self.config.workers
        return min(model.capabilities.prefix_slots or workers, workers)

    async def ask(
        self,
        model: ChatModel,
        turns: tuple[Turn, ...],
        read: Callable[[ChatReply], T],
        *,
        stage: Stage,
        persona: str = "",
        doc_id: str = "",
        passages: int = 1,
        divisible: bool = False,
        **form: Unpack[ReplyForm],
    ) -> T:
        """Return what `read` makes of the model's reply, see `mcranker.method.ask`."""
        call = ask(
            model,
            turns,
            read,
            config=self.config,
            prompts=self.prompts,
            usage=self.job.calls,
            tag=Tag(stage, self.query.id, persona, doc_id, self.number),
            **form,
        )
        began = self._began.setdefault(stage, time.perf_counter())
        if stage in ("score", "assess", "explain") and not self.job.estimated:
            call = self.forms[stage, persona].watch(call, passages, divisible=divisible)
        try:
            return await call
        finally:
            self.seconds[stage] = time.perf_counter() - began

    def mark(self, stage: Stage) -> None:
        """Note that the stage is running."""
        now = time.perf_counter()
        self.seconds[stage] = now - self._began.setdefault(stage, now)

    async def emit(self, event: Event) -> None:
        """Send an event to the listener, if there is one."""
        if self.job.emit is not None:
            await self.job.emit(event)
