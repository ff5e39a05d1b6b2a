"""Judges and their criteria: Persona, Criterion, Rubric, Member and Team.

All are immutable, refuse unknown keys, and are compared by value.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from personas.errors import shown
from personas.format import weight as percent

Origin = Literal["fixed", "recruited", "library", "human"]
"""Where a member comes from: fixed by the method, recruited by a model, the library, a person."""

MOST_CRITERIA = 100
"""Criteria of a rubric."""

_Name = Annotated[
    str, StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=200)
]
_Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, max_length=20_000)]
_MOST_MEMBERS = 100
_MOST_TOPICS = 100
_MOST_SHOWN = 5  # names, in a line
_Seal = Annotated[str, StringConstraints(strict=True, pattern="^([0-9a-f]{12})?$")]


_NUMBER = re.compile(r"([0-9]++(?:\.[0-9]++)?|\.[0-9]++)\s*+%?+")
_TOTAL = 100.0
_TOLERANCE = 1e-9
_LARGEST = 1e12
_LEAST_PERCENT = 10  # a weight from which on they are taken to be meant as percentages

RawWeight = float | int | str | None


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Criterion(_Record):
    """One thing to judge a passage by.

    Attributes:
        name: a few words.
        description: what a passage must do to score high.
        weight: percent of the rubric, 0 to 100. Inside a `Rubric` the weights sum to 100.
    """

    name: _Name
    description: _Text = ""
    weight: float = Field(default=100.0, ge=0, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _keep_weight(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Left out as a default, a weight of 100 beside others would read back as missing.
        return {**write(self), "weight": self.weight}


class Rubric(_Record):
    """Weighted criteria of one persona (c_j of Eq. 2); the weights sum to 100.

    Weights are taken as people write them (percent, fractions, proportions, missing) and
    normalised, see `normalize_weights`.
    """

    criteria: tuple[Criterion, ...] = Field(max_length=MOST_CRITERIA)
    reason: _Text = ""

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or not isinstance(data.get("criteria"), list | tuple):
            return data
        criteria = [
            criterion.model_dump() if isinstance(criterion, Criterion) else criterion
            for criterion in data["criteria"]
        ]
        if not all(isinstance(criterion, Mapping) for criterion in criteria):
            return data
        weights = normalize_weights([criterion.get("weight") for criterion in criteria])
        pairs = zip(criteria, weights, strict=True)
        return {**data, "criteria": [{**each, "weight": weight} for each, weight in pairs]}

    @model_validator(mode="after")
    def _distinct(self) -> Rubric:
        _refuse_repeated([criterion.name for criterion in self.criteria], "criterion")
        return self


class Persona(_Record):
    """A person who would care about the query (a_j of Eq. 1).

    Attributes:
        name: who, in a few words; unique in a team without regard to case.
        description: what this person looks for.
        topics: kinds of query this person is a good judge of.
        reason: why the recruiter chose this person.
    """

    name: _Name
    description: _Text = ""
    topics: tuple[_Name, ...] = Field(default=(), max_length=_MOST_TOPICS)
    reason: _Text = ""


class Member(_Record):
    """A persona on a team, with its rubric once that is written.

    Attributes:
        persona: who judges.
        rubric: by what; None until that is written, and where there is to be none.
        origin: where the member comes from.
        seal: short digest of what a model wrote, put there by `personas.origins.sealed`; after
            an edit it no longer agrees.
        weight: counts this much beside the other members, with the ensemble ``"sum"``; a member
            with 0 is not asked.
    """

    persona: Persona
    rubric: Rubric | None = None
    origin: Origin = "human"
    seal: _Seal = ""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False, exclude_if=lambda each: each == 1)

    @property
    def name(self) -> str:
        """The persona's name."""
        return self.persona.name


