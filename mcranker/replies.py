"""From a reply's text to what was asked for; strict, so that nothing is made up.

Every reader raises `Unreadable` rather than guess. A reply is read as JSON, with or without
a code fence around it, and where that fails as JSON mended by json-repair; keys are
compared without regard to case, spaces and underscores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from personas import Persona, Rubric

__all__ = ["Unreadable", "read_criterion_scores", "read_personas", "read_rubric", "read_score"]

_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n?(.*?)\n?\s*```\s*\Z", re.DOTALL)
_INTEGER = re.compile(r"\A\s*\"?(\d{1,4})\"?\s*\Z")
_WEIGHT_IN_TEXT = re.compile(
    r"[\s,;(.]*(?:the\s+)?weight(?:\s+to\s+this\s+criterion)?(?:\s+is)?\s*:?\s*"
    r"(\d{1,3}(?:\.\d+)?)\s*%?\s*[.)]*\s*\Z",
    re.IGNORECASE,
)
_MAX_NAME = 120


class Unreadable(ValueError):
    """A reply is not of the form that was asked for; the text says in what way."""


def read_score(text: str, *, key: str, top: int) -> int:
    """The integer under `key`, 0 to `top`; a reply that is a bare integer counts too.

    Raises:
        Unreadable: no such key, not an integer, or out of range.
    """
    bare = _INTEGER.match(text)
    if bare:
        return _in_range(bare.group(1), top)
    return _in_range(_value(_as_object(text), key), top)


def read_criterion_scores(text: str, *, count: int, top: int) -> tuple[int, ...]:
    """The integers under ``Scores``, 0 to `top`, in the rubric's order.

    They stand under the criteria's numbers, ``"1"`` to `count`, or in a list of that length.

    Raises:
        Unreadable: another form or number of scores, or one of them unreadable.
    """
    scores = _value(_as_object(text), "Scores")
    if isinstance(scores, Mapping):
        keys = [str(number) for number in range(1, count + 1)]
        scores = [scores[key] for key in keys] if set(scores) == set(keys) else None
    if not isinstance(scores, list) or len(scores) != count:
        raise Unreadable(f'"Scores" must hold {count} integers, under the keys "1" to "{count}".')
    return tuple(_in_range(score, top) for score in scores)


def read_personas(text: str) -> tuple[Persona, ...]:
    """The people under ``Identities``, each once, in order, with the reason given for them.

    Raises:
        Unreadable: no such key, or no usable name under it.
    """
    data = _as_object(text)
    identities = _value(data, "Identities")
    reason = _optional_text(data, "Reason")
    if isinstance(identities, str):
        identities = re.split(r"[,;\n]", identities)
    if isinstance(identities, Mapping):
        identities = (
            list(identities) if all(map(_is_word, identities)) else list(identities.values())
        )
    if not isinstance(identities, list):
        raise Unreadable('"Identities" must be a list of strings.')
    personas: dict[str, Persona] = {}
    for entry in identities:
        name, why = _name_and_reason(entry)
        name = " ".join(name.replace("_", " ").split()).strip(" .-*")[:_MAX_NAME]
        if name:
            personas.setdefault(name.casefold(), Persona(name=name, reason=why or reason))
    if not personas:
        raise Unreadable('"Identities" names nobody.')
    return tuple(personas.values())


def read_rubric(text: str) -> Rubric:
    """The criteria under ``Criteria`` with weights made to sum to 100.

    Weights may stand under ``Weight`` or, as the paper's prompt has it, at the end of the
    explanation. A criterion without a weight gets an equal share of what the others leave,
    or the mean of the others where they leave nothing.

    Raises:
        Unreadable: no criteria, or weights that mean nothing.
    """
    data = _as_object(text)
    entries = _value(data, "Criteria")
    if isinstance(entries, Mapping):
        entries = [
            {"Criterion": name, **value}
            if isinstance(value, Mapping)
            else {"Criterion": name, "Explanation": value}
            for name, value in entries.items()
        ]
    if not isinstance(entries, list) or not entries:
        raise Unreadable('"Criteria" must be a list with at least one criterion.')
    criteria = _distinct([_criterion(entry) for entry in entries])
    weights = [criterion["weight"] for criterion in criteria]
    reason = _optional_text(data, "Reason")
    try:
        return Rubric.model_validate({"criteria": criteria, "reason": reason})
    except ValueError:
        known = [weight for weight in map(_as_weight, weights) if weight is not None]
        if not known or sum(known) <= 0:
            raise Unreadable("the weights must be percentages that add up to 100.") from None
        mean = sum(known) / len(known)
        for criterion, weight in zip(criteria, weights, strict=True):
            number = _as_weight(weight)
            criterion["weight"] = mean if number is None else number
        return Rubric.model_validate({"criteria": criteria, "reason": reason})


def _as_object(text: str) -> Mapping[str, Any]:
    fenced = _FENCE.match(text)
    body = fenced.group(1) if fenced else text
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = _repaired(body)
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, Mapping):
        raise Unreadable("it is not one JSON object.")
    return data


def _repaired(body: str) -> Any:
    import json_repair

    if "{" not in body:
        raise Unreadable("it holds no JSON object.")
    try:
        return json_repair.loads(body[body.index("{") :], skip_json_loads=True)
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is not JSON.") from error


def _value(data: Mapping[str, Any], key: str) -> Any:
    wanted = _folded(key)
    found = [value for name, value in data.items() if _folded(str(name)) == wanted]
    if not found:
        raise Unreadable(f'the key "{key}" is missing.')
    return found[0]


def _folded(key: str) -> str:
    return key.replace("_", "").replace(" ", "").casefold()


def _in_range(value: Any, top: int) -> int:
    if isinstance(value, str) and _INTEGER.match(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= top:
        raise Unreadable(f"{_shortened(value)} is not an integer from 0 to {top}.")
    return value


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_word(name: object) -> bool:
    return (
        isinstance(name, str) and not name.strip().isdigit() and "identity" not in name.casefold()
    )


def _name_and_reason(entry: Any) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if isinstance(entry, Mapping):
        for key in ("Identity", "Name", "Persona", "Role", "Title"):
            for name, value in entry.items():
                if _folded(str(name)) == _folded(key) and isinstance(value, str):
                    return value, _optional_text(entry, "Reason")
    return "", ""


def _optional_text(data: Mapping[str, Any], key: str) -> str:
    for name, value in data.items():
        if _folded(str(name)) == _folded(key):
            if isinstance(value, str):
                return value.strip()[:2000]
            if isinstance(value, list):
                return " ".join(part for part in value if isinstance(part, str))[:2000]
    return ""


def _criterion(entry: Any) -> dict[str, Any]:
    if isinstance(entry, str):
        entry = {"Criterion": entry}
    if not isinstance(entry, Mapping):
        raise Unreadable("each criterion must be an object.")
    fields = {_folded(str(name)): value for name, value in entry.items()}
    name = next(
        (
            fields[key]
            for key in ("criterion", "criteria", "name", "title")
            if isinstance(fields.get(key), str)
        ),
        "",
    )
    text = next(
        (
            fields[key]
            for key in ("explanation", "description", "detail", "reason")
            if isinstance(fields.get(key), str)
        ),
        "",
    )
    weight = next((value for key, value in fields.items() if key.startswith("weight")), None)
    name, weight = _split_weight(name, weight)
    text, weight = _split_weight(text, weight)
    if not name and text:
        name, _, text = text.partition(":")
    if ":" in name and not text:
        name, _, text = name.partition(":")
    name = " ".join(name.split())[:_MAX_NAME]
    if not name:
        raise Unreadable('each criterion needs a name under "Criterion".')
    return {"name": name, "description": text.strip()[:2000], "weight": weight}


def _split_weight(text: str, weight: Any) -> tuple[str, Any]:
    found = _WEIGHT_IN_TEXT.search(text)
    if not found:
        return text.strip(), weight
    kept = text[: found.start()].strip()
    return kept, weight if weight is not None else float(found.group(1))


def _distinct(criteria: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {}
    for criterion in criteria:
        kept.setdefault(criterion["name"].casefold(), criterion)
    return list(kept.values())


def _as_weight(weight: Any) -> float | None:
    if isinstance(weight, str):
        match = re.search(r"\d+(?:\.\d+)?", weight)
        return float(match.group()) if match else None
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        return None
    return float(weight) if 0 <= weight < float("inf") else None
