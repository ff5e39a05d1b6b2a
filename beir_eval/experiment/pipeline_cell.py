"""One pipeline over all questions: answered, judged and summed up, as often as the suite says."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from beir_eval.answers.judges import AnswerJudge, Judgement
from beir_eval.answers.judging import (
    answered_of,
    estimate_judges,
    judged,
    judgements_of,
    judges_of,
    row_of,
)
from beir_eval.answers.metrics import metrics_of
from beir_eval.answers.questions import Question, read_questions
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.cell import Cell, CellResult, ExperimentListener, Plan
from beir_eval.experiment.run_folder import (
    ANSWERS,
    JUDGEMENTS,
    METRICS,
    PIPELINE,
    AnswersNote,
)
from beir_eval.experiment.suite import RankerSpec
from beir_eval.experiment.suite_form import SuiteForm, folder_name
from beir_eval.files import append_whole, cut_torn_line, write_form
from mcranker import RankerConfig
from mcranker.config import HOW_NOT_WHAT
from mcranker.errors import BudgetExceeded, InputError, ModelError
from mcranker.estimate import Estimate
from mcranker.llm.connect import choose_default
from mcranker.llm.limits.budget import Budget
from mcranker.llm.models import Layers
from mcranker.rag.config import PipelineConfig
from mcranker.rag.pipeline import RAGPipeline
from mcranker.rag.result import AnsweredQuestion, RAGResult
from mcranker.retrieval.bm25 import digest_of
from mcranker.retrieval.index import Index
from personas.io.lines import read_records
from personas.ranking.usage import UsageTable
from personas.sanitize import json_text

_BUDGETS = ("max_calls", "max_cost")
_OF_JUDGES = ("concurrency", "timeout", "requests_per_minute", "prompts")
T = TypeVar("T")
_Judging = Callable[..., AbstractAsyncContextManager[dict[str, AnswerJudge]]]


def settled(form: SuiteForm, plan: Plan, name: str) -> SuiteForm:
    """The suite's form with the plan's values in place of its own, where there are some."""
    fields = ("questions", "documents", "index", "runs", "limit", "judge_model")
    given = {each: getattr(plan, each) for each in fields}
    changes = {each: value for each, value in given.items() if value not in (None, "")}
    if plan.documents or plan.index:
        changes |= {"documents": plan.documents, "index": plan.index}
    form = form.model_copy(update=changes)
    if not form.questions:
        raise SettingError(f"suite {name!r} names no questions; give --questions FILE")
    if not form.documents and not form.index:
        raise SettingError(f"suite {name!r} names no documents; give --docs or --index")
    if form.judge_model:
        return form
    model = plan.options.get("model") or choose_default(os.environ)[0]
    return form.model_copy(update={"judge_model": model})


@asynccontextmanager
async def pipeline_cells(
    form: SuiteForm, plan: Plan, specs: Sequence[RankerSpec], budget: Budget | None
) -> AsyncIterator[list[PipelineCell]]:
    """The cells of a suite of pipelines; without a budget they are for estimates alone."""
    questions = read_questions(form.questions)[: form.limit]
    options, usage, judge = plan.options, UsageTable(), ""
    async with AsyncExitStack() as stack:
        index = _indexes(form, stack)
        paid: dict[str, Any] = {"ledger": options.get("ledger", "default")}
        if budget is not None:
            ledger = Layers(RankerConfig(), paid["ledger"]).ledger
            if ledger is not None:
                stack.push_async_callback(ledger.aclose)
            paid = {"ledger": ledger, "budget": budget}
        judging = partial(
            judges_of,
            form.judges,
            model=form.judge_model or None,
            base_url=form.judge_base_url or options.get("base_url"),
            usage=usage,
            **{name: options[name] for name in _OF_JUDGES if options.get(name) is not None},
            **paid,
        )
        if budget is not None:
            async with judging() as judges:
                judge = next(filter(None, (each.asked_model for each in judges.values())), "")
        cells = []
        for spec in specs:
            config, given = spec.stages()
            own = {key: value for key, value in given.items() if key not in _BUDGETS}
            make = partial(RAGPipeline, index(config.chunks), config, **{**own, **paid})
            if budget is not None:  # one that cannot be made is an error before anything is asked
                await make().aclose()
            folder = Path(plan.out) / folder_name(spec.label)
            cells.append(
                PipelineCell(
                    folder, spec, form, questions, config, given, make, judging, judge, usage
                )
            )
        yield cells


def _indexes(form: SuiteForm, stack: AsyncExitStack) -> Callable[[str], Index]:
    """Return what opens or makes the index for a kind of chunks, once; the stack closes it."""

    @cache
    def index(chunks: str) -> Index:
        if form.index:
            opened = Index.open(form.index)
            stack.callback(opened.close)
            stack.push_async_callback(opened.connect().aclose)
            return opened
        config = PipelineConfig.load("naive", chunks=chunks, answer={"style": "extract"})
        keeper = RAGPipeline.from_documents(
            form.documents, config, embedder=form.embedder or None, ledger=None
        )
        stack.push_async_callback(keeper.aclose)
        assert isinstance(keeper.index, Index)
        return keeper.index

    return index


@dataclass
class PipelineCell(Cell):
    """One pipeline over all questions."""

    form: SuiteForm
    questions: Sequence[Question]
    config: PipelineConfig
    options: Mapping[str, Any]  # of `RAGPipeline`, without ledger and budget
    make: Callable[..., RAGPipeline]
    judging: _Judging
    judge: str  # the model that the judges ask
    usage: UsageTable  # of the judges of all cells
    calls: int = field(default=0, init=False)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {each.id: 1 for each in self.questions}

    async def run(self, listener: ExperimentListener) -> CellResult:
        """Answer and judge what is open in each repetition, and sum it all up."""
        before, runs = self.usage.total.calls, []
        stopped: Exception | None = None
        metrics = None
        for number in range(self.form.runs):
            path = self.path / f"run-{number + 1}"
            async with self.make(**_of_run(number)) as pipeline:
                if not number:
                    self._begin(pipeline)
                path.mkdir(exist_ok=True)
                stopped = await self._answer(path, pipeline, listener)
            if stopped is None:
                try:
                    async with self.judging(**_of_run(number)) as judges:
                        runs.append(await self._judge(path, judges, listener))
                except (ModelError, BudgetExceeded) as error:
                    stopped = error
            if stopped is not None:
                break
        else:
            metrics = metrics_of(runs, self.form.judges, self.failed, len(self.questions))
            write_form(self.path / METRICS, metrics)
            kept = [
                f"run-{n + 1}/{name}" for n in range(len(runs)) for name in (ANSWERS, JUDGEMENTS)
            ]
            self.mark_finished([*kept, METRICS])
        calls = self.calls + self.usage.total.calls - before
        return self.result(answers=metrics, calls=calls, stopped=stopped)

    async def estimate(self) -> Estimate:
        """Estimate all repetitions, judges included, as if the ledger had no judgement."""
        found = Estimate()
        for number in range(self.form.runs):
            async with self.make(**_of_run(number)) as pipeline:
                for one in self.questions:
                    found += await pipeline.aestimate(one.query)
                assert isinstance(pipeline.index, Index)
                passages = len(pipeline.index)
            most = self.config.rerank.keep or self.config.retrieval.documents
            async with self.judging(**_of_run(number)) as judges:
                found += await estimate_judges(self.questions, judges, min(most, passages))
        return found

    def _begin(self, pipeline: RAGPipeline) -> None:
        assert isinstance(pipeline.index, Index)
        about, fields = pipeline.index.describe(), RankerConfig.model_fields
        choices = {
            name: value
            for name, value in sorted(self.options.items())
            if name in fields and name not in HOW_NOT_WHAT and value != fields[name].default
        }
        ranker = {} if pipeline.ranker is None else dict(pipeline.ranker.models.names)
        asked = self.questions
        rows = ((x.id, x.query.conversation, json_text(x.golden_answers)) for x in asked)
        documents = {key: about[key] for key in ("mark", "chunks", "documents", "passages")}
        if not self.form.index:
            documents["digest"] = Path(about["path"]).stem
        answers = AnswersNote(
            judges=tuple(self.form.judges),
            judge=self.judge,
            runs=self.form.runs,
            documents=documents,
            golden={each.id: each.golden_answers for each in asked},
        )
        self.begin(
            begun=any(self.path.glob(f"run-*/{ANSWERS}")),
            ranker=PIPELINE,
            config={**self.config.model_dump(mode="json"), "options": choices},
            models={**ranker, **{task: chat.name for task, chat in pipeline.models.items()}},
            data=digest_of(rows),
            answers=answers,
        )

    async def _answer(
        self, path: Path, pipeline: RAGPipeline, listener: ExperimentListener
    ) -> Exception | None:
        """Answer open questions, and those that a stage failed for; return why it stopped."""
        file, judgements = path / ANSWERS, path / JUDGEMENTS
        cut_torn_line(file)
        cut_torn_line(judgements)
        there = read_answers_of(file)
        waiting = [
            each.query for each in self.questions if each.id not in there or there[each.id].without
        ]
        failed: dict[str, str] = {}

        def keep(each: AnsweredQuestion) -> Exception | None:
            name, answer = each.question.id, each.answer
            listener.query_done(each.question)
            self.calls += sum(stage.calls for stage in answer.stages) if answer else 0
            if answer is None or answer.kind == "none":
                error = each.error or ModelError(answer.failure if answer else "not answered")
                if name not in there:
                    failed[name] = str(error)
                return error
            if name in there and answer.without:
                return None  # no better than the former answer
            if name in there:  # the judgements are of the former answer
                append_whole(judgements, _line({"id": name, "judgements": {}}))
            append_whole(file, _line(answer.to_dict()))
            return None

        listener.part_begins(f"{path.name}: answering", [each.id for each in waiting])
        stopped, last = await self.take(pipeline.aanswer_many(waiting), keep)
        number = path.name.replace("-", " ")
        self.failed |= {f"{number}, {question}": why for question, why in failed.items()}
        # Without an answer there is nothing to judge.
        return stopped or (last if len(failed) == len(self.questions) else None)

    async def _judge(
        self, path: Path, judges: Mapping[str, AnswerJudge], listener: ExperimentListener
    ) -> list[tuple[RAGResult, Mapping[str, Judgement]]]:
        """Judge what has no value yet, and return all answers in the order of the questions."""
        file = path / JUDGEMENTS
        there = read_answers_of(path / ANSWERS)
        known: dict[str, Mapping[str, Judgement]] = {**read_judgements(file)}
        answers = [
            answered_of(there[each.id], each)
            for each in self.questions
            if each.id in there and not self._is_judged(known.get(each.id, {}))
        ]
        listener.part_begins(f"{path.name}: judging", [each.question.id for each in answers])
        async for row in judged(answers, judges):
            append_whole(file, _line(row_of(row)))
            known[row.answered.question.id] = row.judgements
            listener.query_done(row.answered.question.query)
        ids = [each.id for each in self.questions if each.id in there]
        return [(there[name], known.get(name, {})) for name in ids]

    def _is_judged(self, values: Mapping[str, Judgement]) -> bool:
        found = [values.get(name) for name in self.form.judges]
        return all(each and (each.value is not None or each.undefined) for each in found)


def _of_run(number: int) -> dict[str, int]:
    """The option that keeps a run's answers and judgements apart, by its number from 0."""
    return {"cache_variant": number} if number else {}


def _line(record: Mapping[str, Any]) -> bytes:
    return f"{json_text(record)}\n".encode()


def read_answers_of(path: Path) -> dict[str, RAGResult]:
    """Return the answers of a run by question id; none if there is no file."""
    return {each.id: each for each in _read(path, RAGResult.from_dict)}


def read_judgements(path: Path) -> dict[str, dict[str, Judgement]]:
    """Return the judgements of a run by question id; the last line of an id counts."""
    return dict(_read(path, lambda record: (str(record["id"]), judgements_of(record))))


def _read(path: Path, read: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    for line, record in read_records(path, RunFolderError) if path.exists() else ():
        try:
            yield read(record)
        except (InputError, KeyError, TypeError, AttributeError) as error:
            raise RunFolderError(f"{line.place}: is no line of such a file: {error}") from error
