"""The actors that judge: Annotator, DirectJudge, Assessor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mcranker.config import RankerConfig
from mcranker.errors import ModelError, ReplyError, RequestRejected
from mcranker.llm.chat import Stage, Tag
from mcranker.method.answers import Answer
from mcranker.passages import PassageText
from mcranker.replies.ask import Asker
from mcranker.replies.read import read_rubric, read_score
from mcranker.replies.schemas import RUBRIC_SCHEMA, integer_schema
from mcranker.runtime.actor import Actor
from mcranker.types import Passage, Query, Score
from personas import Member, PromptSet, Rubric
from personas.provenance import sealed
from personas.templates import Template, Turn

__all__ = [
    "Annotator",
    "Assessment",
    "Assessor",
    "Desk",
    "DirectJudge",
    "OnScore",
    "ScoreTask",
    "missing_score",
]


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """Score one passage; `row` is its place in the score matrix."""

    row: int
    passage: Passage


OnScore = Callable[[int, str, Score], Awaitable[None]]
"""Takes row, doc_id and the score."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What every agent of one query works with."""

    query: Query
    config: RankerConfig
    prompts: PromptSet
    passage_text: PassageText
    ranking: int = 0

    def tag(self, stage: Stage, *, persona: str = "", doc_id: str = "") -> Tag:
        """The tag of a request about this query."""
        return Tag(stage, self.query.id, persona, doc_id, self.ranking)


def missing_score(error: ModelError) -> Score:
    """The score of a passage whose call failed: missing, with the reason.

    Raises:
        ModelError: the model as such failed, not just this passage's request.
    """
    if isinstance(error, ReplyError | RequestRejected):
        return Score(None, reason=str(error))
    if error.retryable and error.others_answered is not False:
        return Score(None, reason=str(error), failure=error)
    raise error


class Annotator(Actor[ScoreTask, None]):
    """One persona on the team: writes its rubric (Eq. 2) and scores passages by it (Eq. 3).

    What all of its scoring prompts share is put together once, when the rubric stands.
    """

    def __init__(
        self,
        member: Member,
        desk: Desk,
        writer: Asker,
        rater: Asker,
        *,
        workers: int,
        on_score: OnScore,
    ) -> None:
        super().__init__(f"annotator {member.name!r}", self._score, workers=workers)
        self.member = member
        self._desk = desk
        self._writer = writer
        self._rater = rater
        self._on_score = on_score
        self._sheet: ScoreSheet | None = None

    async def write_rubric(self) -> Rubric:
        """Ask the criteria model for this persona's rubric; for the data set if so configured."""
        config, prompts = self._desk.config, self._desk.prompts
        values = {
            "persona": self.member.name,
            "description": self.member.persona.description,
            "query": self._desk.query.text,
            "dataset": config.dataset,
        }
        if config.criteria == "dataset":
            template = prompts["criteria_dataset"]
        elif self.member.origin == "fixed":
            template = prompts["criteria_scientist"]
        else:
            template = prompts["criteria"]
        return await self._writer.ask(
            template.render(values),
            lambda reply: read_rubric(reply.text),
            tag=self._desk.tag("criteria", persona=self.member.name),
            max_tokens=config.max_tokens,
            schema=RUBRIC_SCHEMA,
        )

    def take_rubric(self, rubric: Rubric | None, *, written: bool = False) -> None:
        """Judge by this rubric from now on, or by none; `written` if a model wrote it."""
        prompts = self._desk.prompts
        self.member = self.member.model_copy(update={"rubric": rubric})
        if written:
            self.member = sealed(self.member, persona=False, rubric=True)
        values = {"persona": self.member.name, "description": self.member.persona.description}
        if rubric is None:
            template = prompts["score_without_criteria"].bind(values)
        else:
            template = prompts["score"].bind(
                {**values, **_criteria_values((self.member,), prompts)}
            )
        self._sheet = ScoreSheet(template, self._desk, rubric)

    async def _score(self, task: ScoreTask) -> None:
        assert self._sheet is not None, "take_rubric comes before the first score"
        score = await self._sheet.score(task.passage, self._rater, persona=self.member.name)
        await self._on_score(task.row, task.passage.id, score)


