"""Judges that ask a model. A reply that cannot be read is a missing value, never a low one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from beir_eval.answers.judges.base import Answered, AnswerJudge, Judgement
from mcranker.errors import BudgetExceeded, ModelError
from mcranker.llm.chat import ChatReply
from mcranker.rag.asking import text_of
from mcranker.rankers.dispatch import FATAL_ERRORS
from mcranker.replies.json import find
from mcranker.replies.loose_json import Unreadable
from mcranker.replies.schemas import NUGGETS_SCHEMA, support_schema, verdict_schema
from mcranker.runtime.bridge import task_group

MOST_NUGGETS = 20
"""Facts that are taken of a golden answer; AutoNuggetizer (arXiv 2411.09607) takes as many."""

# The one word that the papers ask for is read as well as the object.
_NUMBER = re.compile(r"\A[\s*\"'`]*(\d{1,2}(?:\.\d{1,6})?)[\s*\"'`.]*\Z")
_TRUE_FALSE = re.compile(r"\A\W*(true|false)\W*\Z", re.IGNORECASE)
_SIMILARITY = verdict_schema("similarity", [half / 2 for half in range(11)])
_RELEVANT = verdict_schema("relevant", [True, False])
_WORTH = {"support": 1.0, "partial": 0.5, "no": 0.0}


class AnswerSimilarity(AnswerJudge):
    """Likeness with the golden answer, 0 to 5, as REBEL measures it (Tonic Validate's prompt form).

    Of several golden answers all are shown as one reference. A number out of the range is missing.
    """

    name: ClassVar[str] = "answer_similarity"
    scale: ClassVar[tuple[float, float]] = (0.0, 5.0)
    asks: ClassVar[bool] = True
    needs: ClassVar[Sequence[str]] = ("golden_answers",)

    async def _judge(self, answered: Answered) -> Judgement:
        values = self._texts(answered, "reference", "response")
        return Judgement(
            await self._asked().read(
                "judge_similarity", values, _read_number, max_tokens=32, schema=_SIMILARITY
            )
        )


class RetrievalPrecision(AnswerJudge):
    """The share of the writer's passages that are relevant, one true/false call each (REBEL).

    No passage, no precision; one unreadable verdict, and the value is missing.
    """

    name: ClassVar[str] = "retrieval_precision"
    asks: ClassVar[bool] = True
    needs: ClassVar[Sequence[str]] = ("passages",)

    async def _judge(self, answered: Answered) -> Judgement:
        asking, passages = self._asked(), answered.passages or ()
        if not passages:
            return Judgement(None, "no passage was left for the writer", undefined=True)
        verdicts: list[bool | None] = [None] * len(passages)
        faults: list[str] = []

        async def one(place: int, text: str) -> None:
            question = answered.question.text
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


class _Graded(AnswerJudge):
    """One grade with notes, of LiveRAG 2025 (G-RAG, arXiv 2506.14516)."""

    asks: ClassVar[bool] = True
    needs: ClassVar[Sequence[str]] = ("golden_answers", "passages")
    prompt: ClassVar[str]
    key: ClassVar[str]

    async def _judge(self, answered: Answered) -> Judgement:
        values = self._texts(answered, "reference", "response", "context")
        low, high = self.scale

        def read(reply: ChatReply) -> tuple[float, str]:
            found = find(text_of(reply), self.key)
            grade = found.value
            if isinstance(grade, bool) or not isinstance(grade, int) or not low <= grade <= high:
                raise Unreadable(f'"{self.key}" must be a whole number from {low:g} to {high:g}.')
            return float(grade), str(found.record.get("evaluation_notes", ""))

        grades = range(int(low), int(high) + 1)
        schema = verdict_schema(self.key, grades, "evaluation_notes")
        grade, notes = await self._asked().read(
            self.prompt, values, read, max_tokens=400, schema=schema
        )
        return Judgement(grade, notes=notes)


class Relevance(_Graded):
    """2: correct, and nothing else; 1: useful; 0: no answer given; -1: not answered."""

    name: ClassVar[str] = "relevance"
    scale: ClassVar[tuple[float, float]] = (-1.0, 2.0)
    prompt: ClassVar[str] = "judge_relevance"
    key: ClassVar[str] = "relevance_score"


class Faithfulness(_Graded):
    """1: all of it is in the passages; 0: a part; -1: none."""

    name: ClassVar[str] = "faithfulness"
    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    prompt: ClassVar[str] = "judge_faithfulness"
    key: ClassVar[str] = "faithfulness_score"


class Nuggets(AnswerJudge):
    """The share of the vital facts of the golden answers that the answer holds in full.

    Two calls: one for the facts, each vital or okay, which all answers to a question share by the
    ledger; one for which of them the answer supports, in part, or not. `Judgement.parts` has
    the measures of TREC RAG 2024 (arXiv 2411.09607): ``vital_strict``, which is the value,
    ``vital``, ``all_strict``, ``all`` and ``weighted``, ``weighted_strict``, where a vital fact
    counts 1 and another 0.5; "in part" counts 0.5, and 0 where strict.
    """

    name: ClassVar[str] = "nuggets"
    asks: ClassVar[bool] = True
    needs: ClassVar[Sequence[str]] = ("golden_answers",)

    async def _judge(self, answered: Answered) -> Judgement:
        asking = self._asked()
        values = {**self._texts(answered, "reference"), "most": str(MOST_NUGGETS)}
        nuggets = await asking.read(
            "judge_nuggets", values, _read_nuggets, max_tokens=2000, schema=NUGGETS_SCHEMA
        )
        listed = "\n".join(f"{place}. {text}" for place, (text, _) in enumerate(nuggets, 1))
        values = {**self._texts(answered, "response"), "nuggets": listed}
        support = await asking.read(
            "judge_nugget_support",
            values,
            _support_of(len(nuggets)),
            max_tokens=800,
            schema=support_schema(len(nuggets), [*_WORTH]),
        )
        measures = nugget_measures([vital for _, vital in nuggets], support)
        rows = [
            {"nugget": text, "vital": vital, "support": each}
            for (text, vital), each in zip(nuggets, support, strict=True)
        ]
        value = measures["vital_strict"]
        if value is None:
            return Judgement(None, "no fact is vital", True, parts={"nuggets": rows, **measures})
        return Judgement(value, parts={"nuggets": rows, **measures})


def nugget_measures(vital: Sequence[bool], support: Sequence[str]) -> dict[str, float | None]:
    """Return the measures of `Nuggets`; None where no fact counts.

    Args:
        vital: of each fact, whether it is vital.
        support: of each fact "support", "partial" or "no".
    """
    weights: Mapping[str, Callable[[bool], float]] = {
        "vital": float,
        "all": lambda _: 1.0,
        "weighted": lambda is_vital: 1.0 if is_vital else 0.5,
    }
    found: dict[str, float | None] = {}
    for name, weight in weights.items():
        total = math.fsum(map(weight, vital))
        for ending, half in (("", 0.5), ("_strict", 0.0)):
            worth = {**_WORTH, "partial": half}
            got = math.fsum(
                weight(is_vital) * worth[each]
                for is_vital, each in zip(vital, support, strict=True)
            )
            found[f"{name}{ending}"] = got / total if total else None
    return found


def _read_number(reply: ChatReply) -> float:
    text = text_of(reply)
    if (said := _NUMBER.match(text)) is not None:
        found: Any = float(said[1])
    else:
        found = find(text, "similarity").value
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


def _read_nuggets(reply: ChatReply) -> list[tuple[str, bool]]:
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
    return list(found.items())[:MOST_NUGGETS]


def _support_of(count: int) -> Callable[[ChatReply], list[str]]:
    def read(reply: ChatReply) -> list[str]:
        under: Any = find(text_of(reply), "Support").value
        if not isinstance(under, Mapping) or {*under} != {str(n) for n in range(1, count + 1)}:
            raise Unreadable(f'"Support" must have the numbers 1 to {count}, each once.')
        support = [str(under[str(number)]).lower() for number in range(1, count + 1)]
        if not {*support} <= _WORTH.keys():
            raise Unreadable('each must be "support", "partial" or "no".')
        return support

    return read
