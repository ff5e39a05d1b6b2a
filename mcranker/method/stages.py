"""The stages that rankers are made of: recruit, write rubrics, score, assess.

Each puts actors to work on a `Session`, which holds what belongs to one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import anyio

from mcranker.errors import ConfigError
from mcranker.events import RubricWritten, TeamRecruited
from mcranker.llm.chat import ChatModel
from mcranker.method.judges import Annotator, Assessment, Assessor, ScoreTask
from mcranker.method.panel import Panel
from mcranker.method.recruit import Recruiter
from mcranker.method.seats import Seats, as_recruited
from mcranker.method.session import Session
from mcranker.runtime.actor import Actor
from mcranker.runtime.bridge import task_group
from mcranker.tally import OnScoreOf, Tally
from mcranker.types import Score, ScoreMatrix
from personas import Member

__all__ = [
    "assess",
    "judge_workers",
    "recruit",
    "score_passages",
    "seat_judges",
    "write_rubrics",
]


async def recruit(session: Session, seats: Seats) -> tuple[Member, ...]:
    """Those who are on the team already, and recruits for the seats that are left (Eq. 1).

    Recruits come without a rubric, unless ``criteria="library"`` takes the library's.

    Raises:
        ReplyError: the recruiter's answer cannot be read, asked twice.
    """
    config = session.config
    if seats.recruits == 0:
        return seats.members
    example = session.passages[min(config.example_rank, len(session.passages)) - 1]
    with session.timed("recruit"):
        recruiter = Recruiter(
            session.desk,
            session.asker(session.models.recruiter),
            seats=seats,
            baselines=session.memory.subject_baselines,
        )
        async with task_group() as group:
            group.start_soon(recruiter.run)
            recruited = await recruiter.ask(example)
            recruiter.close()
    return (*seats.members, *as_recruited(recruited, config))


async def write_rubrics(
    session: Session,
    members: Sequence[Member],
    *,
    scored: OnScoreOf | None = None,
    locked: bool = False,
) -> list[Annotator]:
    """An annotator for each member, each with its rubric; missing rubrics are written (Eq. 2).

    Args:
        session: the query.
        members: the team.
        scored: what an annotator does with a score, by column; None if it gives none.
        locked: refuse to write any rubric.

    Raises:
        ConfigError: the team is locked and a rubric is missing.
        ReplyError: a rubric cannot be read, asked twice.
    """
    config = session.config
    known = session.memory.dataset_rubrics
    annotators = [
        Annotator(
            member,
            session.desk,
            session.asker(session.models.criteria),
            session.asker(session.models.scoring),
            workers=workers,
            on_score=scored(column) if scored else _ignore,
        )
        for column, (member, workers) in enumerate(
            zip(members, judge_workers(session, len(members)), strict=True)
        )
    ]

    async def settle(annotator: Annotator) -> None:
        member = annotator.member
        rubric, written = member.rubric, False
        if config.criteria == "none":
            rubric = None
        elif rubric is None and locked:
            raise ConfigError(
                f"the team is locked and {member.name!r} has no rubric; "
                'write one, unlock the team, or use criteria="none"'
            )
        elif rubric is None and config.criteria == "dataset":
            if member.name not in known:
                known.setdefault(member.name, await annotator.write_rubric())
            rubric, written = known[member.name], True
        elif rubric is None:
            rubric, written = await annotator.write_rubric(), True
        annotator.take_rubric(rubric, written=written)
        if rubric is not None and session.emit is not None:
            await session.emit(RubricWritten(session.query.id, member.name, rubric))

    with session.timed("criteria"):
        if session.emit is not None:
            personas = tuple(member.persona for member in members)
            await session.emit(TeamRecruited(session.query.id, personas))
        async with task_group() as group:
            for annotator in annotators:
                group.start_soon(settle, annotator)
    return annotators


def seat_judges(
    session: Session, annotators: Sequence[Annotator], scored: OnScoreOf
) -> Sequence[Actor[ScoreTask, None]]:
    """Who scores the passages: each annotator by itself, or all of them as one `Panel`.

    A panel is for ``scoring="per_criterion"``, where the scoring model answers as many
    questions in one call as the team has criteria.

    Args:
        session: the query.
        annotators: the team, each with its rubric.
        scored: what the panel does with a score, by column.
    """
    members = [annotator.member for annotator in annotators]
    criteria = [len(member.rubric.criteria) if member.rubric else 0 for member in members]
    limit = session.models.scoring.capabilities.max_questions
    wanted = session.config.scoring == "per_criterion" and session.config.panel
    if not wanted or not all(criteria) or sum(criteria) > limit:
        return annotators
    return [
        Panel(
            members,
            session.desk,
            session.asker(session.models.scoring),
            workers=judge_workers(session, 1)[0],
            on_scores=[scored(column) for column in range(len(members))],
        )
    ]


async def score_passages(
    session: Session, judges: Sequence[Actor[ScoreTask, None]], tally: Tally
) -> None:
    """Every judge scores every distinct passage (Eq. 3).

    Judges work side by side, unless the model keeps fewer prompt prefixes than there are
    judges or fewer calls are allowed: then one after the other.

    Args:
        session: the query.
        judges: who scores.
        tally: where the judges' scores go.

    Raises:
        ModelError: the model as such failed, not just some passages' requests.
    """
    together = len(judges) <= _calls_at_once(session, session.models.scoring)

    async def feed(judge: Actor[ScoreTask, None]) -> None:
        # A judge that has failed takes no more, and its own error is the one to tell.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            for row, place in enumerate(session.distinct):
                await judge.tell(ScoreTask(row, session.passages[place]))
            judge.close()

    with session.timed("score"):
        for batch in [judges] if together else [[judge] for judge in judges]:
            async with task_group() as group:
                for judge in batch:
                    group.start_soon(judge.run)
                    group.start_soon(feed, judge)
    tally.check()


async def assess(session: Session, matrix: ScoreMatrix, names: Sequence[str]) -> ScoreMatrix:
    """The assessor's score of every distinct passage, one column (Eq. 4, right).

    Raises:
        ModelError: the model as such failed, not just some passages' requests.
    """
    tally = Tally(session, ["assessor"], assessing=True)
    assessor = Assessor(
        session.desk,
        session.asker(session.models.assessor),
        workers=min(_calls_at_once(session, session.models.assessor), len(session.distinct)),
        on_score=tally.of(0),
    )
    with session.timed("assess"):
        async with task_group() as group:
            group.start_soon(assessor.run)
            for row, place in enumerate(session.distinct):
                values = matrix.values[row].tolist()
                scores = tuple(
                    (name, None if value != value else value)
                    for name, value in zip(names, values, strict=True)
                )
                await assessor.tell(Assessment(row, session.passages[place], scores))
            assessor.close()
    tally.check()
    return tally.matrix


def judge_workers(session: Session, judges: int) -> list[int]:
    """Workers of each judge, never more than there are passages.

    Judges that work one after the other, or as ``top_k`` has it, get all the concurrency each;
    those that work side by side share it. No more calls than the model keeps prompt prefixes
    are under way, since others would drive out what the next call needs.
    """
    limit = _calls_at_once(session, session.models.scoring)
    alone = session.config.top_k is not None or judges > limit
    if alone:
        shares = [limit] * judges
    else:
        shares = [limit // judges + (i < limit % judges) for i in range(judges)]
    return [min(share, len(session.distinct)) for share in shares]


def _calls_at_once(session: Session, model: ChatModel) -> int:
    return min(model.capabilities.prefix_slots or session.config.workers, session.config.workers)


async def _ignore(row: int, doc_id: str, score: Score) -> None:
    """Nobody wants this score."""
