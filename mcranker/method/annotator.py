"""The actor of a judge: it writes a rubric (Eq. 2) and scores passages by it (Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcranker.errors import (
    FormNotKept,
    ModelError,
    ReplyError,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.llm.chat import ChatReply, Option, Question, State
from mcranker.logs import safe_logger
from mcranker.method.rubric_text import rubric_as_text, rubrics_as_text, with_instruction
from mcranker.method.session import Session
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import read_rubric
from mcranker.replies.schemas import RUBRIC_SCHEMA
from mcranker.replies.scoring import Scoring
from mcranker.runtime.actor import Actor
from personas import Member, Rubric, library
from personas.library import closest_members
from personas.provenance import edited, sealed
from personas.ranking.types import Passage, Score
from personas.templates import Template, Turn
from personas.untrusted import Name, Own

logger = safe_logger("mcranker.method.annotator")


async def examples_for(member: Member, about: str, session: Session) -> tuple[Member, ...]:
    """Return the members of the library whose rubrics are closest to this persona and text."""
    count = session.config.criteria_examples
    if not count:
        return ()
    recruiter = session.models.recruiter
    candidates = [each for each in library.members() if each.rubric is not None]
    most = recruiter.capabilities.max_choices
    if recruiter.capabilities.prompts or (most is not None and len(candidates) > most):
        persona = member.persona
        return closest_members(f"{persona.name} {persona.description} {about}", count)
    options = tuple(Option(each.name, ", ".join(each.persona.topics)) for each in candidates)
    task = session.prompts["typed_recruit"].render({})[-1].text

    def read(reply: ChatReply) -> tuple[float, ...]:
        chances = [each.probabilities or () for each in reply.answers or ()]
        if len(chances) != 1 or len(chances[0]) != len(candidates):
            raise Unreadable("it has not the probability of each option.")
        return chances[0]

    chances = await session.ask(
        recruiter,
        (),
        read,
        stage="recruit",
        persona=member.name,
        max_tokens=session.config.max_tokens,
        questions=(Question("judge", task, 1, "choice", options),),
        state=State(session.prompts.cleaner.text(f"{member.name}: {about}"), {}),
    )
    best = sorted(zip(chances, candidates, strict=True), key=lambda pair: -pair[0])
    return tuple(each for _, each in best[:count])


def with_examples(
    template: Template, values: dict[str, str], examples: Sequence[Member], session: Session
) -> tuple[Turn, ...]:
    """The criteria prompt with the rubrics of `examples` in it."""
    text = ""
    if examples:
        listed = rubrics_as_text(examples, session.prompts)["criteria"]
        text = session.prompts.piece("criteria_examples", {"examples": listed})
    turns = template.render({**values, "examples": text})
    if not text or "examples" in template.placeholders:
        return turns
    place = max(number for number, turn in enumerate(turns) if turn.role != "assistant")
    longer = turns[place]._replace(text=f"{turns[place].text}\n\n{text}")
    return (*turns[:place], longer, *turns[place + 1 :])


@dataclass(frozen=True, slots=True)
class ScorePassages:
    """To a judge: score the passages of these rows of the score matrix, together."""

    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """From a judge: its scores of one passage, one for each of its columns."""

    row: int
    judge: int
    scores: Sequence[Score]


class Annotator(Actor[ScorePassages]):
    """One persona on the team: writes its rubric (Eq. 2) and scores passages by it (Eq. 3)."""

    def __init__(
        self, member: Member, column: int, session: Session, ensembler: Actor[Any] | None
    ) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__(f"annotator {member.name!r}", self._score, workers=workers)
        self.member = member
        self.column = column
        self._session = session
        self._ensembler = ensembler
        self._prompt: ScorePrompt | None = None

    async def _score(self, message: ScorePassages) -> None:
        assert self._prompt is not None, "the rubric comes before ScorePassages"
        assert self._ensembler is not None
        (row,) = message.rows
        score = await self._prompt.score(self._session.passage(row), self.member.name)
        await self._ensembler.tell(Scores(row, self.column, (score,)))

    async def settle_rubric(self) -> None:
        """Write the rubric if there is none, before the first passage is scored."""
        config, member = self._session.config, self.member
        rubric, written = member.rubric, False
        examples: tuple[Member, ...] = ()
        if config.criteria == "none":
            rubric = None
        elif rubric is None and self._may_write():
            by_dataset = config.criteria == "dataset"
            known = self._session.job.memory.dataset_rubrics if by_dataset else {}
            about = config.dataset if by_dataset else self._session.query.text
            examples = await examples_for(member, about, self._session)
            if member.name not in known:
                known.setdefault(member.name, await self._write_rubric(examples))
            rubric, written = known[member.name], True
        self.member = member.model_copy(update={"rubric": rubric})
        if written:
            names = tuple(each.name for each in examples)
            self.member = self.member.model_copy(update={"rubric_examples": names})
            if member.origin != "human" and not edited(member):
                self.member = sealed(self.member)
        self.member = with_instruction(self.member, config.instruction)
        self._prompt = ScorePrompt.of_member(self.member, self._session)

    def _may_write(self) -> bool:
        """True if a missing rubric is written; else the persona judges by its name."""
        config, model = self._session.config, self._session.models.criteria
        if model.capabilities.prompts:
            return True
        lacking = f"{self.member.name!r} has no rubric, and {model.name} writes none"
        if config.scoring_class.needs_rubric:
            raise UnsupportedCapability(
                f"{lacking}; give the persona criteria, take a criteria_model that writes them, or "
                'use scoring="expected"',
                model=model.name,
            )
        logger.info("%s; it judges by its name", lacking)
        return False

    async def _write_rubric(self, examples: Sequence[Member]) -> Rubric:
        """Return the rubric written by the criteria model; for the data set if so configured."""
        session = self._session
        config, prompts = session.config, session.prompts
        brief = "criteria_dataset" if config.criteria == "dataset" else "criteria"
        template = prompts[f"{brief}_scientist" if self.member.origin == "fixed" else brief]
        values = {
            "persona": Name(self.member.name),
            "description": self.member.persona.description,
            "query": session.query.text,
            "dataset": config.dataset,
        }
        return await session.ask(
            session.models.criteria,
            with_examples(template, values, examples, session),
            lambda reply: read_rubric(reply.text),
            stage="criteria",
            persona=self.member.name,
            max_tokens=config.max_tokens,
            schema=RUBRIC_SCHEMA,
        )


class ScorePrompt:
    """A scoring prompt, complete but for the passage."""

    def __init__(
        self,
        template: Template,
        session: Session,
        rubric: Rubric | None,
        *,
        answer: Scoring | None = None,
    ) -> None:
        self._session = session
        config = session.config
        self._answer = answer or config.scoring_class(config, session.prompts, rubric)
        about = {"query": session.query.text, "answer": Own(self._answer.instruction)}
        self._template = template.bind({**about, "k": str(config.scale)})
        self._in_markers = "passage_text" not in template.placeholders

    @classmethod
    def of_member(cls, member: Member, session: Session) -> ScorePrompt:
        """Return the prompt of one persona, with its rubric if it has one."""
        values = {"persona": Name(member.name), "description": member.persona.description}
        if member.rubric is None:
            return cls(session.prompts["score_without_criteria"].bind(values), session, None)
        values |= rubric_as_text(member, session.prompts)
        return cls(session.prompts["score"].bind(values), session, member.rubric)

    @classmethod
    def direct(cls, members: Sequence[Member], session: Session) -> ScorePrompt:
        """Return the prompt without a persona, by the criteria of `members` if any (Table 2)."""
        if not members:
            return cls(session.prompts["direct"], session, None)
        criteria = rubrics_as_text(members, session.prompts)
        return cls(session.prompts["direct_with_criteria"].bind(criteria), session, None)

    async def score(self, passage: Passage, judge: str) -> Score:
        """Return the passage's score, or a missing score with the reason."""
        session = self._session
        shown: dict[str, str]
        if self._in_markers:
            shown = {"passage": session.delimited(passage)}
        else:
            shown = {"passage_text": Name(session.as_data(passage))}
        turns = self._template.render(shown)
        if self._answer.prefill:
            turns = (*turns, Turn("assistant", self._answer.prefill))
        try:
            return await session.ask(
                session.models.scoring,
                turns,
                self._answer.read,
                stage="score",
                persona=judge,
                doc_id=passage.id,
                max_tokens=session.config.max_score_tokens,
                schema=self._answer.schema,
                labels=self._answer.labels,
                continuation=self._answer.continuation,
            )
        except ModelError as error:
            return missing_score(error)


def missing_score(error: ModelError) -> Score:
    """Return a missing score, with the error as its reason."""
    if isinstance(error, ReplyError | RequestRejected):
        given_up = error if isinstance(error, FormNotKept) else None
        return Score(None, reason=str(error), failure=given_up)
    if error.retryable and error.others_answered is not False:
        return Score(None, reason=str(error), failure=error)
    raise error
