"""Suites: which rankers are run over which data sets, as a TOML file.

```toml
title = "Team compositions and DIRECT"
datasets = ["scifact", "nfcorpus"]      # names, ir_datasets ids, folders, or tables
baseline = "DIRECT(0,10)"               # a label below; without, the first stage
paper_table = "table_5_and_1"           # the paper's numbers that appear beside
paper_rows = ["RankT5 (fine-tuned T5 XL)"]  # rows of that table that are shown and not run
depth = 100                             # passages a query; 100 without

[settings]                              # options that all rankers take
preset = "paper"

[models]                                # names for models, to be used below
strong = "openai:gpt-5"

[[rankers]]
label = "DIRECT(0,10)"
ranker = "direct"                       # without: mcranker
paper_row = "DIRECT(0,10)"              # its row in that table

[[rankers]]
label = "MC: 2 recruits"
team_size = 2                           # any option of the ranker appears beside its label
nlp_scientist = false
criteria_model = "strong"
temperature = "none"                    # as on the command line, where none is a value

[[rankers]]
label = "our dense retriever"
run = "runs/dense-{dataset}.trec"       # a foreign run: measured, and nothing is ranked

[figure]                                # a line over a number, or bars: each ranker's `x`
kind = "line"
title = "Number of recruits"
```

Data sets as tables have ``name``, ``split``, ``about`` (the words that ``criteria="dataset"``
shows the model) and ``topic_field`` (of TREC topics). Folders of data sets and prompts, and files
of teams, models and foreign runs, are looked for beside the suite's file. ``{dataset}`` in the path
of a foreign run is the data set's name; the file may be packed (``.gz``).
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from beir_eval.errors import SettingError, SuiteError
from beir_eval.experiment.run_folder import FOREIGN, SuiteNote
from beir_eval.experiment.suite_form import SuiteForm, hint, read_form
from beir_eval.files import beside
from mcranker.paths import is_file, is_folder
from personas.io.lines import read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from importlib.resources.abc import Traversable

    from beir_eval.experiment.run_folder import FigureNote
    from mcranker.inputs.topics import TopicField

SUITES = resources.files("beir_eval") / "suites"
_SUFFIX = ".toml"
LONGEST = 4_000_000
"""Bytes of a suite's file."""


class _Labelled(Protocol):
    @property
    def label(self) -> str: ...


Spec = TypeVar("Spec", bound=_Labelled)


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A data set of a suite.

    Attributes:
        name: as `beir_eval.load` takes it; a folder beside the suite's file as a whole path.
        split: which judgements.
        about: what the collection is, in words for ``criteria="dataset"``; empty for the
            catalogue's words.
        topic_field: of a folder with TREC topics, the field that is the query.
    """

    name: str
    split: str = "test"
    about: str = ""
    topic_field: TopicField = "title"


@dataclass(frozen=True, slots=True)
class RankerSpec:
    """A ranker of a suite.

    Attributes:
        label: names its row; unique in the suite, as is its `folder_name`.
        ranker: name in `mcranker.rankers.RANKERS`, or `FOREIGN` for a foreign run.
        options: what its class takes, models included: those of the suite's settings, and over
            them its own.
        note: its place in the suite, for reports; None outside of suites.
        own: names of the options that appear beside its label. They make it what it is, so that
            nothing may go before them; the others are settings.
        run: path of a foreign run, perhaps with ``{dataset}`` in it; empty for a ranker.
    """

    label: str
    ranker: str
    options: Mapping[str, Any]
    note: SuiteNote | None
    own: frozenset[str] = frozenset()
    run: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Rankers over data sets.

    Attributes:
        name: of the file, without ``.toml``.
        title: heading of its section in reports.
        description: what it shows, in a few lines; may be empty.
        datasets: in the order of the columns.
        rankers: in the order of the rows.
        depth: passages a query that the first stage hands over.
        models: names -> models that options may name.
        figure: the figure that its runs make, or None.
    """

    name: str
    title: str
    description: str
    datasets: tuple[DatasetSpec, ...]
    rankers: tuple[RankerSpec, ...]
    depth: int = 100
    models: Mapping[str, str] = field(default_factory=dict)
    figure: FigureNote | None = None


def shipped_suites(folder: Literal["", "answers"] = "") -> dict[str, str]:
    """Name -> title of every suite that comes with the package, in alphabetical order.

    Those of pipelines are in the folder ``"answers"``.
    """
    return {name: tomllib.loads(_text(file))["title"] for name, file in _shipped(folder).items()}


def suite_text(name_or_path: str | os.PathLike[str]) -> str:
    """The TOML text of a suite, as `load_suite` finds it."""
    return found_suite(name_or_path)[0]


