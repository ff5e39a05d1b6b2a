"""The form of a suite's file: its keys, and what must hold between them."""

from __future__ import annotations

import difflib
import hashlib
import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from beir_eval.errors import SuiteError
from beir_eval.experiment.run_folder import DATA_FOLDER, FIRST_STAGE, FigureNote
from beir_eval.experiment.trec_rows import check_template
from mcranker.inputs.topics import TopicField
from mcranker.rankers.keys import shared_keys
from personas.errors import shown

LONGEST_FOLDER_NAME = 80
_LONGEST_MESSAGE = 400
_MOST_DOTS = 1_000
_IN_WORDS = {"datasets": "data set", "rankers": "ranker"}
_LINE_OF_TOML = re.compile(r" \(at line (\d{1,9}), column (\d{1,9})\)\Z")


_Words = Annotated[str, Field(max_length=200)]
"""A text that messages name."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, str_strip_whitespace=True)


def _as_table(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


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
    topic_field: TopicField = "title"


class _RankerForm(_Form):
    model_config = ConfigDict(extra="allow")

    label: _Words = Field(min_length=1)
    ranker: _Words = "mcranker"
    run: str | None = Field(None, max_length=4096)
    paper_row: _Words | None = None
    x: Annotated[float | str | None, PlainValidator(_as_place)] = None
    series: _Words = ""


class SuiteForm(_Form):
    """The content of the file; the keys are explained in `beir_eval.experiment.suite`."""

    title: str = Field(min_length=1)
    description: str = ""
    datasets: list[Annotated[_DatasetForm, BeforeValidator(_as_table)]] = Field(min_length=1)
    rankers: list[_RankerForm] = Field(min_length=1)
    baseline: _Words | None = None
    paper_table: _Words | None = None
    paper_rows: list[_Words] = Field(default_factory=list)
    depth: int = Field(100, ge=1)
    settings: dict[str, Any] = Field(default_factory=dict)
    models: dict[str, str] = Field(default_factory=dict)
    figure: FigureNote | None = None


_FORMS: Mapping[str, type[BaseModel]] = {"datasets": _DatasetForm, "figure": FigureNote}


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


def read_form(text: str, place: str) -> SuiteForm:
    """The suite that a TOML text holds, its options unchecked."""
    for number, line in enumerate(text.splitlines(), start=1):
        # A key of n parts takes tomllib n^2 steps.
        if line.count(".") > _MOST_DOTS:
            raise SuiteError(
                f"{place}:{number}: has more than {_MOST_DOTS:,} dots; divide the line"
            )
    try:
        form = SuiteForm.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as failure:
        if found := _LINE_OF_TOML.search(str(failure)):
            what, (line, column) = str(failure)[: found.start()][:_LONGEST_MESSAGE], found.groups()
            raise SuiteError(f"{place}:{line}: not TOML: {what} (column {column})") from failure
        raise SuiteError(f"{place}: not TOML: {str(failure)[:_LONGEST_MESSAGE]}") from failure
    except ValidationError as failure:
        raise SuiteError(f"{place}: {_explain(failure)}") from failure
    except RecursionError as failure:
        raise SuiteError(f"{place}: its lists or tables nest too deep") from failure
    except ValueError as failure:  # a number of thousands of digits
        raise SuiteError(f"{place}: TOML that cannot be used: {failure}") from failure
    labels = check_labels((each.label for each in form.rankers), place)
    if form.baseline is not None and form.baseline not in labels:
        raise SuiteError(
            f"{place}: baseline={form.baseline!r} is no label; {hint(form.baseline, labels)}"
        )
    _check_foreign(form, place)
    _check_paper(form, place)
    _check_figure(form, place)
    return form


def hint(given: str, known: Iterable[str]) -> str:
    """Return the closest known names, or all of them."""
    known = list(known)
    close = difflib.get_close_matches(given[:200], known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"


def _explain(failure: ValidationError) -> str:
    first = failure.errors(include_url=False)[0]
    names: list[str] = []
    for part in first["loc"]:
        if isinstance(part, int):
            names[-1] = f"{_IN_WORDS.get(names[-1], names[-1])} {part + 1}"
        else:
            names.append(part[:100])
    *tables, key = names
    place = "".join(f"{name}: " for name in tables)
    if first["type"] == "missing":
        return f"{place}the key {key!r} is missing; add it"
    if first["type"] == "extra_forbidden":
        form = _FORMS[str(first["loc"][0])] if tables else SuiteForm
        if not tables and key in shared_keys():
            return f"{key!r} is an option of rankers; write it under [settings] or beside a label"
        return f"{place}there is no key {key!r}; {hint(key, form.model_fields)}"
    why = first["ctx"]["error"] if first["type"] == "value_error" else first["msg"]
    return f"{place}{key}={shown(first['input'])}: {why}"


def check_labels(labels: Iterable[str], place: str) -> list[str]:
    """Return the labels of a suite, each of which has a folder of its own."""
    folders: dict[str, str] = {}
    for label in labels:
        try:
            folder = folder_name(label)
        except SuiteError as failure:
            raise SuiteError(f"{place}: {failure}") from failure
        if label == folders.get(folder):
            raise SuiteError(f"{place}: label {label!r} appears twice; change one of them")
        if folder in folders:
            raise SuiteError(
                f"{place}: labels {folders[folder]!r} and {label!r} give the same folder "
                f"{folder!r}; change one of them"
            )
        folders[folder] = label
    return list(folders.values())


def _check_foreign(form: SuiteForm, place: str) -> None:
    for entry in form.rankers:
        if entry.run is None:
            continue
        where = f"{place}: ranker {entry.label!r}"
        check_template(entry.run, f"{where}: run")
        options = [*(entry.model_extra or {}), *({"ranker"} & entry.model_fields_set)]
        if options:
            raise SuiteError(
                f"{where}: run={entry.run!r} is what another program ranked, so {options[0]!r} "
                "has no meaning beside it; leave one of them out"
            )


def _check_paper(form: SuiteForm, place: str) -> None:
    from beir_eval.measures.paper import paper_figures, paper_tables

    def check(where: str, given: str, known: Iterable[str]) -> None:
        if given not in known:
            raise SuiteError(f"{where}={given!r} is none of the paper's; {hint(given, known)}")

    tables, table = paper_tables(), form.paper_table
    if table is not None:
        check(f"{place}: paper_table", table, tables)
    rows = [
        (f"{place}: ranker {entry.label!r}: paper_row", entry.paper_row)
        for entry in form.rankers
        if entry.paper_row is not None
    ]
    rows += [(f"{place}: paper_rows", row) for row in form.paper_rows]
    for where, row in rows:
        if table is None:
            raise SuiteError(
                f"{where}={row!r} needs the table that it is in; add paper_table at the top"
            )
        check(where, row, tables[table])
    for row in form.paper_rows:
        if sum(other == row for _, other in rows) > 1:
            raise SuiteError(f"{place}: paper_rows={row!r} is here twice; leave one of them out")
    if form.figure is not None and form.figure.paper is not None:
        check(f"{place}: figure: paper", form.figure.paper, paper_figures())


def _check_figure(form: SuiteForm, place: str) -> None:
    places: dict[tuple[str, object], str] = {}
    for entry in form.rankers:
        where = f"{place}: ranker {entry.label!r}"
        if form.figure is None and (entry.x is not None or entry.series):
            raise SuiteError(f"{where}: x and series are places in a figure; add [figure]")
        if form.figure is None or entry.x is None:
            continue
        if isinstance(entry.x, str) != (form.figure.kind == "bars"):
            kind = "a text, the bar's name" if form.figure.kind == "bars" else "a number"
            raise SuiteError(
                f"{where}: x={entry.x!r} should be {kind}, in a figure of kind {form.figure.kind!r}"
            )
        if (entry.series, entry.x) in places:
            raise SuiteError(
                f"{where}: x={entry.x!r} is the place of {places[entry.series, entry.x]!r} "
                "already; give them different x or series"
            )
        places[entry.series, entry.x] = entry.label
    if form.figure is not None and not places:
        raise SuiteError(f"{place}: figure: no ranker has a place in it; give them x")
