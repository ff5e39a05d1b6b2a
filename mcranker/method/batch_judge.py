"""The whole team in one call, for one passage or several, by typed questions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mcranker.errors import ModelError
from mcranker.llm.chat import Answer, ChatReply, Question, State, question_bytes, state_bytes
from mcranker.llm.typed_answers import DECLINED
from mcranker.method.annotator import Scores, missing_score
from mcranker.method.ask import ReplyForm, Rows
from mcranker.method.questions import Entry, QuestionSheet
from mcranker.method.session import Session
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.scoring import weighted_mean
from mcranker.runtime.actor import Actor
from personas import Rubric
from personas.ranking.types import Score

MOST_IN_A_REPLY = 60
"""Questions put to a model that answers them in the text of one reply."""
BYTES_A_TOKEN = 3  # fewer than most languages and tokenizers have
_Cell = tuple[int, Entry]


class BatchJudge(Actor[Rows]):
    """All judges score passages together: one call asks all questions about all of them (Eq. 3)."""

    def __init__(
        self,
        sheet: QuestionSheet,
        rubrics: Sequence[Rubric | None],
        session: Session,
        ensembler: Actor[Any],
    ) -> None:
        workers = session.calls_at_once(session.models.scoring)
        super().__init__("panel", self._score, workers=workers)
        self.at_once = session.config.passages_per_call or 1
        self.deals = bool(sheet.turns)  # a judge that knows no words compares nothing either
        self._sheet = sheet
        self._rubrics = rubrics
        self._session = session
        self._ensembler = ensembler
        self._limits = session.models.scoring.capabilities
        self._as_prompt = self._limits.max_questions == 0
        self._most = self._limits.max_questions or MOST_IN_A_REPLY
        digest = hashlib.sha256(session.query.text.encode(errors="surrogatepass")).digest()
        self._turn = int.from_bytes(digest[:4], "big")

    async def _score(self, rows: Rows) -> None:
        cells: dict[_Cell, Answer | Score] = {}
        for number, (part, entries) in enumerate(self._parts(rows, self._sheet.entries)):
            turn = (self._turn + rows[0] + number) % len(part)
            await self._ask((*part[turn:], *part[:turn]), entries, cells)

    def _parts(
        self, rows: Rows, entries: Sequence[Entry]
    ) -> Iterator[tuple[Rows, Sequence[Entry]]]:
        """Yield the questions of each call within all limits; passages are split first."""
        if len(entries) > self._most:
            half = self._most * math.ceil(len(entries) / self._most / 2)
            yield from self._parts(rows, entries[:half])
            yield from self._parts(rows, entries[half:])
        elif len(rows) > 1 and (len(rows) * len(entries) > self._most or self._long(rows, entries)):
            half = math.ceil(len(rows) / 2)
            yield from self._parts(rows[:half], entries)
            yield from self._parts(rows[half:], entries)
        else:
            yield rows, entries

    def _long(self, rows: Rows, entries: Sequence[Entry]) -> bool:
        most = self._limits.max_state_tokens
        if most is None:
            return False
        questions, state = self._asked(rows, entries)
        longest = max(map(question_bytes, questions))
        task = sum(len(turn.text.encode()) for turn in self._sheet.turns)
        return state_bytes(state) + task + longest > most * BYTES_A_TOKEN

    async def _ask(
        self, rows: Rows, entries: Sequence[Entry], cells: dict[_Cell, Answer | Score]
    ) -> None:
        """Ask the entries about the passages of `rows`, and put the answers into `cells`."""

        async def take(part: Rows, answers: tuple[Answer, ...] | ModelError) -> None:
            lost: list[_Cell] = []
            wanted = [(row, entry) for row in part for entry in entries]
            if isinstance(answers, ModelError):
                cells.update(dict.fromkeys(wanted, missing_score(answers)))
            else:
                found = dict(zip(wanted, answers, strict=True))
                if len(part) > 1:
                    lost = [cell for cell, answer in found.items() if answer.value is None]
                cells.update((cell, found[cell]) for cell in wanted if cell not in lost)
            for row in part:
                if all((row, entry) in cells for entry in self._sheet.entries):
                    columns = range(len(self._rubrics))
                    scores = [self._combine(row, column, cells) for column in columns]
                    await self._ensembler.tell(Scores(row, 0, scores))
            for row in dict.fromkeys(row for row, _ in lost):
                await self._ask((row,), [entry for other, entry in lost if other == row], cells)

        form = self._session.forms["score", ""]
        await form.in_parts(rows, lambda part: self._call(part, entries), take)

    async def _call(self, rows: Rows, entries: Sequence[Entry]) -> tuple[Answer, ...]:
        session, form = self._session, ReplyForm(max_tokens=self._session.config.max_score_tokens)
        if self._as_prompt:
            passages = [session.passage(row) for row in rows]
            turns, form["schema"] = self._sheet.as_prompt(passages, entries)
            read = partial(self._sheet.read, count=len(rows), entries=entries)
        else:
            turns, (questions, state) = self._sheet.turns, self._asked(rows, entries)
            form |= {"questions": questions, "state": state}
            read = partial(_checked, questions=questions)
        return await session.ask(
            session.models.scoring,
            turns,
            read,
            stage="score",
            doc_id=session.passage(rows[0]).id if len(rows) == 1 else "",
            passages=len(rows),
            divisible=len(rows) > 1,
            **form,
        )

    def _asked(self, rows: Rows, entries: Sequence[Entry]) -> tuple[tuple[Question, ...], State]:
        return self._sheet.ask([self._session.passage(row) for row in rows], entries)

    def _combine(self, row: int, column: int, cells: dict[_Cell, Answer | Score]) -> Score:
        entries = [entry for entry in self._sheet.entries if entry.column == column]
        found = [cells[row, entry] for entry in entries]
        failed = next((each for each in found if isinstance(each, Score)), None)
        if failed is not None:
            return failed
        answers = [each for each in found if isinstance(each, Answer)]
        values = [self._value(answer) for answer in answers if answer.value is not None]
        if len(values) < len(answers):
            return Score(None, reason=self._why_missing(column, entries, answers))
        if entries[0].criterion is None:
            (answer,) = answers
            return Score(
                values[0], confidence=answer.confidence, probabilities=answer.probabilities or ()
            )
        rubric = self._rubrics[column]
        assert rubric is not None, "questions by criterion come from a rubric"
        weights = [criterion.weight for criterion in rubric.criteria]
        sure = [answer.confidence for answer in answers if answer.confidence is not None]
        return Score(
            weighted_mean(values, weights),
            criteria=tuple(values),
            confidence=weighted_mean(sure, weights) if len(sure) == len(weights) else None,
        )

    def _value(self, answer: Answer) -> float:
        """Return an answer's value: its mean, or with ``scoring="integer"`` its likeliest level."""
        assert answer.value is not None
        if self._session.config.scoring != "integer":
            return answer.value
        listed = answer.probabilities
        if listed is None:
            return float(round(answer.value))
        place = max(range(len(listed)), key=lambda each: listed[each])
        return float(round(place * self._session.config.top / (len(listed) - 1)))

    def _why_missing(self, column: int, entries: Sequence[Entry], answers: Sequence[Answer]) -> str:
        lost = [pair for pair in zip(entries, answers, strict=True) if pair[1].value is None]
        name, rubric = self._session.models.scoring.name, self._rubrics[column]
        by = [
            repr(rubric.criteria[entry.criterion].name)
            for entry, _ in lost
            if entry.criterion is not None and rubric is not None
        ]
        by_which = f" by {', '.join(by)}" if by else ""
        problem = lost[0][1].problem or DECLINED
        if problem == DECLINED:
            return f"{name} declined to judge{by_which}"
        return f"{name} gave no score{by_which}: {problem}"


def _checked(reply: ChatReply, questions: Sequence[Question]) -> tuple[Answer, ...]:
    """Return the answers; those off their scale lose their value."""
    answers = reply.answers or ()
    if len(answers) != len(questions):
        raise Unreadable(f"it holds {len(answers)} of {len(questions)} answers.")
    for each in answers:
        if not isinstance(each, Answer):
            raise Unreadable(f"its answers hold {each!r}; each is to be an Answer.")
    return tuple(map(_on_scale, answers, questions))


def _on_scale(answer: Answer, question: Question) -> Answer:
    if answer.value is None or 0 <= answer.value <= question.top:
        return answer
    return Answer(None, problem=f"its score {answer.value!r} is not from 0 to {question.top}")
