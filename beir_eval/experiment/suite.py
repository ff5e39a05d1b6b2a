"""Suites: which rankers are run over which data sets, or which pipelines answer, as a TOML file.

```toml
title = "Team compositions and DIRECT"
datasets = ["scifact", "nfcorpus"]      # names, ir_datasets ids, folders, or tables
baseline = "DIRECT(0,10)"               # a label below; without, the first stage
paper_table = "table_5_and_1"           # the paper's numbers that appear beside
paper_rows = ["RankT5 (fine-tuned T5 XL)"]  # rows of that table that are shown and not run
depth = 100                             # passages a query; 100 without

[settings]                              # options that all rankers or pipelines take
preset = "paper"

[models]                                # names for models, to be used below
strong = "openai:gpt-5"

[[rankers]]
label = "MC: 2 recruits"
ranker = "mcranker"                     # the default
team_size = 2                           # any option of the ranker appears beside its label
criteria_model = "strong"
temperature = "none"                    # as on the command line, where none is a value
paper_row = "MCRanker"                  # its row in that table; `run` names a foreign run

[figure]                                # a line over a number, or bars: each ranker's `x`
kind = "line"
title = "Number of recruits"
```

A suite of pipelines has ``questions``, ``documents`` or ``index``, ``judges`` with ``judge_model``,
``runs`` and ``limit``; tables ``[[pipelines]]`` (``label``, ``preset``, ``theirs``: a paper's
values, and values of stages such as ``"answer.style"``); or a grid: ``[base]``, ``[[factors]]``
(``name``, ``option``, ``levels``, ``ours``) and ``[anova]`` with a ``formula``.

Data sets as tables have ``name``, ``split`` and ``about`` (the words that ``criteria="dataset"``
shows the model). Folders of data sets and prompts, and files
of teams, models, questions, documents and foreign runs, are looked for beside the suite's file.
``{dataset}`` in the path of a foreign run is the data set's name; the file may be packed (``.gz``).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from beir_eval.answers.judges import names_of
from beir_eval.errors import BeirEvalError, SettingError, SuiteError
from beir_eval.experiment.run_folder import FOREIGN, PIPELINE, SuiteNote
from beir_eval.experiment.suite_form import SUITES, SuiteForm, check_labels, hint, read_form
from beir_eval.files import beside
from mcranker.config import MOST_IN_A_CALL, RankerConfig
from mcranker.errors import ConfigError, MCRankerError, UnsupportedCapability
from mcranker.llm.chat import Capabilities
from mcranker.paths import is_file, is_folder
from mcranker.rag.config import PipelineConfig, divided, own_keys
from mcranker.rankers import RANKERS
from mcranker.rankers.keys import Key, check_names, keys_of, located
from personas import PersonasError
from personas.io.lines import read_text

if TYPE_CHECKING:
    from beir_eval.experiment.run_folder import FigureNote
    from mcranker.rankers import Ranker

_SUFFIX = ".toml"
LONGEST = 4_000_000
"""Bytes of a suite's file."""
_STAND_IN = "a collection of documents"


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A data set of a suite.

    Attributes:
        name: as `beir_eval.load` takes it; a folder beside the suite's file as a whole path.
        split: which judgements.
        about: what the collection is, in words for ``criteria="dataset"``; empty for the
            catalogue's words.
    """

    name: str
    split: str = "test"
    about: str = ""


@dataclass(frozen=True, slots=True)
class RankerSpec:
    """A ranker or a pipeline of a suite.

    Attributes:
        label: names its row; unique in the suite, as is its `folder_name`.
        ranker: name in `mcranker.rankers.RANKERS`, `FOREIGN` for a foreign run, `PIPELINE` for a
            pipeline.
        options: what its class takes, models included: those of the suite's settings, and over
            them its own. Of a pipeline values of stages besides, such as ``answer.style``.
        note: its place in the suite, for reports; None outside of suites.
        own: names of the options that appear beside its label. They make it what it is, so that
            nothing may go before them; the others are settings.
        run: path of a foreign run, perhaps with ``{dataset}`` in it; empty for a ranker.
        preset: of a pipeline, what its stages begin with; else empty.
    """

    label: str
    ranker: str
    options: Mapping[str, Any]
    note: SuiteNote | None
    own: frozenset[str] = frozenset()
    run: str = ""
    preset: str = ""

    def stages(self) -> tuple[PipelineConfig, dict[str, Any]]:
        """The stages of a pipeline, and the options of `RAGPipeline`.

        Raises:
            ConfigError: an option is unknown, or has a value that it cannot have.
        """
        own, changes = divided(self.options)
        config = PipelineConfig.load(self.preset, **changes)
        if config.rerank.options:
            ranker = config.rerank.ranker
            known = keys_of(ranker) if ranker else {}
            what = f"the ranker {ranker!r}" if ranker else "a pipeline without a ranker"
            check_names(config.rerank.options, known, what)
        return config, own


@dataclass(frozen=True, slots=True)
class Suite:
    """Rankers over data sets, or pipelines that answer questions.

    Attributes:
        name: of the file, without ``.toml``.
        title: heading of its section in reports.
        description: what it shows, in a few lines; may be empty.
        datasets: in the order of the columns.
        rankers: in the order of the rows.
        depth: passages a query that the first stage hands over.
        models: names -> models that options may name.
        figure: the figure that its runs make, or None.
        pipelines: in the order of the rows; a suite has either these or rankers.
        form: the file, its paths made whole; None for a suite without one.
    """

    name: str
    title: str
    description: str
    datasets: tuple[DatasetSpec, ...]
    rankers: tuple[RankerSpec, ...]
    depth: int = 100
    models: Mapping[str, str] = field(default_factory=dict)
    figure: FigureNote | None = None
    pipelines: tuple[RankerSpec, ...] = ()
    form: SuiteForm | None = None

    def chosen(self, labels: Collection[str] = ()) -> tuple[RankerSpec, ...]:
        """The rankers or pipelines with these labels, or all if none is given."""
        systems = self.rankers or self.pipelines
        known = [each.label for each in systems]
        for label in labels:
            if label not in known:
                raise SettingError(f"suite {self.name!r} has no {label!r}; {hint(label, known)}")
        return tuple(each for each in systems if not labels or each.label in labels)


def shipped_suites(folder: Literal["", "answers"] = "") -> dict[str, str]:
    """Name -> title of every suite that comes with the package, in alphabetical order.

    Those of pipelines are in the folder ``"answers"``.
    """
    return {name: tomllib.loads(_text(file))["title"] for name, file in _shipped(folder).items()}


def suite_text(name_or_path: str | os.PathLike[str]) -> str:
    """The TOML text of a suite, as `load_suite` finds it."""
    return _found(name_or_path)[0]


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
    text, place, base = _found(name_or_path)
    form = read_form(text, place)
    name = Path(name_or_path).name.removesuffix(_SUFFIX)
    note = SuiteNote(
        name=name,
        title=form.title,
        figure=form.figure,
        paper_table=form.paper_table,
        baseline=form.baseline,
        rankers=tuple(each.label for each in form.rankers),
        paper_rows={each.label: each.paper_row for each in form.rankers if each.paper_row},
        not_run=tuple(form.paper_rows),
        ours=tuple(each.name for each in form.factors if each.ours),
        formula=form.anova.get("formula", ""),
    )
    with _named(place):
        reader = _Reader(base, _models(form, base, models or {}))
        rankers, pipelines = [*reader.rankers(form, note)], [*reader.pipelines(form, note)]
        datasets = _datasets(form, base)
    changes: dict[str, Any] = {
        key: beside(name, base)
        for key in ("questions", "documents", "index")
        if base and (name := getattr(form, key))
    }
    changes["judges"] = names_of(form.judges) if form.judges else []
    changes["judge_model"] = reader.models.get(form.judge_model, form.judge_model)
    return Suite(
        note.name,
        form.title,
        form.description,
        datasets,
        tuple(rankers),
        depth=form.depth,
        models=reader.models,
        figure=form.figure,
        pipelines=tuple(pipelines),
        form=form.model_copy(update=changes),
    )


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Errors of the block name the place."""
    try:
        yield
    except (MCRankerError, PersonasError, BeirEvalError) as failure:
        raise SuiteError(f"{where}: {failure}") from failure


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes the systems of a suite, their options checked as on the command line."""

    base: Path | None  # folder that files are looked for in; None for suites that name no files
    models: Mapping[str, str]  # names -> models that options may name

    def rankers(self, form: SuiteForm, note: SuiteNote) -> Iterator[RankerSpec]:
        for number, entry in enumerate(form.rankers):
            own = {name: getattr(entry, name) for name in ("paper_row", "x", "series")}
            of_entry = note.model_copy(update={"place": number, **own})
            if entry.run is not None:
                file = entry.run if self.base is None else beside(entry.run, self.base)
                yield RankerSpec(entry.label, FOREIGN, {}, of_entry, run=file)
                continue
            with _named(f"ranker {entry.label!r}"):
                given, what = {**form.settings, **entry.own}, f"the ranker {entry.ranker!r}"
                options = self._options(given, keys_of(entry.ranker), what)
                _try_out(RANKERS.get(entry.ranker), options)
            yield RankerSpec(entry.label, entry.ranker, options, of_entry, frozenset(entry.own))

    def pipelines(self, form: SuiteForm, note: SuiteNote) -> Iterator[RankerSpec]:
        keys, settings, entries = own_keys(), _flat(form.settings), [*_entries(form)]
        check_labels(label for label, *_ in entries)
        for number, (label, preset, own, of_entry) in enumerate(entries):
            given = {**settings, **_flat(own)}
            with _named(f"pipeline {label!r}"):
                if "cache_variant" in given:
                    raise SuiteError("cache_variant numbers the runs; set runs = N instead")
                own_options = self._options(divided(given)[0], keys, "a pipeline")
                if self.base is not None and is_file(self.base / preset):
                    preset = str(self.base / preset)
                of_entry |= {"place": number, "description": form.description}
                made = note.model_copy(update=of_entry)
                options, named = {**given, **own_options}, frozenset(_flat(own))
                spec = RankerSpec(label, PIPELINE, options, made, named, preset=preset)
                spec.stages()
            yield spec

    def _options(
        self, given: Mapping[str, Any], known: Mapping[str, Key], what: str
    ) -> dict[str, Any]:
        """The options of a class, ready for it."""
        if "ledger" in given:
            raise ConfigError("one ledger serves all runs; give it as --ledger")
        check_names(given, known, what)
        return {name: self._value(known[name], given[name]) for name in given}

    def _value(self, key: Key, value: Any) -> Any:
        is_model = key.name == "model" or key.name.endswith("_model")
        if isinstance(value, str) and value in self.models and is_model:
            return self.models[value]
        if self.base is not None:
            value = located(key.name, value, self.base)
        found = key.read(value)
        if is_model and found is not None:
            checked_model(found, key.name, self.models)
        return found if isinstance(value, str) else value


def checked_model(model: str, where: str, names: Collection[str] = ()) -> str:
    """The model's name, if it has the form of one."""
    from mcranker.llm.provider import PROVIDERS

    kind, _, name = model.partition(":")
    if kind in PROVIDERS and name.strip():
        return model
    forms = ", ".join(f"{prefix}:NAME" for prefix in PROVIDERS.names)
    close = difflib.get_close_matches(model, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise SuiteError(f"{where}={model!r} is no model: write {forms} or a name of [models]{meant}")


def _entries(form: SuiteForm) -> Iterator[tuple[str, str, Mapping[str, Any], dict[str, Any]]]:
    """Label, preset, options and note of each pipeline, those of a grid last."""
    for entry in form.pipelines:
        yield entry.label, entry.preset, entry.own, {"theirs": entry.theirs}
    base = _flat(form.base)
    preset = str(base.pop("preset", "team"))
    for levels in product(*(each.levels for each in form.factors)) if form.factors else ():
        pairs = [*zip(form.factors, levels, strict=True)]
        chosen = {factor.option: level for factor, level in pairs}
        point = {factor.name: level for factor, level in pairs}
        yield " / ".join(map(str, levels)), preset, {**base, **chosen}, {"point": point}


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Tables in tables as names with dots."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found


def _try_out(kind: Callable[..., Ranker], options: Mapping[str, Any]) -> None:
    """Make the ranker with a model that is never asked, so that it refuses what it would later."""
    from mcranker.llm.scripted import ScriptedChat

    able = Capabilities(
        json_schema=True,
        label_logprobs=True,
        continuation_logprobs=True,
        prefill=True,
        max_questions=MOST_IN_A_CALL,
    )
    if options.get("criteria") == "dataset":
        options = {"dataset": _STAND_IN, **options}
    fields = RankerConfig.model_fields
    RankerConfig(**{name: options[name] for name in options if name in fields})
    # A batch needs a provider, and tokens a tokenizer, which the stand-in has not.
    left_out = ("base_url", "model", "batch", "max_passage_tokens")
    tried = {k: v for k, v in options.items() if k not in left_out and not k.endswith("_model")}
    with suppress(UnsupportedCapability):  # what the stand-in lacks, the real model may have
        kind(
            **{**tried, "batch": False, "max_passage_tokens": None},
            model=ScriptedChat(lambda _: "", capabilities=able),
            ledger=None,
        )


def _shipped(folder: str) -> dict[str, Traversable]:
    files = {each.name: each for each in (SUITES / folder).iterdir()}
    names = sorted(name for name in files if name.endswith(_SUFFIX))
    return {name.removesuffix(_SUFFIX): files[name] for name in names}


def _found(name_or_path: str | os.PathLike[str]) -> tuple[str, str, Path | None]:
    """Text, place for messages, and folder of a suite; None for the folder of a shipped one."""
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


def _text(file: Traversable) -> str:
    return read_text(file, SuiteError, LONGEST, "name the TOML file of a suite")


def _models(form: SuiteForm, base: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    for name in given:
        if name not in form.models:
            raise SuiteError(f"no model {name!r} in [models]; {hint(name, form.models)}")
    written = {k: located("model", v, base) if base else v for k, v in form.models.items()}
    return {
        name: checked_model(model, f"models: {name}")
        for name, model in {**written, **given}.items()
    }


def _datasets(form: SuiteForm, base: Path | None) -> tuple[DatasetSpec, ...]:
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
                f"datasets: {entry.name!r} appears twice; for another split write a suite of its "
                "own"
            )
        found[key] = DatasetSpec(name, entry.split, entry.about)
    return tuple(found.values())
