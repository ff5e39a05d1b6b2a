"""Texts of attacks, from TOML, and the lists that they make of a query's passages."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from random import Random
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from beir_eval.errors import SettingError
from beir_eval.experiment.suite_form import hint
from mcranker.rankers.keys import read_toml
from personas.errors import fault
from personas.ranking.suspicions import SuspicionDetector, keywords_of
from personas.ranking.types import Passage, Query

if TYPE_CHECKING:
    from beir_eval.experiment.prepare import RankingInput

PLACEHOLDERS = ("query", "words", "top", "criteria")
BELOW = 10
"""First-stage rank below which a passage is attacked, where the list is longer."""
ROUNDED = 10
"""Harmless words come in multiples of it, so that attacks can share a list."""
Piece = tuple[Query, tuple[Passage, ...]]
"""A query and its passages, as rankers take them."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_Texts = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
_LOOK_ALIKES = str.maketrans("aceopxyABEHKMOPTX", "асеорхуАВЕНКМОРТХ")  # noqa: RUF001 - Cyrillic
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_OF_THE_DECISION = re.compile(
    r"\b(?:relevan\w*|rank\w*|scored?|scores|rated?|rating|judge\w*|grad(?:e|er|ed|ing)|labell?ed|"
    r"verdict|outcome|prefer|instructions?|highest|first choice)\b",
    re.IGNORECASE,
)


class Attack(BaseModel):
    """One attack; ``attacks.toml`` says what its fields mean."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9_]{0,60}$")
    number: int
    source: str
    texts: _Texts
    target: Literal["ranker", "comparison"] = "ranker"
    where: Literal["start", "middle", "end", "scattered"] = "end"
    base: Literal["passage", "random"] = "passage"
    hide: Literal["", "zero_width", "tags", "homoglyphs", "base64"] = ""
    times: int = Field(1, ge=1, le=100)

    @field_validator("texts")
    @classmethod
    def _known_placeholders(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for name in (name for text in texts for name in _PLACEHOLDER.findall(text)):
            if name not in PLACEHOLDERS:
                raise ValueError(f"placeholder {name!r} is unknown; use {', '.join(PLACEHOLDERS)}")
        return texts


class Attacks(BaseModel):
    """A table of attacks: the names of their classes, harmless words, and each attack."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    classes: dict[Annotated[int, Field(strict=False)], str]
    neutral: _Texts
    attacks: list[Attack] = Field(min_length=1)


def load_attacks(path: str | None = None, names: Sequence[str] = ()) -> Attacks:
    """Read the attacks that are named, by id or class, from `path` or from the package."""
    place = path or str(resources.files("beir_eval") / "attacks" / "attacks.toml")
    try:
        form = Attacks.model_validate(read_toml(place))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingError(f"{place}: {fault(first, where)}") from error
    ids = [each.id for each in form.attacks]
    for each in form.attacks:
        if each.number not in form.classes or ids.count(each.id) > 1:
            lost = each.number not in form.classes
            why = "its class is not in [classes]" if lost else "it is twice"
            raise SettingError(f"{place}: attack {each.id!r}: {why}")
    known = sorted({*ids, *map(str, form.classes)})
    for name in names:
        if name not in known:
            raise SettingError(f"{place} has no attack {name!r}; {hint(name, known)}")
    chosen = [x for x in form.attacks if not names or {x.id, str(x.number)} & {*names}]
    return form.model_copy(update={"attacks": sorted(chosen, key=lambda each: each.number)})


@dataclass(frozen=True, slots=True)
class Target:
    """A passage to attack, by its place in the list of a query."""

    query: Query
    passages: tuple[Passage, ...]
    place: int
    grade: int | None

    @property
    def passage(self) -> Passage:
        """The passage as it is."""
        return self.passages[self.place]

    @property
    def clean(self) -> Piece:
        """The list as it is."""
        return self.query, self.passages

    def changed(self, text: str) -> Piece:
        """Return the list with this text in the passage; the first stage's scores stay."""
        before, after = self.passages[: self.place], self.passages[self.place + 1 :]
        return self.query, (*before, replace(self.passage, text=text), *after)


