"""Judges asked by a prompt: they write a rubric (Eq. 2) and score passages by it (Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcranker.errors import (
    FormNotKept,
    InputError,
    ModelError,
    ReplyError,
    RequestRejected,
    UnsupportedCapability,
)
from mcranker.logs import safe_logger
from mcranker.method.ask import Rows
from mcranker.method.session import Session
from mcranker.replies.read import read_rubric
from mcranker.replies.schemas import RUBRIC_SCHEMA
from mcranker.replies.scoring import Scoring
from mcranker.runtime.actor import Actor
from personas import Criterion, Member, Persona, PromptSet, Rubric
from personas.origins import edited, sealed
from personas.ranking.types import Score
from personas.schema import MOST_CRITERIA
from personas.templates import Template, Turn
from personas.untrusted import Name, Own

logger = safe_logger("mcranker.method.annotator")

INSTRUCTION_SHARE = 30.0
"""Percent of each rubric's weight for an instruction; other criteria share the rest in proportion.
"""

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Scores:
    """From a judge: its scores of one passage, one for each of its columns."""

    row: int
    judge: int
    scores: Sequence[Score]


class ScorePrompt:
    """A scoring prompt, complete but for the passage, and the form of its answer."""

    def __init__(
        self,
        template: Template,
        session: Session,
        rubric: Rubric | None = None,
        *,
        answer: Scoring | None = None,
    ) -> None:
        config = session.config
        self.answer = answer or config.scoring_class(config, session.prompts, rubric)
        about = {"query": session.query.text, "answer": Own(self.answer.instruction)}
        step = "one label" if self.answer.labels else str(2 * config.scale // 5 or 1)
        self.template = template.bind({**about, "k": str(config.scale), "step": step})
        self.in_markers = "passage_text" not in template.placeholders


class PromptJudge(Actor[Rows]):
    """Scores a passage a call by its prompt; `persona` is its name in the table of calls."""

    def __init__(
        self,
        persona: str,
        column: int,
        session: Session,
        ensembler: Actor[Any] | None,
        prompt: ScorePrompt | None = None,
    ) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__(f"judge {persona!r}", self._score, workers=workers)
        self.persona = persona
        self.column = column
        self._session = session
        self._ensembler = ensembler
        self._prompt = prompt

    async def _score(self, rows: Rows) -> None:
        session, prompt, (row,) = self._session, self._prompt, rows
        assert prompt is not None, "the rubric comes before the passages"
        assert self._ensembler is not None
        passage, answer = session.passages[session.distinct[row]], prompt.answer
        shown: dict[str, str] = {"passage": session.delimited(row)}
        if not prompt.in_markers:
            shown = {"passage_text": Name(session.as_data(passage))}
        turns = prompt.template.render(shown)
        if answer.prefill:
            turns = (*turns, Turn("assistant", answer.prefill))
        try:
            score = await session.ask(
                session.models.scoring,
                turns,
                answer.read,
                stage="score",
                persona=self.persona,
                doc_id=passage.id,
                max_tokens=session.config.max_score_tokens,
                schema=answer.schema,
                labels=answer.labels,
                continuation=answer.continuation,
            )
        except ModelError as error:
            score = missing_score(error)
        await self._ensembler.tell(Scores(row, self.column, (score,)))


class Annotator(PromptJudge):
    """One persona on the team: writes its rubric and scores passages by it."""

    def __init__(
        self, member: Member, column: int, session: Session, ensembler: Actor[Any] | None
    ) -> None:
        super().__init__(member.name, column, session, ensembler)
        self.member = member

    async def settle_rubric(self) -> None:
        """Write the rubric if there is none, before the first passage is scored."""
        session, config, member = self._session, self._session.config, self.member
        if config.criteria == "none":
            member = member.model_copy(update={"rubric": None})
        elif member.rubric is None and self._may_write():
            by_dataset = config.criteria == "dataset"
            known = session.job.memory.dataset_rubrics if by_dataset else {}
            if member.name not in known:
                known.setdefault(member.name, await self._write_rubric())
            by_person = member.origin == "human" or edited(member)
            member = member.model_copy(update={"rubric": known[member.name]})
            member = member if by_person else sealed(member)
        if config.instruction:
            member = with_instruction(member, config.instruction)
        self.member = member
        values = {"persona": Name(member.name), "description": member.persona.description}
        if member.rubric is None:
            template = session.prompts["score_without_criteria"].bind(values)
        else:
            values |= rubric_as_text(member, session.prompts)
            template = session.prompts["score"].bind(values)
        self._prompt = ScorePrompt(template, session, member.rubric)

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

    async def _write_rubric(self) -> Rubric:
        """Return the rubric written by the criteria model; for the data set if so configured."""
        session, member, config = self._session, self.member, self._session.config
        brief = "criteria_dataset" if config.criteria == "dataset" else "criteria"
        template = session.prompts[f"{brief}_scientist" if member.origin == "fixed" else brief]
        values = {
            "persona": Name(member.name),
            "description": member.persona.description,
            "query": session.query.text,
            "dataset": config.dataset,
        }
        return await session.ask(
            session.models.criteria,
            template.render(values),
            lambda reply: read_rubric(reply.text),
            stage="criteria",
            persona=member.name,
            max_tokens=config.max_tokens,
            schema=RUBRIC_SCHEMA,
        )


def missing_score(error: ModelError) -> Score:
    """Return a missing score, with the error as its reason."""
    if isinstance(error, ReplyError | RequestRejected):
        given_up = error if isinstance(error, FormNotKept) else None
        return Score(None, reason=str(error), failure=given_up)
    if error.retryable and error.others_answered is not False:
        return Score(None, reason=str(error), failure=error)
    raise error


def with_instruction(member: Member, instruction: str) -> Member:
    """Add an instruction to the member's rubric as one more criterion."""
    text = " ".join(instruction.split())
    if not text:
        return member
    name = text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1].rstrip()}…"
    given = member.rubric or Rubric(criteria=(Criterion(name="Relevance to the query"),))
    others = [each for each in given.criteria if each.name.casefold() != name.casefold()]
    if len(others) >= MOST_CRITERIA:
        raise InputError(
            f"{member.name!r} has {MOST_CRITERIA} criteria, which is as many as may be; take one "
            "out for the instruction"
        )
    whole = sum(each.weight for each in others) or 1.0
    rest = 100.0 - INSTRUCTION_SHARE if others else 0.0
    weighted = [each.model_copy(update={"weight": rest * each.weight / whole}) for each in others]
    described = "" if name == text else text
    added = Criterion(name=name, description=described, weight=100.0 - rest)
    rubric = Rubric(criteria=(*weighted, added), reason=given.reason)
    return member.model_copy(update={"rubric": rubric})


