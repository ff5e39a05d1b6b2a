"""Answers judged: read from a file, judged concurrently, summed up with what is missing."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio

from beir_eval.answers.judges import Answered, AnswerJudge, Judgement, judge_class
from beir_eval.answers.judges.team import INSTRUCTION, TeamJudge
from beir_eval.answers.judges.words import AnswerRecall
from beir_eval.answers.questions import Question, question_of, records
from beir_eval.errors import DatasetError, SettingError
from mcranker import MCRanker, RankerConfig
from mcranker.errors import InputError
from mcranker.llm.limits.budget import Budget
from mcranker.models import Layers, LedgerSpec, ModelSpec
from mcranker.rag.asking import Asking
from mcranker.rag.record import AnswerRecord
from mcranker.rankers.dispatch import dispatch
from personas import PromptSet
from personas.ranking.usage import UsageTable

_ANSWER = ("text", "answer", "response", "prediction", "pred", "output")
_PASSAGES = ("context", "contexts", "passages", "retrieved_contexts")


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """Answers of one file.

    Attributes:
        answers: in their order.
        models: that wrote them, where the file says so.
    """

    answers: tuple[Answered, ...]
    models: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer with its judgements, by judge, and its place among all of them, from 0."""

    place: int
    answered: Answered
    judgements: Mapping[str, Judgement]
    error: None = None


def read_answers(
    path: str | os.PathLike[str], questions: Iterable[Question] | None = None
) -> AnswerFile:
    """Read a JSONL file of answers: `RAGResult`s, or objects with an answer and its question.

    ``{"id": "a1", "question": "What is NSP?", "answer": "…", "golden_answers": ["…"], "context":
    ["text of a passage", "…"]}``: the answer may also be under ``text``, ``response``,
    ``prediction`` or ``output``, and golden answers in `questions`.

    Args:
        path: of the file.
        questions: with golden answers, found by id, else by text.

    Raises:
        DatasetError: it cannot be read, a line is no answer, an id is there twice, or an answer has
            no question among `questions`; the message names the line.
    """
    given = list(questions or ())
    by_id = {each.id: each for each in given}
    by_text = {each.text: each for each in given}
    found: list[Answered] = []
    models, ids = set[str](), set[str]()
    for place, record in records(path):
        answered, names = _answer_of(record, place)
        models |= names
        if given:
            own = answered.question
            known = by_id.get(own.id) or by_text.get(own.text)
            if known is None:
                raise DatasetError(f"{place}: no question has the id {own.id!r} or this text")
            answered = replace(answered, question=known)
        if answered.question.id in ids:
            raise DatasetError(
                f"{place}: the id {answered.question.id!r} is there twice; give each repetition a "
                "file of its own"
            )
        ids |= {answered.question.id} - {""}
        found.append(answered)
    if not found:
        raise DatasetError(f"{os.fspath(path)}: holds no answer")
    return AnswerFile(tuple(found), frozenset(models))


def answered_of(result: AnswerRecord, question: Question | None = None) -> Answered:
    """Return a pipeline's answer as judges take it."""
    ranked = sorted(result.passages, key=lambda each: each.rank or math.inf)
    return Answered(
        question or Question(result.id, result.question),
        result.text,
        abstained=result.kind == "abstained",
        failure=(result.failure or "no text") if result.kind == "none" else "",
        passages=tuple(each.text for each in result.context),
        retrieved=tuple(each.text for each in ranked),
        citations=result.all_citations,
    )


