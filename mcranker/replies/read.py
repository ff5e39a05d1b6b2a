"""Readers of replies; strict, so that nothing is made up.

Every reader raises `Unreadable` rather than guess; `mcranker.replies.loose_json` says what counts
as JSON. Keys are compared without regard to case, spaces and underscores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from pydantic import ValidationError

from mcranker.replies.loose_json import (
    CUT,
    Bare,
    Unreadable,
    find,
    fold,
    in_doubt,
    without_thinking,
)
from personas import Persona, Rubric, normalize_weights
from personas.schema import MOST_CRITERIA

_INTEGER = re.compile(r"\A\s*+\"?(\d{1,4})\"?\s*+\Z")
_PLAIN = re.compile(r"\A\s*+\{\s*+\"(\w{1,40})\"\s*+:\s*+(\d{1,4})\s*+\}\s*+\Z", re.ASCII)
_NUMBER_AND_MORE = re.compile(r"\d[^\d/.,-]")
_OF_THIS = r"(?:(?:assigned|given)\s++)?(?:to|of|for)\s++this\s++criterion"
_GIVEN = (
    r"(?:\s++is)?\s*+[:=]?+\s*+[\"'`*(\[<]*+"
    r"(\d{1,3}(?:\.\d+)?)\s*+(%|percent|points)?+[\"'`*)\]>]*+"
)
_WEIGHT_IN_TEXT = re.compile(
    rf"\b(?:the\s++)?weight(?:\s++{_OF_THIS})?{_GIVEN}[\s.)]*+\Z", re.IGNORECASE
)
_WEIGHT_SENTENCE = re.compile(
    rf"\bthe\s++weight\s++{_OF_THIS}{_GIVEN}(?:[.;,](?!\d)|(?=\n))", re.IGNORECASE
)
_NUMBERED = re.compile(r"\(?(?:criterion\s++)?#?(\d{1,3})\s*+[.):]\s*+(?=[^\s\d])", re.IGNORECASE)
_WEIGHT = re.compile(
    r"(?:about\s++|~\s*+)?(\d++(?:\.\d++)?|\.\d++)(?:\s*+(%|percent|points))?", re.IGNORECASE
)
_SHARE = r"\d\s*(?:%|percent\b|points?\b)"
_SHARE_IN_NAME = re.compile(
    rf"{_SHARE}|(?:[(\[:=]|\s[-\u2013\u2014])\s*"
    r"(?:\d{1,3}(?:\.\d{1,4})?|\.\d{1,4})\s*[)\]]?\s*\Z",
    re.IGNORECASE,
)
_SHARE_IN_TEXT = re.compile(
    rf"\A[\s(\[~]*[\d.]{{0,6}}(?:{_SHARE}|\d[)\]]|\d\s*\Z)"
    rf"|{_SHARE}(?:\s+weight\w*)?[\s)\].;]*\Z"
    r"|\bweigh\w*\W{1,5}(?:(?:of|is|at|to|this|the|criterion)\W{1,3}){0,4}\d",
    re.IGNORECASE,
)
_MAX_WEIGHT = 1000
_TAIL = 120
_MAX_NAME = 120
_MAX_TEXT = 2000
_PERSON_KEYS = ("identity", "name", "persona", "role", "title")
_CRITERION_KEYS = ("criterion", "criteria", "name", "title")
_EXPLANATION_KEYS = ("explanation", "description", "detail", "reason")


def read_score(text: str, *, key: str, top: int, cut: bool = False) -> int:
    """The integer under `key`, 0 to `top`; a reply that is a bare integer counts too."""
    if "<" in text:
        text = without_thinking(text)
    if bare := _INTEGER.match(text):
        if cut:
            raise Unreadable("it was cut, so its number may lack digits.")
        return _in_range(bare.group(1), top, key)
    if (plain := _PLAIN.match(text)) and plain.group(1) == key:  # nearly every reply
        return _in_range(int(plain.group(2)), top, key)
    found = find(text, key)
    score = _in_range(found.value, top, key)
    found.confirm(key, {score}, top)
    return score


def read_criterion_scores(text: str, *, count: int, top: int) -> tuple[int, ...]:
    """The integers under ``Scores``, 0 to `top`, in the rubric's order."""
    found = find(text, "Scores")
    scores = found.value
    if isinstance(scores, Mapping):
        scores = by_number(scores, count)
    if not isinstance(scores, list) or len(scores) != count:
        raise Unreadable(f'"Scores" must hold {count} integers, under the keys "1" to "{count}".')
    counts = tuple(_in_range(score, top, "Scores") for score in scores)
    found.confirm("Scores", set(counts), top)
    return counts


