"""A suite of pipelines, run: answers and judgements in run folders, resumable anywhere.

``OUT/LABEL/manifest.json`` says what answers; ``OUT/LABEL/run-1/answers.jsonl`` has a `RAGResult` a
line, ``judgements.jsonl`` beside it the judges' values, and ``OUT/LABEL/metrics.json`` sums up.
"""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from beir_eval.answers.judges import AnswerJudge, Judgement
from beir_eval.answers.judging import answered_of, judged, judgements_of, judges_of, row_of
from beir_eval.answers.metrics import METRICS, AnswerMetrics, metrics_of
from beir_eval.answers.questions import Question
from beir_eval.answers.suite import AnswerSuite, FigureForm, PipelineSpec
from beir_eval.errors import RunFolderError, SettingError
from beir_eval.experiment.suite_form import folder_name
from beir_eval.files import append_whole, cut_torn_line, read_form, write_form
from beir_eval.lock import locked
from mcranker import RankerConfig
from mcranker.errors import BudgetExceeded, InputError, ModelError
from mcranker.llm.limits.budget import Budget
from mcranker.models import Layers, LedgerSpec
from mcranker.rag.config import PipelineConfig
from mcranker.rag.pipeline import RAGPipeline
from mcranker.rag.record import AnswerRecord
from mcranker.rankers import FATAL_ERRORS
from mcranker.retrieval.cache import digest_of
from mcranker.retrieval.index import Index
from personas.io.lines import read_records
from personas.ranking.types import Query
from personas.ranking.usage import UsageTable
from personas.sanitize import json_text

MANIFEST, ANSWERS, JUDGEMENTS = "manifest.json", "answers.jsonl", "judgements.jsonl"
GIVE_UP = 5
"""Failures in a row after which a pipeline is given up."""


class AnswerManifest(BaseModel):
    """Everything that a folder's answers were made with.

    Attributes:
        label: of the pipeline.
        suite: its title.
        config: the stages.
        models: role -> model name.
        documents: what the index holds, as its mark and its numbers.
        questions: digest of the questions.
        judge: the model that judges; empty if none does.
        judges: their names.
        runs: repetitions of every answer.
        versions: of the programs.
        theirs: judge -> the value that a paper gives.
        point: factor -> level, of a grid's point.
        place: of the pipeline in its suite, from 0.
        title, description, formula, figure: of the suite's file.
        ours: factors whose levels the paper does not name.
        golden: question id -> golden answers.
    """

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
    """Everything about a run that its suite does not say.

    Attributes:
        out: folder of the run folders.
        questions: in their order.
        documents: path of a folder to index; empty if `index` is given.
        index: path of an index; empty if `documents` is given.
        ledger: keeps the answers of all models.
        limits: fields of `RankerConfig` for the judges, and ``max_calls`` and ``max_cost`` of all.
        base_url: of the judges' model.
    """

    out: Path
    questions: Sequence[Question]
    documents: str = ""
    index: str = ""
    ledger: LedgerSpec = "default"
    limits: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class AnswersResult:
    """A pipeline of a suite, run.

    Attributes:
        spec: what answered.
        metrics: None if it was stopped.
        calls: of models this time, the ledger's answers left out.
        stopped: the error that ended it early, or None.
        judge: the model that judged; empty if none did.
    """

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
    """Answer and judge what is not done yet, one pipeline after the other.

    Args:
        suite: with its judges and repetitions.
        plan: how.
        specs: pipelines of the suite.
        note: called with what begins and how many answers or judgements it is, and with an
            empty text and 1 after each of them.

    Yields:
        A result for each pipeline; none after one that stopped for a reason that all share.

    Raises:
        SettingError: there are no documents.
        RunFolderError: a folder was begun with other choices, or another program writes to it.
        MCRankerError: a pipeline or a judge cannot be made.
        OSError: something cannot be written.
    """
    budget = Budget(max_calls=plan.limits.get("max_calls"), max_cost=plan.limits.get("max_cost"))
    places = {each.label: place for place, each in enumerate(suite.pipelines)}
    async with AsyncExitStack() as stack:
        indexes = _Indexes(suite, plan, stack)
        layers = Layers(RankerConfig(), plan.ledger)
        if layers.ledger is not None:
            stack.push_async_callback(layers.ledger.aclose)
        usage = UsageTable()
        judges = await stack.enter_async_context(
            judges_of(
                suite.form.judges,
                model=suite.form.judge_model or None,
                base_url=plan.base_url,
                ledger=layers.ledger,
                usage=usage,
                budget=budget,
                **{k: v for k, v in plan.limits.items() if k not in ("max_calls", "max_cost")},
            )
        )
        judge = next(filter(None, (each.asked_model for each in judges.values())), "")
        for spec in specs:  # one that cannot be made is an error before anything is asked
            made = RAGPipeline(indexes.of(spec.config.chunks), spec.config, **_own(spec, layers))
            await made.aclose()
        for spec in specs:
            index = indexes.of(spec.config.chunks)
            folder = plan.out / folder_name(spec.label)
            run = _PipelineRun(folder, spec, suite, plan, judges, judge, places[spec.label], note)
            with locked(folder):
                before = usage.total.calls
                found = await run.go(index, budget, _own(spec, layers))
            yield AnswersResult(
                spec, found, run.calls + usage.total.calls - before, run.stopped, judge
            )
            if isinstance(run.stopped, (BudgetExceeded, *FATAL_ERRORS)):
                return


