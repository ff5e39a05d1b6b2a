"""Suites of pipelines: what answers which questions, and who judges, as a TOML file.

```toml
title = "REBEL's Figure 1"
questions = "questions.jsonl"           # as `beir_eval.answers.questions` reads them
documents = "papers"                    # a folder to index, or index = "papers.index"
runs = 3                                # repetitions of every answer; 1 without
limit = 20                              # only the first questions
judges = ["retrieval_precision", "answer_similarity"]   # names of `JUDGES`
judge_model = "openai:gpt-5"            # asked by the judges, apart from the writers

[settings]                              # options of all pipelines
model = "openai:gpt-5-mini"

[[pipelines]]
label = "Two-Turn"
preset = "rebel"                        # or a pipeline's TOML file; "team" without
theirs = {retrieval_precision = 0.944}  # a paper's values, shown beside
"answer.style" = "cited"                # any value of a stage, and options as in [settings]

[[factors]]                             # a grid: a pipeline for each combination of levels,
name = "augmentation"                   # which has the options of [base] besides
option = "query.transform"
levels = ["none", "variants", "decomposition"]  # in order, they are the points' labels

[anova]                                 # of a judge's mean for each point of the grid
formula = "relevance ~ C(augmentation)"
```

Files are looked for beside the suite's file.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from beir_eval.answers.judges import names_of
from beir_eval.errors import SettingError, SuiteError
from beir_eval.experiment.suite import SUITES, found_suite, suite_text
from beir_eval.experiment.suite_form import check_labels
from beir_eval.files import beside, read_toml
from beir_eval.measures.anova import parsed
from mcranker.errors import ConfigError
from mcranker.rag.config import PipelineConfig, divided, own_keys
from mcranker.rankers.keys import check_names, keys_of

MOST_POINTS = 10_000
"""Pipelines of a suite."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_Words = Annotated[str, Field(min_length=1, max_length=200)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_strip_whitespace=True)


class _PipelineForm(_Form):
    model_config = ConfigDict(extra="allow")

    label: _Words
    preset: str = "team"
    theirs: dict[str, float] = Field(default_factory=dict)


class Factor(_Form):
    """A factor of a grid."""

    name: _Words
    option: _Words
    levels: Annotated[list[str | int | float | bool], Field(min_length=2)]
    ours: bool = False


class _AnovaForm(_Form):
    formula: _Words = ""


class Line(_Form):
    """A least-squares line through some pipelines of a figure, as REBEL's figure 1 has them."""

    name: _Words
    through: Annotated[list[_Words], Field(min_length=2)]


class FigureForm(_Form):
    """Figures that a suite's report has besides."""

    quality: list[_Words] = Field(default_factory=list, max_length=2)
    lines: list[Line] = Field(default_factory=list, max_length=6)
    runs: str = ""
    source: str = ""
    # A paper's points: by judge, "JUDGE sd" of its runs, and "speed" in characters a second.
    theirs: dict[str, dict[str, float]] = Field(default_factory=dict)


class SuiteForm(_Form):
    """The content of the file; the keys are explained above."""

    title: _Words
    description: str = ""
    questions: str = ""
    documents: str = ""
    index: str = ""
    embedder: str = ""
    runs: int = Field(1, ge=1, le=1_000)
    limit: int | None = Field(None, ge=1)
    judges: list[_Words] = Field(min_length=1)
    judge_model: str = ""
    judge_base_url: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    pipelines: list[_PipelineForm] = Field(default_factory=list)
    base: dict[str, Any] = Field(default_factory=dict)
    factors: list[Factor] = Field(default_factory=list)
    anova: _AnovaForm = _AnovaForm()
    figure: FigureForm = FigureForm()


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline of a suite."""

    label: str
    config: PipelineConfig
    options: Mapping[str, Any]
    theirs: Mapping[str, float] = field(default_factory=dict)
    point: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerSuite:
    """Pipelines that answer questions, and judges of the answers."""

    name: str
    form: SuiteForm
    pipelines: tuple[PipelineSpec, ...]


def is_answer_suite(name_or_path: str | os.PathLike[str]) -> bool:
    """Return whether it is a suite of pipelines: a shipped one, or a file with some."""
    try:
        keys = tomllib.loads(suite_text(name_or_path)).keys()
    except (tomllib.TOMLDecodeError, SuiteError, RecursionError, ValueError):
        return False
    return bool(keys & {"pipelines", "factors"})


def load_answer_suite(
    name_or_path: str | os.PathLike[str], *, changes: Mapping[str, Any] | None = None
) -> AnswerSuite:
    """Return the suite of that name, or in that file."""
    text, place, base = found_suite(name_or_path)
    form = read_toml(text, SuiteForm, place, SuiteError)
    _check(form, place)
    specs = [*_pipelines(form, changes or {}, place, base)]
    check_labels((each.label for each in specs), place)
    found: dict[str, Any] = {"judges": names_of(form.judges)}
    for key in ("questions", "documents", "index"):
        if base and (name := getattr(form, key)):
            found[key] = beside(name, base)
    return AnswerSuite(Path(name_or_path).stem, form.model_copy(update=found), tuple(specs))


def others_runs(name: str) -> str:
    """The text of a shipped table of others' runs."""
    return (SUITES / "answers" / f"{name}.csv").read_text(encoding="utf-8")