@asynccontextmanager
async def judges_of(
    names: Sequence[str],
    *,
    model: ModelSpec = None,
    base_url: str | None = None,
    api_key: str | None = None,
    ledger: LedgerSpec = "default",
    usage: UsageTable | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> AsyncIterator[dict[str, AnswerJudge]]:
    """Make judges by name, for the time of the block.

    Args:
        names: as `JUDGES` has them.
        model: asked by those that ask; None for the default.
        base_url: of an OpenAI- or Anthropic-compatible server.
        api_key: instead of the environment's.
        ledger: keeps the answers.
        usage: counts the calls of all but the team.
        budget: what all calls are paid from, instead of ``max_calls`` and ``max_cost``.
        options: fields of `RankerConfig`: limits, prompts, temperature.

    Raises:
        SettingError: there is no such judge.
        ConfigError, ModelError: the model cannot be had, or an option is impossible.
    """
    kinds = {name: judge_class(name) for name in names}
    layers = Layers(RankerConfig(**options), ledger, budget)
    where: dict[str, Any] = {"base_url": base_url, "api_key": api_key}
    stack = AsyncExitStack()
    try:
        if layers.ledger is not None:
            stack.push_async_callback(layers.ledger.aclose)
        asking = None
        if any(kind.asks and kind is not TeamJudge for kind, _ in kinds.values()):
            asking = asking_of(layers, model, UsageTable() if usage is None else usage, **where)
            stack.push_async_callback(asking.model.aclose)
        made: dict[str, AnswerJudge] = {}
        for name, (kind, k) in kinds.items():
            if kind is TeamJudge:
                shared: dict[str, Any] = {"instruction": INSTRUCTION, **where, **options}
                ranker = MCRanker(model=model, ledger=layers.ledger, **shared)
                stack.push_async_callback(ranker.aclose)
                made[name] = TeamJudge(ranker.within(layers.budget))
                continue
            made[name] = judge = kind(asking)
            if isinstance(judge, AnswerRecall) and k is not None:
                judge.k = k
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await stack.aclose()


def asking_of(
    layers: Layers,
    model: ModelSpec,
    usage: UsageTable,
    *,
    base_url: str | None,
    api_key: str | None,
) -> Asking:
    """Return what judges and writers of questions ask; its model is closed by the caller.

    Raises:
        ConfigError, ModelError: the model cannot be had.
    """
    made = layers.connect({"judge": model}, model, base_url=base_url, api_key=api_key)
    prompts = PromptSet.load(layers.config.prompts)
    return Asking(
        model=made["judge"], config=layers.config, prompts=prompts, usage=usage, stage="judge"
    )


async def judged(
    answers: Iterable[Answered], judges: Mapping[str, AnswerJudge], *, at_once: int = 16
) -> AsyncIterator[JudgedAnswer]:
    """Yield the judgements of each answer, as they come; `at_once` answers at a time.

    Raises:
        ModelError, LedgerError: one that all answers would meet, such as a wrong key.
    """

    async def one(place: int, answered: Answered) -> JudgedAnswer:
        found = {name: await judge.judge(answered) for name, judge in judges.items()}
        return JudgedAnswer(place, answered, found)

    async with dispatch(answers, one, at_once) as stream:
        async for each in stream:
            yield each


def row_of(row: JudgedAnswer) -> dict[str, Any]:
    """Return an answer's judgements as plain values, which `judgements_of` reads."""
    question = row.answered.question
    values = {
        name: {
            "value": each.value,
            **({} if each.value is not None else {"why": each.why, "undefined": each.undefined}),
            **({"notes": each.notes} if each.notes else {}),
            **({"parts": each.parts} if each.parts else {}),
        }
        for name, each in row.judgements.items()
    }
    return {"id": question.id, "question": question.text, "judgements": values}


def judgements_of(record: Mapping[str, Any]) -> dict[str, Judgement]:
    """Read what `row_of` gave.

    Raises:
        KeyError, TypeError, AttributeError: it is something else.
    """
    return {name: Judgement(**values) for name, values in record["judgements"].items()}


def _answer_of(record: Mapping[str, Any], place: str) -> tuple[Answered, set[str]]:
    if "all_citations" in record and "stages" in record:
        try:
            result = AnswerRecord.from_dict(record)
        except InputError as error:
            raise DatasetError(f"{place}: {error}") from error
        golden = Question(result.id, result.question)
        return answered_of(result, golden), set(result.models.values())
    if isinstance(failed := record.get("error"), Mapping):  # of a question that was not answered
        question = question_of({**record, "text": record.get("question")}, place)
        return Answered(question, "", failure=str(failed.get("message", "no reason"))), set()
    question = question_of(
        {key: record[key] for key in record if key not in ("text", "answer")}, place
    )
    text = next((record[name] for name in _ANSWER if name in record), None)
    if not isinstance(text, str):
        raise DatasetError(f'{place}: there is no answer; give it under "answer"')
    passages = next((record[name] for name in _PASSAGES if name in record), None)
    if isinstance(passages, str):
        passages = [passages]
    if passages is not None:
        passages = tuple(
            str(each.get("text", "")) if isinstance(each, Mapping) else str(each)
            for each in passages
        )
    model = record.get("model")
    answered = Answered(question, text, passages=passages, retrieved=passages)
    return answered, {model} if isinstance(model, str) else set()


def check_answers(file: AnswerFile, judges: Sequence[str]) -> None:
    """Refuse judges that have a value for none of the answers.

    Raises:
        SettingError: a judge needs something that no answer has.
    """
    for name in judges:
        kind, _ = judge_class(name)
        for need in kind.needs:
            if not any(
                getattr(each.question if need == "golden_answers" else each, need)
                for each in file.answers
            ):
                what = need.replace("_", " ")
                more = "; give --questions FILE" if need == "golden_answers" else ""
                raise SettingError(f"{name} needs {what}, and no answer has any{more}")
