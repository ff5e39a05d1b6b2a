"""The form of a suite's file: its keys, and what must hold between them."""

from __future__ import annotations

import difflib
import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable
from importlib import resources
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from beir_eval.answers.judges import names_of
from beir_eval.errors import SuiteError
from beir_eval.experiment.run_folder import DATA_FOLDER, FIRST_STAGE, FigureNote
from beir_eval.files import read_toml
from beir_eval.measures.anova import parsed
from beir_eval.measures.paper import paper_figures, paper_tables
from mcranker.rankers.keys import shared_keys

SUITES = resources.files("beir_eval") / "suites"
DATASET = "{dataset}"
"""Placeholder in the path of a foreign run for the name of each data set."""
MOST_POINTS = 10_000
"""Pipelines of a grid."""
LONGEST_FOLDER_NAME = 80
_MOST_DOTS = 1_000
_NAME = re.compile(r"[A-Za-z_]\w*")
_Words = Annotated[str, Field(max_length=200)]
"""A text that messages name."""
_Level = str | int | float | bool


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_strip_whitespace=True)


def _as_place(value: object) -> float | str:
    if isinstance(value, str) and len(value) <= 200:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("write a number, or a bar's name as a text of at most 200 characters")
    return float(value)


class _DatasetForm(_Form):
    name: str = Field(min_length=1, max_length=4096)
    split: _Words = Field("test", min_length=1)
    about: str = ""

    @model_validator(mode="before")
    @classmethod
    def _as_table(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class _SystemForm(_Form):
    model_config = ConfigDict(extra="allow")

    label: _Words = Field(min_length=1)

    @property
    def own(self) -> dict[str, Any]:
        """Options beside the label."""
        return self.model_extra or {}


class _RankerForm(_SystemForm):
    ranker: _Words = "mcranker"
    run: str | None = Field(None, max_length=4096)
    paper_row: _Words | None = None
    x: Annotated[float | str | None, PlainValidator(_as_place)] = None
    series: _Words = ""


class _PipelineForm(_SystemForm):
    preset: str = "team"
    theirs: dict[str, float] = {}


class Factor(_Form):
    """A factor of a grid of pipelines."""

    name: _Words = Field(min_length=1)
    option: _Words = Field(min_length=1)
    levels: list[_Level] = Field(min_length=2)
    ours: bool = False


class SuiteForm(_Form):
    """The content of the file; the keys are explained in `beir_eval.experiment.suite`."""

    title: str = Field(min_length=1)
    description: str = ""
    settings: dict[str, Any] = {}
    models: dict[str, str] = {}
    figure: FigureNote | None = None
    datasets: list[_DatasetForm] = []  # of rankers:
    rankers: list[_RankerForm] = []
    baseline: _Words | None = None
    paper_table: _Words | None = None
    paper_rows: list[_Words] = []
    depth: int = Field(100, ge=1)
    # Of pipelines:
    pipelines: list[_PipelineForm] = []
    base: dict[str, Any] = {}
    factors: list[Factor] = []
    anova: dict[str, _Words] = {}
    questions: str = ""
    documents: str = ""
    index: str = ""
    embedder: str = ""
    runs: int = Field(1, ge=1, le=1_000)
    limit: int | None = Field(None, ge=1)
    judges: list[_Words] = []
    judge_model: str = ""
    judge_base_url: str = ""

    @model_validator(mode="before")
    @classmethod
    def _options_apart(cls, values: dict[str, Any]) -> dict[str, Any]:
        for name in values:
            if name in shared_keys() and name not in cls.model_fields:
                raise ValueError(
                    f"{name!r} is an option of rankers; write it under [settings] or beside a label"
                )
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> SuiteForm:
        given, pipelines = self.model_fields_set, bool(self.pipelines or self.factors)
        fields = [*SuiteForm.model_fields]
        first, second = fields.index("datasets"), fields.index("pipelines")
        others = fields[first:second] if pipelines else fields[second:]
        if unfit := [name for name in others if name in given]:
            kind = "rankers" if pipelines else "pipelines"
            hint = "" if pipelines else ", and this one has no [[pipelines]] or [[factors]]"
            raise ValueError(f"{unfit[0]!r} goes with suites of {kind}{hint}; leave it out")
        for name in ("judges",) if pipelines else ("datasets", "rankers"):
            if not getattr(self, name):
                raise ValueError(f"the key {name!r} is missing; add it")
        if pipelines:
            _check_pipelines(self)
        else:
            _check_rankers(self)
        return self


def read_form(text: str, place: str) -> SuiteForm:
    """The suite that a TOML text holds, its options unchecked."""
    for number, line in enumerate(text.splitlines(), start=1):
        # A key of n parts takes tomllib n^2 steps.
        if line.count(".") > _MOST_DOTS:
            raise SuiteError(
                f"{place}:{number}: has more than {_MOST_DOTS:,} dots; divide the line"
            )
    return read_toml(text, SuiteForm, place, SuiteError)


def hint(given: str, known: Iterable[str]) -> str:
    """Return the closest known names, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(given[:200], known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"


def folder_name(label: str) -> str:
    """A folder's name for a label: ASCII letters and digits in lower case, joined by hyphens."""
    if label == FIRST_STAGE:
        raise SuiteError(
            f"label {label!r} is that of the first stage's own row; take another label"
        )
    if not label.isprintable():
        raise SuiteError(f"label {label!r} is not one line; write it as one")
    name = _slug(label)
    if not name:
        raise SuiteError(f"label {label!r} gives no folder name; use letters a to z or digits")
    if name == DATA_FOLDER:
        raise SuiteError(
            f"label {label!r} gives the folder {name!r}, which holds what is ranked; "
            "take another label"
        )
    return name


def dataset_folder_name(name: str) -> str:
    """Return a folder's name for a data set: as `folder_name`, or a hash if nothing is left."""
    return _slug(name) or f"dataset-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _slug(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters).strip("-")[:LONGEST_FOLDER_NAME].rstrip("-")


def check_labels(labels: Iterable[str]) -> list[str]:
    """The labels of a suite, each of which has a folder of its own."""
    folders: dict[str, str] = {}
    for label in labels:
        folder = folder_name(label)
        if label == folders.get(folder):
            raise SuiteError(f"label {label!r} appears twice; change one of them")
        if folder in folders:
            raise SuiteError(
                f"labels {folders[folder]!r} and {label!r} give the same folder {folder!r}; "
                "change one of them"
            )
        folders[folder] = label
    return list(folders.values())


def _check_rankers(form: SuiteForm) -> None:
    labels = check_labels(each.label for each in form.rankers)
    if form.baseline is not None:
        _known(f"baseline={form.baseline!r} is no label", form.baseline, labels)
    for entry in form.rankers:
        where = f"ranker {entry.label!r}: run={entry.run!r}"
        if entry.run is None:
            continue
        if not entry.run.strip() or set(entry.run.replace(DATASET, "")) & set("{}"):
            raise ValueError(f"{where}: name a TREC run; the only placeholder is {DATASET}")
        if options := [*entry.own, *({"ranker"} & entry.model_fields_set)]:
            raise ValueError(
                f"{where} is what another program ranked, so {options[0]!r} has no meaning beside "
                "it; leave one of them out"
            )
    _check_paper(form)
    _check_figure(form)


def _known(said: str, given: str, known: Iterable[str]) -> None:
    known = list(known)
    if given not in known:
        raise ValueError(f"{said}; {hint(given, known)}")


def _check_paper(form: SuiteForm) -> None:
    tables, table, foreign = paper_tables(), form.paper_table, "is none of the paper's"
    if table is not None:
        _known(f"paper_table={table!r} {foreign}", table, tables)
    rows = [
        (f"ranker {each.label!r}: paper_row", each.paper_row)
        for each in form.rankers
        if each.paper_row is not None
    ]
    rows += [("paper_rows", row) for row in form.paper_rows]
    for where, row in rows:
        if table is None:
            raise ValueError(
                f"{where}={row!r} needs the table that it is in; add paper_table at the top"
            )
        _known(f"{where}={row!r} {foreign}", row, tables[table])
        if where == "paper_rows" and sum(other == row for _, other in rows) > 1:
            raise ValueError(f"paper_rows={row!r} is here twice; leave one of them out")
    if form.figure is not None and (paper := form.figure.paper) is not None:
        _known(f"figure: paper={paper!r} {foreign}", paper, paper_figures())


def _check_figure(form: SuiteForm) -> None:
    figure, places = form.figure, dict[tuple[str, object], str]()
    for name in ("kind", "title") if figure is not None else ():
        if not getattr(figure, name):
            raise ValueError(f"figure: the key {name!r} is missing; add it")
    for entry in form.rankers:
        where = f"ranker {entry.label!r}"
        if figure is None and (entry.x is not None or entry.series):
            raise ValueError(f"{where}: x and series are places in a figure; add [figure]")
        if figure is None or entry.x is None:
            continue
        if isinstance(entry.x, str) != (figure.kind == "bars"):
            kind = "a text, the bar's name" if figure.kind == "bars" else "a number"
            raise ValueError(
                f"{where}: x={entry.x!r} should be {kind}, in a figure of kind {figure.kind!r}"
            )
        if other := places.get((entry.series, entry.x)):
            raise ValueError(
                f"{where}: x={entry.x!r} is the place of {other!r} already; give them different x "
                "or series"
            )
        places[entry.series, entry.x] = entry.label
    if figure is not None and not places:
        raise ValueError("figure: no ranker has a place in it; give them x")


def _check_pipelines(form: SuiteForm) -> None:
    figure, formula = form.figure or FigureNote(), form.anova.get("formula", "")
    if form.documents and form.index:
        raise ValueError("documents and index do not go together; leave one out")
    if other := [*form.anova.keys() - {"formula"}]:
        raise ValueError(f"anova: there is no key {other[0]!r}; write formula")
    if formula and not form.factors:
        raise ValueError("anova needs a grid; add [[factors]]")
    if not {*figure.quality} <= {*form.judges}:
        raise ValueError("figure: quality must name two of the judges")
    names = [each.name for each in form.factors]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"factors: {name!r}: write one word of letters and digits")
        if names.count(name) > 1:
            raise ValueError(f"factors: {name!r} is there twice")
    count = math.prod(len(each.levels) for each in form.factors)
    if count > MOST_POINTS:
        raise ValueError(f"the grid has {count:,} points; {MOST_POINTS:,} is the most")
    judges = names_of(form.judges)
    names_of([*judges, *(name for each in form.pipelines for name in each.theirs)])
    if formula:
        response, factors, _ = parsed(formula)
        if unknown := {response} - {*judges} | {*factors} - {*names}:
            raise ValueError(f"anova: {min(unknown)!r} is no judge and no factor")
