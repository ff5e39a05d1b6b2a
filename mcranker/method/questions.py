"""Questions about passages, typed or in the words of one prompt, and the data they refer to.

A `QuestionSheet` holds what is the same for all passages of a query. Its entries are asked about
each passage: one for each persona, or one for each criterion of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from mcranker.config import NO_YES
from mcranker.errors import ConfigError
from mcranker.llm.chat import Answer, ChatReply, Judge, Option, Question, ReplySchema, State
from mcranker.llm.typed_answers import missing
from mcranker.method.annotator import rubric_as_text, rubrics_as_text
from mcranker.method.session import Session
from mcranker.replies.schemas import pack_schema
from mcranker.replies.scoring import described_levels, levels_in_words
from mcranker.replies.windows import read_pack
from personas import Criterion, Member
from personas.ranking.types import Passage
from personas.templates import Turn
from personas.untrusted import Name, Own, fence

FEWEST_LEVELS = 2


class Entry(NamedTuple):
    """A question asked about each passage, once."""

    column: int
    criterion: int | None = None


class QuestionSheet:
    """One question a passage, without a persona (App. D.6), by the criteria of members if any."""

    by_persona = False

    def __init__(
        self, members: Sequence[Member], session: Session, *, of_team: bool = False
    ) -> None:
        self.entries: Sequence[Entry] = [Entry(0)]
        self._session = session
        self._levels = _levels(session)
        self._criteria = rubrics_as_text(members, session.prompts)["criteria"]
        read = sum(len(_criteria(each)) for each in members) if of_team else 0
        self._judge = Judge("", instruction=session.config.instruction, criteria=read)
        self._has_criteria = any(map(_criteria, members))

    def ask(
        self, passages: Sequence[Passage], entries: Sequence[Entry]
    ) -> tuple[tuple[Question, ...], State]:
        """Return the questions, in the order of passages and entries, and the state."""
        session, alone = self._session, len(passages) == 1
        texts = {f"passage_{n}": session.as_data(each) for n, each in enumerate(passages, start=1)}
        questions = tuple(
            self._question(entry, name, alone=alone) for name in texts for entry in entries
        )
        judges = {} if alone else self._judges(entries)
        return questions, State(session.clean_query, texts, judges, session.statistics)

    def as_prompt(
        self, passages: Sequence[Passage], entries: Sequence[Entry]
    ) -> tuple[tuple[Turn, ...], ReplySchema]:
        """Return one prompt for all entries and passages, and the form of its reply."""
        session, last = self._session, len(self._levels) - 1
        fenced = (fence(session.titled(each), query=session.query.text) for each in passages)
        described = enumerate(each.description or each.name for each in self._levels)
        levels = {place: text for place, text in described if text != str(place)}
        values = {
            "query": session.query.text,
            "task": Own(_text(self._task(str(2 * last // 5 or 1)))),
            "criteria": self._criteria,
            "judges": Own("\n\n".join(self._judges_in_words(entries))),
            **self._flags,
            "passages": Own("\n\n".join(f"Passage {n}:\n{t}" for n, t in enumerate(fenced, 1))),
            "scores": Own(", ".join(map(_of_entry, entries)) if self.by_persona else ""),
            "number": str(len(entries)),
            "count": str(len(passages)),
            "k": str(last),
            "levels": levels_in_words(levels),
        }
        turns = session.prompts["typed_reply"].render(values)
        return turns, pack_schema(len(passages), len(entries), last)

    def read(self, reply: ChatReply, count: int, entries: Sequence[Entry]) -> tuple[Answer, ...]:
        """The answers in the reply to `as_prompt`, of the passages and entries in their order."""
        last, top = len(self._levels) - 1, self._session.config.top
        names = [*map(_of_entry, entries)]
        rows = read_pack(reply.text, count=count, names=names, top=last)
        return tuple(
            missing(value) if isinstance(value, str) else Answer(value * top / last)
            for row in rows
            for value in row
        )

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The task, for models that are asked typed questions."""
        count = 2 * (len(self._levels) - 1) // 5 or 1
        return self._task(f"{count} {'level' if count == 1 else 'levels'}")

    @property
    def _flags(self) -> dict[str, str]:
        """Answers to the conditions in the prompts, empty for no."""
        flags = {
            "has_judges": self.by_persona,
            "has_criteria": self._has_criteria,
            "by_criterion": any(entry.criterion is not None for entry in self.entries),
        }
        return {name: "yes" if flag else "" for name, flag in flags.items()}

    def _task(self, step: str) -> tuple[Turn, ...]:
        return self._session.prompts["typed_task"].render({**self._flags, "step": step})

    def _judges_in_words(self, entries: Sequence[Entry]) -> Sequence[str]:
        return ()

    def _judges(self, entries: Sequence[Entry]) -> Mapping[str, str]:
        """The judges in words, which questions about several passages refer to by name."""
        return {"judge_1": self._criteria} if self._criteria else {}

    def _question(self, entry: Entry, passage: str, *, alone: bool) -> Question:
        values = {"passage": passage, "criteria": "By judge_1." if self._criteria else ""}
        if alone:
            values = {"passage": "the passage", "criteria": self._criteria}
        return self._worded(passage, "typed_direct", values, passage, self._judge)

    def _worded(
        self, name: str, prompt: str, values: Mapping[str, str], passage: str, judge: Judge
    ) -> Question:
        config, text = self._session.config, _text(self._session.prompts[prompt].render(values))
        if config.labels == NO_YES:
            return Question(name, text, 1, "yes_no", (), passage, judge)
        return Question(name, text, int(config.top), "score", self._levels, passage, judge)