def _own(spec: PipelineSpec, layers: Layers) -> dict[str, Any]:
    """The options of `RAGPipeline`; all pipelines share one budget and one ledger."""
    own = {key: spec.options[key] for key in spec.options if key not in ("max_calls", "max_cost")}
    return {**own, "ledger": layers.ledger}


@dataclass(slots=True)
class _PipelineRun:
    """One pipeline over all questions, `AnswerSuite.runs` times."""

    folder: Path
    spec: PipelineSpec
    suite: AnswerSuite
    plan: AnswerPlan
    judges: Mapping[str, AnswerJudge]
    judge: str
    place: int
    note: Callable[[str, int], None]
    calls: int = 0
    stopped: Exception | None = None

    async def go(
        self, index: Index, budget: Budget, options: Mapping[str, Any]
    ) -> AnswerMetrics | None:
        failed: dict[str, str] = {}
        for number in range(self.suite.form.runs):
            # The first run shares its answers with what the user asked before.
            repeat = {"cache_variant": number} if number else {}
            pipeline = RAGPipeline(index, self.spec.config, budget=budget, **{**options, **repeat})
            async with pipeline:
                if not number:
                    self._begin(pipeline, index)
                path = self.folder / f"run-{number + 1}"
                path.mkdir(exist_ok=True)
                why, count = await self._answer(path, pipeline)
            failed |= {f"run {number + 1}, {question}": text for question, text in why.items()}
            if not count and self.stopped is None and why:
                self.stopped = ModelError(next(iter(why.values())))
            if self.stopped is None:
                try:
                    await self._judge(path)
                except (ModelError, BudgetExceeded) as error:
                    self.stopped = error
            if self.stopped is not None:
                return None
        metrics = metrics_of(
            [*self._runs()],
            self.suite.form.judges,
            failed,
            [each.id for each in self.plan.questions],
        )
        write_form(self.folder / METRICS, metrics)
        return metrics

    def _runs(self) -> Iterator[list[tuple[AnswerRecord, Mapping[str, Judgement]]]]:
        """Answers and judgements of each run, in the order of the questions."""
        for number in range(self.suite.form.runs):
            path = self.folder / f"run-{number + 1}"
            answers = {each.id: each for each in read_answers_of(path / ANSWERS)}
            judgements = dict(read_judgements(path / JUDGEMENTS))
            yield [
                (answers[each.id], judgements.get(each.id, {}))
                for each in self.plan.questions
                if each.id in answers
            ]

    def _begin(self, pipeline: RAGPipeline, index: Index) -> None:
        from mcranker import __version__

        about, form = index.describe(), self.suite.form
        ranker = {} if pipeline.ranker is None else dict(pipeline.ranker.models.names)
        rows = (
            (each.id, each.text, json_text(each.golden_answers)) for each in self.plan.questions
        )
        manifest = AnswerManifest(
            label=self.spec.label,
            suite=self.suite.name,
            config=self.spec.config.model_dump(mode="json"),
            models={**ranker, **{task: chat.name for task, chat in pipeline.models.items()}},
            documents={key: about[key] for key in ("mark", "chunks", "documents", "passages")},
            questions=digest_of(rows),
            judge=self.judge,
            judges=tuple(form.judges),
            runs=form.runs,
            versions={"mcranker": __version__, "python": platform.python_version()},
            theirs=dict(self.spec.theirs),
            point=dict(self.spec.point),
            place=self.place,
            title=form.title,
            description=form.description,
            formula=form.anova.formula,
            ours=tuple(each.name for each in form.factors if each.ours),
            figure=form.figure,
            golden={each.id: each.golden_answers for each in self.plan.questions},
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
                for each in self.folder.glob(f"run-*/{JUDGEMENTS}"):
                    each.unlink()
        write_form(path, manifest)

    async def _answer(self, path: Path, pipeline: RAGPipeline) -> tuple[dict[str, str], int]:
        """Answer the open questions; return why some were not, and how many answers there are."""
        file = path / ANSWERS
        cut_torn_line(file)
        done = {each.id for each in read_answers_of(file)}
        waiting = [Query(each.text, each.id) for each in self.plan.questions if each.id not in done]
        failed: dict[str, str] = {}
        in_a_row = 0
        self.note(f"{self.spec.label}, {path.name}: answering", len(waiting))
        async with pipeline.aanswer_many(waiting) as stream:
            async for each in stream:
                self.note("", 1)
                error: Exception | None = each.error
                if each.answer is not None:
                    self.calls += sum(stage.calls for stage in each.answer.stages)
                    if each.answer.kind != "none":
                        append_whole(file, f"{json_text(each.answer.to_dict())}\n".encode())
                        in_a_row = 0
                        continue
                    error = ModelError(each.answer.failure)
                assert error is not None, "each question has an answer or an error"
                failed[each.question.id] = str(error)
                in_a_row += 1
                if isinstance(error, (BudgetExceeded, *FATAL_ERRORS)) or in_a_row == GIVE_UP:
                    self.stopped = error
                    break
        return failed, len(self.plan.questions) - len(failed)

    async def _judge(self, path: Path) -> None:
        """Judge what has no value yet; what was missing is asked again."""
        file = path / JUDGEMENTS
        cut_torn_line(file)
        known = dict(read_judgements(file))
        whole = {
            name
            for name, values in known.items()
            if all(
                judge in values and (values[judge].value is not None or values[judge].undefined)
                for judge in self.suite.form.judges
            )
        }
        questions = {each.id: each for each in self.plan.questions}
        answers = [
            answered_of(each, questions[each.id])
            for each in read_answers_of(path / ANSWERS)
            if each.id in questions and each.id not in whole
        ]
        self.note(f"{self.spec.label}, {path.name}: judging", len(answers))
        async for row in judged(answers, self.judges):
            append_whole(file, f"{json_text(row_of(row))}\n".encode())
            self.note("", 1)


@dataclass(slots=True)
class _Indexes:
    """Opens an index, or makes one for each kind of chunks; all are closed in the end."""

    suite: AnswerSuite
    plan: AnswerPlan
    stack: AsyncExitStack
    made: dict[str, Index] = field(default_factory=dict)

    def of(self, chunks: str) -> Index:
        plan = self.plan
        if plan.index:
            if not self.made:
                index = Index.open(plan.index)
                self.stack.callback(index.close)
                self.stack.push_async_callback(index.connect().aclose)
                self.made[""] = index
            return self.made[""]
        if not plan.documents:
            raise SettingError("there are no documents; give --docs DIR or --index INDEX")
        if chunks not in self.made:
            config = PipelineConfig.load("naive", chunks=chunks, answer={"style": "extract"})
            embedder = self.suite.form.embedder or None
            keeper = RAGPipeline.from_documents(
                plan.documents, config, embedder=embedder, ledger=plan.ledger
            )
            self.stack.push_async_callback(keeper.aclose)
            assert isinstance(keeper.index, Index)
            self.made[chunks] = keeper.index
        return self.made[chunks]


def read_answers_of(path: Path) -> Iterator[AnswerRecord]:
    """Yield the answers of a run; none if there is no file.

    Raises:
        RunFolderError: a line is no answer.
    """
    for line, record in read_records(path, RunFolderError) if path.exists() else ():
        try:
            yield AnswerRecord.from_dict(record)
        except InputError as error:
            raise RunFolderError(f"{line.place}: {error}") from error


def read_judgements(path: Path) -> Iterator[tuple[str, dict[str, Judgement]]]:
    """Yield question id and judgements of each line; a later line of the same id goes before.

    Raises:
        RunFolderError: a line holds no judgements.
    """
    for line, record in read_records(path, RunFolderError) if path.exists() else ():
        try:
            yield str(record["id"]), judgements_of(record)
        except (KeyError, TypeError, AttributeError) as error:
            raise RunFolderError(f"{line.place}: holds no judgements") from error
