"""Calls and tokens: of one answer, and of a ranking by stage, persona and model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from operator import add, attrgetter
from typing import Any, Literal, cast, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from personas.ranking.types import Count, Number

Stage = Literal[
    "probe",
    "recruit",
    "criteria",
    "score",
    "assess",
    "explain",
    "transform",
    "embed",
    "answer",
    "support",
    "judge",
]


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of calls; adds up with ``+``. Two are equal if all but the times are.

    Attributes:
        calls: requests that were answered.
        input_tokens: all input.
        cached_input_tokens: the part of it that the provider read from its prompt cache.
        output_tokens: what the model wrote, its thoughts included.
        seconds: how long the answers took, added up over the calls. A model in this process may
            give what it computed, without the wait for its turn.
        unreadable: how many of the answers could not be read.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = field(default=0.0, compare=False)
    unreadable: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, _amounts(self), _amounts(other)))


_amounts = attrgetter(*(each.name for each in fields(Usage)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Usage of one stage by one persona (empty where there is none) of one model."""

    stage: str
    persona: str
    model: str
    calls: Count
    input_tokens: Count
    cached_input_tokens: Count
    output_tokens: Count
    seconds: Number = 0.0
    unreadable: Count = 0
    cost: Number | None

    @classmethod
    def of(cls, stage: str, persona: str, model: str, usage: Usage, cost: float | None) -> Calls:
        """The row of that usage."""
        return cls(stage=stage, persona=persona, model=model, cost=cost, **asdict(usage))

    @property
    def usage(self) -> Usage:
        """Calls and tokens together."""
        return Usage(*_amounts(self))


@dataclass(frozen=True)
class _Stored:
    by_stage: list[Calls]
    reused: list[Calls] = field(default_factory=list)


_PLACES: dict[str, int] = {stage: place for place, stage in enumerate(get_args(Stage))}


class UsageTable(Mapping[tuple[Stage, str, str], Usage]):
    """Calls and tokens by stage, persona (empty where there is none) and model.

    Answers that were there already (`ChatReply.reused`) are counted apart, in `reused`.

    Attributes:
        costs: US dollars of rows, where they were stored with the calls; None if not known.
    """

    def __init__(self, rows: Mapping[tuple[Stage, str, str], Usage] | None = None) -> None:
        self._rows: dict[tuple[Stage, str, str], Usage] = dict(rows or {})
        self._reused: UsageTable | None = None
        self.costs: dict[tuple[Stage, str, str], float | None] = {}

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls._of_stored, handler(_Stored))

    @classmethod
    def _of_stored(cls, stored: _Stored) -> UsageTable:
        table = cls()
        for reused, rows in ((False, stored.by_stage), (True, stored.reused)):
            for row in rows:
                key = cast("Stage", row.stage), row.persona, row.model
                table.add(*key, row.usage, reused=reused)
                if not reused:
                    table.costs[key] = row.cost
        return table

    def add(
        self, stage: Stage, persona: str, model: str, usage: Usage, *, reused: bool = False
    ) -> None:
        """Count one call, or one answer that needed none."""
        rows = self.reused._rows if reused else self._rows  # noqa: SLF001 - of the same class
        key = (stage, persona, model)
        rows[key] = rows.get(key, Usage()) + usage

    def add_all(self, other: UsageTable) -> None:
        """Count all calls of another table, and its answers that needed none."""
        for table, reused in ((other, False), (other.reused, True)):
            for key, usage in table.items():
                self.add(*key, usage, reused=reused)

    @property
    def reused(self) -> UsageTable:
        """Original usage of answers that were taken from the ledger."""
        if self._reused is None:
            self._reused = UsageTable()
        return self._reused

    @property
    def total(self) -> Usage:
        """Everything together, reused answers left out."""
        return sum(self._rows.values(), start=Usage())

    def by(self, what: Literal["stage", "persona", "model"]) -> dict[str, Usage]:
        """The sums for each stage, persona or model; reused answers left out."""
        place = ("stage", "persona", "model").index(what)
        sums: dict[str, Usage] = {}
        for key, usage in self._rows.items():
            sums[key[place]] = sums.get(key[place], Usage()) + usage
        return sums

    def __getitem__(self, key: tuple[Stage, str, str]) -> Usage:
        return self._rows[key]

    def __iter__(self) -> Iterator[tuple[Stage, str, str]]:
        return iter(sorted(self._rows, key=lambda key: _PLACES.get(key[0], len(_PLACES))))

    def __len__(self) -> int:
        return len(self._rows)
