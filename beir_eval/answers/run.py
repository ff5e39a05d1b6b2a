"""A suite of pipelines, run: answers and judgements in run folders, resumable anywhere.

``OUT/LABEL/manifest.json`` says what answers; ``OUT/LABEL/run-1/answers.jsonl`` has a `RAGResult` a
line, ``judgements.jsonl`` beside it the judges' values, and ``OUT/LABEL/metrics.json`` sums up.
"""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from beir_eval.answers.judges import AnswerJudge, Judgement
from beir_eval.answers.judging import (
    answered_of,
    estimate_judges,
    judged,
    judgements_of,
    judges_of,
    row_of,
)
from beir_eval.answers.metrics import METRICS, AnswerMetrics, metrics_of
from beir_eval.answers.questions import Question
from beir_eval.answers.suite import AnswerSuite, FigureForm, PipelineSpec
from beir_eval.errors import RunFolderError
from beir_eval.experiment.run import GIVE_UP
from beir_eval.experiment.suite_form import folder_name
from beir_eval.files import append_whole, cut_torn_line, read_form, write_form
from beir_eval.lock import locked
from mcranker import RankerConfig
from mcranker.config import HOW_NOT_WHAT
from mcranker.errors import FATAL_ERRORS, BudgetExceeded, InputError, ModelError
from mcranker.estimate import Estimate
from mcranker.llm.limits.budget import Budget
from mcranker.llm.models import Layers, LedgerSpec
from mcranker.rag.config import PipelineConfig
from mcranker.rag.pipeline import RAGPipeline
from mcranker.rag.result import RAGResult
from mcranker.retrieval.cache import digest_of
from mcranker.retrieval.index import Index
from personas.io.lines import read_records
from personas.ranking.usage import UsageTable
from personas.sanitize import json_text

MANIFEST, ANSWERS, JUDGEMENTS = "manifest.json", "answers.jsonl", "judgements.jsonl"
BUDGETS = ("max_calls", "max_cost")
T = TypeVar("T")
_OF_SUITE = ("judges", "runs", "title", "description", "figure")


class AnswerManifest(BaseModel):
    """Everything that a folder's answers were made with."""

    model_config = ConfigDict(frozen=True)

    label: str
    suite: str = ""
    config: dict[str, Any]
    models: dict[str, str]
    documents: dict[str, Any]
    questions: str
    judge: str = ""
    judges: tuple[str, ...] = ()
    runs: int = 1
    versions: dict[str, str] = {}
    theirs: dict[str, float] = {}
    point: dict[str, str | int | float | bool] = {}
    place: int = 0
    title: str = ""
    description: str = ""
    formula: str = ""
    ours: tuple[str, ...] = ()
    golden: dict[str, tuple[str, ...]] = {}
    figure: FigureForm = FigureForm()


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """Everything about a run that its suite does not say."""

    out: Path
    questions: Sequence[Question]
    documents: str = ""
    index: str = ""
    ledger: LedgerSpec = "default"
    limits: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class AnswersResult:
    """A pipeline of a suite, run."""

    spec: PipelineSpec
    metrics: AnswerMetrics | None
    calls: int = 0
    stopped: Exception | None = None
    judge: str = ""


async def run_answers(
    suite: AnswerSuite,
    plan: AnswerPlan,
    specs: Sequence[PipelineSpec],
    note: Callable[[str, int], None] = lambda what, count: None,
) -> AsyncIterator[AnswersResult]:
    """Answer and judge what is not done yet, one pipeline after the other."""
    budget = Budget(max_calls=plan.limits.get("max_calls"), max_cost=plan.limits.get("max_cost"))
    async with AsyncExitStack() as stack:
        index = _indexes(suite, plan, stack)
        layers = Layers(RankerConfig(), plan.ledger)
        if layers.ledger is not None:
            stack.push_async_callback(layers.ledger.aclose)
        usage = UsageTable()
        judging = partial(_judging(suite, plan, layers.ledger), usage=usage, budget=budget)
        async with judging() as judges:
            judge = next(filter(None, (each.asked_model for each in judges.values())), "")
        made = {}
        for spec in specs:  # one that cannot be made is an error before anything is asked
            own = {key: spec.options[key] for key in spec.options if key not in BUDGETS}
            options = {**own, "ledger": layers.ledger, "budget": budget}
            made[spec.label] = partial(
                RAGPipeline, index(spec.config.chunks), spec.config, **options
            )
            await made[spec.label]().aclose()
        for spec in specs:
            folder = plan.out / folder_name(spec.label)
            run = _PipelineRun(folder, spec, suite, plan, made[spec.label], judging, judge, note)
            with locked(folder):
                before = usage.total.calls
                found = await run.go()
            calls = run.calls + usage.total.calls - before
            yield AnswersResult(spec, found, calls, run.stopped, judge)
            if isinstance(run.stopped, (BudgetExceeded, *FATAL_ERRORS)):
                return


