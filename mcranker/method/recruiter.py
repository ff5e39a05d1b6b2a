"""The recruiter: it invents personas, or picks them from the library (Eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio.to_thread

from mcranker.errors import ConfigError, ReplyError
from mcranker.llm.chat import ChatReply, Option, Question, State
from mcranker.logs import safe_logger
from mcranker.method.session import LONG, Session
from mcranker.method.team_plan import TeamPlan, as_recruited
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_personas
from mcranker.replies.schemas import TEAM_SCHEMA, library_team_schema
from personas import Member, Persona
from personas.origins import sealed
from personas.ranking.types import Passage

logger = safe_logger("mcranker.method.recruit")

NO_EXAMPLE = "(no example is at hand)"
"""Shown to a recruiter in place of an example passage."""


async def recruit(session: Session) -> tuple[Member, ...]:
    """Recruit for the open seats; one team for a whole data set if so configured."""
    config, known = session.config, session.job.memory.dataset_team
    if config.one_team and known:
        return tuple(known)
    session.mark("recruit")
    if config.one_team:
        # Neither the query that happens to be the first nor a passage of it.
        about, example = config.dataset, Passage("", NO_EXAMPLE)
    else:
        about = session.query.text
        example = session.passages[min(config.example_rank or 1, len(session.passages)) - 1]
    recruited = as_recruited(await _recruit(session, about, example), config)
    session.mark("recruit")
    if config.one_team:
        # Another query may have been first meanwhile.
        known[:] = known or recruited
        return tuple(known)
    return recruited


async def _recruit(session: Session, about: str, example: Passage) -> tuple[Member, ...]:
    """Recruit members; missing ones are asked for once more, unless ``repair_attempts=0``."""
    wanted, query_id = session.plan.recruits, session.job.query.id
    from_library = _choose if session.models.recruiter.capabilities.prompts else _most_likely
    ask = _invent if session.config.recruiting == "invent" else from_library
    found = await ask(session, session.plan, about, example)
    if len(found) < wanted and session.config.repair_attempts:
        try:
            found += await ask(session, session.plan.after(found), about, example)
        except ReplyError as error:
            logger.info("query %r: no one else was named: %s", query_id, error)
    if len(found) < wanted:
        logger.warning(
            "query %r: asked for %d recruits, got %d; the team is smaller than the others",
            *(query_id, wanted, len(found)),
        )
    return found


async def _invent(
    session: Session, plan: TeamPlan, about: str, example: Passage
) -> tuple[Member, ...]:
    """Guess who would ask the query, from the query and one example passage."""
    shown = session.titled(example)
    fence = partial(session.prompts.passage, shown, query=about)
    passage = fence() if len(shown) < LONG else await anyio.to_thread.run_sync(fence)

    def read(reply: ChatReply) -> tuple[Persona, ...]:
        """Return the first N personas that are not on the team already."""
        personas: Sequence[Persona] = read_personas(reply.text)
        if session.config.snake_case_personas:
            renamed = map(_snake_cased, personas)
            personas = list({persona.name: persona for persona in renamed}.values())
        found = [persona for persona in personas if plan.may_join(persona.name)]
        if not found:
            raise Unreadable(plan.why_none([persona.name for persona in personas]))
        return tuple(found[: plan.recruits])

    values = {"query": about, "number": str(plan.recruits), "others": plan.others}
    wanted = session.config.example_rank is not None and example.text != NO_EXAMPLE
    values |= {"passage": passage, "example": "yes" if wanted else ""}
    personas = await session.ask(
        session.models.recruiter,
        session.prompts["recruit"].render(values),
        read,
        stage="recruit",
        max_tokens=session.config.max_tokens,
        schema=TEAM_SCHEMA,
    )
    return tuple(sealed(Member(persona=persona, origin="recruited")) for persona in personas)


async def _choose(
    session: Session, plan: TeamPlan, about: str, example: Passage
) -> tuple[Member, ...]:
    """Have a chat model choose among the members of the library."""
    known = {member.name.casefold(): member for member in plan.candidates}
    names = [member.name for member in known.values()]
    topics = (f"- {each.name}: {', '.join(each.persona.topics)}" for each in known.values())

    def read(reply: ChatReply) -> tuple[Member, ...]:
        chosen = [(known.get(each.name.casefold()), each) for each in read_personas(reply.text)]
        found = [_with_reason(member, persona.reason) for member, persona in chosen if member]
        if not found:
            raise Unreadable("none of the names is in the list.")
        return tuple(found[: plan.recruits])

    values = {"query": about, "number": str(plan.recruits), "others": plan.others}
    return await session.ask(
        session.models.recruiter,
        session.prompts["choose"].render({**values, "members": "\n".join(topics)}),
        read,
        stage="recruit",
        max_tokens=session.config.max_tokens,
        schema=library_team_schema(names),
    )


async def _most_likely(
    session: Session, plan: TeamPlan, about: str, example: Passage
) -> tuple[Member, ...]:
    """Take the members of the library that judge best, by the answer to a typed question."""
    candidates, most = plan.candidates, session.models.recruiter.capabilities.max_choices
    if most is not None and len(candidates) > most:
        raise ConfigError(
            f"{session.models.recruiter.name} chooses among {most} options, and the library has "
            f"{len(candidates)} members; name another recruiter_model, or a team"
        )
    options = tuple(Option(each.name, ", ".join(each.persona.topics)) for each in candidates)
    task = session.prompts["typed_recruit"].render({})[-1].text

    def read(reply: ChatReply) -> tuple[float, ...]:
        answers = reply.answers or ()
        if len(answers) != 1:
            raise Unreadable(f"it holds {len(answers)} of 1 answers.")
        chances = answers[0].probabilities or ()
        if answers[0].value is None or len(chances) != len(options):
            problem = answers[0].problem or "it has no probability of each option"
            raise Unreadable(f"'judge': {problem}.")
        return chances

    chances = await session.ask(
        session.models.recruiter,
        (),
        read,
        stage="recruit",
        max_tokens=session.config.max_tokens,
        questions=(Question("judge", task, 1, "choice", options),),
        state=State(session.prompts.cleaner.text(about), {}),
    )
    best = sorted(zip(chances, candidates, strict=True), key=lambda pair: -pair[0])
    return tuple(
        _with_reason(member, f"Best match for this query ({p:.0%}).")
        for p, member in best[: plan.recruits]
    )


def _snake_cased(persona: Persona) -> Persona:
    name = "_".join(persona.name.lower().split())
    part = name.split("/")[1].strip("_") if "/" in name else name
    return persona.model_copy(update={"name": part or name})


def _with_reason(member: Member, reason: str) -> Member:
    persona = member.persona.model_copy(update={"reason": reason})
    return member.model_copy(update={"persona": persona})
