"""The actor that recruits: it invents personas, or picks them from the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcranker.llm.chat import Answer, ChatReply, Option, Question, State
from mcranker.logs import safe_logger
from mcranker.method.seats import Seats, as_recruited
from mcranker.method.session import Session
from mcranker.method.subjects import CALIBRATION_QUERIES, first_words, lift_by_topic, suitability
from mcranker.replies.read import Unreadable, read_personas
from mcranker.replies.schemas import TEAM_SCHEMA, library_team_schema
from mcranker.runtime.actor import Actor
from mcranker.runtime.bridge import task_group
from mcranker.types import Passage
from personas import Member, Persona, library
from personas.provenance import sealed

__all__ = ["Recruiter", "recruit"]

logger = safe_logger("mcranker.method.recruit")


async def recruit(session: Session, seats: Seats) -> tuple[Member, ...]:
    """Recruits for the seats that are left (Eq. 1).

    They come without a rubric, unless ``criteria="library"`` takes the library's.

    Raises:
        ReplyError: the recruiter's answer cannot be read, asked twice.
    """
    session.mark("recruit")
    example = session.passages[min(session.config.example_rank, len(session.passages)) - 1]
    recruiter = Recruiter(session, seats)
    async with task_group() as group:
        group.start_soon(recruiter.run)
        recruited = await recruiter.ask(example)
        recruiter.close()
    session.mark("recruit")
    return as_recruited(recruited, session.config)


class Recruiter(Actor[Passage, tuple[Member, ...]]):
    """Guesses who would ask the query, from the query and one example passage (Eq. 1).

    With ``recruiting="library"`` it picks from the library instead: by one constrained
    choice, by a typed question, or, where the model is weak, by likelihoods (see
    `mcranker.method.subjects`).
    `seats` say how many are recruited, and who may not be.
    """

    def __init__(self, session: Session, seats: Seats) -> None:
        super().__init__("recruiter", self._recruit)
        self._session = session
        self._seats = seats
        self._model = session.models.recruiter

    async def _recruit(self, example: Passage) -> tuple[Member, ...]:
        if self._session.config.recruiting == "invent":
            return await self._invent(example)
        if not self._model.capabilities.prompts:
            return await self._most_likely()
        if self._model.capabilities.weak and self._model.capabilities.label_logprobs:
            return await self._most_suitable()
        return await self._choose()

    async def _invent(self, example: Passage) -> tuple[Member, ...]:
        turns = self._session.prompts["recruit"].render(
            {
                "query": self._session.query.text,
                "passage": self._session.fenced(example),
                "number": str(self._seats.recruits),
                "others": self._seats.others,
            }
        )
        personas = await self._session.ask(
            self._model,
            turns,
            lambda reply: self._who_may_join(read_personas(reply.text)),
            stage="recruit",
            max_tokens=self._session.config.max_tokens,
            schema=TEAM_SCHEMA,
        )
        if self._session.config.snake_case_personas:
            personas = tuple(map(_snake_cased, personas))
        return tuple(
            sealed(Member(persona=persona, origin="recruited"), persona=True, rubric=False)
            for persona in personas
        )

    def _who_may_join(self, personas: Sequence[Persona]) -> tuple[Persona, ...]:
        """The first so many personas that are neither on the team already nor forbidden."""
        recruits = self._seats.recruits
        found = [persona for persona in personas if self._seats.may_join(persona.name)]
        if not found:
            raise Unreadable(self._seats.why_none([persona.name for persona in personas]))
        if len(found) < recruits:
            logger.info("asked for %d recruits, got %d", recruits, len(found))
        return tuple(found[:recruits])

    async def _choose(self) -> tuple[Member, ...]:
        candidates = self._seats.candidates
        listed = "\n".join(
            f"- {member.name}: {', '.join(member.persona.topics)}" for member in candidates
        )
        turns = self._session.prompts["choose"].render(
            {
                "query": self._session.query.text,
                "members": listed,
                "number": str(self._seats.recruits),
                "others": self._seats.others,
            }
        )
        known = {member.name.casefold(): member for member in candidates}

        def read(text: str) -> tuple[Member, ...]:
            personas = read_personas(text)
            chosen = [(known.get(persona.name.casefold()), persona) for persona in personas]
            found = [_with_reason(member, persona) for member, persona in chosen if member]
            if not found:
                raise Unreadable("none of the names stands in the list.")
            return tuple(found[: self._seats.recruits])

        return await self._session.ask(
            self._model,
            turns,
            lambda reply: read(reply.text),
            stage="recruit",
            max_tokens=self._session.config.max_tokens,
            schema=library_team_schema([member.name for member in candidates]),
        )

    async def _most_likely(self) -> tuple[Member, ...]:
        """The members whom the answer to a typed question makes the likeliest to judge well."""
        session, candidates = self._session, self._seats.candidates
        members = tuple(
            Option(member.name, ", ".join(member.persona.topics)) for member in candidates
        )
        task = session.prompts["typed_recruit"].render({})
        question = Question("judge", task[-1].text, kind="choice", options=members)

        def read(reply: ChatReply) -> tuple[float, ...]:
            (answer,) = reply.answers or (Answer(None),)
            if answer.probabilities is None or len(answer.probabilities) != len(candidates):
                problem = answer.problem or "it has no probability of each of the library"
                raise Unreadable(f"{problem}.")
            return answer.probabilities

        chances = await session.ask(
            self._model,
            (),
            read,
            stage="recruit",
            max_tokens=session.config.max_tokens,
            questions=(question,),
            state=State(session.prompts.cleaner.text(session.query.text), {}),
        )
        best = sorted(zip(chances, candidates, strict=True), key=lambda pair: -pair[0])
        return tuple(
            _with_reason(
                member,
                Persona(name=member.name, reason=f"Likely to judge it best (probability {p:.2f})."),
            )
            for p, member in best[: self._seats.recruits]
        )

    async def _most_suitable(self) -> tuple[Member, ...]:
        """The members whose topics the model most likely names for the query."""
        candidates = [member for member in self._seats.candidates if member.persona.topics]
        # Of the whole library, so that what is asked does not depend on who may join.
        words = first_words([member for member in library.members() if member.origin != "fixed"])
        baselines = self._session.memory.subject_baselines
        if not baselines:
            calibrations = [await self._subject(query, words) for query in CALIBRATION_QUERIES]
            # Another query may have been first meanwhile; the calibrations count once.
            baselines[:] = calibrations
        logprobs = await self._subject(self._session.query.text, words)
        scores = suitability(candidates, logprobs, baselines)
        best = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0])
        chosen = []
        for _, member in best[: self._seats.recruits]:
            topics = [topic for _, topic in lift_by_topic(member, logprobs, baselines)]
            reason = f"The query seems to be about {topics[0]}" + "".join(
                f" or {topic}" for topic in topics[1:2]
            )
            chosen.append(_with_reason(member, Persona(name=member.name, reason=f"{reason}.")))
        return tuple(chosen)

    async def _subject(self, query: str, words: tuple[str, ...]) -> Mapping[str, float]:
        return await self._session.ask(
            self._model,
            self._session.prompts["subject"].render({"query": query}),
            lambda reply: reply.label_logprobs or {},
            stage="recruit",
            max_tokens=1,
            labels=words,
        )


def _snake_cased(persona: Persona) -> Persona:
    return persona.model_copy(update={"name": "_".join(persona.name.lower().split())})


def _with_reason(member: Member, persona: Persona) -> Member:
    reasoned = member.persona.model_copy(update={"reason": persona.reason})
    return member.model_copy(update={"persona": reasoned})