@dataclass(frozen=True, slots=True)
class Trial:
    """An attack on a target: the attacked text, and the lists with it and with harmless words."""

    target: Target
    attack: Attack
    text: str
    lists: tuple[Piece, Piece]


def targets_of(prepared: RankingInput, queries: int, seed: int) -> list[Target]:
    """Return a target for each of `queries` queries, drawn by the seed."""
    found: dict[str, Target] = {}
    for query, passages in prepared.work():
        grades = prepared.qrels.get(query.id, {})
        low = [n for n, each in enumerate(passages) if grades.get(each.id, 0) <= 0]
        if len(passages) > 1 and low:
            low = [n for n in low if n >= BELOW] or low[-1:]
            low = [n for n in low if passages[n].id in grades] or low
            place = _lot(seed, query.id, "target").choice(low)
            grade = grades.get(passages[place].id)
            found[query.id] = Target(query, tuple(passages), place, grade)
    if not found:
        raise SettingError("no query has two passages, one of them not relevant; raise --depth")
    chosen = {*_lot(seed, "queries").sample(sorted(found), min(queries, len(found)))}
    return [target for query_id, target in found.items() if query_id in chosen]


def trials_of(
    target: Target, attacks: Iterable[Attack], neutral: Sequence[str], seed: int, **values: str
) -> list[Trial]:
    """Return a trial for each attack; `values` are of placeholders that depend on the ranker."""
    query = target.query.text
    known = {"query": query, "words": " ".join(keywords_of(query)) or query, **values}
    text, harmless = target.passage.text, " ".join(neutral).split()
    others = " ".join(each.text for each in target.passages if each.text != text).split()
    words = _lot(seed, target.query.id, "words")
    mixed = " ".join(words.choice(others or [text]) for _ in text.split())
    trials = []
    for attack in attacks:
        if "{criteria}" in "".join(attack.texts) and not known.get("criteria"):
            continue
        lot = _lot(seed, target.query.id, attack.id)
        filled = _PLACEHOLDER.sub(
            lambda found: known.get(found[1], found[0]), lot.choice(attack.texts)
        )
        payload = " ".join([filled] * attack.times)
        base = text if attack.base == "passage" else mixed
        attacked = _placed(_hidden(payload, attack.hide), base, attack.where, lot)
        count = -(-len(payload.split()) // ROUNDED) * ROUNDED
        plain = " ".join(harmless[n % len(harmless)] for n in range(count))
        again = _lot(seed, target.query.id, attack.where, str(count))
        control = _placed(plain, base, attack.where, again)
        lists = target.changed(attacked), target.changed(control)
        trials.append(Trial(target, attack, attacked, lists))
    return trials


def erased(text: str, query: str) -> str:
    """Return the text without sentences that mention the decision or seem to address the judge."""
    signs = SuspicionDetector(query).suspicions
    sentences = (each for each in _SENTENCE.split(text) if each.strip())
    kept = (each for each in sentences if not (_OF_THE_DECISION.search(each) or signs("", each)))
    return " ".join(kept) or "..."


def _lot(seed: int, *names: str) -> Random:
    """Return what draws: by the seed, and for each name apart."""
    return Random(" ".join([str(seed), *names]))  # noqa: S311 - nothing secret


def _placed(payload: str, base: str, where: str, lot: Random) -> str:
    if where in ("start", "end"):
        return f"{payload} {base}" if where == "start" else f"{base} {payload}"
    words = base.split()
    if where == "middle":
        words.insert(len(words) // 2, payload)
    else:
        for word in payload.split():
            words.insert(lot.randint(0, len(words)), word)
    return " ".join(words)


def _hidden(text: str, how: str) -> str:
    match how:
        case "zero_width":
            return "\u200b".join(text)
        case "tags":
            return "".join(chr(0xE0000 + ord(each)) if each.isascii() else each for each in text)
        case "homoglyphs":
            return text.translate(_LOOK_ALIKES)
        case "base64":
            return base64.b64encode(text.encode(errors="replace")).decode()
    return text