class DirectJudge(Actor[ScoreTask, None]):
    """Scores passages without a persona, DIRECT(0, k) of App. D.6.

    With `members`, their criteria are part of the prompt (Table 2).
    """

    NAME = "DIRECT"

    def __init__(
        self,
        members: Sequence[Member],
        desk: Desk,
        rater: Asker,
        *,
        workers: int,
        on_score: OnScore,
    ) -> None:
        super().__init__("direct judge", self._score, workers=workers)
        self._rater = rater
        self._on_score = on_score
        if members:
            template = desk.prompts["direct_with_criteria"].bind(
                _criteria_values(members, desk.prompts)
            )
        else:
            template = desk.prompts["direct"]
        self._sheet = ScoreSheet(template, desk, None)

    async def _score(self, task: ScoreTask) -> None:
        score = await self._sheet.score(task.passage, self._rater, persona=self.NAME)
        await self._on_score(task.row, task.passage.id, score)


class ScoreSheet:
    """A scoring prompt with everything put in but the passage."""

    def __init__(self, template: Template, desk: Desk, rubric: Rubric | None) -> None:
        self._desk = desk
        self._answer = Answer(desk.config, desk.prompts, rubric)
        self._template = template.bind(
            {"query": desk.query.text, "answer": self._answer.instruction}
        )

    async def score(self, passage: Passage, rater: Asker, *, persona: str) -> Score:
        """The passage's score; a score that cannot be had is missing, with the reason.

        Raises:
            ModelError: the model as such failed, not just this passage's request.
        """
        fenced = self._desk.passage_text.fenced(passage, self._desk.query.text)
        turns = self._template.render({"passage": fenced})
        if self._answer.prefill:
            turns = (*turns, Turn("assistant", self._answer.prefill))
        try:
            return await rater.ask(
                turns,
                self._answer.read,
                tag=self._desk.tag("score", persona=persona, doc_id=passage.id),
                max_tokens=self._desk.config.max_score_tokens,
                schema=self._answer.schema,
                labels=self._answer.labels,
            )
        except ModelError as error:
            return missing_score(error)


@dataclass(frozen=True, slots=True)
class Assessment:
    """Judge one passage from the personas' scores, given as text."""

    row: int
    passage: Passage
    scores: tuple[tuple[str, float | None], ...]


class Assessor(Actor[Assessment, None]):
    """Combines the personas' scores of a passage into one (Eq. 4, right; App. D.5)."""

    def __init__(self, desk: Desk, asker: Asker, *, workers: int, on_score: OnScore) -> None:
        super().__init__("assessor", self._assess, workers=workers)
        self._desk = desk
        self._asker = asker
        self._on_score = on_score
        self._template = desk.prompts["assess"].bind(
            {"query": desk.query.text, "k": str(desk.config.scale)}
        )

    async def _assess(self, task: Assessment) -> None:
        scale = self._desk.config
        lines = [
            f"Expert {number}, {self._desk.prompts.cleaner.line(name)}: "
            + ("no score" if value is None else f"{value:g} (from 0 to {scale.top})")
            for number, (name, value) in enumerate(task.scores, start=1)
        ]
        turns = self._template.render(
            {
                "passage": self._desk.passage_text.fenced(task.passage, self._desk.query.text),
                "assessments": "\n".join(lines),
            }
        )
        try:
            value = await self._asker.ask(
                turns,
                lambda reply: read_score(
                    reply.text,
                    key="Final score",
                    top=scale.scale,
                    cut=reply.finish_reason == "length",
                ),
                tag=self._desk.tag("assess", doc_id=task.passage.id),
                max_tokens=scale.max_score_tokens,
                schema=integer_schema("Final score", scale.scale),
            )
        except ModelError as error:
            score = missing_score(error)
        else:
            score = Score(float(value))
        await self._on_score(task.row, task.passage.id, score)


def _criteria_values(members: Sequence[Member], prompts: PromptSet) -> dict[str, str]:
    """The criteria as prompts show them: in full, and by name only."""
    full, names = [], []
    criteria = [c for member in members if member.rubric for c in member.rubric.criteria]
    for number, criterion in enumerate(criteria, start=1):
        weight = f"{criterion.weight:.0f}%"
        name = prompts.cleaner.line(criterion.name)
        description = prompts.cleaner.text(criterion.description)
        explained = f": {description}" if description else ""
        full.append(f"{number}. {name} (weight {weight}){explained}")
        names.append(f"- {name} ({weight})")
    return {"criteria": "\n".join(full), "criteria_names": "\n".join(names)}
