"""Answers judged: read from a file, judged concurrently, summed up with what is missing."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import anyio

from beir_eval.answers.judges import Answered, AnswerJudge, Judgement, judge_class
from beir_eval.answers.judges.team import INSTRUCTION, TeamJudge
from beir_eval.answers.judges.words import AnswerRecall
from beir_eval.answers.questions import Question, question_of, records
from beir_eval.errors import DatasetError, SettingError
from beir_eval.measures.significance import Interval, confidence_intervals
from mcranker import MCRanker, RankerConfig
from mcranker.errors import InputError
from mcranker.llm.limits.budget import Budget
from mcranker.models import Layers, LedgerSpec, ModelSpec
from mcranker.rag.asking import Asking
from mcranker.rag.record import AnswerRecord
from mcranker.rankers.dispatch import dispatch
from personas import PromptSet
from personas.ranking.usage import UsageTable

FEWEST = 20
"""Questions below which a mean says little."""

MOST_MISSING = 0.01
"""Share of missing values above which a mean may mislead."""

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
    """One answer with its judgements, by judge."""

    answered: Answered
    judgements: Mapping[str, Judgement]


@dataclass(frozen=True, slots=True)
class Summary:
    """A judge's values over all answers.

    Attributes:
        judge: its name.
        scale: its lowest and highest value.
        mean: of the values that are there; None without any.
        spread: their standard deviation (n - 1); None for fewer than two.
        interval: Student's 95% confidence interval of the mean, within the scale; None for fewer
            than two.
        values: how many there are.
        missing: answers whose value is missing: a failed call, an unreadable verdict.
        undefined: answers for which the judge has no value, e.g. without a golden answer.
        reasons: why values are missing or undefined, with their numbers, the most frequent first.
    """

    judge: str
    scale: tuple[float, float]
    mean: float | None
    spread: float | None
    interval: Interval | None
    values: int
    missing: int = 0
    undefined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        return asdict(self)


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
        DatasetError: it cannot be read, a line is no answer, or an answer has no question among
            `questions`; the message names the line.
    """
    given = list(questions or ())
    by_id = {each.id: each for each in given}
    by_text = {each.text: each for each in given}
    found: list[Answered] = []
    models = set[str]()
    for place, record in records(path):
        answered, names = _answer_of(record, place)
        models |= names
        if given:
            own = answered.question
            known = by_id.get(own.id) or by_text.get(own.text)
            if known is None:
                raise DatasetError(f"{place}: no question has the id {own.id!r} or this text")
            answered = replace(answered, question=known)
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
    made: dict[str, AnswerJudge] = {}
    config = RankerConfig(**options)
    layers = Layers(config, ledger, budget)
    where: dict[str, Any] = {"base_url": base_url, "api_key": api_key}
    closing: list[Any] = [] if layers.ledger is None else [layers.ledger]
    asking = None
    if any(kind.asks and kind is not TeamJudge for kind, _ in kinds.values()):
        chat = layers.connect({"judge": model}, model, **where)["judge"]
        closing.insert(0, chat)
        prompts = PromptSet.load(config.prompts)
        table = UsageTable() if usage is None else usage
        asking = Asking(model=chat, config=config, prompts=prompts, usage=table, stage="judge")
    try:
        for name, (kind, k) in kinds.items():
            if kind is TeamJudge:
                shared: dict[str, Any] = {"instruction": INSTRUCTION, **where, **options}
                ranker = MCRanker(model=model, ledger=layers.ledger, **shared)
                closing.insert(0, ranker)
                made[name] = TeamJudge(ranker if budget is None else ranker.within(budget))
                continue
            judge = kind(asking)
            if isinstance(judge, AnswerRecall) and k is not None:
                judge.k = k
            made[name] = judge
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            for each in closing:
                await each.aclose()


async def judged(
    answers: Iterable[Answered], judges: Mapping[str, AnswerJudge], *, at_once: int = 16
) -> AsyncIterator[tuple[int, JudgedAnswer]]:
    """Yield place and judgements of each answer, as they come; `at_once` answers at a time.

    Raises:
        ModelError, LedgerError: one that all answers would meet, such as a wrong key.
    """

    async def one(place: int, answered: Answered) -> tuple[int, JudgedAnswer]:
        found = {name: await judge.judge(answered) for name, judge in judges.items()}
        return place, JudgedAnswer(answered, found)

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


def summed_up(judgements: Iterable[Judgement], judge: str, scale: tuple[float, float]) -> Summary:
    """Return a judge's values over all answers; what is missing is counted and never a value."""
    values: dict[str, float] = {}
    reasons: Counter[str] = Counter()
    missing = undefined = 0
    for place, each in enumerate(judgements):
        if each.value is not None:
            values[str(place)] = each.value
            continue
        undefined += each.undefined
        missing += not each.undefined
        reasons[each.why.partition(" The answer:")[0][:200]] += 1
    count = len(values)
    mean = math.fsum(values.values()) / count if count else None
    spread = interval = None
    if mean is not None and count > 1:
        spread = math.sqrt(math.fsum((each - mean) ** 2 for each in values.values()) / (count - 1))
        found = confidence_intervals({judge: values})[judge]
        interval = Interval(max(found.low, scale[0]), min(found.high, scale[1]))
    return Summary(
        judge, scale, mean, spread, interval, count, missing, undefined, dict(reasons.most_common())
    )


def cautions(
    summaries: Iterable[Summary], questions: int, writers: Iterable[str], judge: str, runs: int = 1
) -> Iterator[str]:
    """Yield what a reader must know before the numbers, a sentence each.

    Args:
        summaries: of all judges.
        questions: how many were answered.
        writers: models that wrote answers.
        judge: the model that judged; empty if none did.
        runs: repetitions of every answer.
    """
    if judge and judge in set(writers):
        yield f"{judge} judged what it wrote itself; name another judge with judge_model."
    if questions < FEWEST:
        noun = "question" if questions == 1 else "questions"
        yield f"{questions} {noun}: with fewer than {FEWEST} a mean says little."
    if runs == 1:
        yield "One run: how much answers vary from run to run is not known."
    for each in summaries:
        counted = each.values + each.missing
        if counted and each.missing / counted > MOST_MISSING:
            share = each.missing / counted
            yield f"{each.judge}: {each.missing} of {counted} values are missing ({share:.0%})."


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
