"""The actors of one query; the central one hands out calls and collects their scores."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

from mcranker.errors import ConfigError, FormNotKept, ModelError
from mcranker.events import PassageAssessed, PassageScored, RubricWritten, TeamRecruited
from mcranker.llm.limits.retries import DOWN
from mcranker.method.annotator import Annotator, Scores, missing_score
from mcranker.method.ask import Rows
from mcranker.method.batch_judge import BatchJudge
from mcranker.method.questions import TypedQuestions
from mcranker.method.recruiter import recruit
from mcranker.method.session import Session
from mcranker.replies.read import read_score
from mcranker.replies.schemas import integer_schema
from mcranker.runtime.actor import Actor
from mcranker.runtime.bridge import task_group
from personas import Member
from personas.ranking.types import DEADLINE, Score, ScoreMatrix
from personas.untrusted import Name, Own

_SPARE = 8
"""Places per call that is handed out before there is a place for it."""
HOPELESS = 10
"""Failed passages, with none scored, after which a query is given up."""
_ASSESSOR = -1  # among judges


@dataclass(frozen=True, slots=True)
class Scored:
    """The result of scoring a query."""

    names: Sequence[str]
    matrix: ScoreMatrix
    members: Sequence[Member] = ()
    assessed: ScoreMatrix | None = None
    partial: bool = False


async def score_by_team(session: Session) -> Scored:
    """Recruit, write criteria, score and assess, in parallel as far as possible."""
    plan = session.plan
    scientists = [each.name for each in plan.members if each.origin == "fixed"]
    ensembler = Ensembler(session, len(plan.members) + plan.recruits, scientists)
    annotators: list[Annotator] = []

    async def start(group: TaskGroup) -> None:
        if session.config.questions is None:
            await _seat(session, annotators, ensembler, group)
            return
        await _seat(session, annotators)
        members = [annotator.member for annotator in annotators]
        by_criterion = session.config.questions == "per_criterion"
        sheet = TypedQuestions(members, session, by_criterion=by_criterion)
        panel = BatchJudge(sheet, [member.rubric for member in members], session, ensembler)
        await ensembler.let_judge(panel, [member.name for member in members], group)

    partial = await _score(session, ensembler, start)
    if partial:
        ensembler.close_at_deadline(len(annotators))
    members = [annotator.member for annotator in annotators]
    names = [member.name for member in members]
    return Scored(names, ensembler.matrix, members, ensembler.assessed, partial)


async def score_by_judge(
    session: Session, name: str, make: Callable[[Ensembler], Actor[Rows]]
) -> Scored:
    """Let one judge score every passage."""
    ensembler = Ensembler(session, 1)

    async def start(group: TaskGroup) -> None:
        await ensembler.let_judge(make(ensembler), [name], group)

    partial = await _score(session, ensembler, start)
    if partial:
        ensembler.close_at_deadline(1)
    return Scored([name], ensembler.matrix, partial=partial)


async def assemble(session: Session) -> list[Member]:
    """Return the team with the rubrics written by the deadline; nothing is scored."""
    annotators: list[Annotator] = []
    with session.until_deadline():
        await session.prepare_texts()
        await _seat(session, annotators)
    return [annotator.member for annotator in annotators]


async def _score(
    session: Session, ensembler: Ensembler, start: Callable[[TaskGroup], Awaitable[None]]
) -> bool:
    """Run the actors until all scores are there; True if the deadline came first."""
    with session.until_deadline():
        # It may have come already, and then nothing must begin.
        await anyio.lowlevel.checkpoint_if_cancelled()
        await session.prepare_texts()
        if session.models.scoring.capabilities.statistics:
            await session.count_words()
        async with task_group() as group:
            group.start_soon(ensembler.run)
            if ensembler.assessor is not None:
                group.start_soon(ensembler.assessor.run)
            await start(group)
            await ensembler.complete.wait()
            for actor in (*ensembler.judges.values(), ensembler.assessor, ensembler):
                if actor is not None:
                    actor.close()
    return not ensembler.complete.is_set()


async def _seat(
    session: Session,
    annotators: list[Annotator],
    ensembler: Ensembler | None = None,
    group: TaskGroup | None = None,
) -> None:
    """Add the annotators of the whole team with their rubrics, at work if there is a group."""
    plan = session.plan
    locked = plan.given is not None and plan.given.locked
    for member in plan.members:
        if locked and member.rubric is None and session.config.criteria != "none":
            raise ConfigError(
                f"the team is locked and {member.name!r} has no rubric; write one, unlock the "
                'team, or use criteria="none"'
            )

    async def settle(annotator: Annotator) -> None:
        await annotator.settle_rubric()
        member, column = annotator.member, annotator.column
        session.mark("criteria")
        if member.rubric is not None:
            await session.emit(RubricWritten(session.query.id, member.name, member.rubric))
        if ensembler is not None:
            await ensembler.seat(annotator, {column: member.name}, column)

    async with task_group() as writing:

        def sit_down(members: Sequence[Member]) -> None:
            session.mark("criteria")
            for member in members:
                annotator = Annotator(member, len(annotators), session, ensembler)
                annotators.append(annotator)
                if group is not None:
                    group.start_soon(annotator.run)
                writing.start_soon(settle, annotator)

        sit_down(plan.members)
        if plan.recruits:
            sit_down(await recruit(session))
        if ensembler is not None:
            await ensembler.know_team(len(annotators), len(annotators))
        personas = tuple(annotator.member.persona for annotator in annotators)
        await session.emit(TeamRecruited(session.query.id, personas))


class Ensembler(Actor[Scores]):
    """Hands out calls, collects scores, and detects complete passages and queries.

    Every judge scores every passage (Eq. 3): passage by passage, or judge by judge where the model
    keeps fewer prompt prefixes than there are judges.
    """

    def __init__(self, session: Session, seats: int, scientists: Collection[str] = ()) -> None:
        super().__init__("ensembler", self._take_in, mailbox=2 * session.config.workers)
        self._session = session
        rows = len(session.distinct)
        scoring = session.models.scoring
        slots = scoring.capabilities.prefix_slots
        places = session.calls_at_once(scoring)
        # A few more than have a place, so that no place is empty while the next call is sought.
        self._most = places + (places // _SPARE if slots is None else 0)
        self._by_judge = seats > places
        self._together = slots is not None or self._by_judge
        self._judge_count = seats  # as far as is known
        self._column_count: int | None = None
        self._at_once = 1  # passages a call
        self._row_at: Sequence[int] = range(rows)  # in the order in which they are asked about
        self._dealt = 1  # calls that the passages are dealt to
        self.judges: dict[int, Actor[Rows]] = {}
        self._columns: dict[int, Mapping[int, str]] = {}  # judge -> names of its columns
        self._next: dict[int, int] = {}  # judge -> row
        self._under_way: set[tuple[int, int]] = set()  # rows and judges
        self._begun = self._done = 0  # calls
        self._answers = [0] * rows  # scores that have come, by row
        self._failures = Failures(session, self._under_way)
        self.matrix = ScoreMatrix.empty(rows, seats)
        self.complete = anyio.Event()
        self.assessor: Assessor | None = None
        self.assessed: ScoreMatrix | None = None
        self._assessing: set[int] = set()  # rows
        self._assess_failures = Failures(session, self._assessing)
        self._to_assess: deque[int] = deque()
        self._assessments = 0
        if session.config.rule.ensemble.asks:
            self.assessor = Assessor(session, self, scientists)
            self.assessed = ScoreMatrix.empty(rows, 1)
            self._most_assessing = session.calls_at_once(session.models.assessor)
            # A model with few prompt prefixes would evaluate them again and again.
            self._assess_last = session.models.assessor.capabilities.prefix_slots is not None

    async def let_judge(self, judge: Actor[Rows], names: Sequence[str], group: TaskGroup) -> None:
        """Start a judge that scores for all columns of these names, one passage or several."""
        group.start_soon(judge.run)
        rows, most = len(self._answers), getattr(judge, "at_once", 1)
        self._at_once = most
        if rows and getattr(judge, "deals", False):
            # Passages are dealt round, so that each call has strong and weak ones.
            self._dealt = calls = math.ceil(rows / most)
            self._row_at = [row for call in range(calls) for row in range(call, rows, calls)]
        self._most *= self._at_once
        await self.know_team(len(names), 1)
        await self.seat(judge, dict(enumerate(names)), 0)

    async def know_team(self, columns: int, judges: int) -> None:
        """Take note of the number of columns of the score matrix, and of judges."""
        self._column_count, self._judge_count = columns, judges
        self.matrix.keep(columns)
        self._to_assess += [row for row, answers in enumerate(self._answers) if answers == columns]
        await self._go_on()

    async def seat(self, judge: Actor[Rows], columns: Mapping[int, str], number: int) -> None:
        """Let a judge score from now on, for the columns of these names."""
        self.judges[number], self._columns[number], self._next[number] = judge, columns, 0
        await self._go_on()

    def close_at_deadline(self, columns: int) -> None:
        """Mark outstanding scores as missing. The matrix keeps the first `columns` columns."""
        self.matrix.keep(columns)
        for scores in (self.matrix, self.assessed):
            if scores is not None:
                scores.close(DEADLINE)

    async def _take_in(self, message: Scores) -> None:
        session, row = self._session, message.row
        if message.judge == _ASSESSOR:
            await self._take_assessment(message)
            return
        columns = self._columns[message.judge]
        self._under_way.discard((row, message.judge))
        self._done += 1
        for column, score in zip(columns, message.scores, strict=True):
            self.matrix.rows[row][column] = score
            self._failures.note(row, score)
        self._answers[row] += len(columns)
        if self._answers[row] == self._column_count:
            self._to_assess.append(row)
        if session.job.emit is not None:
            passage, each = session.passage(row).id, len(columns)
            total = len(self._answers) * self._judge_count * each
            given = zip(columns.values(), message.scores, strict=True)
            for done, (persona, score) in enumerate(given, start=(self._done - 1) * each + 1):
                outcome = score.value, score.reason, done, total
                await session.job.emit(PassageScored(session.query.id, passage, persona, *outcome))
        await self._go_on()

    async def _go_on(self) -> None:
        """Hand out calls, and find out whether all is done."""
        calls = len(self._answers) * self._judge_count
        if self._begun < calls or self.assessor is not None:
            await self._hand_out(calls)
        if self._done < calls or self._column_count is None:
            return
        if self.assessor is None or self._assessments == len(self._answers):
            self._failures.check()
            self._assess_failures.check()
            self.complete.set()

    async def _take_assessment(self, message: Scores) -> None:
        session, (score,) = self._session, message.scores
        assert self.assessed is not None
        self.assessed.rows[message.row][0] = score
        self._assessing.discard(message.row)
        self._assess_failures.note(message.row, score)
        self._assessments += 1
        passage, total = session.passage(message.row), len(self._answers)
        outcome = score.value, score.reason, self._assessments, total
        await session.emit(PassageAssessed(session.query.id, passage.id, *outcome))
        await self._go_on()

    async def _hand_out(self, calls: int) -> None:
        # No mailbox fills up: it takes as many messages as may be under way. An actor that
        # takes none any more has failed, and its own error is the one to tell.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while len(self._under_way) < self._most and (call := self._next_call()) is not None:
                row, judge = call
                rows = [row]
                while len(rows) < self._at_once and self._goes_with(row, judge):
                    call = self._next_call()
                    if call is None:
                        break
                    rows.append(call[0])
                await self.judges[judge].tell(tuple(rows))
            may_assess = self._done == calls or (self.assessor and not self._assess_last)
            while self.assessor and may_assess and self._to_assess:
                if len(self._assessing) >= self._most_assessing:
                    break
                row = self._to_assess.popleft()
                self._assessing.add(row)
                names: dict[int, str] = {}
                for columns in self._columns.values():
                    names |= columns
                given = enumerate(self.matrix.rows[row])
                scores = [(names[place], each.value if each else None) for place, each in given]
                await self.assessor.tell((row, scores))

    def _goes_with(self, row: int, judge: int) -> bool:
        """True if the judge's next passage is dealt to the same call as `row`."""
        place = self._next[judge]
        return place < len(self._row_at) and (self._row_at[place] - row) % self._dealt == 0

    def _next_call(self) -> tuple[int, int] | None:
        """Return row and judge of an open call, once; None if there is none for now."""
        if self._together and len(self._next) < self._judge_count:
            return None
        found: tuple[int, int] | None = None
        for judge, row in self._next.items():
            # By judge the lowest judge's is the next, else the lowest row's.
            if row < len(self._answers) and (
                found is None or (judge < found[1] if self._by_judge else (row, judge) < found)
            ):
                found = row, judge
        if found is not None:
            self._next[found[1]] += 1
            self._begun += 1
            found = self._row_at[found[0]], found[1]
            self._under_way.add(found)
        return found


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
        if not self._failures:
            return
        now = self._session.job.calls.total.calls
        last = [
            (row, error)
            for row, calls, error in self._failures
            if error.others_answered is None and calls == now
        ]
        if len({row for row, _ in last}) >= DOWN and 3 * len(last) > self._scores:
            raise last[0][-1]


Assessment: TypeAlias = tuple[int, list[tuple[str, float | None]]]
"""A row, and the personas' scores of its passage in the team's order."""


class Assessor(Actor[Assessment]):
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

    async def _assess(self, task: Assessment) -> None:
        session, config, (row, scores) = self._session, self._session.config, task
        passage = session.passage(row)
        experts = sorted(scores, key=lambda expert: expert[0] in self._scientists)
        lines = [self._line(number, *expert) for number, expert in enumerate(experts, start=1)]
        values = {"assessments": Own("\n".join(lines)), "experts": str(len(lines))}
        try:
            value = await session.ask(
                session.models.assessor,
                self._template.render({"passage": session.delimited(row), **values}),
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
        await self._ensembler.tell(Scores(row, _ASSESSOR, (score,)))

    def _line(self, number: int, name: str, score: float | None) -> str:
        piece = "assessment_scientist" if name in self._scientists else "assessment"
        values = {"number": str(number), "persona": Name(name), "k": str(self._session.config.top)}
        if score is None:
            return self._session.prompts.piece("assessment_missing", values)
        return self._session.prompts.piece(piece, {**values, "score": f"{score:g}"})