def judge_without_team(instruction: str) -> tuple[Member, ...]:
    """The judge of rankers without a team: none, or with an instruction one with criteria."""
    if not instruction.strip():
        return ()
    return (with_instruction(Member(persona=Persona(name="search expert")), instruction),)


def rubric_as_text(member: Member, prompts: PromptSet) -> dict[str, str]:
    """Return the criteria for prompts: in full, and by name only."""
    full, names = [], []
    for number, criterion in enumerate(member.rubric.criteria if member.rubric else (), start=1):
        explained = prompts.cleaner.text(criterion.description)
        values = {
            "number": str(number),
            "name": Name(criterion.name),
            "weight": f"{criterion.weight:.0f}",
            "explanation": explained,
        }
        full.append(prompts.piece("criterion" if explained else "criterion_unexplained", values))
        names.append(prompts.piece("criterion_name", values))
    return {"criteria": Own("\n".join(full)), "criteria_names": Own("\n".join(names))}


def rubrics_as_text(members: Sequence[Member], prompts: PromptSet) -> dict[str, str]:
    """Return a whole team's criteria, persona by persona, each with its own weights (Table 2)."""
    listed: dict[str, list[str]] = {"criteria": [], "criteria_names": []}
    for number, member in enumerate(members, start=1):
        if member.rubric is None:
            continue
        about = {"persona": Name(member.name), "description": member.persona.description}
        for name, text in rubric_as_text(member, prompts).items():
            values = {**about, "number": str(number), "criteria": text}
            listed[name].append(prompts.piece("criteria_of", values))
    return {name: Own("\n\n".join(texts)) for name, texts in listed.items()}
