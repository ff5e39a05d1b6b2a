"""The questions of a team about a passage, and the data they refer to.

A `QuestionSet` holds what is the same for all passages of a query. Its entries are asked about each
passage: one for each persona, or one for each criterion of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mcranker.errors import ConfigError
from mcranker.llm.chat import Judge, Option, Question, State
from mcranker.method.rubric_text import rubric_as_text, rubrics_as_text
from mcranker.method.session import Session
from personas import Criterion, Member
from personas.ranking.types import Passage
from personas.templates import Turn
from personas.untrusted import Name, Own

NO_YES = ("No", "Yes")
FEWEST_LEVELS = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A question asked about each passage, once."""

    column: int
    criterion: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the prompt, the questions in the order of passages and entries, the state."""

    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    state: State | None


class QuestionSet(Protocol):
    """The questions of a team: all entries, persona by persona, and requests of some of them."""

    @property
    def entries(self) -> Sequence[Entry]: ...

    def ask(self, passages: Sequence[Passage], entries: Sequence[Entry]) -> Asked: ...


class PromptQuestions:
    """Every criterion of each persona, put to one passage in the words of the prompt ``panel``."""

    def __init__(self, members: Sequence[Member], session: Session) -> None:
        self._session = session
        self._template = session.prompts["panel"].bind({"query": session.query.text})
        scale = session.config.scale
        most = session.models.scoring.capabilities.max_levels
        # The prompt promises the numbers that the levels have.
        last = scale if most is None else min(scale, most - 1)
        levels = () if last == scale else tuple(Option(str(each)) for each in range(last + 1))
        self._by_entry = {
            Entry(column, place): Question(
                # Numbers only: names of personas and criteria are written by a model.
                f"persona{column + 1}_criterion{place + 1}",
                _panel_question(member, criterion, session, last),
                scale,
                options=levels,
            )
            for column, member in enumerate(members)
            for place, criterion in enumerate(_criteria(member))
        }

    @property
    def entries(self) -> Sequence[Entry]:
        return tuple(self._by_entry)

    def ask(self, passages: Sequence[Passage], entries: Sequence[Entry]) -> Asked:
        (passage,) = passages
        turns = self._template.render({"passage": self._session.delimited(passage)})
        return Asked(turns, tuple(self._by_entry[entry] for entry in entries), None)


class TypedQuestions:
    """A question a persona, or a criterion, about a state of query, judges and passages."""

    def __init__(self, members: Sequence[Member], session: Session, *, by_criterion: bool) -> None:
        self._session = session
        self._task = session.prompts["typed_task"].render({})
        self._scale = _Scale(session)
        self._members = members
        self._made: dict[tuple[Entry, str, bool], Question] = {}
        self._judges = [_in_words(member, session) for member in members]
        self.entries: Sequence[Entry] = [
            Entry(column, place)
            for column, member in enumerate(members)
            for place in (by_criterion and range(len(_criteria(member)))) or (None,)
        ]

    def ask(self, passages: Sequence[Passage], entries: Sequence[Entry]) -> Asked:
        alone = len(passages) == 1
        names = [f"passage_{number}" for number in range(1, len(passages) + 1)]
        columns = dict.fromkeys(entry.column for entry in entries)
        judges = {} if alone else {_name(each): self._judges[each] for each in columns}
        questions = tuple(
            self._question(entry, name, alone=alone) for name in names for entry in entries
        )
        return Asked(self._task, questions, _state(self._session, names, passages, judges))

    def _question(self, entry: Entry, passage: str, *, alone: bool) -> Question:
        # The same about every passage that has this place in its call.
        key = entry, passage, alone
        if key not in self._made:
            self._made[key] = self._make(entry, passage, alone=alone)
        return self._made[key]

    def _make(self, entry: Entry, passage: str, *, alone: bool) -> Question:
        member = self._members[entry.column]
        criteria = _criteria(member)
        values = {
            "passage": "the passage" if alone else passage,
            "judge": Own(self._judges[entry.column]) if alone else f"{_name(entry.column)}.",
        }
        name = f"{passage}_{_name(entry.column)}"
        prompt = "typed_score" if entry.criterion is None else "typed_criterion"
        if entry.criterion is not None:
            criterion = criteria[entry.criterion]
            criteria = (criterion,)
            name += f"_criterion_{entry.criterion + 1}"
            values["criterion"] = f"criterion {entry.criterion + 1}"
            if alone:
                explained = f": {criterion.description}" if criterion.description else ""
                values["criterion"] = f"{criterion.name}{explained}"
                values["judge"] = Own(f"{self._session.prompts.cleaner.line(member.name)},")
            else:
                values["judge"] = _name(entry.column)
        judge = _judge(member.name, member.persona.description, criteria)
        return self._scale.question(
            name, _text(self._session.prompts[prompt].render(values)), passage, judge
        )


class DirectQuestions:
    """One question a passage, without a persona (App. D.6), by the criteria of `members` if any."""

    def __init__(self, members: Sequence[Member], session: Session) -> None:
        self._session = session
        self._task = session.prompts["typed_task"].render({})
        self._scale = _Scale(session)
        criteria = [each for member in members for each in _criteria(member)]
        self._criteria = rubrics_as_text(members, session.prompts)["criteria"]
        self._judge = _judge("", "", criteria)
        self.entries: Sequence[Entry] = [Entry(0)]

    def ask(self, passages: Sequence[Passage], entries: Sequence[Entry]) -> Asked:
        alone = len(passages) == 1
        names = [f"passage_{number}" for number in range(1, len(passages) + 1)]
        judges = {} if alone or not self._criteria else {"judge_1": self._criteria}
        questions = []
        for name in names:
            values = {
                "passage": "the passage" if alone else name,
                "criteria": Own(self._criteria) if alone else "By judge_1." if judges else "",
            }
            text = _text(self._session.prompts["typed_direct"].render(values))
            questions.append(self._scale.question(name, text, name, self._judge))
        return Asked(self._task, tuple(questions), _state(self._session, names, passages, judges))


class _Scale:
    """The levels of each question: the labels of the configuration, if there are any."""

    def __init__(self, session: Session) -> None:
        config = session.config
        self._yes_no = config.labels == NO_YES
        self._top = int(config.top)
        most = session.models.scoring.capabilities.max_levels
        described = _text(session.prompts["typed_levels"].render({})).splitlines()
        if config.labels:
            self._levels = tuple(map(Option, config.labels))
        elif config.scoring == "integer" or session.models.scoring.capabilities.max_questions == 0:
            count = self._top + 1 if most is None else min(self._top + 1, most)
            # The described levels are spread evenly over all, the ends included.
            places = {
                round(line * (count - 1) / max(1, len(described) - 1)): text
                for line, text in enumerate(described)
            }
            self._levels = tuple(
                Option(str(place), places.get(place, "")) for place in range(count)
            )
        else:
            self._levels = tuple(map(Option, described))
        if not FEWEST_LEVELS <= len(self._levels) <= (most or len(self._levels)):
            raise ConfigError(
                f"{session.models.scoring.name} takes {FEWEST_LEVELS} to {most} levels, and these "
                f"are {len(self._levels)}; change labels=, or the lines of the prompt typed_levels"
            )

    def question(self, name: str, text: str, passage: str, judge: Judge) -> Question:
        if self._yes_no:
            return Question(name, text, 1, "yes_no", (), passage, judge)
        return Question(name, text, self._top, "score", self._levels, passage, judge)


def _name(column: int) -> str:
    # Numbers only: names of personas are written by a model.
    return f"judge_{column + 1}"


def _criteria(member: Member) -> tuple[Criterion, ...]:
    return tuple(member.rubric.criteria) if member.rubric else ()


def _judge(name: str, description: str, criteria: Sequence[Criterion]) -> Judge:
    listed = ((each.name, each.description, float(each.weight)) for each in criteria)
    return Judge(name, description, tuple(listed))


def _in_words(member: Member, session: Session) -> str:
    criteria = rubric_as_text(member, session.prompts)["criteria"]
    about = {"persona": Name(member.name), "description": member.persona.description}
    return _text(session.prompts["typed_judge"].render({**about, "criteria": criteria}))


def _state(
    session: Session, names: Sequence[str], passages: Sequence[Passage], judges: dict[str, str]
) -> State:
    texts = [session.as_data(passage) for passage in passages]
    return State(
        session.clean_query, dict(zip(names, texts, strict=True)), judges, session.statistics
    )


def _text(turns: Sequence[Turn]) -> str:
    return "\n\n".join(turn.text for turn in turns if turn.role != "assistant").strip()


def _panel_question(member: Member, criterion: Criterion, session: Session, last: int) -> str:
    explained = f": {criterion.description}" if criterion.description else ""
    about = {"persona": Name(member.name), "description": member.persona.description}
    values = {**about, "criterion": f"{criterion.name}{explained}", "k": str(last)}
    return _text(session.prompts["panel_question"].render(values))
