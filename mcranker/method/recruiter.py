"""The actor of the recruiter: it invents personas, or picks them from the library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio.to_thread

from mcranker.errors import ReplyError
from mcranker.llm.chat import Answer, ChatReply, Option, Question, State
from mcranker.logs import safe_logger
from mcranker.method.session import LONG, Session, passage_text
from mcranker.method.team_plan import TeamPlan, as_recruited
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_personas
from mcranker.replies.schemas import TEAM_SCHEMA, library_team_schema
from personas import Member, Persona
from personas.provenance import sealed
from personas.ranking.types import Passage
from personas.untrusted import Name

logger = safe_logger("mcranker.method.recruit")


"""Three general queries, and three on distant topics."""
NO_EXAMPLE = "(no example is at hand)"
"""Shown to a recruiter in place of an example passage."""


async def recruit(session: Session) -> tuple[Member, ...]:
    """Recruit for the open seats (Eq. 1)."""
    config, known = session.config, session.job.memory.dataset_team
    if config.one_team and known:
        return tuple(known)
    session.mark("recruit")
    if config.one_team:
        # Neither the query that happens to be the first nor a passage of it.
        about, example = config.dataset, Passage("", NO_EXAMPLE)
    else:
        about = session.query.text
        example = session.passages[min(config.example_rank, len(session.passages)) - 1]
    recruiter = Recruiter(session, session.plan, about)
    recruited = as_recruited(await recruiter.recruit(example), config)
    session.mark("recruit")
    if config.one_team:
        # Another query may have been first meanwhile.
        known[:] = known or recruited
        return tuple(known)
    return recruited


class Recruiter:
    """Guesses who would ask the query, from the query and one example passage (Eq. 1)."""

    def __init__(self, session: Session, plan: TeamPlan, about: str) -> None:
        self._session = session
        self._plan = plan
        self._about = about
        self._model = session.models.recruiter

    async def recruit(self, example: Passage) -> tuple[Member, ...]:
        """Recruit members; missing ones are asked for once more, unless ``repair_attempts=0``."""
        found = await self._recruit_once(example)
        wanted = self._plan.recruits
        query_id = self._session.job.query.id
        if len(found) < wanted and self._session.config.repair_attempts:
            rest = Recruiter(self._session, self._plan.after(found), self._about)
            try:
                found += await rest._recruit_once(example)
            except ReplyError as error:
                logger.info("query %r: no one else was named: %s", query_id, error)
        if len(found) < wanted:
            logger.warning(
                "query %r: asked for %d recruits, got %d; the team is smaller than the others",
                *(query_id, wanted, len(found)),
            )
        return found

    async def _recruit_once(self, example: Passage) -> tuple[Member, ...]:
        if self._session.config.recruiting == "invent":
            return await self._invent(example)
        if not self._model.capabilities.prompts:
            return await self._most_likely()
        return await self._choose()

    async def _invent(self, example: Passage) -> tuple[Member, ...]:
        session, prompts = self._session, self._session.prompts
        shown = passage_text(example, session.shown_text(example), session.config)
        fence = partial(prompts.passage, shown, query=self._about)
        passage = fence() if len(shown) < LONG else await anyio.to_thread.run_sync(fence)
        personas = await session.ask(
            self._model,
            prompts["recruit"].render({**self._wanted(), "passage": passage}),
            lambda reply: self._who_may_join(read_personas(reply.text)),
            stage="recruit",
            max_tokens=session.config.max_tokens,
            schema=TEAM_SCHEMA,
        )
        return tuple(sealed(Member(persona=persona, origin="recruited")) for persona in personas)

    def _wanted(self) -> dict[str, str]:
        number = str(self._plan.recruits)
        return {"query": self._about, "number": number, "others": self._plan.others}

    def _who_may_join(self, personas: Sequence[Persona]) -> tuple[Persona, ...]:
        """Return the first N personas that are neither on the team already nor forbidden."""
        recruits = self._plan.recruits
        if self._session.config.snake_case_personas:
            renamed = map(_snake_cased, personas)
            personas = list({persona.name: persona for persona in renamed}.values())
        found = [persona for persona in personas if self._plan.may_join(persona.name)]
        if not found:
            raise Unreadable(self._plan.why_none([persona.name for persona in personas]))
        return tuple(found[:recruits])

    async def _choose(self) -> tuple[Member, ...]:
        candidates = self._plan.candidates
        listed = "\n".join(
            f"- {member.name}: {', '.join(member.persona.topics)}" for member in candidates
        )
        turns = self._session.prompts["choose"].render({**self._wanted(), "members": listed})
        known = {member.name.casefold(): member for member in candidates}

        def read(text: str) -> tuple[Member, ...]:
            personas = read_personas(text)
            chosen = [(known.get(persona.name.casefold()), persona) for persona in personas]
            found = [_with_reason(member, persona.reason) for member, persona in chosen if member]
            if not found:
                raise Unreadable("none of the names stands in the list.")  # english: sent to models
            return tuple(found[: self._plan.recruits])

        return await self._session.ask(
            self._model,
            turns,
            lambda reply: read(reply.text),
            stage="recruit",
            max_tokens=self._session.config.max_tokens,
            schema=library_team_schema([member.name for member in candidates]),
        )

    async def _most_likely(self) -> tuple[Member, ...]:
        """Return the members that judge best, by the answers to typed questions."""
        candidates, limits = self._plan.candidates, self._model.capabilities
        if limits.max_choices is None or len(candidates) <= limits.max_choices:
            members = tuple(
                Option(each.name, ", ".join(each.persona.topics)) for each in candidates
            )
            task = self._session.prompts["typed_recruit"].render({})[-1].text
            (answer,) = await self._answers((Question("judge", task, 1, "choice", members),))
            chances = answer.probabilities or ()
        else:
            chances = ()
            template = self._session.prompts["typed_suits"]
            most = limits.max_questions
            for start in range(0, len(candidates), most):
                part = candidates[start : start + most]
                asked = [
                    template.render(
                        {"persona": Name(each.name), "topics": ", ".join(each.persona.topics)}
                    )
                    for each in part
                ]
                questions = tuple(
                    Question(f"judge_{number}", turns[-1].text, kind="yes_no")
                    for number, turns in enumerate(asked, start=1)
                )
                answers = await self._answers(questions)
                chances += tuple(each.value for each in answers if each.value is not None)
        best = sorted(zip(chances, candidates, strict=True), key=lambda pair: -pair[0])
        return tuple(
            _with_reason(member, f"Likely to judge it best (probability {p:.2f}).")
            for p, member in best[: self._plan.recruits]
        )

    async def _answers(self, questions: tuple[Question, ...]) -> tuple[Answer, ...]:
        """Return the answers about the query, with all the probabilities."""

        def read(reply: ChatReply) -> tuple[Answer, ...]:
            answers = reply.answers or ()
            if len(answers) != len(questions):
                raise Unreadable(f"it holds {len(answers)} of {len(questions)} answers.")
            for answer, question in zip(answers, questions, strict=True):
                given = len(answer.probabilities or ())
                if answer.value is None or (question.options and given != len(question.options)):
                    problem = answer.problem or "it has no probability of each option"
                    raise Unreadable(f"{question.name!r}: {problem}.")
            return answers

        session = self._session
        return await session.ask(
            self._model,
            (),
            read,
            stage="recruit",
            max_tokens=session.config.max_tokens,
            questions=questions,
            state=State(session.prompts.cleaner.text(self._about), {}),
        )


def _snake_cased(persona: Persona) -> Persona:
    name = "_".join(persona.name.lower().split())
    part = name.split("/")[1].strip("_") if "/" in name else name
    return persona.model_copy(update={"name": part or name})


def _with_reason(member: Member, reason: str) -> Member:
    persona = member.persona.model_copy(update={"reason": reason})
    return member.model_copy(update={"persona": persona})