class Team(_Record):
    """The annotation team, in the order in which its scores are listed.

    Attributes:
        members: at least one; names are distinct without regard to case. In files, the name of
            a member of the library, such as ``clinician``, means that member.
        name: what a person calls the team.
        description: what the team is for.
        query: the query it was recruited for, if any.
        locked: a locked team is used as it is; nothing is recruited or rewritten.
    """

    members: tuple[Member, ...] = Field(min_length=1, max_length=_MOST_MEMBERS)
    name: _Text = ""
    description: _Text = ""
    query: _Text = ""
    locked: bool = Field(default=False, strict=True)

    @model_validator(mode="after")
    def _distinct(self) -> Team:
        _refuse_repeated([member.name for member in self.members], "persona")
        if not any(member.weight for member in self.members):
            raise ValueError("every member has the weight 0; give one of them a positive weight")
        return self

    @property
    def shares(self) -> dict[str, float]:
        """Persona -> percent that it counts, together 100; empty where all count alike."""
        weights = {member.name: member.weight for member in self.members}
        highest = max(weights.values())  # the sum of very large ones would overflow
        if len(set(weights.values())) == 1:
            return {}
        total = math.fsum(each / highest for each in weights.values())
        return {name: 100 * (each / highest) / total for name, each in weights.items()}

    @property
    def digest(self) -> str:
        """12 hexadecimal digits; others after any change."""
        text = self.model_dump_json(exclude_defaults=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def counted(self) -> Team:
        """The team without the members of weight 0."""
        return self.model_copy(update={"members": tuple(m for m in self.members if m.weight)})

    @property
    def names(self) -> tuple[str, ...]:
        """The personas' names, in order."""
        return tuple(member.name for member in self.members)

    def __repr__(self) -> str:
        name = f" {shown(self.name)}" if self.name else ""
        names = ", ".join(map(shown, self.names[:_MOST_SHOWN]))
        rest = len(self.names) - _MOST_SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        return f"<Team{name} of {len(self.names)}: {names}{more}{', locked' * self.locked}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The team as a notebook shows it."""
        from personas.report.page import team_html

        return team_html(self)

    def lock(self) -> Team:
        """The same team, to be used as it is: nothing is recruited or rewritten."""
        return self.model_copy(update={"locked": True})

    def unlock(self) -> Team:
        """The same team, to which members and rubrics may be added."""
        return self.model_copy(update={"locked": False})


def _refuse_repeated(names: list[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        folded = name.casefold()
        if folded in seen:
            raise ValueError(f"{what} {name!r} occurs twice; rename or remove one")
        seen.add(folded)


def normalize_weights(weights: Sequence[RawWeight]) -> tuple[float, ...]:
    """Weights in percent that sum to 100, in the order given.

    Accepts percent (``35``, ``"35%"``), fractions (``0.35``), any other positive proportions
    (``3, 2, 1``), and missing weights (None or an empty string): those share equally what the
    others leave of the whole. Weights that sum to 100 come back unchanged.

    Raises:
        ValueError: nothing to weigh; a weight that is negative, above 10^12 or no number; percent
            signs next to fractions; all weights zero; or a weight missing where the others leave
            nothing. The text names the weight by its position, counted from 1.
    """
    if not weights:
        raise ValueError("there is no criterion to weigh; write at least one")
    numbers = [_number(weight, place) for place, weight in enumerate(weights, start=1)]
    given = [number for number in numbers if number is not None]
    if not given:
        return (_TOTAL / len(numbers),) * len(numbers)
    signs = [_has_sign(weight) for weight in weights]
    if any(signs) and any(
        not sign and 0 < (number or 0) < 1 for sign, number in zip(signs, numbers, strict=True)
    ):
        raise ValueError("percent signs and fractions are mixed; write all weights one way")
    total = math.fsum(given)
    missing = len(numbers) - len(given)
    share = 0.0
    if missing:
        whole = 1.0 if not any(signs) and max(given) < 1 else _TOTAL
        share = (whole - total) / missing
        if share <= _TOLERANCE * whole:
            raise ValueError(
                f"the weights given sum to {total:g}, which leaves nothing for the {missing} "
                "without one; give every criterion a weight"
            )
        total = whole
    if total <= 0:
        raise ValueError("all weights are zero; give at least one criterion a positive weight")
    filled = [share if number is None else number for number in numbers]
    if abs(total - _TOTAL) <= _TOLERANCE:
        return tuple(filled)
    return tuple(number / total * _TOTAL for number in filled)


def scaled_weights(weights: Sequence[RawWeight]) -> str:
    """Percentages after `normalize_weights`, in words; empty where they stay."""
    try:
        normal = normalize_weights(weights)
        given = [_number(weight, place) for place, weight in enumerate(weights, start=1)]
    except ValueError:
        return ""
    known = [number for number in given if number is not None]
    as_percent = max(known, default=0) >= _LEAST_PERCENT or any(map(_has_sign, weights))
    if len(known) < len(given) or not as_percent:
        return ""
    if all(abs(one - other) < 1 for one, other in zip(known, normal, strict=True)):
        return ""
    change = f"{known[0]:.6g} becomes {percent(normal[0])}"
    return f"sum to {math.fsum(known):.6g} and are brought to 100: {change}, and so on"


def _has_sign(weight: RawWeight) -> bool:
    return isinstance(weight, str) and "%" in weight


def _number(weight: RawWeight, place: int) -> float | None:
    if weight is None or (isinstance(weight, str) and not weight.strip()):
        return None
    match = _NUMBER.fullmatch(weight.strip()) if isinstance(weight, str) else None
    value = float(match[1]) if match else weight
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        said = f"weight {place} is {shown(weight)}; write a number, as 35, '35%' or 0.35"
        raise ValueError(said)  # noqa: TRY004 - a wrong value of a file
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"weight {place} is {shown(weight)}; a weight is a number from 0 to 10^12")
    return float(value)