def by_number(record: Mapping[str, Any], count: int) -> list[Any] | None:
    """Return the values under the numbers 1 to `count`, or 0 to `count` - 1; None for others."""
    for first in (1, 0):
        keys = [str(number) for number in range(first, first + count)]
        if set(record) == set(keys):
            return [record[key] for key in keys]
    return None


def integer_under(record: Mapping[str, Any], name: str, top: int) -> int | str:
    """Return the integer, 0 to `top`, under a name of a record with folded keys; or the fault."""
    if fold(name) not in record:
        return "no answer to this question"
    return score_in(record[fold(name)], top, name)


def score_in(value: Any, top: int, key: str) -> int | str:
    """Return the integer, 0 to `top`, that the value under `key` is; or the fault."""
    if value is CUT:
        return "the reply breaks off in it"
    try:
        return _in_range(value, top, key)
    except Unreadable as problem:
        return f"odd answer: {problem}"


def read_personas(text: str) -> tuple[Persona, ...]:
    """The people under ``Identities``, each once, in order, with the reason given for them."""
    found = find(text, "Identities")
    identities = found.value
    reason = _optional_text(found.record, "Reason")
    if isinstance(identities, str):
        identities = re.split(r"[,;\n]", identities)
    if isinstance(identities, Mapping):
        identities = _listed(identities)
    if not isinstance(identities, list):
        raise Unreadable('"Identities" must be a list of strings.')
    personas: dict[str, Persona] = {}
    for entry in identities:
        name, why = _name_and_reason(entry)
        name = _short(" ".join(name.replace("_", " ").split()).strip(" .-*"))
        if name:
            try:
                persona = Persona(name=name, reason=why or reason)
            except ValidationError as error:
                raise Unreadable("a name or a reason is not valid text.") from error
            personas.setdefault(persona.name.casefold(), persona)
    if not personas:
        raise Unreadable('"Identities" names no one.')
    return tuple(personas.values())


def read_rubric(text: str) -> Rubric:
    """The criteria under ``Criteria`` with weights made to sum to 100."""
    found = find(text, "Criteria")
    entries = found.value
    if isinstance(entries, Mapping):
        named = [_named_criterion(name, value) for name, value in entries.items()]
        entries = [entries] if _text_under(entries, _CRITERION_KEYS) else named
    if not isinstance(entries, list) or not entries:
        raise Unreadable('"Criteria" must be a list with at least one criterion.')
    if len(entries) > MOST_CRITERIA:
        raise Unreadable(f'"Criteria" holds {len(entries):,}, and {MOST_CRITERIA} is the limit.')
    distinct: dict[str, dict[str, Any]] = {}
    for criterion in _without_numbers([_criterion(entry) for entry in entries]):
        distinct.setdefault(criterion["name"].casefold(), criterion)
    criteria = list(distinct.values())
    weights = _weights([criterion["weight"] for criterion in criteria])
    for criterion, weight in zip(criteria, weights, strict=True):
        criterion["weight"] = weight
    try:
        return Rubric(criteria=criteria, reason=_optional_text(found.record, "Reason"))
    except ValidationError as error:
        raise Unreadable("a name, an explanation or a reason is not valid text.") from error


def _in_range(value: Any, top: int, key: str) -> int:
    if isinstance(value, Bare) and _NUMBER_AND_MORE.search(value):
        raise in_doubt(key)
    if isinstance(value, str) and _INTEGER.match(value):
        value = int(value.strip().strip('"'))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= top:
        raise Unreadable(f"{_shown(value)} is not an integer from 0 to {top}.")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX_NAME].rstrip()


def _listed(identities: Mapping[str, Any]) -> list[Any]:
    """People given as an object: one person, names with explanations, or numbered names."""
    if _text_under(identities, _PERSON_KEYS):
        return [identities]
    numbered = any(name.strip().isdigit() or "identity" in name.casefold() for name in identities)
    return list(identities.values() if numbered else identities)


def _name_and_reason(entry: Any) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if isinstance(entry, Mapping):
        return _text_under(entry, _PERSON_KEYS), _optional_text(entry, "Reason")
    return "", ""