def _check(form: SuiteForm, place: str) -> None:
    if not form.pipelines and not form.factors:
        raise SuiteError(f"{place}: there is no pipeline; add [[pipelines]] or [[factors]]")
    if form.documents and form.index:
        raise SuiteError(f"{place}: documents and index do not go together; leave one out")
    if form.anova.formula and not form.factors:
        raise SuiteError(f"{place}: anova needs a grid; add [[factors]]")
    if form.figure.quality and not {*form.figure.quality} <= {*form.judges}:
        raise SuiteError(f"{place}: figure: quality must name two of the judges")
    if (name := form.figure.runs) and not (SUITES / "answers" / f"{name}.csv").is_file():
        raise SuiteError(f"{place}: figure: there is no table of runs {name!r}")
    names = [each.name for each in form.factors]
    for name in names:
        if not _NAME.fullmatch(name):
            raise SuiteError(f"{place}: factors: {name!r}: write one word of letters and digits")
        if names.count(name) > 1:
            raise SuiteError(f"{place}: factors: {name!r} is there twice")
    count = math.prod(len(each.levels) for each in form.factors)
    if count > MOST_POINTS:
        raise SuiteError(f"{place}: the grid has {count:,} points; {MOST_POINTS:,} is the most")
    unknown: set[str] = set()
    try:
        judges = names_of(form.judges)
        names_of([*judges, *(name for each in form.pipelines for name in each.theirs)])
        if form.anova.formula:
            response, factors, _ = parsed(form.anova.formula)
            unknown = {response} - {*judges} | {*factors} - {*names}
    except SettingError as error:
        raise SuiteError(f"{place}: {error}") from error
    if unknown:
        raise SuiteError(f"{place}: anova: {min(unknown)!r} is no judge and no factor")


def _pipelines(
    form: SuiteForm, changes: Mapping[str, Any], place: str, base: Path | None
) -> Iterator[PipelineSpec]:
    shared = {**_flat(form.settings), **changes}
    for entry in form.pipelines:
        given = {**shared, **_flat(entry.model_extra or {})}
        config, own = _made(entry.preset, given, f"{place}: pipeline {entry.label!r}", base)
        yield PipelineSpec(entry.label, config, own, entry.theirs)
    if not form.factors:
        return
    rest = _flat(form.base)
    preset = str(rest.pop("preset", "team"))
    for levels in product(*(each.levels for each in form.factors)):
        point = {each.name: level for each, level in zip(form.factors, levels, strict=True)}
        label = " / ".join(map(str, levels))
        chosen = {each.option: level for each, level in zip(form.factors, levels, strict=True)}
        config, own = _made(preset, {**shared, **rest, **chosen}, f"{place}: {label}", base)
        yield PipelineSpec(label, config, own, point=point)


def _made(
    preset: str, given: Mapping[str, Any], where: str, base: Path | None
) -> tuple[PipelineConfig, dict[str, Any]]:
    """The stages, and the options of `RAGPipeline`."""
    if base is not None and (base / preset).is_file():
        preset = str(base / preset)
    try:
        if "ledger" in given:
            raise ConfigError("one ledger serves all runs; give it as --ledger")
        if "cache_variant" in given:
            raise ConfigError("cache_variant numbers the runs; set runs = N instead")
        own, changes = divided(given)
        keys = own_keys()
        check_names(own, keys, "a pipeline")
        for name, value in own.items():
            if isinstance(value, str):
                own[name] = keys[name].read(value)
        config = PipelineConfig.load(preset, **changes)
        if config.rerank.options:
            ranker = config.rerank.ranker
            known = keys_of(ranker) if ranker else {}
            what = f"the ranker {ranker!r}" if ranker else "a pipeline without a ranker"
            check_names(config.rerank.options, known, what)
    except ConfigError as error:
        raise SuiteError(f"{where}: {error}") from error
    return config, own


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Tables in tables as names with dots."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found
