"""Is the ranking any good? Data sets, first stages, experiments, measures and reports.

```python
import beir_eval

dataset = beir_eval.load("mini")
run = beir_eval.retrieve(dataset, depth=100)
print(beir_eval.evaluate(run, dataset.qrels).means["nDCG@10"])

plan = beir_eval.Plan(out="runs/table1", limit=20, options={"model": "openai:gpt-6-luna"})
beir_eval.run_suite(beir_eval.load_suite("table1"), plan)
report = beir_eval.build_report(beir_eval.find_runs(["runs/table1"]))
print(beir_eval.render_markdown(report))
```

Names are loaded on first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beir_eval.data.catalogue import CATALOGUE
    from beir_eval.data.datasets import COLLECTIONS, Dataset, Document, load
    from beir_eval.errors import (
        BeirEvalError,
        DatasetError,
        ExtraMissing,
        MeasureError,
        RunError,
        RunFolderError,
        SettingError,
        SuiteError,
    )
    from beir_eval.experiment.run import CellResult, Experiment, Plan, Watch, run_suite
    from beir_eval.experiment.run_folder import DataFolder, RunFolder, find_runs
    from beir_eval.experiment.suite import (
        DatasetSpec,
        RankerSpec,
        Suite,
        load_suite,
        shipped_suites,
    )
    from beir_eval.measures.fusion import fuse
    from beir_eval.measures.metrics import Evaluation, evaluate
    from beir_eval.measures.significance import (
        Comparison,
        Interval,
        bootstrap_intervals,
        compare_runs,
    )
    from beir_eval.measures.ties import tie_bounds
    from beir_eval.persona_report.build import PersonaReport, write_persona_report
    from beir_eval.report.build import build_report
    from beir_eval.report.html import render_html
    from beir_eval.report.latex import render_latex
    from beir_eval.report.markdown import render_markdown
    from beir_eval.retrieval.bm25 import BM25
    from beir_eval.retrieval.first_stage import FirstStage, find, retrieve
    from beir_eval.retrieval.tokens import tokenize
    from beir_eval.runs import Run, read_trec, write_trec

_HOMES = {
    "retrieval.bm25": ("BM25",),
    "data.catalogue": ("CATALOGUE",),
    "data.datasets": ("COLLECTIONS", "Dataset", "Document", "load"),
    "errors": (
        "BeirEvalError",
        "DatasetError",
        "ExtraMissing",
        "MeasureError",
        "RunError",
        "RunFolderError",
        "SettingError",
        "SuiteError",
    ),
    "experiment.run": ("CellResult", "Experiment", "Plan", "Watch", "run_suite"),
    "retrieval.first_stage": ("FirstStage", "find", "retrieve"),
    "measures.fusion": ("fuse",),
    "measures.metrics": ("Evaluation", "evaluate"),
    "persona_report.build": ("PersonaReport", "write_persona_report"),
    "report.build": ("build_report",),
    "report.html": ("render_html",),
    "report.latex": ("render_latex",),
    "report.markdown": ("render_markdown",),
    "experiment.run_folder": ("DataFolder", "RunFolder", "find_runs"),
    "runs": ("Run", "read_trec", "write_trec"),
    "measures.significance": ("Comparison", "Interval", "bootstrap_intervals", "compare_runs"),
    "experiment.suite": ("DatasetSpec", "RankerSpec", "Suite", "load_suite", "shipped_suites"),
    "measures.ties": ("tie_bounds",),
    "retrieval.tokens": ("tokenize",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BM25",
    "CATALOGUE",
    "COLLECTIONS",
    "BeirEvalError",
    "CellResult",
    "Comparison",
    "DataFolder",
    "Dataset",
    "DatasetError",
    "DatasetSpec",
    "Document",
    "Evaluation",
    "Experiment",
    "ExtraMissing",
    "FirstStage",
    "Interval",
    "MeasureError",
    "PersonaReport",
    "Plan",
    "RankerSpec",
    "Run",
    "RunError",
    "RunFolder",
    "RunFolderError",
    "SettingError",
    "Suite",
    "SuiteError",
    "Watch",
    "bootstrap_intervals",
    "build_report",
    "compare_runs",
    "evaluate",
    "find",
    "find_runs",
    "fuse",
    "load",
    "load_suite",
    "read_trec",
    "render_html",
    "render_latex",
    "render_markdown",
    "retrieve",
    "run_suite",
    "shipped_suites",
    "tie_bounds",
    "tokenize",
    "write_persona_report",
    "write_trec",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
