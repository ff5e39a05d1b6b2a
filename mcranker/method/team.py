"""The supervisor of one query: actors start here, and end together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from mcranker.errors import ConfigError
from mcranker.events import RubricWritten, TeamRecruited
from mcranker.method.annotator import Annotator, ScorePassages
from mcranker.method.batch_judge import BatchJudge, may_be_panel
from mcranker.method.ensembler import Ensembler, Ready, TeamKnown
from mcranker.method.recruiter import recruit
from mcranker.method.session import Session
from mcranker.runtime.actor import Actor
from mcranker.runtime.bridge import task_group
from personas import Member
from personas.ranking.types import ScoreMatrix


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
    panel: BatchJudge | None = None
    with session.until_deadline():
        await session.prepare_texts()
        await session.count_words()
        async with task_group() as group:
            group.start_soon(ensembler.run)
            if ensembler.assessor is not None:
                group.start_soon(ensembler.assessor.run)
            together = may_be_panel(session)
            announce = None if together else ensembler
            await _seat(session, group, annotators, scores=ensembler, announce=announce)
            if together:
                members = [annotator.member for annotator in annotators]
                panel = BatchJudge.of_team(members, session, ensembler)
                group.start_soon(panel.run)
                names = {column: member.name for column, member in enumerate(members)}
                await ensembler.tell(TeamKnown(len(names), judges=1))
                await ensembler.tell(Ready(0, panel, names, panel.at_once))
            await ensembler.complete.wait()
            for actor in (*annotators, panel, ensembler.assessor, ensembler):
                if actor is not None:
                    actor.close()
    partial = not ensembler.complete.is_set()
    if partial:
        ensembler.close_at_deadline(len(annotators))
    members = [annotator.member for annotator in annotators]
    return Scored(
        [each.name for each in members], ensembler.matrix, members, ensembler.assessed, partial
    )


async def score_by_judge(
    session: Session, name: str, make: Callable[[Ensembler], Actor[ScorePassages]]
) -> Scored:
    """Let one judge score every passage."""
    ensembler = Ensembler(session, 1)
    judge = make(ensembler)
    with session.until_deadline():
        # It may have come already, and then nothing must begin.
        await anyio.lowlevel.checkpoint_if_cancelled()
        await session.prepare_texts()
        await session.count_words()
        async with task_group() as group:
            group.start_soon(ensembler.run)
            group.start_soon(judge.run)
            await ensembler.tell(TeamKnown(columns=1, judges=1))
            await ensembler.tell(Ready(0, judge, {0: name}, getattr(judge, "at_once", 1)))
            await ensembler.complete.wait()
            judge.close()
            ensembler.close()
    partial = not ensembler.complete.is_set()
    if partial:
        ensembler.close_at_deadline(1)
    return Scored([name], ensembler.matrix, partial=partial)


async def assemble(session: Session) -> list[Member]:
    """Return the team with the rubrics written by the deadline; nothing is scored."""
    annotators: list[Annotator] = []
    with session.until_deadline():
        await session.prepare_texts()
        async with task_group() as group:
            await _seat(session, group, annotators)
            for annotator in annotators:
                annotator.close()
    return [annotator.member for annotator in annotators]


async def _seat(
    session: Session,
    group: TaskGroup,
    annotators: list[Annotator],
    *,
    scores: Ensembler | None = None,
    announce: Ensembler | None = None,
) -> None:
    """Add the annotators of the whole team, each at work in `group`, with its rubric."""
    plan = session.plan
    if plan.locked and session.config.criteria != "none":
        for each in (member for member in plan.members if member.rubric is None):
            raise ConfigError(
                f"the team is locked and {each.name!r} has no rubric; write one, unlock the team, "
                'or use criteria="none"'
            )

    async def settle(annotator: Annotator) -> None:
        await annotator.settle_rubric()
        member = annotator.member
        session.mark("criteria")
        if member.rubric is not None:
            await session.emit(RubricWritten(session.query.id, member.name, member.rubric))
        if announce is not None:
            column = annotator.column
            await announce.tell(Ready(column, annotator, {column: member.name}))

    async with task_group() as writing:

        def sit_down(members: Sequence[Member]) -> None:
            session.mark("criteria")
            for member in members:
                annotator = Annotator(member, len(annotators), session, scores)
                annotators.append(annotator)
                group.start_soon(annotator.run)
                writing.start_soon(settle, annotator)

        sit_down(plan.members)
        if plan.recruits:
            sit_down(await recruit(session))
        if announce is not None:
            await announce.tell(TeamKnown(len(annotators), len(annotators)))
        personas = tuple(annotator.member.persona for annotator in annotators)
        await session.emit(TeamRecruited(session.query.id, personas))
