"""The central actor: it chooses the next calls and collects their results."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from mcranker.errors import FormNotKept, ModelError
from mcranker.events import PassageAssessed, PassageScored
from mcranker.llm.limits.retries import DOWN
from mcranker.method.annotator import ScorePassages, Scores, missing_score
from mcranker.method.session import Session
from mcranker.replies.read import read_score
from mcranker.replies.schemas import integer_schema
from mcranker.runtime.actor import Actor
from personas.ranking.types import DEADLINE, Score, ScoreMatrix
from personas.untrusted import Name, Own

_SPARE = 8
"""Places per call that is handed out before there is a place for it."""
HOPELESS = 10
"""Failed passages, with none scored, after which a query is given up."""


@dataclass(frozen=True, slots=True)
class Assessed:
    """From the assessor: the final score of this row's passage."""

    row: int
    score: Score


@dataclass(frozen=True, slots=True)
class TeamKnown:
    """To the ensembler: the number of judges, and of columns of the score matrix."""

    columns: int
    judges: int


@dataclass(frozen=True, slots=True)
class Ready:
    """To the ensembler: this judge can score from now on."""

    judge: int
    actor: Actor[Any]
    columns: Mapping[int, str]
    at_once: int = 1


class Schedule:
    """Order of the calls, in which every judge scores every passage (Eq. 3); makes none itself."""

    def __init__(self, rows: int, judges: int, *, together: bool, by_judge: bool) -> None:
        self._rows = rows
        self._judges = judges
        self._together = together or by_judge
        self._by_judge = by_judge
        self._next: dict[int, int] = {}  # row, by judge
        self._done = 0

    @property
    def total(self) -> int:
        """Number of calls there will be, as far as is known."""
        return self._rows * self._judges

    @property
    def finished(self) -> bool:
        """True if all calls have ended."""
        return self._done == self.total

    def team_known(self, judges: int) -> None:
        """Set the number of judges."""
        self._judges = judges

    def ready(self, judge: int) -> None:
        """Note that the judge can score from now on."""
        self._next[judge] = 0

    def take(self) -> tuple[int, int] | None:
        """Return row and judge of an open call, once; None if there is none for now."""
        if self._together and len(self._next) < self._judges:
            return None
        found: tuple[int, int] | None = None
        for judge, row in self._next.items():
            # By judge the lowest judge's is the next, else the lowest row's.
            if row < self._rows and (
                found is None or (judge < found[1] if self._by_judge else (row, judge) < found)
            ):
                found = row, judge
        if found is not None:
            self._next[found[1]] += 1
        return found

    def settle(self) -> None:
        """Note the end of a call, with a score or without."""
        self._done += 1