def _text_under(record: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first text under one of the keys, or nothing."""
    fields = {fold(name): value for name, value in record.items()}
    return next((fields[key] for key in keys if isinstance(fields.get(key), str)), "")


def _optional_text(data: Mapping[str, Any], key: str) -> str:
    for name, value in data.items():
        if fold(name) == fold(key) and isinstance(value, str | list):
            parts = [value.strip()] if isinstance(value, str) else value
            return " ".join(part for part in parts if isinstance(part, str))[:_MAX_TEXT]
    return ""


def _named_criterion(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"Criterion": name, **value}
    if isinstance(value, str) and not _WEIGHT.fullmatch(value[:_TAIL].strip()):
        return {"Criterion": name, "Explanation": value}
    return {"Criterion": name, "Weight": value}


def _criterion(entry: Any) -> dict[str, Any]:
    if isinstance(entry, str):
        entry = {"Criterion": entry}
    if not isinstance(entry, Mapping):
        raise Unreadable("each criterion must be an object.")
    fields = {fold(name): value for name, value in entry.items()}
    named = (each for key, each in fields.items() if key.startswith(("weight", "theweight")))
    weight = fields.get("weight", next(named, None))
    name, weight = _split_weight(_text_under(entry, _CRITERION_KEYS), weight)
    text, weight = _split_weight(_text_under(entry, _EXPLANATION_KEYS), weight)
    if not name and text:
        name, _, text = text.partition(":")
    if ":" in name and not text:
        name, _, text = name.partition(":")
    name = _short(name)
    if not name:
        raise Unreadable('each criterion needs a name under "Criterion".')
    if weight is None and (
        _SHARE_IN_NAME.search(name)
        or _SHARE_IN_TEXT.search(text[:_TAIL])
        or _SHARE_IN_TEXT.search(text[-_TAIL:])
        or any(type(value) in (int, float) for value in fields.values())
    ):
        raise Unreadable(f'the weight of {_shown(name)} is in doubt; it belongs under "Weight".')
    return {"name": name, "description": text.strip()[:_MAX_TEXT], "weight": weight}


def _split_weight(text: str, weight: Any) -> tuple[str, Any]:
    text = text.strip()
    found = _WEIGHT_IN_TEXT.search(text, max(0, len(text) - _TAIL))
    if found:
        kept = text[: found.start()].rstrip(",;(*[<. \n\r\t").strip()
    else:
        # Only if there is one: several would be of several criteria.
        sentences = list(islice(_WEIGHT_SENTENCE.finditer(text), 2))
        if len(sentences) != 1:
            return text, weight
        (found,) = sentences
        kept = f"{text[: found.start()].rstrip()} {text[found.end() :].lstrip()}".strip()
    return kept, weight if weight is not None else float(found.group(1))


def _without_numbers(criteria: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The criteria without the numbers of a list, since prompts number them."""
    numbers = [_NUMBERED.match(criterion["name"]) for criterion in criteria]
    if any(n is None or int(n.group(1)) != place for place, n in enumerate(numbers, start=1)):
        return list(criteria)
    return [
        {**criterion, "name": criterion["name"][number.end() :]}
        for criterion, number in zip(criteria, numbers, strict=True)
        if number
    ]


def _weights(given: Sequence[Any]) -> tuple[float, ...]:
    weights = [_weight(each) for each in given]
    try:
        try:
            return normalize_weights(weights)
        except ValueError:
            known = [_as_number(weight) for weight in weights if weight is not None]
            if len(known) == len(weights):
                raise
            mean = sum(known) / len(known)
            return normalize_weights([mean if each is None else each for each in weights])
    except ValueError as error:
        raise Unreadable("the weights must be percentages that add up to 100.") from error


def _weight(given: Any) -> str | float | None:
    if given is None or (isinstance(given, str) and not given.strip()):
        return None
    if isinstance(given, str):
        text = given[:_TAIL].strip()
        match = _WEIGHT.fullmatch(text) or _WEIGHT_IN_TEXT.fullmatch(text)
        weight = match.group(1) + ("%" if match.group(2) else "") if match else None
    else:
        weight = None if isinstance(given, bool) or not isinstance(given, int | float) else given
    if weight is None or not 0 <= _as_number(weight) <= _MAX_WEIGHT:
        raise Unreadable(f"the weight {_shown(given)} is not a percentage.")
    return weight


def _as_number(weight: str | float) -> float:
    return float(weight.rstrip("%")) if isinstance(weight, str) else weight
