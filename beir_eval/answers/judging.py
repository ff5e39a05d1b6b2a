"""Answers judged: read from a file, judged concurrently, kept as plain values."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from beir_eval.answers.judges import (
    INSTRUCTION,
    Answered,
    AnswerJudge,
    Judgement,
    as_ranking,
    judge_of,
)
from beir_eval.answers.questions import Question, first_of, question_of, records, texts_of
from beir_eval.errors import DatasetError, SettingError
from mcranker import MCRanker, RankerConfig
from mcranker.errors import InputError
from mcranker.estimate import EXPLANATION, Estimate, Estimator
from mcranker.llm.limits.budget import Budget
from mcranker.llm.models import NO_MODELS, connect_roles, limited
from mcranker.method.ask import Asking
from mcranker.rag.result import RAGResult
from mcranker.runtime.service import dispatch
from personas import PromptSet
from personas.ranking.usage import UsageTable

_ANSWER = ("text", "answer", "response", "prediction", "pred", "output")
_PASSAGES = ("context", "contexts", "passages", "retrieved_contexts", "retrieval_result")
_OF_PASSAGE = ("text", "contents", "passage")
_CONNECTION = ("model", "base_url", "api_key", "ledger")
"""Options of judges that are no fields of `RankerConfig`."""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer with its judgements, by judge, and its place among all of them, from 0."""

    place: int
    answered: Answered
    judgements: Mapping[str, Judgement]
    error: None = None


def read_answers(
    path: str | os.PathLike[str], questions: Sequence[Question] = ()
) -> list[Answered]:
    """Read a JSONL file of answers: `RAGResult`s, or objects with an answer and its question."""
    by_id = {each.id: each for each in questions}
    by_text = {each.text: each for each in questions}
    found: list[Answered] = []
    ids = set[str]()
    for place, record in records(path):
        answered = _answer_of(record, place)
        if questions:
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
    return found


def answered_of(result: RAGResult, question: Question | None = None) -> Answered:
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
        extract=result.kind == "extract",
        models=frozenset(result.models.values()),
    )


def check_answers(answers: Sequence[Answered], judges: Sequence[str]) -> None:
    """Refuse judges that have a value for none of the answers."""
    for name in judges:
        lacking = {judge_of(name).lack(each) for each in answers}
        if len(lacking) == 1 and (lack := lacking.pop()):
            more = "; give --questions FILE" if lack == "golden answers" else ""
            raise SettingError(f"{name} needs {lack}, and no answer has any{more}")


@asynccontextmanager
async def judges_of(
    names: Sequence[str],
    *,
    usage: UsageTable | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> AsyncIterator[dict[str, AnswerJudge]]:
    """Make judges by name, for the time of the block."""
    made = {name: judge_of(name) for name in names}
    usage = UsageTable() if usage is None else usage
    if budget is None:
        budget = Budget(**{key: options.get(key) for key in ("max_calls", "max_cost")})
    async with AsyncExitStack() as stack:
        asking: Asking | None = None
        for name, judge in made.items():
            if name == "team":
                ranker = MCRanker(instruction=INSTRUCTION, **options)
                stack.push_async_callback(ranker.aclose)
                model = ranker.models.names["scoring"]
                find = partial(judge.find, usage=usage)
                by = ranker.within(budget)
                made[name] = replace(judge, find=find, by=by, asked_model=model)
            elif judge.asks:
                if asking is None:
                    where = {key: options[key] for key in _CONNECTION if key in options}
                    config = RankerConfig(**{k: options[k] for k in options if k not in where})
                    models = connect_roles(where.pop("model", None), config=config, **where)
                    stack.push_async_callback(models.aclose)
                    asking = Asking(
                        model=limited(models, budget).scoring,
                        config=config,
                        prompts=PromptSet.load(config.prompts),
                        usage=usage,
                        stage="judge",
                    )
                made[name] = replace(judge, by=asking, asked_model=asking.model.name)
        yield made


async def judged(
    answers: Iterable[Answered], judges: Mapping[str, AnswerJudge], *, at_once: int = 16
) -> AsyncIterator[JudgedAnswer]:
    """Yield the judgements of each answer, as they come; `at_once` answers at a time."""

    async def one(place: int, answered: Answered) -> JudgedAnswer:
        found = {name: await judge.judge(answered) for name, judge in judges.items()}
        return JudgedAnswer(place, answered, found)

    async with dispatch(answers, one, at_once) as stream:
        async for each in stream:
            yield each


async def estimate_judges(
    questions: Iterable[Question], judges: Mapping[str, AnswerJudge], passages: int
) -> Estimate:
    """Estimate judging an answer to each question, as if the ledger had none; nothing is sent."""
    texts = tuple(f"{place}. {EXPLANATION}" for place in range(passages))
    answers = [Answered(each, EXPLANATION, passages=texts, retrieved=texts) for each in questions]
    found = Estimate()
    for judge in judges.values():
        if isinstance(judge.by, Asking):
            estimator = Estimator(judge.by.config)
            chat = estimator.models(replace(NO_MODELS, scoring=judge.by.model)).scoring
            made_up = replace(judge, by=replace(judge.by, model=chat, usage=UsageTable()))
            for each in answers:
                await made_up.judge(each)
            estimator.end_query()
            found += estimator.estimate()
        elif judge.by is not None:
            for each in answers:
                found += await judge.by.aestimate(*as_ranking(each))
    return found


def row_of(row: JudgedAnswer) -> dict[str, Any]:
    """Return an answer's judgements as plain values, which `judgements_of` reads."""
    question = row.answered.question
    values = {}
    for name, each in row.judgements.items():
        always = ("value",) if each.value is not None else ("value", "why", "undefined")
        values[name] = {key: x for key, x in asdict(each).items() if x or key in always}
    return {"id": question.id, "question": question.text, "judgements": values}


def judgements_of(record: Mapping[str, Any]) -> dict[str, Judgement]:
    """Read what `row_of` gave."""
    return {name: Judgement(**values) for name, values in record["judgements"].items()}


def _answer_of(record: Mapping[str, Any], place: str) -> Answered:
    if "all_citations" in record and "stages" in record:
        try:
            return answered_of(RAGResult.from_dict(record))
        except InputError as error:
            raise DatasetError(f"{place}: {error}") from error
    if isinstance(failed := record.get("error"), Mapping):  # of a question that was not answered
        failure = str(failed.get("message", "no reason"))
        return Answered(question_of(record, place), "", failure=failure)
    if isinstance(output := record.get("output"), Mapping):  # FlashRAG's
        record = {**{key: record[key] for key in record if key != "output"}, **output}
    asked = {key: value for key, value in record.items() if key not in ("text", "answer")}
    question, text = question_of(asked, place), first_of(record, _ANSWER)
    if not isinstance(text, str):
        raise DatasetError(f'{place}: there is no answer; give it under "answer"')
    found, model = first_of(record, _PASSAGES), record.get("model")
    if isinstance(found, list):
        found = [
            first_of(each, _OF_PASSAGE) if isinstance(each, Mapping) else each for each in found
        ]
    passages = None if found is None else texts_of({"context": found}, ("context",), place)
    models = frozenset([model] if isinstance(model, str) else [])
    return Answered(question, text, passages=passages, retrieved=passages, models=models)
