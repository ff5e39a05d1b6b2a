"""Suites: which rankers are run over which data sets, as a TOML file.

```toml
title = "Team compositions and DIRECT"
datasets = ["scifact", "nfcorpus"]      # names, ir_datasets ids, folders, or tables
baseline = "DIRECT(0,10)"               # a label below; without, the first stage
paper_table = "table_5_and_1"           # the paper's numbers that stand beside

[settings]                              # for all rankers; options of `RankerConfig`, and models
preset = "paper"

[models]                                # names for models, to be used below
strong = "openai:gpt-5"

[[rankers]]
label = "DIRECT(0,10)"
ranker = "direct"
paper_row = "DIRECT(0,10)"

[[rankers]]
label = "MC: 2 recruits"
team_size = 2                           # any option of the ranker stands beside its label
nlp_scientist = false
criteria_model = "strong"
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from beir_eval.run_folder import FigureNote, SuiteNote

__all__ = ["DatasetSpec", "RankerSpec", "Suite", "load_suite", "shipped_suites"]


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """A data set of a suite.

    Attributes:
        name: as `beir_eval.load` takes it; a folder is relative to the suite's file.
        split: which judgements.
        about: what the collection is, in words for ``criteria="dataset"``; empty for the
            catalogue's words.
    """

    name: str
    split: str = "test"
    about: str = ""


@dataclass(frozen=True, slots=True)
class RankerSpec:
    """A ranker of a suite.

    Attributes:
        label: names its row; unique in the suite.
        ranker: name in `mcranker.rankers.RANKERS`.
        options: what its class takes, models included: those of the suite's settings, and over
            them its own.
        note: its place in the suite, for reports.
    """

    label: str
    ranker: str
    options: Mapping[str, Any]
    note: SuiteNote


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


def shipped_suites() -> dict[str, str]:
    """Name -> title of every suite that comes with the package, in alphabetical order."""
    raise NotImplementedError


def load_suite(
    name_or_path: str | os.PathLike[str], *, models: Mapping[str, str] | None = None
) -> Suite:
    """The suite of that name, or in that file.

    Args:
        name_or_path: one of `shipped_suites`, or the path of a TOML file.
        models: name -> model, in place of the file's ``[models]``.

    Raises:
        SuiteError: there is no such suite or file; the file is not TOML or not UTF-8; a key is
            unknown, misses or has a wrong value; a label stands twice; a ranker or an option is
            unknown; a name of `models` is none of the file's.
    """
    raise NotImplementedError
