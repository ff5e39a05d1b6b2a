"""Judges that ask a model. A reply that cannot be read is a missing value, never a low one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beir_eval.answers.judges.base import Answered, Judgement
from mcranker.errors import FATAL_ERRORS, BudgetExceeded, ModelError
from mcranker.llm.chat import ChatReply
from mcranker.method.ask import Asking, text_of
from mcranker.replies.json import find
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.read import by_number
from mcranker.replies.schemas import NUGGETS_SCHEMA, support_schema, verdict_schema
from mcranker.runtime.bridge import task_group

LONGEST_CONTEXT = 200_000
"""Characters of the passages that a judge is shown."""
MOST_NUGGETS = 20
"""Facts that are taken of a golden answer; AutoNuggetizer (arXiv 2411.09607) takes as many."""

# The one word that the papers ask for is read as well as the object.
_NUMBER = re.compile(r"\A[\s*\"'`]*(\d{1,2}(?:\.\d{1,6})?)[\s*\"'`.]*\Z")
_TRUE_FALSE = re.compile(r"\A\W*(true|false)\W*\Z", re.IGNORECASE)
_SIMILARITY = verdict_schema("similarity", [half / 2 for half in range(11)])
_RELEVANT = verdict_schema("relevant", [True, False])
_SUPPORT = ("support", "partial", "no")


async def answer_similarity(answered: Answered, asking: Asking) -> Judgement:
    """Return likeness with the golden answer, 0 to 5, as REBEL has it (Tonic Validate's prompt)."""
    values = _texts(answered, asking, "reference", "response")
    found = await asking.read(
        "judge_similarity", values, _read_number, max_tokens=32, schema=_SIMILARITY
    )
    return Judgement(found)


async def retrieval_precision(answered: Answered, asking: Asking) -> Judgement:
    """Return the share of relevant passages of the writer's, one true/false call each (REBEL)."""
    passages, question = answered.passages or (), answered.question.query.conversation
    if not passages:
        return Judgement(None, "no passage was left for the writer", undefined=True)
    verdicts: list[bool | None] = [None] * len(passages)
    faults: list[str] = []

    async def one(place: int, text: str) -> None:
        shown = asking.prompts.passage(text, query=question)
        values = {"question": question, "passage": shown}
        try:
            verdicts[place] = await asking.read(
                "judge_passage", values, _read_true, max_tokens=32, schema=_RELEVANT
            )
        except FATAL_ERRORS:
            raise
        except (ModelError, BudgetExceeded) as error:
            faults.append(str(error))

    async with task_group() as group:
        for place, text in enumerate(passages):
            group.start_soon(one, place, text)
    parts = {"passages": verdicts}
    if faults:
        why = f"{len(faults)} of {len(passages)} verdicts are missing: {faults[0]}"
        return Judgement(None, why, parts=parts)
    return Judgement(sum(map(bool, verdicts)) / len(verdicts), parts=parts)


async def relevance(answered: Answered, asking: Asking) -> Judgement:
    """Return LiveRAG 2025's grade of relevance, with notes (G-RAG, arXiv 2506.14516)."""
    return await _graded(answered, asking, "relevance", range(-1, 3))


async def faithfulness(answered: Answered, asking: Asking) -> Judgement:
    """Return LiveRAG's grade of faithfulness: 1, all is in the passages; 0, a part; -1, nothing."""
    return await _graded(answered, asking, "faithfulness", range(-1, 2))


async def nuggets(answered: Answered, asking: Asking) -> Judgement:
    """Return the share of the vital facts of the golden answers that the answer holds in full."""
    values = {**_texts(answered, asking, "reference"), "most": str(MOST_NUGGETS)}
    facts = await asking.read(
        "judge_nuggets", values, _read_nuggets, max_tokens=2000, schema=NUGGETS_SCHEMA
    )
    listed = "\n".join(f"{place}. {text}" for place, text in enumerate(facts, 1))
    values = {**_texts(answered, asking, "response"), "nuggets": listed}
    schema, read = support_schema(len(facts), _SUPPORT), _support_of(len(facts))
    support = await asking.read("judge_nugget_support", values, read, max_tokens=800, schema=schema)
    measures = nugget_measures([*facts.values()], support)
    rows = [
        {"nugget": text, "vital": vital, "support": each}
        for (text, vital), each in zip(facts.items(), support, strict=True)
    ]
    value = measures["vital_strict"]
    why = "no fact is vital" if value is None else ""
    return Judgement(value, why, undefined=bool(why), parts={"nuggets": rows, **measures})


def nugget_measures(vital: Sequence[bool], support: Sequence[str]) -> dict[str, float | None]:
    """Return the measures of TREC RAG 2024 (arXiv 2411.09607); None where no fact counts."""
    found: dict[str, float | None] = {}
    for name, of_vital, of_others in (("vital", 1, 0), ("all", 1, 1), ("weighted", 1, 0.5)):
        weights = [of_vital if each else of_others for each in vital]
        total = math.fsum(weights)
        for ending, half in (("", 0.5), ("_strict", 0.0)):
            worth = {"support": 1.0, "partial": half, "no": 0.0}
            pairs = zip(weights, support, strict=True)
            got = math.fsum(weight * worth[each] for weight, each in pairs)
            found[f"{name}{ending}"] = got / total if total else None
    return found


def verdict_of(key: str, options: Sequence[Any]) -> Callable[[ChatReply], tuple[Any, str]]:
    """Return a reader of replies: which of the options is under `key`, and the notes beside it."""

    def read(reply: ChatReply) -> tuple[Any, str]:
        found = find(text_of(reply), key)
        if type(found.value) is not type(options[0]) or found.value not in options:
            raise Unreadable(f'"{key}" must be one of {", ".join(map(str, options))}.')
        return found.value, str(found.record.get("evaluation_notes", ""))

    return read


async def _graded(answered: Answered, asking: Asking, name: str, grades: range) -> Judgement:
    key, values = f"{name}_score", _texts(answered, asking, "reference", "response", "context")
    schema = verdict_schema(key, grades, "evaluation_notes")
    grade, notes = await asking.read(
        f"judge_{name}", values, verdict_of(key, grades), max_tokens=400, schema=schema
    )
    return Judgement(float(grade), notes=notes)


def _texts(answered: Answered, asking: Asking, *names: str) -> dict[str, str]:
    """The question, and of an answer those that are named, between markers."""
    question, prompts = answered.question.query.conversation, asking.prompts
    texts = {
        "response": answered.text,
        "reference": "\n\n".join(answered.question.golden_answers),
        "context": "\n\n".join(answered.passages or ())[:LONGEST_CONTEXT],
    }
    shown = {name: prompts.passage(texts[name], query=question) for name in names}
    return {"question": question, **shown}


def _read_number(reply: ChatReply) -> float:
    text = text_of(reply)
    said = _NUMBER.match(text)
    found: Any = find(text, "similarity").value if said is None else float(said[1])
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= 5:
        raise Unreadable('"similarity" must be a number from 0 to 5.')
    return float(found)


def _read_true(reply: ChatReply) -> bool:
    text = text_of(reply)
    if (said := _TRUE_FALSE.match(text)) is not None:
        return said[1].lower() == "true"
    if not isinstance(found := find(text, "relevant").value, bool):
        raise Unreadable('"relevant" must be true or false.')
    return found


def _read_nuggets(reply: ChatReply) -> dict[str, bool]:
    """Fact -> whether it is vital."""
    entries = find(text_of(reply), "Nuggets").value
    found: dict[str, bool] = {}
    for entry in entries if isinstance(entries, list) else ():
        text = entry.get("Nugget") if isinstance(entry, Mapping) else None
        importance = str(entry.get("Importance", "")).lower() if text else ""
        if not isinstance(text, str) or importance not in ("vital", "okay"):
            raise Unreadable('each of "Nuggets" must have a "Nugget" and "vital" or "okay".')
        found.setdefault(" ".join(text.split()), importance == "vital")
    if not found:
        raise Unreadable('"Nuggets" must be a list of at least one.')
    return dict([*found.items()][:MOST_NUGGETS])


def _support_of(count: int) -> Callable[[ChatReply], list[str]]:
    def read(reply: ChatReply) -> list[str]:
        under: Any = find(text_of(reply), "Support").value
        values = by_number(under, count) if isinstance(under, Mapping) else None
        if values is None:
            raise Unreadable(f'"Support" must have the numbers 1 to {count}, each once.')
        support = [str(value).lower() for value in values]
        if not {*support} <= {*_SUPPORT}:
            raise Unreadable('each must be "support", "partial" or "no".')
        return support

    return read