async def estimate_answers(
    suite: AnswerSuite, plan: AnswerPlan, specs: Sequence[PipelineSpec]
) -> list[tuple[str, Estimate]]:
    """Return label and estimate of all runs of each pipeline and its judges; nothing is sent."""
    found = []
    async with AsyncExitStack() as stack:
        index = _indexes(suite, plan, stack)
        judging = _judging(suite, plan, plan.ledger)
        for spec in specs:
            options, of_all = {"ledger": plan.ledger, **spec.options}, Estimate()
            for run in range(suite.form.runs):
                given = {**options, **_of_run(run)}
                place = index(spec.config.chunks)
                async with RAGPipeline(place, spec.config, **given) as pipeline:
                    each = [await pipeline.aestimate(one.query) for one in plan.questions]
                most = spec.config.rerank.keep or spec.config.retrieval.documents
                async with judging(**_of_run(run)) as judges:
                    each.append(
                        await estimate_judges(plan.questions, judges, min(most, len(place)))
                    )
                of_all = sum(each, of_all)
            found.append((spec.label, of_all))
    return found


def _of_run(number: int) -> dict[str, int]:
    """The option that keeps a run's answers and judgements apart, by its number from 0."""
    return {"cache_variant": number} if number else {}


def _judging(
    suite: AnswerSuite, plan: AnswerPlan, ledger: LedgerSpec
) -> Callable[..., AbstractAsyncContextManager[dict[str, AnswerJudge]]]:
    return partial(
        judges_of,
        suite.form.judges,
        model=suite.form.judge_model or None,
        base_url=plan.base_url,
        ledger=ledger,
        **{k: v for k, v in plan.limits.items() if k not in BUDGETS},
    )


def _indexes(suite: AnswerSuite, plan: AnswerPlan, stack: AsyncExitStack) -> Callable[[str], Index]:
    """Return what opens or makes the index for a kind of chunks, once; the stack closes it."""

    @cache
    def index(chunks: str) -> Index:
        if plan.index:
            opened = Index.open(plan.index)
            stack.callback(opened.close)
            stack.push_async_callback(opened.connect().aclose)
            return opened
        config = PipelineConfig.load("naive", chunks=chunks, answer={"style": "extract"})
        keeper = RAGPipeline.from_documents(
            plan.documents, config, embedder=suite.form.embedder or None, ledger=None
        )
        stack.push_async_callback(keeper.aclose)
        assert isinstance(keeper.index, Index)
        return keeper.index

    return index


