"""Attacks as data: templates in a TOML file, checked when it is read.

Attacks that follow a model's gradients (GCG) need its weights and are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from beir_eval.errors import ExtraMissing, SettingError
from beir_eval.experiment.suite_form import hint
from mcranker.rankers.keys import read_toml
from personas.io.lines import read_text

PLACEHOLDERS = ("query", "words", "top", "criteria")
_CLAIMS = "decision_model_guard/evaluate/data/claims.yaml"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_Texts = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Attack(_Form):
    """One attack; ``attacks.toml`` says what its fields mean."""

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


class _Neutral(_Form):
    texts: _Texts


class _File(_Form):
    classes: dict[Annotated[int, Field(strict=False)], str]
    neutral: _Neutral
    attacks: list[Attack] = Field(min_length=1)
    outcome_claims: int | None = None


@dataclass(frozen=True, slots=True)
class Attacks:
    """The attacks that were chosen, in the order of their classes."""

    attacks: tuple[Attack, ...]
    classes: Mapping[int, str]
    neutral: tuple[str, ...]
    left_out: Mapping[str, str]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values of its placeholders; other braces stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found.group(1), found.group()), text)


def load_attacks(
    path: str | None = None, names: Sequence[str] = (), *, claims: Path | None = None
) -> Attacks:
    """Read attacks from `path`, or those that come with the package."""
    place = path or str(resources.files("beir_eval") / "attacks" / "attacks.toml")
    try:
        form = _File.model_validate(read_toml(place))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingError(f"{place}: {where}: {first['msg']}") from error
    attacks, classes, left_out = [*form.attacks], form.classes, dict[str, str]()
    if (number := form.outcome_claims) is not None:
        try:
            attacks += _outcome_claims(number, claims)
        except ExtraMissing as error:
            if not names or str(number) in names:
                left_out[classes.get(number, str(number))] = str(error)
    ids = [each.id for each in attacks]
    for each in attacks:
        if each.number not in classes or ids.count(each.id) > 1:
            why = "its class is not in [classes]" if each.number not in classes else "it is twice"
            raise SettingError(f"{place}: attack {each.id!r}: {why}")
    known = sorted({*ids, *map(str, classes)})
    for name in names:
        if name not in known:
            raise SettingError(f"{place} has no attack {name!r}; {hint(name, known)}")
    chosen = [each for each in attacks if not names or {each.id, str(each.number)} & {*names}]
    chosen.sort(key=lambda each: each.number)
    return Attacks(tuple(chosen), classes, form.neutral.texts, left_out)


def _outcome_claims(number: int, file: Path | None) -> list[Attack]:
    """Return an attack for each family of English claims; the package is read, not imported."""
    source = "decision-model-guard"
    if file is None:
        try:
            found = metadata.distribution(source)
        except metadata.PackageNotFoundError:
            raise ExtraMissing(source, "claims of an outcome", extra="attack") from None
        file, source = Path(str(found.locate_file(_CLAIMS))), f"{source} {found.version}"
    values = {"t": 'relevant to "{query}"', "label": "{top}"}
    try:
        data: Any = yaml.safe_load(read_text(file, SettingError, 1_000_000))
        made = []
        for family, texts in data["claims"]["en"].items():
            filled = tuple(fill(text, values) for text in texts)
            made.append(Attack(id=f"claim_{family}", number=number, source=source, texts=filled))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise SettingError(f"{file}: no claims in the form of version 0.2: {error}") from error
    return made