class Ensembler(Actor[TeamKnown | Ready | Scores | Assessed]):
    """Hands out calls, collects scores, and detects complete passages and queries."""

    def __init__(self, session: Session, seats: int, scientists: Collection[str] = ()) -> None:
        super().__init__("ensembler", self._take_in, mailbox=2 * session.config.workers)
        self._session = session
        rows = len(session.distinct)
        scoring = session.models.scoring
        slots = scoring.capabilities.prefix_slots
        places = session.calls_at_once(scoring)
        # A few more than have a place, so that no place is empty while the next call is sought.
        self._most = places + (places // _SPARE if slots is None else 0)
        self._under_way: set[tuple[int, int]] = set()  # rows and judges
        self._assessing: set[int] = set()  # rows
        self._schedule = Schedule(rows, seats, together=slots is not None, by_judge=seats > places)
        self._team: TeamKnown | None = None
        self._judges: dict[int, Ready] = {}
        self._answers = [0] * rows  # scores that have come, by row
        self._scored = 0
        self._failures = Failures(session, self._under_way)
        self._assess_failures = Failures(session, self._assessing)
        self.matrix = ScoreMatrix.empty(rows, seats)
        self.complete = anyio.Event()
        self.assessor: Assessor | None = None
        self.assessed: ScoreMatrix | None = None
        if session.config.rule.ensemble.asks:
            self.assessor = Assessor(session, self, scientists)
            self.assessed = ScoreMatrix.empty(rows, 1)
            self._most_assessing = session.calls_at_once(session.models.assessor)
            # A model with few prompt prefixes would evaluate them again and again.
            self._assess_last = session.models.assessor.capabilities.prefix_slots is not None
        self._to_assess: deque[int] = deque()
        self._assessments = 0

    def close_at_deadline(self, columns: int) -> None:
        """Mark outstanding scores as missing. The matrix keeps the first `columns` columns."""
        self.matrix.keep(columns)
        for scores in (self.matrix, self.assessed):
            if scores is not None:
                scores.close(DEADLINE)

    async def _take_in(self, message: TeamKnown | Ready | Scores | Assessed) -> None:
        match message:
            case Scores():
                await self._take_scores(message)
            case Assessed():
                await self._take_assessment(message)
            case Ready():
                self._judges[message.judge] = message
                self._most *= message.at_once
                self._schedule.ready(message.judge)
            case TeamKnown():
                self._take_team(message)
        await self._hand_out()
        everything = self._schedule.finished and self._team is not None
        if everything and (self.assessor is None or self._assessments == len(self._answers)):
            self._failures.check()
            self._assess_failures.check()
            self.complete.set()

    def _take_team(self, team: TeamKnown) -> None:
        self._team = team
        self.matrix.keep(team.columns)
        self._schedule.team_known(team.judges)
        self._to_assess.extend(row for row in range(len(self._answers)) if self._all_in(row))

    async def _take_scores(self, message: Scores) -> None:
        session, row = self._session, message.row
        columns = self._judges[message.judge].columns
        self._under_way.discard((row, message.judge))
        for column, score in zip(columns, message.scores, strict=True):
            self.matrix.put(row, column, score)
            self._answers[row] += 1
            self._scored += 1
            self._failures.note(row, score)
        self._schedule.settle()
        session.mark("score")
        if self.assessor is not None and self._all_in(row):
            self._to_assess.append(row)
        if session.job.emit is None:
            return
        passage = session.passage(row).id
        each = self._team.columns // self._team.judges if self._team else 1
        total, first = self._schedule.total * each, self._scored - len(columns) + 1
        given = zip(columns.values(), message.scores, strict=True)
        for done, (persona, score) in enumerate(given, start=first):
            outcome = score.value, score.reason, done, total
            await session.job.emit(PassageScored(session.query.id, passage, persona, *outcome))

    async def _take_assessment(self, message: Assessed) -> None:
        session, score = self._session, message.score
        assert self.assessed is not None
        self.assessed.put(message.row, 0, score)
        self._assessing.discard(message.row)
        self._assess_failures.note(message.row, score)
        self._assessments += 1
        session.mark("assess")
        passage, total = session.passage(message.row), len(self._answers)
        outcome = score.value, score.reason, self._assessments, total
        await session.emit(PassageAssessed(session.query.id, passage.id, *outcome))

    async def _hand_out(self) -> None:
        # No mailbox fills up: it takes as many messages as may be under way. An actor that
        # takes none any more has failed, and its own error is the one to tell.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while len(self._under_way) < self._most and (call := self._schedule.take()) is not None:
                row, judge = call
                self._under_way.add(call)
                ready, rows = self._judges[judge], [row]
                while len(rows) < ready.at_once and (call := self._schedule.take()) is not None:
                    rows.append(call[0])
                    self._under_way.add(call)
                await ready.actor.tell(ScorePassages(tuple(rows)))
            while self.assessor and self._may_assess():
                row = self._to_assess.popleft()
                self._assessing.add(row)
                await self.assessor.tell(Assess(row, self._given(row)))

    def _may_assess(self) -> bool:
        if self._assess_last and not self._schedule.finished:
            return False
        return bool(self._to_assess) and len(self._assessing) < self._most_assessing

    def _given(self, row: int) -> list[tuple[str, float | None]]:
        """Return each judge with its score of the passage, in the order of the team."""
        names: dict[int, str] = {}
        for each in self._judges.values():
            names |= each.columns
        given = enumerate(self.matrix.rows[row])
        return [(names[place], each.value if each else None) for place, each in given]

    def _all_in(self, row: int) -> bool:
        return self._team is not None and self._answers[row] == self._team.columns


class Failures:
    """Tells single failed passages from a query, or a model, that fails as a whole."""

    def __init__(self, session: Session, under_way: Set[Hashable]) -> None:
        self._session = session
        self._under_way = under_way
        self._awaited: Set[Hashable] | None = None
        self._scores = self._answered = 0
        self._has_score = False
        self._given_up: FormNotKept | None = None
        self._failures: list[tuple[int, int, ModelError]] = []  # row, calls answered by then, why

    def note(self, row: int, score: Score) -> None:
        """Count a score that has come, or is missing."""
        self._scores += 1
        self._has_score = self._has_score or score.value is not None
        error = score.failure
        if isinstance(error, FormNotKept):
            self._given_up = error
        if error is None or isinstance(error, FormNotKept):
            self._answered += 1
            return
        self._failures.append((row, self._session.job.calls.total.calls, error))
        if self._answered or len({place for place, _, _ in self._failures}) < HOPELESS:
            return
        if self._awaited is None:
            self._awaited = frozenset(self._under_way)  # slow answers may be among them
        if self._awaited.isdisjoint(self._under_way):
            raise error

    def check(self) -> None:
        """Check, once all scores have come, that they make a ranking and the model was not down."""
        if self._given_up is not None and not self._has_score:
            raise self._given_up
        if self._failures and not self._answered:
            raise self._failures[0][-1]
        now = self._session.job.calls.total.calls
        last = [
            (row, error)
            for row, calls, error in self._failures
            if error.others_answered is None and calls == now
        ]
        if len({row for row, _ in last}) >= DOWN and 3 * len(last) > self._scores:
            raise last[0][-1]


@dataclass(frozen=True, slots=True)
class Assess:
    """To the assessor: judge this row's passage by the personas' scores, in the team's order."""

    row: int
    scores: Sequence[tuple[str, float | None]]


class Assessor(Actor[Assess]):
    """Judges each passage from the personas' scores, given as text."""

    def __init__(
        self, session: Session, ensembler: Actor[Any], scientists: Collection[str]
    ) -> None:
        workers = session.calls_at_once(session.models.assessor)
        super().__init__("assessor", self._assess, workers=workers)
        self._session = session
        self._ensembler = ensembler
        self._scientists = scientists
        self._template = session.prompts["assess"].bind(
            {"query": session.query.text, "k": str(session.config.scale)}
        )

    async def _assess(self, task: Assess) -> None:
        session, config = self._session, self._session.config
        passage = session.passage(task.row)
        experts = sorted(task.scores, key=lambda expert: expert[0] in self._scientists)
        lines = [self._line(number, *expert) for number, expert in enumerate(experts, start=1)]
        values = {"assessments": Own("\n".join(lines)), "experts": str(len(lines))}
        turns = self._template.render({"passage": session.delimited(passage), **values})
        try:
            value = await session.ask(
                session.models.assessor,
                turns,
                lambda reply: read_score(
                    reply.text,
                    key="Final score",
                    top=config.scale,
                    cut=reply.finish_reason == "length",
                ),
                stage="assess",
                doc_id=passage.id,
                max_tokens=config.max_score_tokens,
                schema=integer_schema("Final score", config.scale),
            )
        except ModelError as error:
            score = missing_score(error)
        else:
            score = Score(float(value))
        await self._ensembler.tell(Assessed(task.row, score))

    def _line(self, number: int, name: str, score: float | None) -> str:
        piece = "assessment_scientist" if name in self._scientists else "assessment"
        values = {"number": str(number), "persona": Name(name), "k": str(self._session.config.top)}
        if score is None:
            return self._session.prompts.piece("assessment_missing", values)
        return self._session.prompts.piece(piece, {**values, "score": f"{score:g}"})