class TypedQuestions(QuestionSheet):
    """A question a persona, or a criterion, about a state of query, judges and passages."""

    by_persona = True

    def __init__(self, members: Sequence[Member], session: Session, *, by_criterion: bool) -> None:
        super().__init__((), session)
        self._members = members
        self._has_criteria = any(map(_criteria, members))
        self._made: dict[tuple[Entry, str, bool], Question] = {}
        self._in_words = [_in_words(member, session) for member in members]
        self.entries = [
            Entry(column, place)
            for column, member in enumerate(members)
            for place in (by_criterion and range(len(_criteria(member)))) or (None,)
        ]

    def _judges(self, entries: Sequence[Entry]) -> Mapping[str, str]:
        columns = dict.fromkeys(entry.column for entry in entries)
        return {_name(each): self._in_words[each] for each in columns}

    def _judges_in_words(self, entries: Sequence[Entry]) -> Sequence[str]:
        columns = dict.fromkeys(entry.column for entry in entries)
        return [f"Judge {column + 1}: {self._in_words[column]}" for column in columns]

    def _question(self, entry: Entry, passage: str, *, alone: bool) -> Question:
        # The same about every passage that has this place in its call.
        key = entry, passage, alone
        if key not in self._made:
            self._made[key] = self._make(entry, passage, alone=alone)
        return self._made[key]

    def _make(self, entry: Entry, passage: str, *, alone: bool) -> Question:
        member, judge = self._members[entry.column], _name(entry.column)
        name, prompt, criteria = f"{passage}_{judge}", "typed_score", _criteria(member)
        values = {"passage": passage, "judge": f"{judge}."}
        if alone:
            values = {"passage": "the passage", "judge": Own(self._in_words[entry.column])}
        if entry.criterion is not None:
            prompt, number = "typed_criterion", entry.criterion + 1
            name, criterion = f"{name}_criterion_{number}", criteria[entry.criterion]
            values |= {"criterion": f"criterion {number}", "judge": judge}
            if alone:
                explained = f": {criterion.description}" if criterion.description else ""
                values["criterion"] = f"{criterion.name}{explained}"
                values["judge"] = Own(f"{self._session.prompts.cleaner.line(member.name)},")
        by = Judge(member.name, member.persona.description, self._session.config.instruction)
        return self._worded(name, prompt, values, passage, by)


class RelevanceQuestions(QuestionSheet):
    """Each passage's relevance, 0 to 1: query and passages, no other words."""

    def __init__(self, session: Session) -> None:
        super().__init__((), session)
        self.turns = ()
        instruction = session.config.instruction
        self._by = Judge("", instruction=instruction) if instruction else None

    def _question(self, entry: Entry, passage: str, *, alone: bool) -> Question:
        return Question(passage, "", passage=passage, judge=self._by)


def _criteria(member: Member) -> tuple[Criterion, ...]:
    return tuple(member.rubric.criteria) if member.rubric else ()


def _levels(session: Session) -> tuple[Option, ...]:
    """The levels of each question: the labels of the configuration, if there are any."""
    config, offers = session.config, session.models.scoring.capabilities
    top, most = int(config.top), offers.max_levels
    if config.labels:
        levels = tuple(map(Option, config.labels))
    elif config.scoring == "integer" or offers.max_questions == 0:
        count = top + 1 if most is None else min(top + 1, most)
        described = described_levels(session.prompts, count - 1)
        levels = tuple(Option(str(place), described.get(place, "")) for place in range(count))
    else:
        levels = tuple(map(Option, _text(session.prompts["typed_levels"].render({})).splitlines()))
    if not FEWEST_LEVELS <= len(levels) <= (most or len(levels)):
        raise ConfigError(
            f"{session.models.scoring.name} takes {FEWEST_LEVELS} to {most} levels, and these "
            f"are {len(levels)}; change labels=, or the lines of the prompt typed_levels"
        )
    return levels


def _name(column: int) -> str:
    # Numbers only: names of personas are written by a model.
    return f"judge_{column + 1}"


def _of_entry(entry: Entry) -> str:
    judge = f"Judge {entry.column + 1}"
    return judge if entry.criterion is None else f"{judge} on criterion {entry.criterion + 1}"


def _in_words(member: Member, session: Session) -> str:
    criteria = rubric_as_text(member, session.prompts)["criteria"]
    about = {"persona": Name(member.name), "description": member.persona.description}
    return _text(session.prompts["typed_judge"].render({**about, "criteria": criteria}))


def _text(turns: Sequence[Turn]) -> str:
    return "\n\n".join(turn.text for turn in turns if turn.role != "assistant").strip()