def load_suite(
    name_or_path: str | os.PathLike[str], *, models: Mapping[str, str] | None = None
) -> Suite:
    """The suite of that name, or in that file.

    Args:
        name_or_path: one of `shipped_suites`, or the path of a TOML file. A name goes before a
            file of the same name: write ``"./table1"`` or a `Path` for the file.
        models: name -> model, in place of the file's ``[models]``.

    Raises:
        SuiteError: there is no such suite or file; the file is not TOML or not UTF-8; a key is
            unknown, misses or has a wrong value; a label appears twice; a ranker or an option is
            unknown; the ranker refuses its options; a name of `models` is none of the file's.
    """
    from beir_eval.experiment.suite_options import Options

    text, place, base = found_suite(name_or_path)
    form = read_form(text, place)
    options = Options(base, form.settings, _models(form, place, base, models or {}))
    name = Path(name_or_path).name.removesuffix(_SUFFIX)
    rankers = []
    for number, entry in enumerate(form.rankers):
        where = f"{place}: ranker {entry.label!r}"
        note = SuiteNote(
            name=name,
            title=form.title,
            paper_table=form.paper_table,
            baseline=form.baseline,
            figure=form.figure,
            place=number,
            paper_row=entry.paper_row,
            x=entry.x,
            series=entry.series,
            rankers=tuple(each.label for each in form.rankers),
            paper_rows={each.label: each.paper_row for each in form.rankers if each.paper_row},
            not_run=tuple(form.paper_rows),
        )
        if entry.run is not None:
            file = entry.run if base is None else beside(entry.run, base)
            rankers.append(RankerSpec(entry.label, FOREIGN, {}, note, run=file))
            continue
        own = entry.model_extra or {}
        chosen = options.of(entry.ranker, own, where)
        rankers.append(RankerSpec(entry.label, entry.ranker, chosen, note, frozenset(own)))
    return Suite(
        name=name,
        title=form.title,
        description=form.description,
        datasets=_datasets(form, place, base),
        rankers=tuple(rankers),
        depth=form.depth,
        models=options.models,
        figure=form.figure,
    )


def _shipped(folder: str) -> dict[str, Traversable]:
    files = {each.name: each for each in (SUITES / folder).iterdir()}
    names = sorted(name for name in files if name.endswith(_SUFFIX))
    return {name.removesuffix(_SUFFIX): files[name] for name in names}


def found_suite(name_or_path: str | os.PathLike[str]) -> tuple[str, str, Path | None]:
    """Find a suite of rankers or of pipelines."""
    given = os.fspath(name_or_path)
    shipped = {**_shipped(""), **_shipped("answers")}
    if isinstance(name_or_path, str) and given in shipped:
        return _text(shipped[given]), given + _SUFFIX, None
    path = Path(given).expanduser()
    if not is_file(path):
        raise SuiteError(
            f"no suite {given!r}: neither a file nor one that comes with the package; "
            f"{hint(given, shipped)}"
        )
    return _text(path), given, path.absolute().parent


def chosen(specs: Sequence[Spec], labels: Collection[str], suite: str) -> tuple[Spec, ...]:
    """Return the rankers or pipelines with these labels, or all if none is given."""
    known = [each.label for each in specs]
    for label in labels:
        if label not in known:
            raise SettingError(f"suite {suite!r} has no {label!r}; {hint(label, known)}")
    return tuple(each for each in specs if not labels or each.label in labels)


def _text(file: Traversable) -> str:
    return read_text(file, SuiteError, LONGEST, "name the TOML file of a suite")


def _models(
    form: SuiteForm, place: str, base: Path | None, given: Mapping[str, str]
) -> dict[str, str]:
    from beir_eval.experiment.suite_options import checked_model
    from mcranker.rankers.keys import located

    for name in given:
        if name not in form.models:
            raise SuiteError(f"{place}: no model {name!r} in [models]; {hint(name, form.models)}")
    merged = {
        name: model if base is None else located("model", model, base)
        for name, model in form.models.items()
    }
    merged |= given
    for name, model in merged.items():
        checked_model(model, f"{place}: models: {name}")
    return merged


def _datasets(form: SuiteForm, place: str, base: Path | None) -> tuple[DatasetSpec, ...]:
    from beir_eval.data.catalogue import known
    from beir_eval.data.datasets import COLLECTIONS

    found: dict[str, DatasetSpec] = {}
    for entry in form.datasets:
        name, of_paper = entry.name, known(entry.name)
        # Names go before folders, as in `beir_eval.load`.
        if base is not None and of_paper is None and name not in COLLECTIONS:
            path = beside(name, base)
            explicit = name.startswith((".", "~")) or Path(name).is_absolute()
            name = path if explicit or is_folder(path) else name
        key = of_paper.name if of_paper else name
        if key in found:
            raise SuiteError(
                f"{place}: datasets: {entry.name!r} appears twice; for another split write a "
                "suite of its own"
            )
        found[key] = DatasetSpec(name, entry.split, entry.about, entry.topic_field)
    return tuple(found.values())