@dataclass(slots=True)
class _PipelineRun:
    """One pipeline over all questions, `AnswerSuite.runs` times."""

    folder: Path
    spec: PipelineSpec
    suite: AnswerSuite
    plan: AnswerPlan
    make: Callable[..., RAGPipeline]
    judging: Callable[..., AbstractAsyncContextManager[dict[str, AnswerJudge]]]
    judge: str
    note: Callable[[str, int], None]
    calls: int = 0
    stopped: Exception | None = None

    async def go(self) -> AnswerMetrics | None:
        failed: dict[str, str] = {}
        runs = []
        for number in range(self.suite.form.runs):
            async with self.make(**_of_run(number)) as pipeline:
                if not number:
                    self._begin(pipeline)
                path = self.folder / f"run-{number + 1}"
                path.mkdir(exist_ok=True)
                why = await self._answer(path, pipeline)
            failed |= {f"run {number + 1}, {question}": text for question, text in why.items()}
            if self.stopped is None:
                try:
                    async with self.judging(**_of_run(number)) as judges:
                        runs.append(await self._judge(path, judges))
                except (ModelError, BudgetExceeded) as error:
                    self.stopped = error
            if self.stopped is not None:
                return None
        metrics = metrics_of(runs, self.suite.form.judges, failed, len(self.plan.questions))
        write_form(self.folder / METRICS, metrics)
        return metrics

    def _begin(self, pipeline: RAGPipeline) -> None:
        from mcranker import __version__

        assert isinstance(pipeline.index, Index)
        about, form = pipeline.index.describe(), self.suite.form
        documents = {key: about[key] for key in ("mark", "chunks", "documents", "passages")}
        if not self.plan.index:  # that of documents is named by their digest
            documents["digest"] = Path(about["path"]).stem
        given, fields = self.spec.options, RankerConfig.model_fields
        choices = {
            name: given[name]
            for name in sorted(given.keys() & fields.keys() - HOW_NOT_WHAT)
            if given[name] != fields[name].default
        }
        ranker = {} if pipeline.ranker is None else dict(pipeline.ranker.models.names)
        asked = self.plan.questions
        rows = ((x.id, x.query.conversation, json_text(x.golden_answers)) for x in asked)
        manifest = AnswerManifest(
            label=self.spec.label,
            suite=self.suite.name,
            config={**self.spec.config.model_dump(mode="json"), "options": choices},
            models={**ranker, **{task: chat.name for task, chat in pipeline.models.items()}},
            documents=documents,
            questions=digest_of(rows),
            judge=self.judge,
            versions={"mcranker": __version__, "python": platform.python_version()},
            theirs=dict(self.spec.theirs),
            point=dict(self.spec.point),
            place=self.suite.pipelines.index(self.spec),
            formula=form.anova.formula,
            ours=tuple(each.name for each in form.factors if each.ours),
            **{name: getattr(form, name) for name in _OF_SUITE},
            golden={each.id: each.golden_answers for each in asked},
        )
        path = self.folder / MANIFEST
        if path.exists():
            known = read_form(path, AnswerManifest)
            changed = [
                name
                for name in ("label", "config", "models", "documents", "questions")
                if getattr(known, name) != getattr(manifest, name)
            ]
            if changed:
                raise RunFolderError(
                    f"{self.folder} was begun with other {' and '.join(changed)}; choose another "
                    "--out, or delete the folder (answers stay in the ledger)"
                )
            if known.judge != self.judge:  # values of two judges do not mix
                for each in (*self.folder.glob(f"run-*/{JUDGEMENTS}"), self.folder / METRICS):
                    each.unlink(missing_ok=True)
        write_form(path, manifest)

    async def _answer(self, path: Path, pipeline: RAGPipeline) -> dict[str, str]:
        """Answer open questions, and those that a stage failed for; return why some were not."""
        file, judgements = path / ANSWERS, path / JUDGEMENTS
        cut_torn_line(file)
        cut_torn_line(judgements)
        there = read_answers_of(file)
        done = {each for each, answer in there.items() if not answer.without}
        waiting = [each.query for each in self.plan.questions if each.id not in done]
        error: Exception | None = None
        failed: dict[str, str] = {}
        in_a_row = 0
        self.note(f"{self.spec.label}, {path.name}: answering", len(waiting))
        async with pipeline.aanswer_many(waiting) as stream:
            async for each in stream:
                self.note("", 1)
                error = each.error
                if each.answer is not None:
                    self.calls += sum(stage.calls for stage in each.answer.stages)
                    if each.answer.kind != "none":
                        in_a_row, name = 0, each.question.id
                        if name in there and each.answer.without:
                            continue  # no better than the former answer
                        if name in there:  # the judgements are of the former answer
                            append_whole(judgements, _line({"id": name, "judgements": {}}))
                        append_whole(file, _line(each.answer.to_dict()))
                        continue
                    error = ModelError(each.answer.failure)
                assert error is not None, "each question has an answer or an error"
                if each.question.id not in there:
                    failed[each.question.id] = str(error)
                in_a_row += 1
                if isinstance(error, (BudgetExceeded, *FATAL_ERRORS)) or in_a_row == GIVE_UP:
                    self.stopped = error
                    break
        if len(failed) == len(self.plan.questions):
            self.stopped = self.stopped or error  # nothing is left to judge
        return failed

    async def _judge(
        self, path: Path, judges: Mapping[str, AnswerJudge]
    ) -> list[tuple[RAGResult, Mapping[str, Judgement]]]:
        """Judge what has no value yet, and return all answers in the order of the questions."""
        file = path / JUDGEMENTS
        there = read_answers_of(path / ANSWERS)
        known: dict[str, Mapping[str, Judgement]] = {**read_judgements(file)}
        answers = [
            answered_of(there[each.id], each)
            for each in self.plan.questions
            if each.id in there and not self._is_judged(known.get(each.id, {}))
        ]
        self.note(f"{self.spec.label}, {path.name}: judging", len(answers))
        async for row in judged(answers, judges):
            append_whole(file, _line(row_of(row)))
            known[row.answered.question.id] = row.judgements
            self.note("", 1)
        ids = [each.id for each in self.plan.questions if each.id in there]
        return [(there[name], known.get(name, {})) for name in ids]

    def _is_judged(self, values: Mapping[str, Judgement]) -> bool:
        found = [values.get(name) for name in self.suite.form.judges]
        return all(each and (each.value is not None or each.undefined) for each in found)


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
